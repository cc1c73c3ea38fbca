package terraform_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-version"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// recorder is an executor that is a shell script. It records its calls, and its provider records the end of the
// endpoint.
type recorder struct {
	*terraform.Executor
	t   *testing.T
	log string
	dir string
	// use is the run's request to the provider.
	use terraform.Use
	// fails is the error with which the provider refuses to serve.
	fails error
	// asked is called when a run requests the provider. It may be nil.
	asked func(terraform.Use)
}

func (r *recorder) Address() string { return tfprovider.Address }

func (r *recorder) Serve(_ context.Context, use terraform.Use) (*plugin.ReattachConfig, func(), error) {
	if r.fails != nil {
		return nil, nil, r.fails
	}

	r.use = use
	if r.asked != nil {
		r.asked(use)
	}

	return &plugin.ReattachConfig{Addr: &net.UnixAddr{Net: "unix", Name: "/nowhere"}},
		func() { r.note("provider ends") }, nil
}

func (r *recorder) note(line string) {
	file, err := os.OpenFile(r.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check.Error(r.t, err, "")
	_, err = fmt.Fprintln(file, line)
	check.Error(r.t, errors.Join(err, file.Close()), "")
}

// noted returns the first words of all calls so far.
func (r *recorder) noted() []string {
	content, err := os.ReadFile(r.log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	check.Error(r.t, err, "")

	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// newRecorder returns a recorder with scripts for these phases: init, plan, show, show-text, apply. A phase without a
// script does nothing.
func newRecorder(t *testing.T, scripts map[string]string) *recorder {
	t.Helper()

	r := &recorder{t: t, log: filepath.Join(t.TempDir(), "log"), dir: filepath.Join(t.TempDir(), "work")}
	of := func(phase string) string { return cmp.Or(scripts[phase], "true") }
	path := filepath.Join(t.TempDir(), "terraform")
	script := fmt.Sprintf(`#!/bin/sh
what="$1"
[ "$what" != show ] || [ "$2" = -json ] || what=show-text
[ "$what" = version ] || {
  case " $* " in *" -destroy "*) destroy=" destroy";; esac
  case " $* " in *" plan.tfplan "*) file=" plan.tfplan";; esac
  echo "$what$destroy$file" >>%q
}
case "$what" in
version) echo '{"terraform_version":"1.11.0"}';;
plan) %s;;
show) %s;;
show-text) %s;;
init) %s;;
apply) %s;;
esac
`, r.log, of("plan"), of("show"), of("show-text"), of("init"), of("apply"))
	check.Error(t, os.WriteFile(path, []byte(script), 0o700), "")

	r.Executor = terraform.NewExecutor(terraform.Executable{
		Path: path, Product: "Terraform", Version: version.Must(version.NewVersion("1.11.0")),
	}, r, t.TempDir())

	return r
}

// say returns a script that prints lines of JSON.
func say(lines ...string) string {
	return "cat <<'END'\n" + strings.Join(lines, "\n") + "\nEND\n"
}

const (
	plansUpdate  = `{"type":"planned_change","change":{"resource":{"addr":"a.b","resource":"a.b","resource_type":"a","resource_name":"b"},"action":"update"}}`
	plansNothing = `{"type":"planned_change","change":{"resource":{"addr":"a.c","resource":"a.c","resource_type":"a","resource_name":"c"},"action":"noop"}}`
	plansReplace = `{"type":"planned_change","change":{"resource":{"addr":"a.d","resource":"a.d","resource_type":"a","resource_name":"d"},"action":"replace"}}`
	// plansForeign plans a change of an undeclared resource.
	plansForeign = `{"type":"planned_change","change":{"resource":{"addr":"x.y","resource":"x.y","resource_type":"x","resource_name":"y"},"action":"create"}}`
	planned      = `{"type":"change_summary","changes":{"add":1,"operation":"plan"}}`
	refuses      = `{"type":"diagnostic","diagnostic":{"severity":"error","summary":"no such template"}}`
	summary      = `{"type":"change_summary","changes":{"add":1,"change":2,"remove":3,"import":4,"operation":"apply"}}`
)

// declaresAll declares all resources that the plans of these tests change.
var declaresAll = render.Configuration{Resources: []render.Address{
	render.NewAddress("a", "b"), render.NewAddress("a", "c"), render.NewAddress("a", "d"),
}, Kind: render.OwnVM}

// TestWhatARunDoesBeforeItApplies checks the phases of a run and their order.
func TestWhatARunDoesBeforeItApplies(t *testing.T) {
	update := terraform.Change{Address: "a.b", Type: "a", Action: "update"}
	confirm := func(context.Context) error { return nil }
	state := []byte(`{"version":4,"serial":1,"lineage":"l","resources":[{"type":"ovirt_vm"}]}`)

	tests := map[string]struct {
		scripts map[string]string
		request terraform.Request
		// left is a state that an earlier run has left.
		left    []byte
		calls   string
		want    terraform.Summary
		problem string
	}{
		"a plan is made, and exactly that is applied": {
			map[string]string{"plan": say(plansUpdate, plansNothing), "apply": say(summary)},
			terraform.Request{Confirm: confirm}, nil,
			"plan, confirm, apply plan.tfplan, provider ends",
			terraform.Summary{Added: 1, Changed: 2, Destroyed: 3, Imported: 4, Planned: []terraform.Change{update}}, "",
		},
		"what is new is planned and applied at once": {
			map[string]string{"apply": say(plansUpdate, summary)},
			terraform.Request{Fresh: true, Confirm: confirm}, nil,
			"confirm, apply, provider ends",
			terraform.Summary{Added: 1, Changed: 2, Destroyed: 3, Imported: 4, Planned: []terraform.Change{update}}, "",
		},
		"what is new, and was begun, is planned": {
			map[string]string{"plan": say(plansUpdate)}, terraform.Request{Fresh: true, Confirm: confirm}, state,
			"plan, confirm, apply plan.tfplan, provider ends",
			terraform.Summary{Planned: []terraform.Change{update}}, "",
		},
		"a destruction is planned and applied at once": {
			nil, terraform.Request{Destroy: true, Confirm: confirm}, state,
			"confirm, apply destroy, provider ends", terraform.Summary{}, "",
		},
		"nobody has to confirm": {
			nil, terraform.Request{Destroy: true}, nil, "apply destroy, provider ends", terraform.Summary{}, "",
		},
		"a plan that is not confirmed": {
			map[string]string{"plan": say(plansUpdate)},
			terraform.Request{Confirm: func(context.Context) error { return errors.New("another leads") }}, nil,
			"plan, confirm, provider ends", terraform.Summary{Planned: []terraform.Change{update}},
			"another leads",
		},
		"a plan that the guard refuses": {
			map[string]string{"plan": say(plansUpdate, plansReplace), "show": "exit 1"},
			terraform.Request{Confirm: confirm, Guard: func(c terraform.Change) string {
				if c.Action == "replace" {
					return "replace"
				}

				return ""
			}}, nil,
			"plan, show plan.tfplan, provider ends",
			terraform.Summary{Planned: []terraform.Change{update, {Address: "a.d", Type: "a", Action: "replace"}}},
			"the plan would replace a.d; nothing was applied",
		},
		"a plan that the guard accepts": {
			map[string]string{"plan": say(plansUpdate)},
			terraform.Request{Guard: func(terraform.Change) string { return "" }}, nil,
			"plan, apply plan.tfplan, provider ends",
			terraform.Summary{Planned: []terraform.Change{update}}, "",
		},
		"a plan that fails": {
			map[string]string{"plan": say(plansUpdate, refuses) + "exit 1"}, terraform.Request{Confirm: confirm}, nil,
			"plan, provider ends", terraform.Summary{Planned: []terraform.Change{update}},
			"terraform plan failed: no such template",
		},
		"what was done before it failed": {
			map[string]string{"plan": say(plansUpdate), "apply": say(summary, refuses) + "exit 1"},
			terraform.Request{}, nil, "plan, apply plan.tfplan, provider ends",
			terraform.Summary{Added: 1, Changed: 2, Destroyed: 3, Imported: 4, Planned: []terraform.Change{update}},
			"terraform apply failed: no such template",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, test.scripts)
			test.request.Dir, test.request.Configuration = r.dir, declaresAll
			if ask := test.request.Confirm; ask != nil {
				test.request.Confirm = func(ctx context.Context) error {
					r.note("confirm")
					return ask(ctx)
				}
			}

			if test.left != nil {
				check.Error(t, os.MkdirAll(r.dir, 0o700), "")
				check.Error(t, os.WriteFile(filepath.Join(r.dir, "unsaved.tfstate"), test.left, 0o600), "")
			}

			got, err := r.Apply(t.Context(), test.request)
			check.Error(t, err, test.problem)
			check.Equal(t, "calls", strings.Join(r.noted(), ", "), test.calls)
			check.Equal(t, "summary", got, test.want)

			if test.left != nil {
				check.Equal(t, "types that the provider serves", r.use.Types, []string{"a", "ovirt_vm"})
			}
		})
	}
}

// planOf is the plan of one resource in the executor's format.
const planOf = `{"format_version":"1.2","terraform_version":"1.11.0","resource_changes":[{"address":"a.b","mode":"managed",
"type":"a","name":"b","change":{"actions":["update"],"before":{"x":1},"after":{"x":2},"replace_paths":[["y",0],"x"]}}],
"resource_drift":[{"address":"a.c","mode":"managed","type":"a","name":"c","change":{"actions":["update"],
"before":{"z":1},"after":{"z":2}}}]}`

func TestACheckFindsDrift(t *testing.T) {
	both := []terraform.Drift{
		{Address: "a.b", Action: "update", Attributes: []string{"x"}}, {Address: "a.c", Attributes: []string{"z"}},
	}

	tests := map[string]struct {
		scripts map[string]string
		calls   string
		want    []terraform.Drift
		problem string
	}{
		"a plan, and what happened outside": {
			map[string]string{"show": say(planOf)}, "plan, show plan.tfplan, provider ends", both, "",
		},
		"a plan that fails": {
			map[string]string{"plan": say(refuses) + "exit 1"}, "plan, provider ends", nil, "no such template",
		},
		"a plan that cannot be shown": {
			map[string]string{"show": "echo hunter2-hunter2 >&2; exit 1"}, "plan, show plan.tfplan, provider ends", nil,
			"failed to read the plan",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, test.scripts)
			got, err := r.Check(t.Context(), terraform.Request{
				Configuration: declaresAll, Dir: r.dir, Secrets: []string{"hunter2-hunter2"},
			})
			check.Error(t, err, test.problem)
			check.Equal(t, "drift", got, test.want)
			check.Equal(t, "calls", strings.Join(r.noted(), ", "), test.calls)

			if err != nil {
				check.Lacks(t, "error", err.Error(), "hunter2")
			}
		})
	}
}

