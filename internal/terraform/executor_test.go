package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// world is an engine, an executor and the machine to create.
type world struct {
	sim      *ovirtsim.Server
	client   *engine.Client
	executor *terraform.Executor
	machine  render.Machine
	dir      string
	saved    [][]byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	timings := ovirtsim.Timings{
		Clone:     100 * time.Millisecond,
		Launch:    20 * time.Millisecond,
		PowerUp:   50 * time.Millisecond,
		PowerDown: 20 * time.Millisecond,
	}
	sim, err := ovirtsim.New(ovirtsim.Options{Timings: timings})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	sessions := &engine.Sessions{}
	client, err := sessions.Get(engine.Config{
		URL:      sim.URL(),
		Username: sim.Username(),
		Password: sim.Password(),
		CA:       sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	ctx := t.Context()
	dc, err := client.FindDataCenter(ctx, "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := client.FindCluster(ctx, dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := client.FindTemplate(ctx, dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	network, err := client.FindNetwork(ctx, dc, "kvm-vlan")
	if err != nil {
		t.Fatal(err)
	}

	profile, err := client.FindVNICProfile(ctx, network, "kvm-vlan")
	if err != nil {
		t.Fatal(err)
	}

	w := &world{sim: sim, client: client, dir: filepath.Join(t.TempDir(), "work")}
	w.executor = terraform.NewExecutor(testenv.FindExecutable(t), providerprocess.InProcess{
		Options: tfprovider.Options{Sessions: sessions, ReturnOnStart: true},
	}, t.TempDir())
	w.machine = render.Machine{
		Engine: render.Engine{
			URL:      client.APIURL(),
			CA:       string(sim.CA()),
			Username: sim.Username(),
			Password: sim.Password(),
		},
		Name:       "demo-1",
		Comment:    "owner of demo-1",
		ClusterID:  cluster.ID.String(),
		TemplateID: template.ID.String(),
		Cores:      2,
		Sockets:    1,
		Threads:    1,
		Memory:     4 << 30,
		NICs:       []render.NIC{{Name: "nic1", VNICProfileID: profile.ID.String()}},
		Guests: []render.GuestNIC{
			{Name: "enp1s0", IPv4: render.IP{
				Method:  render.Static,
				Address: netip.MustParsePrefix("10.0.0.9/24"),
				Gateway: netip.MustParseAddr("10.0.0.1"),
			}},
		},
		UserData: "#cloud-config\nruncmd: ['true && echo <bootstrap-canary>']\n",
	}

	return w
}

func (w *world) request(t *testing.T) terraform.Request {
	t.Helper()
	configuration, err := render.MachineConfiguration(w.machine)
	if err != nil {
		t.Fatal(err)
	}

	return terraform.Request{
		Configuration: configuration,
		Dir:           w.dir,
		Secrets:       []string{w.machine.Engine.Password, w.machine.UserData},
		State:         w.state(),
		SaveState: func(_ context.Context, state []byte, _ bool) error {
			w.saved = append(w.saved, slices.Clone(state))
			return nil
		},
	}
}

func (w *world) state() []byte {
	if len(w.saved) == 0 {
		return nil
	}

	return w.saved[len(w.saved)-1]
}

func TestOneMachineFromCreationToDeletion(t *testing.T) {
	w := newWorld(t)
	request := w.request(t)
	var applied []string
	request.Applied = func(_ context.Context, address, id string) { applied = append(applied, address+" "+id) }
	summary, err := w.executor.Apply(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}

	if summary.Added != 3 {
		t.Errorf("added %d resources, want VM, network interface and start", summary.Added)
	}

	vms := w.sim.ListVMs()
	check.Length(t, "vms", vms, 1)
	check.Equal(t, "vms[0].Name", vms[0].Name, "demo-1")
	check.Equal(t, "vms[0].Comment", vms[0].Comment, "owner of demo-1")
	if t.Failed() {
		t.FailNow()
	}

	if len(applied) != 3 || applied[0] != render.VMAddress.String()+" "+vms[0].ID {
		t.Errorf("applied were %q, want the VM first", applied)
	}

	if testenv.FindExecutable(t).Product == "Terraform" { // OpenTofu writes its state only at the end
		// The first saved state has the VM, but not the other resources yet.
		first, err := tfstate.Parse(w.saved[0])
		check.Error(t, err, "")
		check.Equal(t, `first.ResourceID("ovirt_vm")`, first.ResourceID("ovirt_vm"), vms[0].ID)
		check.Equal(t, `first.ResourceID("ovirt_vm_start")`, first.ResourceID("ovirt_vm_start"), "")
	}

	for _, name := range []string{render.SecretsFile, "terraform.tfstate", "plan.tfplan"} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left in the working directory: %v", name, err)
		}
	}

	summary, err = w.executor.Apply(t.Context(), w.request(t))
	if err != nil || !summary.Empty() {
		t.Errorf("a second run did %+v, %v", summary, err)
	}

	w.machine.Memory = 8 << 30
	if summary, err = w.executor.Apply(t.Context(), w.request(t)); err != nil || summary.Changed != 1 {
		t.Errorf("more memory: %+v, %v", summary, err)
	}

	vm, err := w.client.FetchVM(t.Context(), engine.ID(vms[0].ID))
	if err != nil || *vm.Memory != 8<<30 {
		t.Errorf("the engine was not told of the memory: %v, %v", vm, err)
	}

	configuration, err := render.DestroyConfiguration(w.machine.Engine, render.OwnVM)
	if err != nil {
		t.Fatal(err)
	}

	request = w.request(t)
	request.Configuration, request.Destroy = configuration, true
	if summary, err = w.executor.Apply(t.Context(), request); err != nil || summary.Destroyed != 3 {
		t.Errorf("destroy: %+v, %v", summary, err)
	}

	if left := w.sim.Summarize(); left.VMs+left.Disks+left.NICs != 0 {
		t.Errorf("left in the engine: %+v", left)
	}

	if last, err := tfstate.Parse(w.state()); err != nil || !last.Empty() {
		t.Errorf("the state is not empty: %v", err)
	}

	if w.sim.CountLogins() != 1 {
		t.Errorf("%d logins, want one shared session", w.sim.CountLogins())
	}
}

func TestTheGuardRefusesAPlanAndNamesTheAttribute(t *testing.T) {
	w := newWorld(t)
	if _, err := w.executor.Apply(t.Context(), w.request(t)); err != nil {
		t.Fatal(err)
	}

	w.machine.TemplateID = "99999999-9999-4999-8999-999999999999"

	request := w.request(t)
	for name, content := range request.Files { // the provider ignores changes of a machine's template
		request.Files[name] = bytes.ReplaceAll(content, []byte("template_id, "), nil)
	}

	request.Guard = func(change terraform.Change) string {
		if change.Action == "replace" {
			return change.Action
		}

		return ""
	}
	_, err := w.executor.Apply(t.Context(), request)
	var refused *terraform.GuardError
	check.Equal(t, "errors.As(err, &refused)", errors.As(err, &refused), true)
	check.Equal(t, "refused.Address", refused.Address, render.VMAddress.String())
	check.Equal(t, "refused.Attributes", refused.Attributes, []string{"template_id"})
	if t.Failed() {
		t.FailNow()
	}

	if vms := w.sim.ListVMs(); len(vms) != 1 {
		t.Errorf("the engine has %+v", vms)
	}
}

func TestAnInterruptedRunLeavesItsStateAndTheNextOneFinishes(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	request := w.request(t)
	request.Applied = func(context.Context, string, string) { // called as soon as the VM exists
		// The run cannot end by itself, even if the interrupt reaches the executor late.
		check.Error(t, w.sim.Inject(ovirtsim.Fault{Method: "GET", Path: "^/api/vms/", Action: "hang"}), "")
		cancel()
	}
	if _, err := w.executor.Apply(ctx, request); err == nil {
		t.Fatal("an interrupted run reported success")
	}

	parsed, err := tfstate.Parse(w.state())
	if err != nil || parsed.ResourceID("ovirt_vm") == "" {
		t.Fatalf("the state lost the VM: %v", err)
	}

	w.sim.ClearFaults()
	if _, err := w.executor.Apply(t.Context(), w.request(t)); err != nil {
		t.Fatal(err)
	}

	if vms := w.sim.ListVMs(); len(vms) != 1 {
		t.Errorf("the engine has %d VMs", len(vms))
	}
}

func TestAStateThatCouldNotBeSavedIsFoundByTheNextRun(t *testing.T) {
	w := newWorld(t)
	request := w.request(t)
	request.SaveState = func(context.Context, []byte, bool) error { return errors.New("API server is down") }
	_, err := w.executor.Apply(t.Context(), request)
	if err == nil || !strings.Contains(err.Error(), "API server is down") {
		t.Fatalf("got %v", err)
	}

	if summary, err := w.executor.Apply(t.Context(), w.request(t)); err != nil || !summary.Empty() {
		t.Fatalf("the next run did %+v, %v", summary, err)
	}

	if parsed, err := tfstate.Parse(w.state()); err != nil || parsed.ResourceID("ovirt_vm") == "" {
		t.Errorf("the state was not saved later: %v", err)
	}
}

func TestALostVMIsAdoptedByImport(t *testing.T) {
	w := newWorld(t)
	if _, err := w.executor.Apply(t.Context(), w.request(t)); err != nil {
		t.Fatal(err)
	}

	vm := w.sim.ListVMs()[0]
	nics, err := w.client.ListNICs(t.Context(), engine.ID(vm.ID))
	if err != nil {
		t.Fatal(err)
	}

	w.saved = nil // so the state and the working directory are lost
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}

	request := w.request(t)
	request.Configuration = request.WithImports(map[render.Address]string{
		render.VMAddress: vm.ID, render.NICAddress(0): vm.ID + "/" + nics[0].ID.String(), render.StartAddress: vm.ID,
	})
	summary, err := w.executor.Apply(t.Context(), request)
	check.Error(t, err, "")
	check.Equal(t, "summary.Imported", summary.Imported, 3)
	check.Equal(t, "summary.Added+summary.Destroyed", summary.Added+summary.Destroyed, 0)
	if t.Failed() {
		t.FailNow()
	}

	if after := w.sim.ListVMs(); len(after) != 1 || after[0].ID != vm.ID || after[0].Status != "up" {
		t.Errorf("the engine has %+v", after)
	}
}

