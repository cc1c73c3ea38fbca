package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestErrorsOfRunsAreSentences(t *testing.T) {
	full := &DiskFullError{Dir: "/work", Err: errors.New("no space")}
	check.Equal(t, "the cause of a full disk", errors.Is(full, full.Err), true)

	for want, err := range map[string]error{
		"terraform plan failed: a.b: no such: it is gone; other": &DiagnosticError{Phase: "plan", Diagnostics: []Diagnostic{
			{Summary: "no such", Detail: "it\n  is gone", Address: "a.b"}, {Summary: "other"},
		}},
		"the plan would replace a.b because of x, y; nothing was applied": &GuardError{
			Address: "a.b", Action: "replace", Attributes: []string{"x", "y"},
		},
		"the plan would delete a.b; nothing was applied":                &GuardError{Address: "a.b", Action: "delete"},
		"it took longer than 1m0s; the next run goes on where it ended": &TimeoutError{Limit: time.Minute},
		"the disk of the working directory /work is full (no space): make room, or give the manager's --work-dir a " +
			"larger volume": full,
		"terraform apply was killed (killed): most often because memory ran out; raise the manager's memory limit, or " +
			"lower --terraform-concurrency": &KilledError{Phase: "apply", Signal: syscall.SIGKILL},
		"create a.b": errors.New(Change{Address: "a.b", Action: "create"}.String()),
	} {
		check.Equal(t, "error", err.Error(), want)
	}
}

func TestASummaryIsEmptyOnlyIfNothingWasDone(t *testing.T) {
	for name, test := range map[string]struct {
		summary Summary
		want    bool
	}{
		"nothing":             {Summary{Planned: []Change{{Action: "create"}}}, true},
		"one more":            {Summary{Added: 1}, false},
		"one that changed":    {Summary{Changed: 1}, false},
		"one less":            {Summary{Destroyed: 1}, false},
		"one that was there":  {Summary{Imported: 1}, false},
		"one more, one less":  {Summary{Added: 1, Destroyed: 1}, false},
		"changed and imports": {Summary{Changed: 1, Imported: 1}, false},
	} {
		check.Equal(t, name, test.summary.Empty(), test.want)
	}
}

func TestOnlyChangesThatDoSomethingCount(t *testing.T) {
	var planned []Change
	for _, action := range []string{"noop", "create", "read", "update", "move", "delete", "replace", "import"} {
		planned = append(planned, Change{Action: action})
	}

	var got []string
	for _, change := range filterEffective(planned) {
		got = append(got, change.Action)
	}

	check.Equal(t, "actions", got, []string{"create", "update", "delete", "replace", "import"})
	check.Equal(t, "the plan is left as it is", planned[0].Action, "noop")
}

func TestTheOutputOfARunIsReadLineByLine(t *testing.T) {
	applied := map[string]string{}
	w := &eventWriter{
		redact:  func(text string) string { return text },
		onApply: func(address, id string) { applied[address] = id },
	}

	const output = `{"type":"planned_change","change":{"resource":{"addr":"a.b","resource_type":"a"},"action":"create"}}
{"type":"apply_complete","hook":{"resource":{"addr":"a.b"},"id_value":"id-1"}}
{"type":"change_summary","changes":{"add":1,"change":2,"remove":3,"import":4}}
{"type":"diagnostic","diagnostic":{"severity":"error","summary":"s","detail":"d","address":"a.b"}}
`
	for _, b := range []byte(output) { // one byte at a time
		n, err := w.Write([]byte{b})
		check.Error(t, err, "")
		check.Equal(t, "bytes", n, 1)
	}

	check.Equal(t, "planned", w.planned, []Change{{Address: "a.b", Type: "a", Action: "create"}})
	check.Equal(t, "applied", applied, map[string]string{"a.b": "id-1"})
	check.Equal(t, "number of applied", w.applied, 1)
	check.Equal(t, "summary", fmt.Sprint(w.summary), "{1 2 3 4}")
	check.Equal(t, "diagnostics", w.diagnostics, []Diagnostic{{Summary: "s", Detail: "d", Address: "a.b"}})
}