func TestAPlanIsRead(t *testing.T) {
	tests := map[string]struct {
		scripts map[string]string
		problem string
	}{
		"all of it": {map[string]string{
			"plan": say(plansUpdate, plansNothing), "show": say(planOf), "show-text": "echo text with hunter2-hunter2",
		}, ""},
		"a plan that fails":       {map[string]string{"plan": say(refuses) + "exit 1"}, "no such template"},
		"a plan without its JSON": {map[string]string{"show": "exit 1"}, "failed to read the plan"},
		"a plan without its text": {
			map[string]string{"show": say(planOf), "show-text": "exit 1"}, "failed to read the plan",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, test.scripts)
			got, err := r.Plan(t.Context(), terraform.Request{
				Configuration: declaresAll, Dir: r.dir, Secrets: []string{"hunter2-hunter2"},
			})
			check.Error(t, err, test.problem)
			check.Equal(t, "there is a plan", got != nil, test.problem == "")

			if got != nil {
				check.Equal(
					t, "changes", got.Changes, []terraform.Change{{Address: "a.b", Type: "a", Action: "update"}},
				)
				check.Equal(t, "outside", got.Outside, []terraform.Drift{{Address: "a.c", Attributes: []string{"z"}}})
				check.Equal(t, "text", strings.TrimSpace(got.Text), "text with (redacted)")
			}
		})
	}
}

