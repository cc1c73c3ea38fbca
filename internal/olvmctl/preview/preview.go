package preview

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localroot"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// userData replaces the bootstrap data, because only the bootstrap provider in the management cluster can create it.
const userData = "#cloud-config\n# The bootstrap provider makes the real data.\n"

// Rendered is a machine with its Terraform configuration.
type Rendered struct {
	Machine
	render.Configuration
	Secrets []string
	// Needs are the resources of its VM.
	Needs Needs
	// names maps UUIDs to the names of the VM's parts. knownName returns the names of other objects of the engine.
	names     map[string]string
	knownName func(id string) string
	// State is the Terraform state in the management cluster, or nil if it is unavailable. Without a state, the plan
	// imports existing objects.
	State []byte
	// Kubeconfig is the kubeconfig of the management cluster, for a folder that continues the state. It is empty if
	// there is no management cluster.
	Kubeconfig string
	// Context is the context of the kubeconfig. If empty, it is the current context.
	Context string
}

// Refused is a machine that cannot be created as requested.
type Refused struct {
	Machine
	Err error
}

// refusals are the reasons for refusing machines, by machine.
type refusals map[types.NamespacedName]error

// Render resolves the names of every machine in its engine, and renders the machine. It refuses the machines that the
// engine cannot create, and renders the others. Machines of the same engine share one session. err reports an
// unavailable engine.
func Render(
	ctx context.Context, m *Manifests, machines []Machine, credentials Credentials, sessions *engine.Sessions,
) (out []Rendered, refused []Refused, err error) {
	if err := m.identifyEngines(ctx, machines, credentials, sessions); err != nil {
		return nil, nil, err
	}

	held := m.collectHeld(machines)
	pooled, wrong, err := m.planInventoryVMs(ctx, credentials, sessions, held)
	if err != nil {
		return nil, nil, err
	}

	out, refused, err = m.renderAll(ctx, machines, pooled, held, credentials, sessions)

	return out, append(wrong, refused...), err
}

// renderAll renders the machines, and the VMs created by inventories.
func (m *Manifests) renderAll(
	ctx context.Context,
	machines, pooled []Machine,
	held *heldAddresses,
	credentials Credentials,
	sessions *engine.Sessions,
) (out []Rendered, refused []Refused, err error) {
	isGoing := func(machine Machine) bool { return machine.Destroyed != "" }
	for _, machine := range slices.Concat(machines, pooled) {
		if isGoing(machine) {
			out = append(out, Rendered{Machine: machine.withRecordedAddresses()})
		}
	}

	machines = slices.DeleteFunc(slices.Clone(machines), isGoing)
	pooled = slices.DeleteFunc(slices.Clone(pooled), isGoing)

	unplaced, err := m.checkGroups(ctx, machines, credentials, sessions)
	if err != nil {
		return nil, nil, err
	}

	claims, err := m.findClaims(ctx, machines, credentials, sessions, unplaced)
	if err != nil {
		return nil, nil, err
	}

	endpoints := m.checkEndpoints(machines)

	for _, machine := range slices.Concat(machines, pooled) {
		if machine.Replaced != "" { // it does not have to be possible to create it again
			machine.VM = claims[machine.key()].entry
			out = append(out, Rendered{Machine: machine.withRecordedAddresses()})

			continue
		}

		wrong := cmp.Or(endpoints[machine.olvmCluster], m.checkNeeded(machine))
		if wrong != nil {
			wrong = machine.explainError(wrong, credentials.Places)
		}

		if err := cmp.Or(wrong, unplaced[machine.key()]); err != nil {
			refused = append(refused, Refused{machine, err})
			continue
		}

		claimed := claims[machine.key()]
		machine.VM, machine.Addresses = claimed.entry, claimed.addresses
		rendered, err := m.renderMachine(ctx, machine, credentials, sessions,
			held.addressesOn(m.engineOf(&machine)), claimed)

		switch {
		case ctx.Err() != nil:
			return nil, nil, cmp.Or(err, ctx.Err())
		case blocker.IsEngineError(err):
			return nil, nil, machine.explainEngine(err, credentials.Places)
		case err != nil:
			refused = append(refused, Refused{machine, machine.explainError(err, credentials.Places)})
		default:
			out = append(out, rendered)
		}
	}

	return out, refused, nil
}