// TestALineIsReadUpToItsLimit has a line of exactly the maximum size, and one with a byte more.
func TestALineIsReadUpToItsLimit(t *testing.T) {
	for name, test := range map[string]struct{ size, chunk, want int }{
		"the longest, in one piece":   {maxLine, maxLine + 1, 1},
		"the longest, in two pieces":  {maxLine, maxLine / 2, 1},
		"too long, in one piece":      {maxLine + 1, maxLine + 2, 0},
		"too long, in many pieces":    {maxLine + 1, maxLine / 3, 0},
		"much too long, in one piece": {3 * maxLine, 3*maxLine + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &eventWriter{redact: func(text string) string { return text }}
			head, tail := `{"type":"diagnostic","diagnostic":{"severity":"error","summary":"`, `"}}`
			line := []byte(head + strings.Repeat("s", test.size-len(head)-len(tail)) + tail + "\n")
			rest := line

			for len(rest) > 0 {
				n, err := w.Write(rest[:min(test.chunk, len(rest))])
				check.Error(t, err, "")

				rest = rest[n:]
			}

			check.Equal(t, "diagnostics", len(w.diagnostics), test.want)

			_, err := w.Write([]byte(head + "next" + tail + "\n"))
			check.Error(t, err, "")
			check.Equal(t, "the next line is read", len(w.diagnostics), test.want+1)
		})
	}
}

func TestALongTextIsCutAtItsLimit(t *testing.T) {
	w := &eventWriter{redact: func(text string) string { return text }}
	fits := strings.Repeat("x", maxDiagnostic)
	check.Equal(t, "one that fits", w.cleanText(fits), fits)
	check.Equal(t, "a longer one", w.cleanText(fits+"y"), fits+" ...")

	// The limit must not cut a character in two.
	check.Equal(t, "one with a character at the limit", w.cleanText(fits[1:]+"ü"), fits[1:]+" ...")
}

func TestStandardErrorIsReadUpToItsLimit(t *testing.T) {
	full := 0
	w := &limitedWriter{left: 10, full: func() { full++ }}

	for _, part := range []string{"123456", "7890", ""} {
		n, err := w.Write([]byte(part))
		check.Error(t, err, "")
		check.Equal(t, "bytes", n, len(part))
	}

	check.Equal(t, "calls at the limit", full, 0)
	_, err := w.Write([]byte("x"))
	check.Equal(t, "error over the limit", errors.Is(err, errTalkative), true)
	check.Equal(t, "calls over the limit", full, 1)
	check.Equal(t, "what the error says", errTalkative.Error(), "it wrote more than 1024 KiB to its standard error")
}

