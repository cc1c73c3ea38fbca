package machine

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// running returns a bench with a machine whose spec a run has applied.
func running(t *testing.T, vm ovirtsim.VM, change func(*objects)) *bench {
	t.Helper()
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		if change != nil {
			change(o)
		}
	}, vm)
	b.store(stateOf(5, "ovirt_vm="+vmID), "unknown")
	b.executor.run = saves(stateOf(6, "ovirt_vm="+vmID))
	b.pass() // applies it, because the digest was unknown before
	b.awaitRun()
	b.pass()
	check.Equal(t, "applied", condition(b.stored(), infrav1.InfrastructureAppliedCondition),
		"True/"+infrav1.AppliedReason)
	b.executor.requests = nil
	b.events()

	return b
}

// patch edits the spec of the machine m.
func (b *bench) patch(apply func(*infrav1.OLVMMachineSpec)) {
	b.t.Helper()
	change(b, &infrav1.OLVMMachine{ObjectMeta: named("m")}, func(m *infrav1.OLVMMachine) { apply(&m.Spec) })
}

// TestASteadyMachineCostsNothing verifies that passes over an unchanged machine write nothing and run nothing.
func TestASteadyMachineCostsNothing(t *testing.T) {
	b := running(t, ownVM(true), nil)
	b.pass()
	before, changes := b.stored(), len(b.changes())

	for range 3 {
		b.pass()
	}

	check.Equal(t, "the object", b.stored(), before)
	check.Equal(t, "ready", condition(before, infrav1.ReadyCondition), "True/Ready")
	check.Length(t, "changes of the engine", b.changes(), changes)
	check.Equal(t, "a run", b.ran(), false)
	check.Length(t, "events", b.events(), 0)
}

// TestAVMThatVanishedIsReportedAndNeverMadeAgain deletes the VM of a machine in the engine.
func TestAVMThatVanishedIsReportedAndNeverMadeAgain(t *testing.T) {
	b := running(t, ownVM(false), nil)
	check.Error(t, b.session.DeleteVM(t.Context(), vmID), "")
	b.eventually("the VM is gone", func() bool { return len(b.sim.ListVMs()) == 0 })
	b.r.Engines.Sessions = &engine.Sessions{} // drop cached answers
	changes := len(b.changes())
	lost := drifts(t, workspace.DriftedVM)

	b.patch(func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Description = "another" }) // would need a run
	b.pass()
	m := b.stored()
	check.Equal(t, "running", condition(m, infrav1.VirtualMachineRunningCondition),
		"False/"+infrav1.VirtualMachineNotFoundReason)
	check.Contains(t, "the message", message(m, infrav1.VirtualMachineRunningCondition),
		"VM "+vmID+" no longer exists in the engine, and the controller does not recreate it")

	// Cluster API copies this to the Machine, and a MachineHealthCheck can act on it.
	check.Equal(t, "ready", condition(m, infrav1.ReadyCondition), "False/"+infrav1.VirtualMachineNotFoundReason)
	check.Contains(t, "the message", message(m, infrav1.ReadyCondition), infrav1.VirtualMachineRunningCondition)
	check.Equal(t, "provisioned", ptr.Deref(m.Status.Initialization.Provisioned, false), true)
	check.Equal(t, "it is counted", drifts(t, workspace.DriftedVM)-lost, 1)
	check.Equal(t, "a run", b.ran(), false)
	check.Length(t, "changes of the engine", b.changes(), changes)

	b.executor.run = saves(stateOf(7))
	b.delete()
	b.pass()
	b.awaitRun()
	b.pass()
	check.Equal(t, "it is gone", b.stored() == nil, true)
	check.Length(t, "states", b.states(), 0)
}

// TestWhatWaitsForARestartIsTold changes settings of a running VM in the engine.
func TestWhatWaitsForARestartIsTold(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	b.store(stateOf(5, "ovirt_vm="+vmID), "digest")
	_, err := b.session.UpdateVM(t.Context(), vmID, &engine.VM{
		Console: &engine.Console{Enabled: true}, MemoryPolicy: &engine.MemoryPolicy{Ballooning: ptr.To(false)},
	})
	check.Error(t, err, "")
	b.pass()
	m := b.stored()
	check.Equal(t, "running", condition(m, infrav1.VirtualMachineRunningCondition),
		"True/"+infrav1.VirtualMachineRunningReason)
	check.Equal(t, "the message", message(m, infrav1.VirtualMachineRunningCondition),
		"waits for a restart: memory ballooning, serial console")
}