// TestARefusalNamesTheAttributes expects the attributes that force a replacement, but only those of the refused
// resource.
func TestARefusalNamesTheAttributes(t *testing.T) {
	for address, want := range map[string][]string{"a.b": {"x", "y.0"}, "a.c": nil} {
		r := newRecorder(t, map[string]string{
			"plan": say(
				strings.NewReplacer("a.d", address, `"d"`, fmt.Sprintf("%q", address[2:])).Replace(plansReplace),
			),
			"show": say(planOf),
		})
		_, err := r.Apply(t.Context(), terraform.Request{
			Configuration: declaresAll, Dir: r.dir, Guard: func(c terraform.Change) string { return c.Action },
		})

		var refused *terraform.GuardError
		check.Equal(t, "it is refused", errors.As(err, &refused), true)
		check.Equal(t, "action", refused.Action, "replace")
		check.Equal(t, "attributes of "+address, refused.Attributes, want)
	}
}

// TestAProviderThatCannotBeServedEndsTheRun expects that nothing runs, and that the place of the run is free again.
func TestAProviderThatCannotBeServedEndsTheRun(t *testing.T) {
	r := newRecorder(t, nil)
	r.fails = errors.New("no port is free")

	for range 2 {
		_, err := r.Apply(t.Context(), terraform.Request{Dir: r.dir})
		check.Error(t, err, "no port is free")
	}

	check.Equal(t, "calls", r.noted(), nil)

	r.fails = nil
	_, err := r.Apply(t.Context(), terraform.Request{Dir: r.dir})
	check.Error(t, err, "")
	check.Equal(t, "calls afterwards", r.noted(), []string{"plan", "apply plan.tfplan", "provider ends"})
}