func TestTypesOfAConfigurationAndItsState(t *testing.T) {
	machine := render.Configuration{
		Resources: []render.Address{render.VMAddress, render.NICAddress(0), render.NICAddress(1)}, Kind: render.OwnVM,
	}
	got, vms, err := collectContents(
		machine,
		[]byte(`{"resources":[{"type":"ovirt_disk","instances":[{"attributes":{"id":"d"}}]},
		{"type":"ovirt_vm","instances":[{"attributes":{"id":"v"}}]},
		{"type":"ovirt_nic","instances":[{"attributes":{"id":"n","vm_id":"v"}},{"attributes":{"id":"n","vm_id":"w"}}]}]}`),
	)
	check.Error(t, err, "")
	check.Equal(t, "VMs", vms, []string{"v", "w"})
	check.Equal(t, "types", got, []string{"ovirt_disk", "ovirt_nic", "ovirt_vm"})

	got, vms, err = collectContents(render.Configuration{}, nil)
	check.Error(t, err, "")
	check.Equal(t, "types without a state", got, nil)
	check.Equal(t, "VMs without a state", vms, nil)

	for name, foreign := range map[string]struct {
		kind       render.Kind
		typeOfItem string
	}{
		"a type of no kind":                       {render.OwnVM, "ovirt_disk_from_image"},
		"a template in the state of a machine":    {render.OwnVM, "ovirt_template"},
		"a group of the cluster":                  {render.OwnVM, "ovirt_affinity_group"},
		"a claimed VM as one that may be deleted": {render.ClaimedVM, "ovirt_vm"},
		"a disk of a claimed VM":                  {render.ClaimedVM, "ovirt_disk"},
		"the start of a VM of a pool":             {render.PooledVM, "ovirt_vm_start"},
		"a VM in the state of a cluster":          {render.ClusterGroups, "ovirt_vm"},
		"a configuration without a kind":          {0, "ovirt_vm"},
	} {
		_, _, err = collectContents(
			render.Configuration{Kind: foreign.kind}, []byte(`{"resources":[{"type":"`+foreign.typeOfItem+`"}]}`),
		)

		var unknown *UnknownTypeError
		if !errors.As(err, &unknown) || unknown.Type != foreign.typeOfItem {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheListOfModulesDependsOnTheModulesAlone(t *testing.T) {
	files := map[string][]byte{
		"main.tf": []byte("a"), "imports.tf": []byte("b"), "imports_vm.tf": []byte("c"), "secrets.json": []byte("d"),
		"modules/imports.tf": []byte("e"), "modules/x/main.tf": []byte("f"), "modules/x/README.md": []byte("g"),
	}
	subset, key := selectModules(files)
	check.Equal(
		t, "files", slices.Sorted(maps.Keys(subset)), []string{"main.tf", "modules/imports.tf", "modules/x/main.tf"},
	)
	check.Set(t, "key", key)

	keyWith := func(name, content string) string {
		other := maps.Clone(files)
		other[name] = []byte(content)
		_, key := selectModules(other)

		return key
	}
	check.Equal(t, "key of another machine", keyWith("main.tf", "other"), key)
	check.Equal(t, "key with other imports", keyWith("imports.tf", "other"), key)
	check.Equal(t, "key of another module is the same", keyWith("modules/x/main.tf", "other") == key, false)
	check.Equal(t, "key of one more module is the same", keyWith("modules/y/main.tf", "f") == key, false)

	subset, key = selectModules(map[string][]byte{"main.tf": []byte("a")})
	check.Equal(t, "key without modules", key, "")
	check.Equal(t, "files without modules", len(subset), 0)
}

// stateOf returns a state with this lineage. written is the version of the executor that wrote it; "" omits it.
func stateOf(serial int, lineage, written string) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":%q,"terraform_version":%q}`, serial, lineage, written)
}

// folder returns a folder with these files.
func folder(t *testing.T, files map[string][]byte) string {
	t.Helper()

	dir := t.TempDir()
	for name, content := range files {
		check.Error(t, os.WriteFile(filepath.Join(dir, name), content, 0o600), "")
	}

	return dir
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()

	entries, err := os.ReadDir(dir)
	check.Error(t, err, "")

	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}

	return out
}

// TestAWorkingDirectoryIsPrepared has leftovers of a run, and a saved state.
func TestAWorkingDirectoryIsPrepared(t *testing.T) {
	one, two, three := stateOf(1, "l", ""), stateOf(2, "l", ""), stateOf(3, "l", "")

	tests := map[string]struct {
		left    map[string][]byte
		saved   []byte
		state   []byte
		resumed bool
		files   []string
	}{
		"nothing was left, nothing was saved": {nil, nil, nil, false, []string{"main.tf"}},
		"a state was saved":                   {nil, one, one, false, []string{"main.tf", stateFile}},
		"an older state was left": {
			map[string][]byte{stateFile: one, "old.tf": nil}, two, two, false, []string{"main.tf", stateFile},
		},
		"a newer state was left where it belongs": {
			map[string][]byte{stateFile: two, "old.tf": nil}, one, two, true, []string{"main.tf", stateFile},
		},
		"a state was left, and none was saved": {
			map[string][]byte{stateFile: one}, nil, one, true, []string{"main.tf", stateFile},
		},
		"a newer state could not be saved": {
			map[string][]byte{unsavedFile: two}, one, two, true, []string{"main.tf", stateFile},
		},
		"a newer state could not be written by the executor": {
			map[string][]byte{erroredFile: three, stateFile: two}, one, three, true, []string{"main.tf", stateFile},
		},
		"the newest of three": {
			map[string][]byte{erroredFile: one, unsavedFile: three, stateFile: two}, nil, three, true,
			[]string{"main.tf", stateFile},
		},
		"a state of another lineage": {
			map[string][]byte{unsavedFile: stateOf(9, "other", "")}, one, one, false, []string{"main.tf", stateFile},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, test.left)
			left := ReadLeftover(dir, test.saved)
			check.Equal(t, "a state is left over", left != nil, test.resumed)
			check.Equal(t, "a run is unfinished", HasUnsavedState(dir), len(test.left) > 0)

			x := &Executor{}
			state, resumed, err := x.prepareDir(Request{
				Dir: dir, State: test.saved,
				Configuration: render.Configuration{Files: render.Files{"main.tf": []byte("# new")}},
			})
			check.Error(t, err, "")
			check.Equal(t, "state", string(state), string(test.state))
			check.Equal(t, "it is resumed", resumed, test.resumed)
			check.Equal(t, "files", namesIn(t, dir), test.files)

			if test.state != nil {
				content, err := os.ReadFile(filepath.Join(dir, stateFile))
				check.Error(t, err, "")
				check.Equal(t, "state in its file", string(content), string(test.state))
			}
		})
	}

	check.Equal(
		t, "a folder that is not there is unfinished", HasUnsavedState(filepath.Join(t.TempDir(), "none")), false,
	)
}