// TestAGuestThatReportsNoAddressIsNotProvisioned covers a network without a DHCP server.
func TestAGuestThatReportsNoAddressIsNotProvisioned(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.olvmMachine.Status.Initialization.Provisioned = nil
		delete(o.olvmMachine.Annotations, infrav1.AddressesAnnotation)
		o.olvmMachine.Spec.VirtualMachine.Network = infrav1.GuestNetwork{
			Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}},
		}
	}, ownVM(true))
	b.store(stateOf(5, "ovirt_vm="+vmID), "digest")
	result := b.pass()
	m := b.stored()
	check.Equal(t, "running", condition(m, infrav1.VirtualMachineRunningCondition),
		"True/"+infrav1.VirtualMachineRunningReason)
	check.Equal(t, "addresses", condition(m, infrav1.AddressesAllocatedCondition),
		"False/"+infrav1.WaitingForGuestAddressesReason)
	check.Contains(t, "the message", message(m, infrav1.AddressesAllocatedCondition), "qemu-guest-agent")
	check.Equal(t, "provisioned", ptr.Deref(m.Status.Initialization.Provisioned, false), false)
	check.Length(t, "status.addresses", m.Status.Addresses, 0)
	check.Equal(t, "it is looked at again soon", result.RequeueAfter, bootingInterval)
}

// TestAPausedMachineGoesOn verifies that a deletion waits for the end of a pause.
func TestAPausedMachineGoesOn(t *testing.T) {
	b := running(t, ownVM(true), nil)
	m := &infrav1.OLVMMachine{ObjectMeta: named("m")}
	change(b, m, func(m *infrav1.OLVMMachine) { m.Annotations[clusterv1.PausedAnnotation] = "" })
	b.delete()
	before := len(b.changes())
	b.pass()
	check.Equal(t, "paused", condition(b.stored(), clusterv1.PausedCondition), "True/"+clusterv1.PausedReason)
	check.Equal(t, "a run", b.ran(), false)
	check.Length(t, "changes of the engine", b.changes(), before)

	b.executor.run = saves(stateOf(7))
	change(b, m, func(m *infrav1.OLVMMachine) { delete(m.Annotations, clusterv1.PausedAnnotation) })
	b.pass()
	b.awaitRun()
	b.pass()
	check.Equal(t, "it is gone", b.stored() == nil, true)
}

// TestDeletionWithoutTheCluster deletes a machine after somebody removed its Cluster and Machine by force.
func TestDeletionWithoutTheCluster(t *testing.T) {
	b := running(t, ownVM(true), nil)
	check.Error(t, b.api.Delete(t.Context(), newObjects().machine), "")
	check.Error(t, b.api.Delete(t.Context(), newObjects().cluster), "")
	b.executor.run = saves(stateOf(7))
	b.delete()
	b.pass()
	b.awaitRun()
	check.Length(t, "runs", b.executor.seen(), 1)
	check.Equal(t, "it destroys", b.executor.seen()[0].Destroy, true)
	b.pass()
	check.Equal(t, "it is gone", b.stored() == nil, true)
}

// TestDeletionWithoutTheOLVMCluster verifies that a deletion waits until the engine is known again.
func TestDeletionWithoutTheOLVMCluster(t *testing.T) {
	b := running(t, ownVM(true), nil)
	lost := &infrav1.OLVMCluster{}
	check.Error(t, b.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "demo"}, lost), "")
	check.Error(t, b.api.Delete(t.Context(), lost), "")
	b.delete()
	check.Equal(t, "when to look again", b.pass().RequeueAfter, steadyInterval)
	m := b.stored()
	check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+infrav1.DeletionBlockedReason)

	for _, text := range []string{"OLVMCluster", infrav1.MachineFinalizer, vmID} {
		check.Contains(t, "the message", message(m, infrav1.DeletingCondition), text)
	}

	check.Equal(t, "a run", b.ran(), false)

	lost.ResourceVersion = ""
	check.Error(t, b.api.Create(t.Context(), lost), "")
	b.executor.run = saves(stateOf(7))
	b.pass()
	b.awaitRun()
	b.pass()
	check.Equal(t, "it is gone", b.stored() == nil, true)
}