// TestModulesAreInitialisedOnce has two machines with the same module, and a failing init.
func TestModulesAreInitialisedOnce(t *testing.T) {
	files := render.Files{"main.tf": []byte("module \"m\" {}\n"), "modules/m/main.tf": []byte("# m\n")}

	t.Run("it works", func(t *testing.T) {
		r := newRecorder(t, map[string]string{
			"init": "mkdir -p .terraform/modules && echo '{}' >.terraform/modules/modules.json",
		})

		for i := range 2 {
			dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
			_, err := r.Apply(
				t.Context(), terraform.Request{Dir: dir, Configuration: render.Configuration{Files: files}},
			)
			check.Error(t, err, "")

			content, err := os.ReadFile(filepath.Join(dir, ".terraform", "modules", "modules.json"))
			check.Error(t, err, "")
			check.Equal(t, "list of modules", strings.TrimSpace(string(content)), "{}")
		}

		check.Equal(t, "calls", strings.Join(r.noted(), ", "), "init, provider ends, plan, apply plan.tfplan, "+
			"provider ends, plan, apply plan.tfplan, provider ends")
	})

	for script, problem := range map[string]string{
		"exit 1": "terraform init failed", "true": "terraform init left no list of modules",
	} {
		r := newRecorder(t, map[string]string{"init": script})

		for range 2 { // a failure is not remembered
			_, err := r.Apply(
				t.Context(), terraform.Request{Dir: r.dir, Configuration: render.Configuration{Files: files}},
			)
			check.Error(t, err, problem)
		}

		check.Equal(t, "calls", strings.Join(r.noted(), ", "), "init, provider ends, init, provider ends")
	}
}

// TestAnUndeclaredChangeIsRefused has a plan with an undeclared resource, like a plan from injected HCL. The provider
// waits for the approval, and changes nothing.
func TestAnUndeclaredChangeIsRefused(t *testing.T) {
	const state = `{"version":4,"serial":1,"lineage":"l","resources":[]}`

	tests := map[string]struct {
		scripts map[string]string
		request terraform.Request
		calls   string
	}{
		"planned before it is applied": {
			map[string]string{"plan": say(plansUpdate, plansForeign, planned)},
			terraform.Request{State: []byte(state)}, "plan, provider ends",
		},
		"planned and applied by one process": {
			map[string]string{"apply": say(plansUpdate, plansForeign, planned)},
			terraform.Request{Fresh: true}, "apply, provider ends",
		},
		"in a destruction": {
			map[string]string{"apply": say(plansForeign, planned)},
			terraform.Request{Destroy: true, State: []byte(state)}, "apply destroy, provider ends",
		},
		"in an instance that was not asked for": {
			map[string]string{"apply": say(strings.Replace(plansUpdate, `"resource_name":"b"`,
				`"resource_name":"b","resource_key":"other"`, 1), planned)},
			terraform.Request{Fresh: true}, "apply, provider ends",
		},
		"in an instance with a number": {
			map[string]string{"apply": say(strings.Replace(plansUpdate, `"resource_name":"b"`,
				`"resource_name":"b","resource_key":0`, 1), planned)},
			terraform.Request{Fresh: true}, "apply, provider ends",
		},
		"in a module": {
			map[string]string{"apply": say(strings.Replace(plansUpdate, `"resource":"a.b"`,
				`"module":"module.m","resource":"a.b"`, 1), planned)},
			terraform.Request{Fresh: true}, "apply, provider ends",
		},
		"in an instance of a module": {
			map[string]string{"apply": say(strings.Replace(plansUpdate, `"resource":"a.b"`,
				`"module":"module.m[\"k\"].module.n","resource":"a.b"`, 1), planned)},
			terraform.Request{Fresh: true}, "apply, provider ends",
		},
		"as a data source": {
			map[string]string{
				"apply": say(strings.Replace(plansUpdate, `"resource":"a.b"`, `"resource":"data.a.b"`, 1), planned),
			},
			terraform.Request{Fresh: true}, "apply, provider ends",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, test.scripts)
			test.request.Dir, test.request.Configuration = r.dir, declaresAll

			_, err := r.Apply(t.Context(), test.request)
			var refused *terraform.UndeclaredError
			check.Equal(t, "it is refused", errors.As(err, &refused), true)
			check.Error(t, err, "which the configuration does not declare")
			check.Equal(t, "calls", strings.Join(r.noted(), ", "), test.calls)
			check.Equal(t, "the provider is told to change nothing", r.use.Approved(t.Context()) != nil, true)
		})
	}
}