func TestFilesOfAWorkingDirectoryAreForThisUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	_, _, err := (&Executor{}).prepareDir(Request{
		Dir: dir, State: stateOf(1, "l", ""),
		Configuration: render.Configuration{Files: render.Files{"modules/x/main.tf": []byte("#")}},
	})
	check.Error(t, err, "")

	for name, want := range map[string]os.FileMode{
		".": 0o700, "modules/x": 0o700, "modules/x/main.tf": 0o600, stateFile: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		check.Error(t, err, "")
		check.Equal(t, "mode of "+name, info.Mode().Perm(), want)
	}
}

func TestAWorkingDirectoryIsCleaned(t *testing.T) {
	all := map[string][]byte{
		"main.tf": nil, render.SecretsFile: nil, planFile: nil, stateFile: nil, stateFile + ".backup": nil,
		erroredFile: nil,
		unsavedFile: nil,
	}

	dir := folder(t, all)
	check.Error(t, removeSecretFiles(dir, "missing"), "")
	check.Equal(t, "files after a run", namesIn(t, dir), []string{"main.tf", unsavedFile})
	check.Error(t, CleanDir(dir), "")
	check.Equal(t, "files in the end", namesIn(t, dir), []string{"main.tf"})

	blocked := folder(t, nil)
	check.Error(t, os.MkdirAll(filepath.Join(blocked, planFile, "x"), 0o700), "")
	check.Error(t, CleanDir(blocked), "failed to clean the working directory")
}

func TestAStateOfANewerExecutorIsRefused(t *testing.T) {
	x := &Executor{executable: Executable{
		Product: "Terraform", Version: version.Must(version.NewVersion("1.11.4")),
	}}

	for written, refused := range map[string]bool{
		"": false, "nonsense": false, "1.11.4": false, "1.11.9": false, "1.10.9": false, "0.99.0": false,
		"1.12.0": true, "2.0.0": true,
	} {
		err := x.checkStateVersion(stateOf(1, "l", written))

		var newer *StateVersionError
		check.Equal(t, "a state of "+written+" is refused", errors.As(err, &newer), refused)

		if refused {
			check.Equal(t, "error", err.Error(), "the state was written by version "+written+" and this manager runs "+
				"Terraform 1.11.4, which may not know all that is in it: run that version or a later one")
		}
	}

	check.Error(t, x.checkStateVersion(nil), "")
	check.Error(t, (&Executor{}).checkStateVersion(stateOf(1, "l", "99.0.0")), "")
}

func TestADiskErrorSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		full bool
	}{
		"no space":        {&os.PathError{Err: syscall.ENOSPC}, true},
		"over the quota":  {fmt.Errorf("failed: %w", syscall.EDQUOT), true},
		"something else":  {syscall.EACCES, false},
		"nothing of both": {errors.New("no"), false},
	} {
		var full *DiskFullError
		err := wrapDiskError("/work", test.err)
		check.Equal(t, name, errors.As(err, &full), test.full)
		check.Equal(t, name+": the cause is kept", errors.Is(err, test.err), true)
	}
}

func TestExecutablesAreFoundInFolders(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"terraform": 0o755, "tofu": 0o644, "mine": 0o100} {
		check.Error(t, os.WriteFile(filepath.Join(dir, name), nil, mode), "")
	}

	check.Error(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755), "")
	t.Chdir(dir)

	for name, want := range map[string][]string{
		"terraform": {filepath.Join(dir, "terraform")},
		"mine":      {filepath.Join(dir, "mine")},
		"tofu":      nil, // not executable
		"folder":    nil,
		"missing":   nil,
	} {
		check.Equal(t, name, findExecutables(name, []string{".", "", t.TempDir(), dir}), want)
	}
}

func TestTheEnvironmentOfAnExecutor(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "https://proxy")
	t.Setenv("MY_TOKEN", "secret")
	t.Setenv("HOME", "/home/of-the-user")

	list := formatEnvironment("/work")
	for _, want := range []string{
		"HOME=/work", "TMPDIR=/work", "TF_CLI_CONFIG_FILE=/dev/null", "CHECKPOINT_DISABLE=1",
		"HTTPS_PROXY=https://proxy",
	} {
		check.Equal(t, want, slices.Contains(list, want), true)
	}

	check.Lacks(t, "environment", strings.Join(list, "\n"), "secret")
	check.Lacks(t, "environment", strings.Join(list, "\n"), "of-the-user")
	check.Equal(t, "first line", firstLine("\n one \ntwo"), "one ")
}