// TestAVMThatIsProtectedAgainstDeletionKeepsRunning verifies that a deletion waits until the protection is off.
func TestAVMThatIsProtectedAgainstDeletionKeepsRunning(t *testing.T) {
	vm := ownVM(true)
	vm.DeleteProtected = true
	b := running(t, vm, nil)
	b.delete()
	b.pass()
	check.Equal(t, "deleting", condition(b.stored(), infrav1.DeletingCondition), "True/"+infrav1.DeletionBlockedReason)
	check.Contains(t, "events", strings.Join(b.events(), "\n"),
		"Warning "+infrav1.DeletionBlockedReason+" VM m ("+vmID+") is protected against deletion")
	check.Equal(t, "power of the VM", b.vm(vmID).Status, engine.VMUp)

	_, err := b.session.UpdateVM(t.Context(), vmID, &engine.VM{DeleteProtected: ptr.To(false)})
	check.Error(t, err, "")
	b.executor.run = saves(stateOf(7))
	b.pass()
	b.awaitRun()
	b.pass()
	check.Equal(t, "it is gone", b.stored() == nil, true)
}

// TestAHealthyDeletionWarnsNobody verifies that a deletion without problems records no warnings.
func TestAHealthyDeletionWarnsNobody(t *testing.T) {
	b := running(t, ownVM(true), nil)
	b.executor.run = func(ctx context.Context, request terraform.Request) error {
		if err := b.session.StopVM(ctx, vmID, true); err != nil {
			return err
		}

		return request.SaveState(ctx, stateOf(7), true)
	}
	b.delete()
	b.pass()
	b.pass() // during the run
	b.awaitRun()
	b.pass()
	check.Equal(t, "it is gone", b.stored() == nil, true)

	events := strings.Join(b.events(), "\n")
	check.Contains(t, "events", events, "Normal "+infrav1.DeletingReason+" The VM is being deleted")
	check.Lacks(t, "events", events, "Warning")
}

// TestADestroyThatFailsSaysWhy covers a VM that the engine refuses to delete.
func TestADestroyThatFailsSaysWhy(t *testing.T) {
	b := running(t, ownVM(true), nil)
	b.executor.run = func(context.Context, terraform.Request) error {
		return errors.New("[Cannot remove VM. It is being exported.]")
	}
	b.delete()
	b.pass()
	b.awaitRun()
	result := b.pass()
	m := b.stored()
	check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+infrav1.DeletionFailedReason)
	check.Contains(t, "the message", message(m, infrav1.DeletingCondition), "It is being exported")
	check.Contains(t, "the message", message(m, infrav1.DeletingCondition), "the controller retries after a pause")
	check.Equal(t, "it is tried again", result.RequeueAfter > 0, true)
	check.Equal(t, "finalizers", m.Finalizers, []string{infrav1.MachineFinalizer})
}

// TestAChangeThatWasRefused covers a change whose plan would replace a live machine.
func TestAChangeThatWasRefused(t *testing.T) {
	b := running(t, ownVM(true), nil)
	b.executor.refusal = &terraform.GuardError{}
	b.patch(func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.CPU.Topology.Cores = 8 })
	b.pass()
	b.awaitRun()
	b.pass()
	m := b.stored()
	check.Equal(t, "up to date", condition(m, infrav1.UpToDateCondition), "False/"+infrav1.ReplaceRefusedReason)
	check.Equal(t, "applied", condition(m, infrav1.InfrastructureAppliedCondition), "True/"+infrav1.AppliedReason)
	check.Equal(t, "ready", condition(m, infrav1.ReadyCondition), "True/"+clusterv1.ReadyReason)
	check.Equal(t, "running", condition(m, infrav1.VirtualMachineRunningCondition),
		"True/"+infrav1.VirtualMachineRunningReason)
	check.Equal(t, "creation", m.Status.OLVM.VirtualMachine.CreationStatus, "Created")

	// Without the change, there is nothing to report.
	b.patch(func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.CPU.Topology.Cores = 0 })
	b.pass()
	check.Equal(t, "up to date", condition(b.stored(), infrav1.UpToDateCondition), "True/"+infrav1.UpToDateReason)
}

