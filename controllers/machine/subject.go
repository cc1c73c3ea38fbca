package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// machineSubject is the VM of one machine, with its network interfaces, disks and memberships in affinity groups.
type machineSubject struct {
	client  client.Client
	passes  *pass.Tracker
	runs    *workspace.RunQueue
	key     workspace.Key
	owner   *infrav1.OLVMMachine
	session *engine.Client
	config  engine.Config
	// dataCenter is the name of the data center. vmID is the ID of the VM, or "". vmIDs are the VM IDs in the object,
	// its state and its claim.
	dataCenter string
	vmID       engine.ID
	vmIDs      []engine.ID

	// built is the desired configuration, and digest is its digest. bootstrap is the source of its user data. They are
	// set only for a run to apply the configuration.
	built     *desired.Built
	digest    string
	bootstrap []byte
	// renew extends the validity of the pointer to the user data by its full lifetime. It is nil if the VM needs no
	// pointer.
	renew func(ctx context.Context) error
}

// newSubject copies the inputs of a run from the scope.
func (r *Reconciler) newSubject(scope *machineScope) *machineSubject {
	s := &machineSubject{
		client:     r.Client,
		passes:     &r.passes,
		runs:       r.Runs,
		key:        scope.workspace.Key(),
		owner:      scope.olvmMachine.DeepCopy(),
		session:    scope.engine.session,
		config:     scope.engine.config,
		dataCenter: scope.olvmCluster.Spec.OLVMDatacenterName,
		vmID:       scope.vmID(),
		vmIDs:      scope.vmIDs(),
		built:      scope.desired.built,
		digest:     scope.desired.digest,
	}
	if scope.bootstrap != nil {
		s.bootstrap = scope.bootstrap.Data
	}

	if scope.offered {
		machine := client.ObjectKeyFromObject(scope.olvmMachine)
		s.renew = func(ctx context.Context) error { return r.Delivery.RenewPointer(ctx, machine) }
	}

	return s
}

// Render renders the machine. Until a run succeeds, it looks for resources of an interrupted run and adopts them. The
// files are rendered only when the run starts, because a thousand jobs may wait.
func (s *machineSubject) Render(ctx context.Context, state *tfstate.State) (workspace.Configuration, error) {
	// Check this again, because the run may have waited since the last check.
	ids := uniqueIDs(append(s.vmIDs, engine.ID(state.VMID())))
	if err := checkVMsOwned(ctx, s.session, ownermark.NewOwner(s.owner), ids); err != nil {
		return workspace.Configuration{}, err
	}

	if s.renew != nil {
		if err := s.renew(ctx); err != nil {
			return workspace.Configuration{}, err
		}
	}

	hadVM := s.owner.Spec.ProviderID != ""
	out := workspace.Configuration{
		Owner:   ownermark.NewOwner(s.owner).Comment(),
		Secrets: []string{s.config.Password, s.built.Machine.UserData},
		Names:   []string{s.built.Machine.Name},
		Fresh:   state == nil && !hadVM,
		Guard:   guardLiveMachine(hadVM || state.VMID() != "", state.IsRevertedBy(s.digest)),
		Applied: s.recordVM,
		Keeps:   isVMAddress,
	}
	if s.bootstrap != nil {
		out.Secrets = append(out.Secrets, string(s.bootstrap))
	}

	if state.IsRevertedBy(s.digest) {
		out.Prepare = func(ctx context.Context) error { return s.detachUnwanted(ctx, state) }
	}

	var found *desired.Existing
	var err error
	if !state.IsComplete() {
		if found, err = s.findExisting(ctx, state); err != nil {
			return workspace.Configuration{}, err
		}
	}

	out.Adds = func(ctx context.Context) (string, error) { return s.computeAdditions(ctx, state) }
	out.Fresh = out.Fresh && found == nil
	out.Whole = out.Fresh && len(s.owner.Spec.VirtualMachine.DataDisks) == 0
	if out.Configuration, err = s.built.RenderConfiguration(ctx, s.session, found); err != nil {
		return out, err
	}

	if s.owner.Spec.FromInventory != nil && hadVM && state.VMID() == "" {
		out.Configuration, err = s.addClaimImports(ctx, out.Configuration)
	}

	return out, err
}

