package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-version"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// nobody is a provider that no executor calls.
type nobody struct{}

func (nobody) Address() string { return tfprovider.Address }

func (nobody) Serve(context.Context, terraform.Use) (*plugin.ReattachConfig, func(), error) {
	return &plugin.ReattachConfig{Addr: &net.UnixAddr{Net: "unix", Name: "/nowhere"}}, func() {}, nil
}

// pretender returns an executor that is a shell script with these commands for plan and apply.
func pretender(t *testing.T, plan, apply string) *terraform.Executor {
	t.Helper()
	path := filepath.Join(t.TempDir(), "terraform")
	script := fmt.Sprintf(
		"#!/bin/sh\ncase \"$1\" in\nversion) echo '{\"terraform_version\":\"1.11.0\"}';;\nplan) "+
			"%s;;\napply) %s;;\nesac\n",
		plan,
		apply,
	)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	x := terraform.NewExecutor(terraform.Executable{
		Path:    path,
		Product: "Terraform",
		Version: version.Must(version.NewVersion("1.11.0")),
	}, nobody{}, t.TempDir())
	x.StopGrace = 200 * time.Millisecond

	return x
}

func TestAWarmExecutorIsNotAskedForItsVersionAgain(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	path := filepath.Join(t.TempDir(), "terraform")
	script := "#!/bin/sh\n[ \"$1\" != version ] || { echo >>" + asked +
		"; echo '{\"terraform_version\":\"1.11.0\"}'; }\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	x := terraform.NewExecutor(terraform.Executable{
		Path:    path,
		Product: "Terraform",
		Version: version.Must(version.NewVersion("1.11.0")),
	}, nobody{}, filepath.Join(t.TempDir(), "scratch"))
	if err := x.WarmUp(t.Context(), 2); err != nil {
		t.Fatal(err)
	}

	var group errgroup.Group

	for i := range 2 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		group.Go(func() error {
			_, err := x.Apply(t.Context(), terraform.Request{Dir: dir})
			return err
		})
	}

	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}

	if content, err := os.ReadFile(asked); err != nil || len(content) != 2 {
		t.Errorf("asked %d times, %v", len(content), err)
	}
}

// TestALinkThatCannotBeMadeIsAnError has a run whose preparation removes the folder of the links.
func TestALinkThatCannotBeMadeIsAnError(t *testing.T) {
	dir := t.TempDir()
	x := terraform.NewExecutor(terraform.Executable{
		Path:    "/bin/true",
		Product: "Terraform",
		Version: version.Must(version.NewVersion("1.11.0")),
	}, nobody{}, filepath.Join(dir, "init"))

	for range 2 { // the place of the first run is free again
		_, err := x.Apply(t.Context(), terraform.Request{Dir: dir})
		check.Error(t, err, "failed to link the working directory")
	}
}

func TestAnExecutorThatIgnoresTheInterruptIsKilled(t *testing.T) {
	x := pretender(t, `trap "" INT; echo $$ >pid; while :; do sleep 0.1; done`, "")
	dir := filepath.Join(t.TempDir(), "work")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := x.Apply(ctx, terraform.Request{Dir: dir})
		ended <- err
	}()

	pid := ""
	wait.Until(t, "the executor runs", func() bool {
		content, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid = strings.TrimSpace(string(content))

		return pid != ""
	})
	cancel(&terraform.TimeoutError{Limit: time.Minute}) // the time limit is reached

	var late *terraform.TimeoutError
	if err := wait.Receive(t, "the run ends", ended); !errors.As(err, &late) {
		t.Errorf("the run ended with %v", err)
	}

	if _, err := os.Stat("/proc/" + pid); !os.IsNotExist(err) {
		t.Errorf("the executor still runs: %v", err)
	}
}

func TestAnExecutorThatIsKilledIsToldFromOneThatFails(t *testing.T) {
	var killed *terraform.KilledError
	_, err := pretender(t, "kill -9 $$", "").Apply(t.Context(), terraform.Request{Dir: t.TempDir()})
	check.Equal(t, "errors.As(err, &killed)", errors.As(err, &killed), true)
	check.Equal(t, "killed.Signal", killed.Signal, os.Signal(syscall.SIGKILL))
	check.Equal(t, "killed.Phase", killed.Phase, "plan")

	_, err = pretender(t, "echo oops with hunter2-hunter2 >&2; exit 3", "").Apply(t.Context(), terraform.Request{
		Dir:     t.TempDir(),
		Secrets: []string{"hunter2-hunter2"},
	})
	if err == nil {
		t.Fatal("there is no error")
	}

	check.Equal(t, "errors.As(err, &killed)", errors.As(err, &killed), false)
	check.Contains(t, "err.Error()", err.Error(), "oops")
	check.Lacks(t, "err.Error()", err.Error(), "hunter2")
}

