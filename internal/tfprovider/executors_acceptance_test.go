package tfprovider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// This file tests features that some executors lack.

// feature is a feature of executors.
type feature struct {
	name string
	// terraform and tofu are the first versions with the feature. If tofu is "", no version of OpenTofu has it.
	terraform, tofu string
	// config and args use the feature, and complaint is in the error of an executor without it.
	config    string
	args      []string
	complaint string
}

var (
	writeOnlyAttributes = feature{
		name: "write-only attributes", terraform: "1.11.0", tofu: "1.11.0", config: secretVM("x", "1"),
		args: []string{"plan", "-no-color", "-input=false"}, complaint: "only supported in Terraform 1.11 and later",
	}
	importsByIdentity = feature{
		name: "imports by identity", terraform: "1.12.0", tofu: "1.12.0",
		config: plainVM + importByIdentity("ovirt_vm.a", "id", otherUUID),
		args:   []string{"plan", "-no-color", "-input=false"}, complaint: `"identity" is not expected here`,
	}
	actionBlocks = feature{
		name: "actions", terraform: "1.14.0", config: plainVM + stopAction,
		args: []string{"plan", "-no-color", "-input=false"}, complaint: `"action" are not expected here`,
	}
	queries = feature{
		name: "queries", terraform: "1.14.0", config: plainVM,
		args: []string{"query"}, complaint: `has no command named "query"`,
	}
)

const otherUUID = "00000000-0000-4000-8000-00000000000f"

const stopAction = `
action "ovirt_vm_stop" "a" {
  config {
    vm_id     = ovirt_vm.a.id
    power_off = true
  }
}
`

// importByIdentity returns a block that imports an object whose identity has one attribute.
func importByIdentity(address, attribute, id string) string {
	return "import {\n  to = " + address + "\n  identity = {\n    " + attribute + " = \"" + id + "\"\n  }\n}\n"
}

// supports reports whether the executor has a feature, and which executor it is.
func (f feature) supports(t *testing.T) (supported bool, executor string) {
	t.Helper()
	found := testenv.FindExecutable(t)
	since := f.terraform
	if found.Product == "OpenTofu" {
		since = f.tofu
	}

	executor = found.Product + " " + found.Version.String()
	if since == "" {
		return false, executor
	}

	return found.Version.Core().GreaterThanOrEqual(version.Must(version.NewVersion(since))), executor
}

// require skips the test if the executor lacks the feature.
func (f feature) require(t *testing.T) {
	t.Helper()
	if supported, executor := f.supports(t); !supported {
		t.Skipf("%s has no %s", executor, f.name)
	}
}

func TestAFeatureThatTheExecutorLacksIsAClearError(t *testing.T) {
	t.Parallel()

	for _, f := range []feature{writeOnlyAttributes, importsByIdentity, actionBlocks, queries} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if supported, executor := f.supports(t); supported {
				t.Skipf("%s has %s", executor, f.name)
			}

			w := newWorkspace(t, newSite(t, quick)).config(f.config)
			output, exit := w.run(f.args...)
			check.Equal(t, "it fails", exit != 0, true)
			check.Contains(t, "the message", unwrapped(output), f.complaint)
		})
	}
}

func TestAnExecutorInvokesActions(t *testing.T) {
	t.Parallel()
	actionBlocks.require(t)
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + stopAction + `
action "ovirt_vm_start" "a" {
  config {
    vm_id = ovirt_vm.a.id
  }
}
resource "terraform_data" "t" {
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.ovirt_vm_start.a]
    }
  }
}
`)
	w.apply()
	check.Equal(t, "the status after a trigger", s.vm(t, "a").Status, engine.VMUp)

	w.succeed("apply", "-invoke=action.ovirt_vm_stop.a", "-auto-approve", "-no-color", "-input=false")
	check.Equal(t, "the status after an invocation", s.vm(t, "a").Status, engine.VMDown)
	w.settled()
}

// TestAQueryFindsWhatIsImported lists objects of each kind that has a list. It writes their configuration, and imports
// them by it.
func TestAQueryFindsWhatIsImported(t *testing.T) {
	t.Parallel()
	queries.require(t)
	s := newSite(t, quick)
	made := newWorkspace(t, s).config(plainVM + disk + "resource \"ovirt_tag\" \"t\" { name = \"blue\" }\n")
	made.apply()

	w := newWorkspace(t, s).config("")

	query := ""
	for _, kind := range []string{"ovirt_vm", "ovirt_disk", "ovirt_tag"} {
		query += "list \"" + kind + "\" \"all\" {\n  provider = ovirt\n}\n"
	}

	must(t, os.WriteFile(filepath.Join(w.dir, "all.tfquery.hcl"), []byte(query), 0o600))

	output := w.succeed("query", "-no-color", "-generate-config-out=generated.tf")
	for _, id := range []string{
		s.vm(t, "a").ID.String(), made.text("ovirt_disk.d", "id"), made.text("ovirt_tag.t", "id"),
	} {
		check.Contains(t, "the list", output, id)
	}

	w.apply()
	w.settled()
	check.Equal(t, "objects of the state", strings.Count(w.succeed("state", "list"), "\n"), 3)
}

func TestAnExecutorImportsByIdentity(t *testing.T) {
	t.Parallel()
	importsByIdentity.require(t)
	s := newSite(t, quick)
	newWorkspace(t, s).config(plainVM).apply()
	id := s.vm(t, "a").ID

	w := newWorkspace(t, s).config(plainVM + importByIdentity("ovirt_vm.a", "id", id.String()))
	w.apply()
	w.settled()
	check.Equal(t, "the VM", w.text("ovirt_vm.a", "id"), id.String())
}
