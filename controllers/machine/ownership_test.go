package machine

import (
	"errors"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// foreignVM returns a running VM of someone else.
func foreignVM(comment string) ovirtsim.VM {
	return ovirtsim.VM{Name: "payroll", ID: vmID, Comment: comment, Up: true}
}

// TestAVMOfOthersIsLeftAlone writes the ID of someone else's VM into the machine, its claim, or its state, as an author
// of machines could. The controller must not change anything in the engine, and must not reveal anything about the VM.
func TestAVMOfOthersIsLeftAlone(t *testing.T) {
	join := func(o *objects) { o.machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node"} }

	for name, test := range map[string]struct {
		change func(*objects)
		state  []byte
		vm     ovirtsim.VM
	}{
		"in the provider ID of a machine whose VM would be made": {
			change: func(o *objects) { o.olvmMachine.Spec.ProviderID = providerID },
			vm:     foreignVM("the payroll database"),
		},
		"in that of a node, from which user data would be removed": {
			change: func(o *objects) { o.olvmMachine.Spec.ProviderID = providerID; join(o) },
			vm:     foreignVM("capolvm owner=prod/db uid=1"),
		},
		"in that of a machine of a pool": {
			change: func(o *objects) { o.pooled(); o.olvmMachine.Spec.ProviderID = providerID },
			vm:     foreignVM(""),
		},
		"in a claim that says of itself that the engine has it": {
			change: func(o *objects) { o.pooled(); o.more = append(o.more, claimOf("vm-a", "m", "c1/m")) },
			vm:     foreignVM("capolvm owner=ns/other uid=1"),
		},
		"in the state": {
			state: stateOf(1, "ovirt_vm="+vmID), vm: foreignVM("capolvm owner=prod/m uid=1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, test.change, test.vm)
			if test.state != nil {
				b.store(test.state, "digest")
			}

			for range 3 {
				b.pass()
			}

			m := b.stored()
			check.Equal(
				t, "applied", condition(m, infrav1.InfrastructureAppliedCondition), "False/"+infrav1.VMNotOwnedReason,
			)
			check.Contains(t, "the remedy", message(m, infrav1.InfrastructureAppliedCondition),
				`replace its comment in the engine with exactly "`+ownComment+`"`)
			check.Equal(
				t, "running", condition(m, infrav1.VirtualMachineRunningCondition), "Unknown/"+infrav1.VMNotOwnedReason,
			)
			check.Equal(t, "a run", b.ran(), false)
			check.Length(t, "changes of the engine", b.changes(), 0)

			if m.Status.OLVM != nil {
				check.Equal(t, "what is told of the VM", m.Status.OLVM.VirtualMachine.Status, "")
				check.Lacks(t, "its name", m.Status.OLVM.VirtualMachine.VMName, "payroll")
			}
		})
	}
}

// TestAMachineNamesOneVM covers a provider ID and a state in conflict: someone edited one of them.
func TestAMachineNamesOneVM(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true), ovirtsim.VM{Name: "payroll", ID: otherVMID, Up: true})
	b.store(stateOf(1, "ovirt_vm="+otherVMID), "digest")
	b.pass()

	m := b.stored()
	check.Equal(t, "applied", condition(m, infrav1.InfrastructureAppliedCondition), "False/"+infrav1.VMNotOwnedReason)
	check.Contains(
		t, "the message", message(m, infrav1.InfrastructureAppliedCondition),
		"name different VMs ("+vmID+" and "+otherVMID+")",
	)
	check.Equal(t, "a run", b.ran(), false)

	b.delete()
	b.pass()

	m = b.stored()
	check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+infrav1.DeletionBlockedReason)
	check.Contains(t, "the message", message(m, infrav1.DeletingCondition),
		"VM payroll ("+otherVMID+") does not have the mark of this machine")
	check.Equal(t, "a run", b.ran(), false)
	check.Length(t, "changes of the engine", b.changes(), 0)
}

// TestAMarkIsLookedForAgain uses a cached VM that is older than the mark.
func TestAMarkIsLookedForAgain(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	scope := b.connected()
	scope.vm.current = &engine.VM{ID: vmID}

	check.Error(t, b.r.checkOwnershipForUpdate(t.Context(), scope), "")
	check.Equal(t, "the VM is another's", scope.vm.foreign, nil)
}

// TestARunLooksOnceMore covers a VM that gets another owner while its run is queued.
func TestARunLooksOnceMore(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	subject := b.r.newSubject(b.configured())
	comment := "the payroll database"
	_, err := b.session.UpdateVM(t.Context(), vmID, &engine.VM{Comment: &comment})
	check.Error(t, err, "")

	var blocked *blocker.Error

	_, err = subject.Render(t.Context(), nil)
	check.Equal(t, "the run is refused", errors.As(err, &blocked) && blocked.Reason == infrav1.VMNotOwnedReason, true)
	_, err = subject.RenderDestroy(t.Context())
	check.Equal(
		t, "the destruction is refused", errors.As(err, &blocked) && blocked.Reason == infrav1.VMNotOwnedReason, true,
	)
}