// signaled returns the exit error of a killed process.
func signaled(t *testing.T) error {
	t.Helper()
	err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "kill -9 $$").Run()

	return fmt.Errorf("wrapped: %w", err)
}

func TestWhatAFailureOfARunWas(t *testing.T) {
	said := &eventWriter{diagnostics: []Diagnostic{{Summary: "no such template"}}}
	silent := &eventWriter{}
	exited := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 3").Run()

	tests := map[string]struct {
		events *eventWriter
		err    error
		// cause is the cause of the context's end, or nil if the context has not ended.
		cause error
		want  string
	}{
		"nothing":                      {silent, nil, nil, ""},
		"nothing, though it said much": {said, nil, errors.New("late"), ""},
		"what the executor said":       {said, exited, nil, "terraform apply failed: no such template"},
		"what it did not say": {
			silent, errors.New("hush oops"), nil, "terraform apply failed: (redacted) oops",
		},
		"its exit status": {silent, exited, nil, "terraform apply failed: exit status 3"},
		"a kill":          {silent, signaled(t), nil, "terraform apply was killed (killed)"},
		"an interrupt": {
			said, exited, ErrCancelled, "terraform apply was interrupted: the run was cancelled",
		},
		"a timeout of which nothing was said": {
			silent, exited, &TimeoutError{Limit: time.Second},
			"terraform apply was interrupted: it took longer than 1s",
		},
		"a timeout, and what was waited for": {
			said, exited, &TimeoutError{Limit: time.Second},
			"it ended (terraform apply failed: no such template)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)

			if test.cause != nil {
				cancel(test.cause)
			}

			r := &run{redact: func(text string) string { return strings.ReplaceAll(text, "hush", "(redacted)") }}
			err := r.toRunError(ctx, "apply", test.events, test.err)
			check.Error(t, err, test.want)

			if test.cause != nil && test.err != nil {
				check.Equal(t, "the cause is kept", errors.Is(err, test.cause), true)
				check.Equal(t, "what was waited for is said", strings.Contains(err.Error(), "no such template"),
					strings.Contains(test.want, "no such template"))
			}
		})
	}
}

func TestTheOutcomeOfAPhase(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	check.Equal(t, "no error", classifyOutcome(t.Context(), nil), "succeeded")
	check.Equal(t, "no error, and an end", classifyOutcome(ended, nil), "succeeded")
	check.Equal(t, "an error", classifyOutcome(t.Context(), errors.New("x")), "failed")
	check.Equal(t, "an error, and an end", classifyOutcome(ended, errors.New("x")), "interrupted")
}

// keeping returns the state keeper of a run in a folder with this state.
func keeping(t *testing.T, state []byte, request Request) (*stateKeeper, *[]string) {
	t.Helper()

	saved := &[]string{}
	request.Dir = folder(t, map[string][]byte{stateFile: state})

	if request.SaveState == nil {
		request.SaveState = func(_ context.Context, state []byte, done bool) error {
			*saved = append(*saved, fmt.Sprintf("%s %t", state, done))
			return nil
		}
	}

	return &stateKeeper{run: &run{Request: request, writesAtOnce: true}, ctx: t.Context()}, saved
}

func TestAStateIsSavedAsSoonAsItHasAResource(t *testing.T) {
	const state = `{"id":"id-1"}`

	tests := map[string]struct {
		id         string
		keeps      func(string) bool
		atTheEnd   bool
		want       []string
		wantCalled []string
	}{
		"the one that it names": {"id-1", nil, false, []string{state + " false"}, []string{"a.b id-1"}},
		"one that has no ID":    {"", nil, false, []string{state + " false"}, nil},
		"one that is kept at once": {
			"id-1", func(a string) bool { return a == "a.b" }, false, []string{state + " false"}, []string{"a.b id-1"},
		},
		"one that is kept at the end": {
			"id-1", func(a string) bool { return a != "a.b" }, false, nil, []string{"a.b id-1"},
		},
		"an executor that writes at its end": {"id-1", nil, true, nil, []string{"a.b id-1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var called []string
			k, saved := keeping(t, []byte(state), Request{
				Keeps:   test.keeps,
				Applied: func(_ context.Context, address, id string) { called = append(called, address+" "+id) },
			})
			k.run.writesAtOnce = !test.atTheEnd
			k.recordApplied("a.b", test.id)
			check.Equal(t, "saved", *saved, append([]string{}, test.want...))
			check.Equal(t, "reported", called, test.wantCalled)

			check.Error(t, k.saveFinal(true), "")
			last := []string{state + " true"}
			if test.want != nil {
				last = test.want // an earlier call has saved the same state
			}

			check.Equal(t, "saved in the end", *saved, last)
		})
	}
}

