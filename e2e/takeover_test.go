package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// takeoverDocument is the document with the steps.
const takeoverDocument = "docs/user/terraform-in-a-controller.md"

// largerMemory is the memory that Terraform gives to a worker, in bytes. The sample sets 16 GiB.
const largerMemory = 17 << 30

// terraformUser is a user who follows the document in a shell.
type terraformUser struct {
	*workload
	dir string
}

// TestARunningClusterIsTakenOverAndGivenBack runs the commands of the document. Terraform reads the controllers' states
// with its own backend, plans no change, and then changes a VM. Then the controllers continue with Terraform's state.
func TestARunningClusterIsTakenOverAndGivenBack(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster to take it over with Terraform")
	t.Parallel()
	w := newWorkload(t, "takeover", 87)
	w.expectMachines(1, 2)
	p := terraformUser{workload: w, dir: t.TempDir()}
	before := p.vms()

	p.documented("kubectl wait olvmmachines")
	out := p.documented("terraform -chdir=$folder plan")
	check.Equal(t, "plans without changes", strings.Count(out, "No changes. Your infrastructure matches"), 3)
	check.Lacks(t, "the plans", out, "will be")

	worker := p.worker()
	folder := filepath.Join("out", w.namespace, worker.Name)
	p.shell(fmt.Sprintf(`sed -i -e '/^resource "ovirt_vm" "this" {/a description = "taken over"' \
  -e 's/^  memory  *= .*/  memory = %d/' %s/main.tf
terraform -chdir=%s apply -auto-approve`, largerMemory, folder, folder))
	check.Equal(t, "VMs", len(p.vms()), len(before))
	p.expectStateOfTerraform(worker)
	p.expectNumbersRefused()

	p.documented("kubectl delete leases")
	p.expectGoesOn(worker)
	w.scale(1, 3)
	w.expectMachines(1, 3)
	p.expectGoesOn(worker)
	w.delete()
}

// worker returns an OLVMMachine of the MachineDeployment.
func (p terraformUser) worker() *infrav1.OLVMMachine {
	p.t.Helper()
	var list infrav1.OLVMMachineList
	check.Error(p.t, p.plane.Client.List(p.t.Context(), &list, client.InNamespace(p.namespace)), "")
	at := slices.IndexFunc(list.Items, func(m infrav1.OLVMMachine) bool { return strings.Contains(m.Name, "-md-") })

	return &list.Items[at]
}

// stateOf reads the state of a machine as the controllers do.
func (p terraformUser) stateOf(machine *infrav1.OLVMMachine) *tfstate.State {
	p.t.Helper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: p.namespace, Name: tfstate.SecretName(machine)}
	check.Error(p.t, p.plane.Client.Get(p.t.Context(), key, &secret), "")
	check.Equal(p.t, "type of the Secret", secret.Type, tfstate.SecretType)
	check.Length(p.t, "finalizers of the Secret", secret.Finalizers, 1)

	state, err := tfstate.DecodeSecret(&secret)
	check.Error(p.t, err, "")

	return state
}

// expectNumbersRefused verifies that Terraform reports those names of machines that its backend rejects.
func (p terraformUser) expectNumbersRefused() {
	p.t.Helper()
	_, readable := tfstate.BackendSuffix("machine-0")
	check.Equal(p.t, "render writes a backend for it", readable, false)
	out := p.shell(fmt.Sprintf(`mkdir number && cd number
printf 'terraform {\n  backend "kubernetes" {\n    secret_suffix = "machine-0"\n    namespace = "%s"\n    config_path = "%%s"\n  }\n}\n' "$KUBECONFIG" >main.tf
if terraform init 2>&1; then exit 1; fi`, p.namespace))
	check.Contains(p.t, "Terraform", out, "secret_suffix must not end with '-<number>'")
}

// expectStateOfTerraform verifies that Terraform's state contains what the controllers need.
func (p terraformUser) expectStateOfTerraform(machine *infrav1.OLVMMachine) {
	p.t.Helper()
	state := p.stateOf(machine)
	check.Equal(p.t, "VM of the state", "olvm://"+state.VMID(), machine.Spec.ProviderID)
	check.Equal(p.t, "the state is complete", state.IsComplete(), true)
	check.Contains(p.t, "the state", string(state.Raw), "taken over")
}

// expectGoesOn waits until the controllers have reconciled a machine that Terraform has changed. They must report each
// difference from the OLVMMachine, but must not undo it.
func (p terraformUser) expectGoesOn(machine *infrav1.OLVMMachine) {
	p.t.Helper()
	j := &journey{t: p.t, namespace: p.namespace}
	message := j.expectDrift(machine.Name, infrav1.DriftDetectedReason)
	check.Equal(p.t, "the drift", message,
		"The settings in the engine differ from the applied configuration: ovirt_vm.this (memory)")

	id := strings.TrimPrefix(machine.Spec.ProviderID, "olvm://")
	vm, ok := p.vms()[id]
	check.Equal(p.t, "the VM is there", ok, true)
	check.Equal(p.t, "description", ptr.Deref(vm.Description, ""), "taken over")
	check.Equal(p.t, "memory", ptr.Deref(vm.Memory, 0), largerMemory)
}

// documented runs the block in the document that contains a text, adapted to this cluster.
func (p terraformUser) documented(text string) string {
	p.t.Helper()
	blocks := testenv.CommandBlocks(testenv.ReadDocuments(p.t)[takeoverDocument])
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, text) })
	if at < 0 {
		p.t.Fatalf("%s has no %s", takeoverDocument, text)
	}

	return p.shell(strings.NewReplacer("patch cluster prod", "patch cluster "+p.name, "-n olvm", "-n "+p.namespace,
		"cluster-name=prod", "cluster-name="+p.name, "out/olvm", "out/"+p.namespace,
		"linux_amd64", runtime.GOOS+"_"+runtime.GOARCH).Replace(blocks[at]))
}

// shell runs commands with the programs of this test, and returns their output.
func (p terraformUser) shell(script string) string {
	p.t.Helper()
	kubectl, err := suite.tools.Path("plane", "kubectl")
	check.Error(p.t, err, "")
	executable, err := suite.tools.FindExecutor(p.t.Context())
	check.Error(p.t, err, "")

	programs := fmt.Sprintf("set -e\nmake() { test \"$*\" = build; }\nkubectl() { %q \"$@\"; }\n"+
		"terraform() { %q \"$@\" -no-color; }\n", kubectl, executable.Path)
	if _, err := os.Stat(filepath.Join(p.dir, "bin")); errors.Is(err, os.ErrNotExist) {
		check.Error(p.t, os.Symlink(suite.binDir, filepath.Join(p.dir, "bin")), "")
	}

	command := exec.CommandContext(p.t.Context(), "bash", "-c", programs+script)
	command.Dir = p.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+p.plane.Kubeconfig, "TF_CLI_CONFIG_FILE="+os.DevNull,
		"CHECKPOINT_DISABLE=1", "CAPOLVM_TERRAFORM="+executable.Path)
	out, err := command.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s\n%v\n%s", script, err, out)
	}

	return string(out)
}