// TestAChangeThatFailedHalfWayIsUndone reverts a change after its run failed. Only another run can find the differences
// to undo.
func TestAChangeThatFailedHalfWayIsUndone(t *testing.T) {
	b := running(t, ownVM(true), nil)
	b.executor.run = func(ctx context.Context, request terraform.Request) error {
		half := stateOf(7, "ovirt_vm="+vmID, "ovirt_disk=d", "ovirt_disk_attachment=a")
		return errors.Join(request.SaveState(ctx, half, false), errors.New("the host has no memory"))
	}
	b.patch(func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Memory = "8GB" })
	b.pass()
	b.awaitRun()
	b.pass()
	check.Equal(t, "up to date", condition(b.stored(), infrav1.UpToDateCondition),
		"False/"+infrav1.ApplyFailedReason)

	b.executor.requests = nil
	b.executor.run = saves(stateOf(8, "ovirt_vm="+vmID))
	b.patch(func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Memory = "4GB" })
	b.pass()
	check.Equal(t, "up to date while it is undone", condition(b.stored(), infrav1.UpToDateCondition),
		"False/"+infrav1.ApplyingReason)
	b.awaitRun()
	requests := b.executor.seen()
	check.Length(t, "runs", requests, 1)

	for _, change := range []terraform.Change{
		{Type: "ovirt_disk", Action: "delete"}, {Type: "ovirt_disk_attachment", Action: "delete"},
		{Type: "ovirt_vm_mediated_device", Action: "delete"}, {Type: "ovirt_nic", Action: "delete"},
	} {
		check.Equal(t, "a "+change.Type+" of the change may go", requests[0].Guard(change), "")
	}

	for _, change := range []terraform.Change{
		{Type: "ovirt_vm", Action: "delete"}, {Type: "ovirt_vm", Action: "replace"},
		{Type: "ovirt_vm_start", Action: "delete"}, {Type: "ovirt_disk", Action: "replace"},
	} {
		check.Equal(t, change.Action+" of "+change.Type, requests[0].Guard(change), change.Action)
	}

	b.pass()
	check.Equal(t, "up to date", condition(b.stored(), infrav1.UpToDateCondition),
		"True/"+infrav1.UpToDateReason)
}

// TestAVMThatIsSeenIsNotReleased covers a run that saves an empty state while the engine still has the VM. Addresses
// and state stay, and another run deletes the VM.
func TestAVMThatIsSeenIsNotReleased(t *testing.T) {
	b := running(t, ownVM(true), nil)
	b.executor.destroyed = nil
	b.executor.run = saves(stateOf(7))
	b.delete()
	b.pass()
	b.awaitRun()
	b.pass()
	check.Equal(t, "it is there", b.stored() != nil, true)
	check.Equal(t, "its addresses are recorded", b.stored().Annotations[infrav1.AddressesAnnotation] != "", true)
	b.awaitRun() // finds no state, and deletes the VM by its mark
	b.pass()
	check.Length(t, "VMs", b.sim.ListVMs(), 0)
	check.Equal(t, "it is gone", b.stored() == nil, true)
}

// repack edits the state in a Secret.
func repack(t *testing.T, secret *corev1.Secret, apply func(state map[string]any)) {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	check.Error(t, err, "")
	raw, err := io.ReadAll(reader)
	check.Error(t, err, "")
	state := map[string]any{}
	check.Error(t, json.Unmarshal(raw, &state), "")
	apply(state)
	raw, err = json.Marshal(state)
	check.Error(t, err, "")
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err = writer.Write(raw)
	check.Error(t, errors.Join(err, writer.Close()), "")
	secret.Data["tfstate"] = packed.Bytes()
}