// withRecordedAddresses returns the machine with its recorded addresses.
func (machine Machine) withRecordedAddresses() Machine {
	machine.Addresses = nil
	for _, name := range slices.Sorted(maps.Keys(machine.recorded)) {
		for _, address := range machine.recorded[name] {
			machine.Addresses = append(machine.Addresses, address.String())
		}
	}

	return machine
}

// key identifies the machine among all machines of the manifests.
func (machine *Machine) key() types.NamespacedName {
	return types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}
}

// explainEngine adds the machine's cluster to an error of its engine.
func (machine *Machine) explainEngine(err error, at blocker.Places) error {
	return fmt.Errorf("cluster %s/%s: %w", machine.Namespace, machine.Cluster, blocker.AddRemedy(err, at))
}

// explainError adds the name of the machine to an error.
func (machine *Machine) explainError(err error, at blocker.Places) error {
	return fmt.Errorf(
		"machine %s/%s (%s): %w", machine.Namespace, machine.Name, machine.From, blocker.AddRemedy(err, at),
	)
}

// allocateAddresses gives a machine the static addresses the controller would choose. It claims no addresses from IPAM
// providers.
func (machine *Machine) allocateAddresses(
	nics []addressing.NIC, held addressing.Held,
) (map[string][]addressrange.Address, error) {
	allocation := addressing.Allocation{
		NICs:     nics,
		Recorded: machine.recorded,
		InUse:    (machine.live || machine.pool != nil) && len(machine.recorded) > 0,
	}
	var err error
	if allocation.Recorded, err = allocation.Allocate(held); err != nil {
		return nil, err
	}

	given, _ := allocation.ResolveAddresses()

	for _, nic := range nics {
		if nic.Guest == nil {
			continue
		}

		for _, address := range allocation.Recorded[nic.VNICName] {
			machine.Addresses = append(machine.Addresses, address.String())
		}

		if nic.Guest.Own { // addresses configured in its VM
			continue
		}

		if len(allocation.Recorded[nic.VNICName]) == 0 {
			for _, pool := range nic.Guest.FromPools {
				machine.Addresses = append(machine.Addresses, fmt.Sprintf("from %s %s", pool.Kind, pool.Name))
			}
		}

		for _, family := range []string{"IPv4", "IPv6"} {
			if nic.Guest.IsDynamic(family == "IPv4") {
				machine.Addresses = append(machine.Addresses,
					fmt.Sprintf("dynamic %s on %s", family, nic.Guest.Interface))
			}
		}
	}

	return given, nil
}

func (m *Manifests) renderMachine(
	ctx context.Context,
	machine Machine,
	credentials Credentials,
	sessions *engine.Sessions,
	held addressing.Held,
	claimed claim,
) (Rendered, error) {
	session, config, err := m.openSession(machine.engine(), credentials, sessions)
	if err != nil {
		return Rendered{}, err
	}

	in, err := machine.buildInput(held)
	if err != nil {
		return Rendered{}, err
	}

	state, err := m.findState(machine, credentials)
	if err != nil {
		return Rendered{}, err
	}

	// A plan for a running machine shows changes, not a second VM.
	existing, owner, err := machine.findAdopted(ctx, session, state)
	if err != nil {
		return Rendered{}, err
	}

	in.Config, in.Owner = config, owner
	if machine.spec.FromInventory != nil {
		in.ClaimedVM = &claimed.vm
	}

	in.FindGroups = func(ctx context.Context, self placement.Member) (map[string]string, error) {
		return m.findAffinityGroups(ctx, session, machine, self)
	}

	built, err := desired.Build(ctx, session, in)
	if err != nil {
		return Rendered{}, err
	}

	machine.addStandIns(built)

	out := Rendered{Machine: machine, Secrets: []string{config.Password}, names: nameIDs(built)}
	out.knownName = func(id string) string { return session.GetKnownName(context.WithoutCancel(ctx), engine.ID(id)) }

	if built.Names != nil && machine.spec.FromInventory == nil { // a VM of an inventory needs nothing more
		out.Needs = needsOf(built.Machine, built.Names.ClusterName)
	}

	if state.VMID() != "" {
		out.State, existing = state.Raw, missingFromState(state, existing)

		if out.undoes, err = isUndo(state, built); err != nil {
			return Rendered{}, err
		}
	}

	out.Configuration, err = built.RenderConfiguration(ctx, session, existing)

	return out, err
}