// TestHugeOutputDoesNotFillTheMemory has the executor write 100 MB to each of its outputs.
func TestHugeOutputDoesNotFillTheMemory(t *testing.T) {
	const flood = `yes "$(head -c 1000 /dev/zero | tr "\0" x)" | head -c 100000000`
	var most uint64
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)

		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)

			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	_, outErr := pretender(t, flood, "").Apply(t.Context(), terraform.Request{Dir: t.TempDir()})
	_, errErr := pretender(t, flood+" >&2", "").Apply(t.Context(), terraform.Request{Dir: t.TempDir()})
	close(done)
	<-watched
	if outErr != nil {
		t.Errorf("standard output: %v", outErr)
	}

	if errErr == nil || !strings.Contains(errErr.Error(), "standard error") {
		t.Errorf("standard error: %v", errErr)
	}

	if most > 64<<20 {
		t.Errorf("%d MiB of memory", most>>20)
	}
}

func TestAStateOfANewerExecutorIsNotTouched(t *testing.T) {
	for written, refused := range map[string]bool{"1.10.9": false, "1.11.7": false, "1.12.0": true, "2.0.0": true} {
		dir := filepath.Join(t.TempDir(), "work")
		_, err := pretender(t, "true", "echo '{}' >applied").Apply(t.Context(), terraform.Request{
			Dir:   dir,
			State: fmt.Appendf(nil, `{"version":4,"terraform_version":%q,"serial":1,"lineage":"l"}`, written),
		})
		var newer *terraform.StateVersionError
		if got := errors.As(err, &newer); got != refused {
			t.Errorf("%s: %v", written, err)
		}

		if _, err := os.Stat(filepath.Join(dir, "applied")); os.IsNotExist(err) != refused {
			t.Errorf("%s: applied: %v", written, err)
		}
	}
}

func TestAnExecutorThatVanishesIsNamed(t *testing.T) {
	x := pretender(t, "true", "rm $0")
	if _, err := x.Apply(t.Context(), terraform.Request{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}

	_, err := x.Apply(t.Context(), terraform.Request{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "/terraform") {
		t.Errorf("the run ended with %v", err)
	}
}

func TestWhatIsFoundAsExecutor(t *testing.T) {
	tests := map[string]struct{ script, want string }{
		"fits":              {`echo "Terraform v1.11.4"`, ""},
		"too old":           {`echo "Terraform v1.9.8"`, "at least 1.10.0"},
		"OpenTofu too old":  {`echo "OpenTofu v1.10.1"`, "at least 1.11.0"},
		"a later beta fits": {`echo "OpenTofu v1.12.0-beta1"`, ""},
		"something else":    {`echo "GNU bash"`, `neither Terraform nor OpenTofu`},
		"fails":             {`exit 3`, "exit status 3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "terraform")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+test.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}

			t.Setenv(terraform.ExecutableEnv, path)
			found, err := terraform.FindExecutable(t.Context())
			if test.want == "" {
				if err != nil || found.Path != path {
					t.Errorf("found %v, %v", found, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("the error is %v", err)
			}
		})
	}

	t.Run("nothing there", func(t *testing.T) {
		t.Setenv(terraform.ExecutableEnv, "")
		t.Setenv("PATH", t.TempDir())
		_, err := terraform.FindExecutable(t.Context())
		if err == nil || !strings.Contains(err.Error(), terraform.ExecutableEnv) {
			t.Errorf("the error does not say what to do: %v", err)
		}
	})
}

// TestALookForExecutorsLeavesTheUserAlone finds the first suitable executor. It must run no candidate in the user's
// environment, because by default Terraform writes into the user's home and contacts HashiCorp.
func TestALookForExecutorsLeavesTheUserAlone(t *testing.T) {
	noted := filepath.Join(t.TempDir(), "noted")
	install := func(version string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "terraform")
		script := "#!/bin/sh\necho \"$HOME $CHECKPOINT_DISABLE $MY_TOKEN\" >>" + noted + "\necho 'Terraform v" +
			version + "'\n"
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}

		return path
	}
	old, fitting := install("1.5.7"), install("1.11.4")
	t.Setenv(terraform.ExecutableEnv, "")
	t.Setenv("HOME", "/home/of-the-user")
	t.Setenv("MY_TOKEN", "of-the-user")
	t.Setenv("PATH", strings.Join([]string{filepath.Dir(old), "relative", "", filepath.Dir(fitting)}, ":"))

	if found, err := terraform.FindExecutable(t.Context()); err != nil || found.Path != fitting {
		t.Errorf("found %v, %v", found, err)
	}

	content, err := os.ReadFile(noted)
	check.Error(t, err, "")
	check.Lacks(t, "string(content)", string(content), "of-the-user")
	check.Equal(t, `strings.Count(string(content), " 1 \\n")`, strings.Count(string(content), " 1 \n"), 2)
}

// fullDisk is set in the child process of TestADiskThatIsFull. It is a folder on a small disk.
const fullDisk = "CAPOLVM_TEST_FULL_DISK"

// TestADiskThatIsFull works on a disk of a few MiB. It uses its own mount namespace, so it needs no privileges.
func TestADiskThatIsFull(t *testing.T) { onASmallDisk(t, onAFullDisk) }

// TestAFullDiskAndAnAPIServerThatIsDownLoseNoState has no space for the state of a new VM. The disk fills up at the
// first save, and no save succeeds. When the disk has space again, every reader finds the state there.
func TestAFullDiskAndAnAPIServerThatIsDownLoseNoState(t *testing.T) {
	onASmallDisk(t, onAFullDiskWithoutSaves)
}

// onASmallDisk repeats a test on a disk of 20 MiB, in a process with its own mount namespace.
func onASmallDisk(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()

	if dir := os.Getenv(fullDisk); dir != "" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=20m"); err != nil {
			t.Fatal(err)
		}

		defer func() { _ = unix.Unmount(dir, 0) }()
		test(t, dir)

		return
	}

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), fullDisk+"="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if output, err := command.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS") {
		t.Errorf("%v\n%s", err, output)
	}
}