func TestErrorsOfTheEngineAreReportedWithoutSecrets(t *testing.T) {
	w := newWorld(t)
	w.machine.TemplateID = "99999999-9999-4999-8999-999999999999"
	_, err := w.executor.Apply(t.Context(), w.request(t))
	var failed *terraform.DiagnosticError
	check.Equal(t, "errors.As(err, &failed)", errors.As(err, &failed), true)
	check.Equal(t, "failed.Phase", failed.Phase, "apply")
	check.Length(t, "failed.Diagnostics", failed.Diagnostics, 1)
	if t.Failed() {
		t.FailNow()
	}

	check.Contains(t, "err.Error()", err.Error(), "Template")
	check.Lacks(t, "err.Error()", err.Error(), w.machine.Engine.Password)
	check.Lacks(t, "err.Error()", err.Error(), "bootstrap-canary")
}

func TestAPlanIsShownToPeopleAndPrograms(t *testing.T) {
	w := newWorld(t)
	plan, err := w.executor.Plan(t.Context(), w.request(t))
	if err != nil {
		t.Fatal(err)
	}

	check.Length(t, "plan.Changes", plan.Changes, 3)
	check.Contains(t, "plan.Text", plan.Text, "ovirt_vm.this will be created")
	if plan.JSON == nil {
		t.Fatal("plan.JSON is nil")
	}

	check.Length(t, "plan.JSON.ResourceChanges", plan.JSON.ResourceChanges, 3)

	encoded, err := json.Marshal(plan.JSON)
	if err != nil {
		t.Fatal(err)
	}

	if strings.Contains(plan.Text, "bootstrap-canary") || strings.Contains(plan.Text, w.machine.Engine.Password) ||
		strings.Contains(string(encoded), w.machine.Engine.Password) {
		t.Error("the plan shows a secret")
	}

	if w.sim.Summarize().VMs != 0 {
		t.Error("planning made a VM")
	}
}