// addStandIns adds placeholders for values known only to a management cluster: a tag created with the inventory, and
// user data.
func (m Machine) addStandIns(built *desired.Built) {
	if m.newTag {
		built.Machine.TagIDs = append(built.Machine.TagIDs, newTag)
	}

	if m.pool == nil {
		built.Machine.UserData = userData
	}
}

// isUndo reports whether the manifests return a machine to its settings before an unfinished change.
func isUndo(state *tfstate.State, built *desired.Built) (bool, error) {
	digest, err := render.MachineDigest(built.Machine)
	if err != nil {
		return false, err
	}

	return state.IsRevertedBy(digest), nil
}

// missingFromState returns the objects of the engine that an interrupted change has not recorded in the state.
func missingFromState(state *tfstate.State, existing *desired.Existing) *desired.Existing {
	if state.IsComplete() {
		return nil
	}

	return existing.WithState(state)
}

// findExisting returns the objects of the machine that the engine already has. It returns nil if there are none, or if
// the machine uses an inventory VM.
func (machine *Machine) findExisting(ctx context.Context, session *engine.Client) (*desired.Existing, error) {
	if machine.spec.FromInventory != nil {
		return nil, nil
	}

	return desired.FindExisting(ctx, session, machine.clusterSpec().OLVMDatacenterName, machine.Name, machine.spec)
}

// buildInput returns the input for the machine's configuration, without requests to the engine.
func (machine *Machine) buildInput(held addressing.Held) (desired.Input, error) {
	nics, err := addressing.BuildNICs(machine.spec, machine.clusterSpec())
	if err != nil {
		return desired.Input{}, err
	}

	addresses, err := machine.allocateAddresses(nics, held)

	announced := machine.format
	if machine.live { // the format of its bootstrap data is unknown
		announced = ""
	}

	return desired.Input{
		Announced:         announced,
		AnnouncedBy:       machine.From,
		KubernetesVersion: machine.version,
		Spec:              machine.spec,
		Cluster:           machine.clusterSpec(),
		VMName:            machine.Name,
		Pooled:            machine.pool != nil,
		Role:              machine.role,
		Service:           machine.service,
		SupportServices:   machine.services,
		NICs:              nics,
		Addresses:         addresses,
		NamePools:         true,
		FailureDomain:     machine.failureDomain,
	}, err
}

// openSession returns a session with the engine of a cluster.
func (m *Manifests) openSession(
	of connection.Engine, credentials Credentials, sessions *engine.Sessions,
) (*engine.Client, engine.Config, error) {
	config, err := m.engineConfig(of, credentials)
	if err != nil {
		return nil, config, err
	}

	session, err := sessions.Get(config)

	return session, config, err
}

// adopts returns what the controller would adopt of an existing VM, or nil, and the owner mark of the machine's VM. It
// fails for a VM that the controller refuses by its name. An existing VM keeps the UID of its mark in two cases: the
// manifests lack one, or the state knows the machine's VM.
func (machine *Machine) adopts(
	existing *desired.Existing, state *tfstate.State,
) (*desired.Existing, ownermark.Owner, error) {
	owner := ownermark.Owner{
		Namespace: machine.Namespace,
		Name:      machine.infraName,
		UID:       cmp.Or(string(machine.uid), "preview"),
	}
	if existing == nil {
		return nil, owner, nil
	}

	had := existing.Owner
	if machine.pool != nil {
		had, _ = ownermark.ParseInventoryOwner(existing.VM.CommentText())
	}

	if had.IsSameObject(owner) && (state.VMID() != "" || machine.uid == "") {
		owner = had
	}

	comment := owner.Comment()
	if machine.pool != nil {
		comment = owner.InventoryComment()
	}

	existing, err := existing.FilterOwned(comment, engine.ID(state.VMID()))

	return existing, owner, err
}