func onAFullDisk(t *testing.T, dir string) {
	t.Helper()
	w := newWorld(t)
	x := terraform.NewExecutor(testenv.FindExecutable(t), providerprocess.InProcess{
		Options: tfprovider.Options{ReturnOnStart: true},
	}, filepath.Join(dir, ".init"))
	request := w.request(t)
	request.Dir = filepath.Join(dir, "work")
	save := request.SaveState
	request.SaveState = func(ctx context.Context, state []byte, done bool) error {
		// From here on, nothing more fits on the disk.
		_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 32<<20), 0o600)
		return save(ctx, state, done)
	}
	_, err := x.Apply(t.Context(), request) // it may succeed, because a state of the same size fits into the old file
	if len(w.sim.ListVMs()) != 1 {
		t.Fatalf("%v, the engine has %+v", err, w.sim.ListVMs())
	}

	id := w.sim.ListVMs()[0].ID
	if !strings.Contains(string(w.state()), id) {
		t.Errorf("the state does not know the VM: %s", w.state())
	}

	request.SaveState, request.State = save, w.state()
	var full *terraform.DiskFullError
	_, err = x.Apply(t.Context(), request)
	check.Equal(t, "errors.As(err, &full)", errors.As(err, &full), true)
	check.Set(t, "full.Dir", full.Dir)

	check.Contains(t, "err.Error()", err.Error(), "--work-dir")

	// With free space, the run continues where it was interrupted.
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}

	if _, err := x.Apply(t.Context(), request); err != nil {
		t.Errorf("with room: %v", err)
	}

	if vms := w.sim.ListVMs(); len(vms) != 1 || vms[0].ID != id || !strings.Contains(string(w.state()), id) {
		t.Errorf("the engine has %+v, the state %d bytes", vms, len(w.state()))
	}
}

func onAFullDiskWithoutSaves(t *testing.T, dir string) {
	t.Helper()
	w := newWorld(t)
	x := terraform.NewExecutor(testenv.FindExecutable(t), providerprocess.InProcess{
		Options: tfprovider.Options{ReturnOnStart: true},
	}, filepath.Join(dir, ".init"))
	request := w.request(t)
	request.Dir = filepath.Join(dir, "work")
	save := request.SaveState
	request.SaveState = func(context.Context, []byte, bool) error {
		_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 32<<20), 0o600)
		return errors.New("the API server is down")
	}
	_, err := x.Apply(t.Context(), request)
	check.Equal(t, "the run fails", err != nil, true)
	check.Length(t, "VMs", w.sim.ListVMs(), 1)
	check.Equal(t, "a run is unfinished", terraform.HasUnsavedState(request.Dir), true)

	// No run begins on a full disk, and none of its files is removed.
	var full *terraform.DiskFullError
	_, err = x.Apply(t.Context(), request)
	check.Equal(t, "errors.As(err, &full)", errors.As(err, &full), true)
	check.Equal(t, "a run is still unfinished", terraform.HasUnsavedState(request.Dir), true)

	id := w.sim.ListVMs()[0].ID
	check.Contains(t, "the state that was left", string(terraform.ReadLeftover(request.Dir, nil)), id)
	check.Error(t, os.Remove(filepath.Join(dir, "filler")), "")

	request.SaveState = save
	_, err = x.Apply(t.Context(), request)
	check.Error(t, err, "")
	check.Length(t, "VMs", w.sim.ListVMs(), 1)
	check.Contains(t, "the state", string(w.state()), id)
}

// TestARunThatIsCancelledAtItsStartIsWaitedFor cancels runs as early as possible. No process may outlive its run.
func TestARunThatIsCancelledAtItsStartIsWaitedFor(t *testing.T) {
	for range 50 {
		x := pretender(t, `echo $$ >pid; trap "exit 1" INT; while :; do sleep 0.01; done`, "")
		x.StopGrace = 10 * time.Second
		dir := filepath.Join(t.TempDir(), "work")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := x.Apply(ctx, terraform.Request{Dir: dir})
			ended <- err
		}()

		pid := ""
		wait.Until(t, "the executor runs", func() bool {
			content, _ := os.ReadFile(filepath.Join(dir, "pid"))
			pid = strings.TrimSpace(string(content))

			return pid != ""
		})
		cancel()
		check.Error(t, wait.Receive(t, "the run ends", ended), "interrupted")

		if _, err := os.Stat("/proc/" + pid); !os.IsNotExist(err) {
			t.Fatalf("the executor still runs: %v", err)
		}
	}
}