// TestAStateThatCannotBeUsedIsNamedAndKept damages the state of a running machine. The condition names the remedy, and
// the remedy works. Until then, nothing changes the VM or the state.
func TestAStateThatCannotBeUsedIsNamedAndKept(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*testing.T, *corev1.Secret)
		says  string
	}{
		"it is not gzip": {func(_ *testing.T, s *corev1.Secret) { s.Data["tfstate"] = []byte("garbage") }, "not gzip"},
		"it is truncated": {
			func(_ *testing.T, s *corev1.Secret) { s.Data["tfstate"] = s.Data["tfstate"][:40] }, "truncated",
		},
		"it is not a state": {func(t *testing.T, s *corev1.Secret) {
			t.Helper()
			repack(t, s, func(state map[string]any) { delete(state, "lineage") })
		}, "no lineage"},
		"it is of a later format": {func(t *testing.T, s *corev1.Secret) {
			t.Helper()
			repack(t, s, func(state map[string]any) { state["version"] = 5 })
		}, "version 5"},
		"it was rolled back": {func(t *testing.T, s *corev1.Secret) {
			t.Helper()
			repack(t, s, func(state map[string]any) { state["serial"], state["resources"] = 1, []any{} })
		}, "somebody restored an older state"},
	} {
		t.Run(name, func(t *testing.T) {
			b := running(t, ownVM(true), nil)
			changes := len(b.changes())
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: b.states()[0]}}
			change(b, secret, func(s *corev1.Secret) { tt.spoil(t, s) })
			spoiled := bytes.Clone(secret.Data["tfstate"])

			b.patch(func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Description = "another" }) // would need a run
			b.pass()
			m := b.stored()
			check.Equal(t, "applied", condition(m, infrav1.InfrastructureAppliedCondition),
				"False/"+infrav1.StateInvalidReason)
			check.Contains(t, "the message", message(m, infrav1.InfrastructureAppliedCondition), tt.says)
			check.Contains(t, "the message", message(m, infrav1.InfrastructureAppliedCondition), "delete it")
			check.Equal(t, "a run", b.ran(), false)
			check.Length(t, "changes of the engine", b.changes(), changes)
			check.Error(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret), "")
			check.Equal(t, "the state is kept", bytes.Equal(secret.Data["tfstate"], spoiled), true)

			// The remedy of the message: the VM is adopted unchanged.
			change(b, secret, func(s *corev1.Secret) { controllerutil.RemoveFinalizer(s, tfstate.Finalizer) })
			check.Error(t, b.api.Delete(t.Context(), secret), "")
			b.pass()
			b.awaitRun()
			check.Length(t, "runs", b.executor.seen(), 1)
			check.Contains(t, "what is taken over", string(b.executor.seen()[0].Files[render.ImportsFile]), vmID)
			b.pass()
			check.Equal(t, "applied", condition(b.stored(), infrav1.InfrastructureAppliedCondition),
				"True/"+infrav1.AppliedReason)
		})
	}
}

// TestADeletionWithAStateThatCannotBeUsed verifies that a deletion waits until somebody deletes the state.
func TestADeletionWithAStateThatCannotBeUsed(t *testing.T) {
	b := running(t, ownVM(true), nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: b.states()[0]}}
	change(b, secret, func(s *corev1.Secret) { s.Data["tfstate"] = []byte("garbage") })
	b.delete()
	b.pass()
	m := b.stored()
	check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+infrav1.DeletionBlockedReason)
	check.Contains(t, "the message", message(m, infrav1.DeletingCondition), "repair that Secret, or delete it")
	check.Equal(t, "a run", b.ran(), false)

	check.Error(t, b.api.Delete(t.Context(), secret), "")
	b.pass()
	check.Equal(t, "deleting", condition(b.stored(), infrav1.DeletingCondition), "True/"+infrav1.DeletingReason)
	b.eventually("a run", b.ran)
	check.Length(t, "states", b.states(), 0)
}

// TestAForeignVMOfOurNameIsNotTouched covers a VM older than the machine, with the same name.
func TestAForeignVMOfOurNameIsNotTouched(t *testing.T) {
	b := withEngine(t, nil, ovirtsim.VM{Name: "m", ID: otherVMID, Comment: "the payroll database", Up: true})
	b.pass()
	b.awaitRun()
	b.pass()
	m := b.stored()
	check.Equal(
		t, "applied", condition(m, infrav1.InfrastructureAppliedCondition), "False/"+infrav1.VMNameConflictReason,
	)
	check.Contains(t, "the message", message(m, infrav1.InfrastructureAppliedCondition), "the payroll database")
	check.Contains(t, "the message", message(m, infrav1.InfrastructureAppliedCondition), otherVMID)
	check.Equal(t, "provider ID", m.Spec.ProviderID, "")
	check.Length(t, "runs of Terraform", b.executor.seen(), 0)
	check.Length(t, "changes of the engine", b.changes(), 0)
}