// findAdopted finds the machine's VM in the engine, and returns what the controller would adopt of it, as adopts does.
// It fails if the controller refuses the VM of the state, which may have another name by now. Pools have another mark.
func (machine *Machine) findAdopted(
	ctx context.Context, session *engine.Client, state *tfstate.State,
) (*desired.Existing, ownermark.Owner, error) {
	existing, err := machine.findExisting(ctx, session)
	if err != nil {
		return nil, ownermark.Owner{}, err
	}

	existing, owner, err := machine.adopts(existing, state)
	if err != nil || machine.pool != nil || state.VMID() == "" {
		return existing, owner, err
	}

	return existing, owner, desired.CheckVMOwned(ctx, session, owner, engine.ID(state.VMID()))
}

func resultOf(machine Machine) *planreport.Result {
	out := &planreport.Result{
		Cluster:   machine.Cluster,
		From:      machine.From,
		Namespace: machine.Namespace,
		Name:      machine.Name,
		Addresses: machine.Addresses,
		VM:        machine.VM,
		Replaced:  machine.Replaced, Replaces: machine.Replaces, Changes: []terraform.Change{},
		Destroyed: machine.Destroyed, MayGo: machine.MayGo, IsNew: !machine.live,
	}
	if machine.Destroyed != "" || machine.MayGo != "" {
		out.Disks = disksOf(machine)
	}

	return out
}

// disksOf returns the disks deleted together with the VM of a machine. A VM of an inventory stays, so its disks stay,
// too.
func disksOf(machine Machine) []string {
	if machine.spec.FromInventory != nil {
		return nil
	}

	out := []string{"root"}
	if root := machine.spec.VirtualMachine.RootDisk; root != nil && root.Size != "" {
		out = []string{"root " + root.Size}
	}

	for _, disk := range machine.spec.VirtualMachine.DataDisks {
		out = append(out, disk.Name+" "+disk.Size)
	}

	return out
}

// DescribeOffline describes machines without requests to an engine: their sizes, names and addresses.
func DescribeOffline(m *Manifests, machines []Machine) []*planreport.Result {
	held := m.collectHeld(machines)
	pooled, refused := m.planInventoryVMsOffline(held)

	var out []*planreport.Result
	for _, wrong := range refused {
		out = append(out, wrong.Result())
	}

	endpoints := m.checkEndpoints(machines)

	for _, machine := range slices.Concat(machines, pooled) {
		if machine.Destroyed != "" || machine.Replaced != "" {
			out = append(out, deletedResult(machine.withRecordedAddresses()))
			continue
		}

		nics, err := addressing.BuildNICs(machine.spec, machine.clusterSpec())
		err = cmp.Or(m.checkNeeded(machine), endpoints[machine.olvmCluster], err)
		if err == nil {
			_, err = machine.allocateAddresses(nics, held.addressesOn(m.engineOf(&machine)))
		}

		if err != nil {
			out = append(out, Refused{machine, machine.explainError(err, blocker.OfManifests)}.Result())
			continue
		}

		result := resultOf(machine)
		result.Compared = m.Connected

		if from := machine.spec.FromInventory; from != nil {
			result.Text = "A VM of OLVMInventory " + from.InventoryName + "."
			out = append(out, result)

			continue
		}

		vm := machine.spec.VirtualMachine
		cores, sockets, threads := desired.GetTopology(vm)
		result.Text = fmt.Sprintf(
			"A VM of template %s in cluster %s, with %s of memory and %d CPUs, on network %s.",
			desired.TemplateName(machine.spec.VMTemplateName, machine.version),
			machine.spec.OLVMOvirtClusterName, vm.Memory, cores*sockets*threads,
			machine.spec.OLVMNetwork.NetworkName,
		)
		if machine.failureDomain != "" {
			result.Text += " Failure domain " + machine.failureDomain + "."
		}

		out = append(out, result)
	}

	return out
}

// deletedResult returns the result of a deleted or replaced machine.
func deletedResult(machine Machine) *planreport.Result {
	out := resultOf(machine)
	out.Text = "It is replaced: " + machine.Replaced + "."

	if machine.Destroyed != "" {
		out.Text = "It is destroyed: " + machine.Destroyed + out.LostDisks() + "."
	}

	return out
}