// isVMAddress reports whether a resource address is the VM's. All other resources are found through the VM.
func isVMAddress(address string) bool {
	return address == render.VMAddress.String() || address == render.AdoptedVMAddress.String()
}

// addClaimImports adds imports for the resources of a claimed VM missing from the state.
func (s *machineSubject) addClaimImports(
	ctx context.Context, configuration render.Configuration,
) (render.Configuration, error) {
	vm, err := s.session.FetchVM(ctx, s.vmID)
	if err != nil {
		return render.Configuration{}, err
	}

	imports := map[render.Address]string{render.AdoptedVMAddress: vm.ID.String()}
	if vm.Status == engine.VMUp || vm.Status.IsStarting() {
		imports[render.StartAddress] = vm.ID.String()
	}

	return configuration.WithImports(imports), nil
}

// findExisting finds the machine's VM in the engine by name, with its resources, or nil. A VM in the state belongs to
// the machine even after a rename.
func (s *machineSubject) findExisting(ctx context.Context, state *tfstate.State) (*desired.Existing, error) {
	if s.owner.Spec.FromInventory != nil { // the claim identifies the VM
		return nil, nil
	}

	found, err := desired.FindExisting(ctx, s.session, s.dataCenter, s.built.Machine.Name, s.owner.Spec)
	if err != nil {
		return nil, err
	}

	found, err = found.FilterOwned(ownermark.NewOwner(s.owner).Comment(), engine.ID(state.VMID()))

	return found.WithState(state), err
}

// guardLiveMachine returns a guard with the rules of desired.FindRefusedAction.
func guardLiveMachine(hadVM, undoes bool) func(terraform.Change) string {
	return func(change terraform.Change) string {
		return desired.FindRefusedAction(change.Action, change.Type, hadVM, undoes)
	}
}

// detachUnwanted detaches the data disks of a reverted change. The state may contain a disk without its attachment.
// Nothing else would detach such a disk before its deletion.
func (s *machineSubject) detachUnwanted(ctx context.Context, state *tfstate.State) error {
	for _, disk := range state.Instances("ovirt_disk") {
		wanted := slices.ContainsFunc(s.owner.Spec.VirtualMachine.DataDisks, func(d infrav1.DataDisk) bool {
			return d.Name == disk.Key
		})
		if wanted || disk.Key == "" || disk.ID == "" {
			continue
		}

		err := s.session.DetachDisk(ctx, engine.ID(state.VMID()), engine.ID(disk.ID))
		if err != nil && !engine.IsNotFound(err) {
			return err
		}
	}

	return nil
}

// wakeDelay is the delay before a new VM wakes its machine. If the run ends within this time, the end of the run wakes
// the machine anyway.
const wakeDelay = 2 * time.Second