// TestAStateThatIsCutOffIsNotSaved has an incomplete state, as after a kill during a write, or on a full disk.
func TestAStateThatIsCutOffIsNotSaved(t *testing.T) {
	k, saved := keeping(t, []byte(`{"serial":1}`), Request{})
	k.recordApplied("a.b", "")
	check.Equal(t, "saved", *saved, []string{`{"serial":1} false`})

	check.Error(t, os.WriteFile(filepath.Join(k.run.Dir, stateFile), []byte(`{"serial":2`), 0o600), "")
	check.Error(t, k.saveFinal(true), "")
	check.Equal(t, "saved after it", *saved, []string{`{"serial":1} false`})

	// The keeper saves the last complete state instead, and the run counts as failed.
	k, saved = keeping(t, []byte(`{"serial":2`), Request{})
	k.seen = []byte(`{"serial":1}`)
	check.Error(t, k.saveFinal(true), "")
	check.Equal(t, "saved of a run that was cut off", *saved, []string{`{"serial":1} false`})

	k, saved = keeping(t, []byte(`{"serial":`), Request{})
	check.Error(t, k.saveFinal(true), "")
	check.Equal(t, "saved where nothing was seen", len(*saved), 0)
}

func TestAStateThatCannotBeSavedStays(t *testing.T) {
	failures := 2
	k, _ := keeping(t, []byte(`{"serial":1}`), Request{
		SaveState: func(context.Context, []byte, bool) error {
			if failures--; failures >= 0 {
				return errors.New("the API server is down")
			}

			return nil
		},
	})
	k.recordApplied("a.b", "")
	check.Error(t, k.saveFinal(true), "failed to save the state: the API server is down")
	check.Equal(t, "files", namesIn(t, k.run.Dir), []string{unsavedFile})

	content, err := os.ReadFile(filepath.Join(k.run.Dir, unsavedFile))
	check.Error(t, err, "")
	check.Equal(t, "it is whole", json.Valid(bytes.TrimSpace(content)), true)

	// A failure does not count after a successful save.
	failures = 1
	k, _ = keeping(t, []byte(`{"serial":1}`), Request{SaveState: k.run.SaveState})
	k.recordApplied("a.b", "")
	check.Error(t, k.saveFinal(true), "")
	check.Equal(t, "files after the second attempt", namesIn(t, k.run.Dir), []string{stateFile})
}

func TestAnExecutableIsToldFromAScript(t *testing.T) {
	self, err := os.Executable()
	check.Error(t, err, "")

	dir := folder(t, map[string][]byte{"script": []byte("#!/bin/sh\n"), "short": []byte("\x7fE"), "empty": nil})
	check.Equal(t, "this program", isBinary(self), true)

	for _, name := range []string{"script", "short", "empty", "missing"} {
		check.Equal(t, name, isBinary(filepath.Join(dir, name)), false)
	}

	check.Equal(t, "runs of a script", (&Executor{}).Confinement(), Unconfined)
	check.Equal(t, "runs of a program", (&Executor{confines: true}).Confinement(), Landlocked)
}

// TestAStateIsWaitedFor has an executor that reports a resource a moment before it writes the state.
func TestAStateIsWaitedFor(t *testing.T) {
	const late = `{"id":"id-2"}`

	tests := map[string]struct {
		after time.Duration
		want  []string
	}{
		"in time":  {time.Second, []string{late + " false"}},
		"too late": {3 * time.Second, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, saved := keeping(t, []byte(`{"id":"id-1"}`), Request{})
				go func() {
					time.Sleep(test.after)
					_ = os.WriteFile(filepath.Join(k.run.Dir, stateFile), []byte(late), 0o600)
				}()

				k.recordApplied("a.b", "id-2")
				check.Equal(t, "saved", *saved, test.want)
				time.Sleep(test.after)
				check.Error(t, k.saveFinal(true), "")
				check.Equal(t, "last saved", strings.HasPrefix((*saved)[len(*saved)-1], late), true)
			})
		})
	}
}