// Result returns the result of a refused machine.
func (r Refused) Result() *planreport.Result {
	out := resultOf(r.Machine)
	out.Refused = r.Err.Error()

	return out
}

// PlanAll renders machines, and runs a real Terraform plan for each machine that is not refused. It also compares the
// needs of new VMs with the capacities of their engines. It writes a line for each plan to progress. The error reports
// an unavailable engine, a missing executor or an ended context.
func PlanAll(
	ctx context.Context, m *Manifests, machines []Machine, credentials Credentials, progress io.Writer,
) ([]*planreport.Result, []planreport.Capacity, error) {
	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	local, err := localroot.NewRunner(ctx, sessions)
	if err != nil {
		return nil, nil, err
	}

	defer func() { _ = local.Close() }()

	rendered, refused, err := Render(ctx, m, machines, credentials, sessions)
	if err != nil {
		return nil, nil, err
	}

	out := make([]*planreport.Result, 0, len(machines))
	for _, machine := range refused {
		out = append(out, machine.Result())
	}

	planned, err := planGroups(ctx, local, groupAlike(rendered), progress)
	if err != nil {
		return nil, nil, err
	}

	var added []Rendered

	for _, machine := range rendered {
		result := planned[machine.key()]
		if out = append(out, result); result.AddsVM() {
			added = append(added, machine)
		}
	}

	capacities, err := CompareCapacities(ctx, m, added, credentials, sessions)
	if err != nil {
		_, _ = fmt.Fprintf(progress, "cannot determine the free capacity of the engine: %v\n", err)
	}

	return out, capacities, nil
}

// planGroups plans one machine of each group in parallel on all processors, and returns the results of all machines.
func planGroups(
	ctx context.Context, local *localroot.Runner, groups []alike, progress io.Writer,
) (map[types.NamespacedName]*planreport.Result, error) {
	out := map[types.NamespacedName]*planreport.Result{}
	begun := 0

	var mu sync.Mutex // protects out, begun and progress
	running, inner := errgroup.WithContext(ctx)
	running.SetLimit(runtime.GOMAXPROCS(0))

	for _, group := range groups {
		running.Go(func() error {
			mu.Lock()
			begun++
			_, _ = fmt.Fprintf(progress, "planning %s (%d of %d)\n", group, begun, len(groups))
			mu.Unlock()

			results := group.planGroup(inner, local)

			mu.Lock()
			defer mu.Unlock()

			for i, result := range results {
				out[group[i].key()] = result
			}

			return inner.Err()
		})
	}

	if err := running.Wait(); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}

	return out, nil
}

// RunPlan runs a real Terraform plan for a machine, in a temporary folder below scratch. It removes this folder
// afterwards.
func RunPlan(
	ctx context.Context, executor *terraform.Executor, machine Rendered, scratch string,
) (*planreport.Result, error) {
	if machine.Destroyed != "" || machine.Replaced != "" {
		return deletedResult(machine.Machine), nil
	}

	// Do not use the machine's name in the path: the author of the manifests must not choose the folder to remove.
	dir, err := os.MkdirTemp(scratch, "machine-")
	if err != nil {
		return nil, fmt.Errorf("failed to create a folder for the plan: %w", err)
	}

	defer func() { _ = os.RemoveAll(dir) }()

	plan, err := executor.Plan(ctx, terraform.Request{
		Configuration: machine.Configuration,
		Dir:           dir,
		Secrets:       machine.Secrets,
		State:         machine.State,
	})
	if err != nil {
		return nil, fmt.Errorf("machine %s/%s: %w", machine.Namespace, machine.Name, err)
	}

	planreport.MaskSensitive(plan.JSON)

	result := resultOf(machine.Machine)
	result.Text, result.Plan, result.Outside = planreport.MakeReadable(
		plan.Text, machine.nameOf,
	), plan.JSON, plan.Outside

	for _, change := range plan.Changes {
		// Without a state, the plan imports existing objects into a temporary state. Only a state records how to stop a
		// VM, so an update of an imported start changes nothing in the engine.
		imported := machine.State == nil &&
			(change.Action == "import" || change.Type == "ovirt_vm_start" && change.Action == "update")
		if !imported {
			result.Changes = append(result.Changes, change)
		}
	}

	applyRefusals(result, machine.Machine)

	return result, nil
}