// recordVM records the ID of a VM as soon as it exists, even if the executor writes its state only at the end. If
// recording fails, the state or a lookup by name finds the VM later.
func (s *machineSubject) recordVM(ctx context.Context, address, id string) {
	if !isVMAddress(address) {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, engineRetry)
	defer cancel()

	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"providerID":%q}}`,
		s.owner.UID, bootstrap.ProviderIDPrefix+id))
	target := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.owner.Namespace, Name: s.owner.Name}}
	others, err := s.passes.WriteBeside(client.ObjectKeyFromObject(s.owner), func() (string, error) {
		err := s.client.Patch(ctx, target, patch)

		return target.ResourceVersion, err
	})

	if others {
		s.runs.WakeObject(s.key)
	} else {
		s.runs.WakeInFlight(s.key, wakeDelay)
	}

	if err != nil {
		ctrl.Log.WithName("olvmmachine").Error(err, "Failed to record the VM of an OLVMMachine",
			"OLVMMachine", client.ObjectKeyFromObject(s.owner), "vm", id)
	}
}

// Outdated compares the specs. It ignores the provider ID, because the controller itself writes it.
func (s *machineSubject) Outdated(current client.Object) bool {
	machine, ok := current.(*infrav1.OLVMMachine)
	if !ok {
		return true
	}

	rendered := s.owner.Spec
	rendered.ProviderID = machine.Spec.ProviderID

	return !equality.Semantic.DeepEqual(rendered, machine.Spec)
}

// RenderDestroy renders a configuration without resources, so the run destroys everything in the state. It checks the
// ownership of the VMs again, because the run may have waited.
func (s *machineSubject) RenderDestroy(ctx context.Context) (workspace.Configuration, error) {
	if err := checkVMsOwned(ctx, s.session, ownermark.NewOwner(s.owner), s.vmIDs); err != nil {
		return workspace.Configuration{}, err
	}

	kind := render.OwnVM
	if s.owner.Spec.FromInventory != nil {
		kind = render.ClaimedVM
	}

	configuration, err := render.DestroyConfiguration(connection.RenderEngine(s.session, s.config), kind)

	return workspace.Configuration{
		Configuration: configuration,
		Owner:         ownermark.NewOwner(s.owner).Comment(),
		Secrets:       []string{s.config.Password},
	}, err
}

// Unblock removes the VM's snapshots, so that its data disks can be detached. Deleting the VM would delete the
// snapshots anyway. The failed run has already stopped the VM.
func (s *machineSubject) Unblock(ctx context.Context, err error) (bool, error) {
	return desired.RemoveBlockingSnapshots(ctx, s.session, s.vmID, err)
}

// RemoveOrphans deletes data disks missing from the state. If the machine is being deleted, it also deletes a VM
// missing from the state.
func (s *machineSubject) RemoveOrphans(
	ctx context.Context, operation terraform.Operation, before *tfstate.State, load workspace.LoadFunc,
) error {
	if operation == terraform.Apply && before.IsComplete() { // no earlier run was interrupted
		return nil
	}

	if s.owner.Spec.FromInventory != nil {
		if operation == terraform.Destroy && before.Empty() {
			return cleanClaimedVM(ctx, s.session, s.vmID, ownermark.NewOwner(s.owner))
		}

		return nil
	}

	left := desired.Orphan{
		ID:         s.vmID,
		DataCenter: s.dataCenter,
		Name:       s.vmName(),
		Comment:    ownermark.NewOwner(s.owner).Comment(),
		Free:       s.checkOwned,
		DataDisks:  s.owner.Spec.VirtualMachine.DataDisks,

		Interrupted: before.WasApplied() && !before.IsComplete(),
		Undoes:      operation == terraform.Apply && before.IsRevertedBy(s.digest),
	}
	if operation == terraform.Destroy && before.Empty() {
		if err := left.Remove(ctx, s.session); err != nil {
			return err
		}
	}

	if err := left.RemoveDisks(ctx, s.session, load); err != nil || !left.Undoes || s.built == nil {
		return err
	}

	state, err := load(ctx)
	if err != nil {
		return err
	}

	return desired.Undo{
		VM:      engine.ID(state.VMID()),
		Cluster: engine.ID(s.built.Machine.ClusterID),
		Added:   s.parseAdded(before),
		Wanted:  desired.NewAdditions(s.owner.Spec, s.built.Machine),
		State:   state,
	}.RemoveAdditions(ctx, s.session)
}

// computeAdditions returns the additions of this run to the VM, and those of earlier runs of the same change. The
// result also lists the parts that the VM already had under the same names. These do not belong to the change.
func (s *machineSubject) computeAdditions(ctx context.Context, state *tfstate.State) (string, error) {
	known, all := s.parseAdded(state), desired.NewAdditions(s.owner.Spec, s.built.Machine)

	others, err := all.Without(known).ListOnVM(ctx, s.session, engine.ID(state.VMID()),
		engine.ID(s.built.Machine.ClusterID))
	if err != nil {
		return "", err
	}

	all = all.UnionWith(known)
	all.Others = append(all.Others, others...)

	return all.EncodeJSON()
}

// parseAdded returns the possible additions by earlier runs of an unfinished change.
func (s *machineSubject) parseAdded(state *tfstate.State) desired.Additions {
	if state == nil || state.ChangingFrom == "" {
		return desired.Additions{}
	}

	return desired.ParseAdditions(state.ChangeAdds)
}

// checkOwned returns an error if the VM is not the machine's.
func (s *machineSubject) checkOwned(_ context.Context, vm *engine.VM) error {
	if owner := ownermark.NewOwner(s.owner); !isOwned(owner, vm) {
		return newNotOwnedError(owner, vm.ID)
	}

	return nil
}

// vmName returns the name of the VM, as recorded before the first run.
func (s *machineSubject) vmName() string {
	return s.owner.Annotations[infrav1.CreateRequestedAnnotation]
}