// TestAChangeWaitsForItsApproval checks the answers to the provider, for accepted runs and for a run that has already
// ended.
func TestAChangeWaitsForItsApproval(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	tests := map[string]struct {
		scripts map[string]string
		request terraform.Request
		problem string
	}{
		"an accepted plan": {map[string]string{"plan": say(plansUpdate, planned)}, terraform.Request{}, ""},
		"an accepted plan of its own": {
			map[string]string{"apply": say(plansUpdate, planned)}, terraform.Request{Fresh: true}, "",
		},
		"a process that plans nothing": {nil, terraform.Request{Fresh: true}, "the run has ended"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, test.scripts)
			r.asked = func(use terraform.Use) { check.Error(t, use.Approved(ended), "context canceled") }
			test.request.Dir, test.request.Configuration = r.dir, declaresAll

			_, err := r.Apply(t.Context(), test.request)
			check.Error(t, err, "")
			check.Error(t, r.use.Approved(t.Context()), test.problem)
		})
	}
}

// TestAStateWithAForeignTypeIsRefused has a manually edited state.
func TestAStateWithAForeignTypeIsRefused(t *testing.T) {
	r := newRecorder(t, nil)
	for _, destroy := range []bool{false, true} {
		_, err := r.Apply(t.Context(), terraform.Request{
			Dir: r.dir, Destroy: destroy,
			State: []byte(`{"version":4,"serial":1,"lineage":"l","resources":[{"type":"ovirt_disk_from_image"}]}`),
		})

		var unknown *terraform.UnknownTypeError
		check.Equal(t, "it is refused", errors.As(err, &unknown), true)
		check.Error(t, err, "the state was edited")
	}

	check.Equal(t, "calls", r.noted(), nil)
}

// TestARunThatIsNotStartedLeavesNoSecrets refuses a run after its files are written.
func TestARunThatIsNotStartedLeavesNoSecrets(t *testing.T) {
	r := newRecorder(t, nil)
	foreign := []byte(`{"version":4,"serial":2,"lineage":"l","resources":[{"type":"ovirt_disk_from_image"}]}`)
	refuse := func() {
		_, err := r.Apply(t.Context(), terraform.Request{
			Dir: r.dir, State: foreign,
			Configuration: render.Configuration{Files: render.Files{render.SecretsFile: []byte("{}")}},
		})
		check.Error(t, err, "the state was edited")

		_, err = os.Stat(filepath.Join(r.dir, render.SecretsFile))
		check.Equal(t, "the secrets are gone", os.IsNotExist(err), true)
	}

	refuse()
	check.Equal(t, "a state is left", terraform.HasUnsavedState(r.dir), false)

	// The state of an earlier run may be stored nowhere else.
	newer := []byte(`{"version":4,"serial":3,"lineage":"l","resources":[{"type":"ovirt_disk_from_image"}]}`)
	check.Error(t, os.WriteFile(filepath.Join(r.dir, "terraform.tfstate"), newer, 0o600), "")
	refuse()
	check.Equal(t, "a state is left", terraform.HasUnsavedState(r.dir), true)
}
