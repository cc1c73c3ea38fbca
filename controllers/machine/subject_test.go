package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestGuardLiveMachine(t *testing.T) {
	tests := map[string]struct {
		hadVM   bool
		change  terraform.Change
		refused bool
	}{
		"the first creation":            {false, terraform.Change{Type: "ovirt_vm", Action: "create"}, false},
		"a second creation":             {true, terraform.Change{Type: "ovirt_vm", Action: "create"}, true},
		"a NIC that is still missing":   {true, terraform.Change{Type: "ovirt_nic", Action: "create"}, false},
		"an update":                     {true, terraform.Change{Type: "ovirt_vm", Action: "update"}, false},
		"a replacement":                 {true, terraform.Change{Type: "ovirt_vm", Action: "replace"}, true},
		"a restart by a replaced start": {true, terraform.Change{Type: "ovirt_vm_start", Action: "replace"}, true},
		"another affinity group": {true, terraform.Change{
			Type:   "ovirt_vm_affinity_group",
			Action: "replace",
		}, false},
		"leaving an affinity group": {true, terraform.Change{
			Type:   "ovirt_vm_affinity_group",
			Action: "delete",
		}, false},
		"a deletion":  {true, terraform.Change{Type: "ovirt_nic", Action: "delete"}, true},
		"an adoption": {true, terraform.Change{Type: "ovirt_vm", Action: "import"}, false},
	}
	for name, test := range tests {
		if refusal := guardLiveMachine(test.hadVM, false)(test.change); (refusal != "") != test.refused {
			t.Errorf("%s: %q", name, refusal)
		}
	}
}

// withDisk adds a data disk to the machine m.
func withDisk(o *objects) {
	o.olvmMachine.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
}

// TestRender covers the assumptions of a run, and its imports.
func TestRender(t *testing.T) {
	foreign := ovirtsim.VM{Name: "m", ID: vmID, Comment: "the payroll database"}
	pooled := func(o *objects) {
		o.hasVM()
		o.pooled()
		o.more = append(o.more, claimOf("vm-a", "m", "c1/m"))
	}

	for name, tt := range map[string]struct {
		change       func(*objects)
		vm           ovirtsim.VM
		state        *tfstate.State
		fresh, whole bool
		imports      []string // IDs to adopt
		recreates    bool     // the VM may be created
		conflict     bool
		vanishes     bool // the VM vanishes before the run begins
	}{
		"a machine of which nothing exists":                   {fresh: true, whole: true, recreates: true},
		"it asks for a data disk, which may be left of a run": {change: withDisk, fresh: true, recreates: true},
		"its VM was made by a run that was interrupted": {
			vm: ownVM(true), imports: []string{"ovirt_vm.this", "ovirt_vm_start.this"}, recreates: true,
		},
		"another VM has its name": {vm: foreign, conflict: true},
		"its state is lost": {
			change: (*objects).hasVM, vm: ownVM(false), imports: []string{"ovirt_vm.this"},
		},
		"its state and its VM are lost": {change: (*objects).hasVM, vm: ownVM(false), vanishes: true},
		"its first run has failed": {
			vm: ownVM(false), state: parsed(t, "", "ovirt_vm="+vmID), imports: []string{"ovirt_vm.this"},
		},
		"its first run has failed before there was a VM": {state: parsed(t, "", "ovirt_disk=d"), recreates: true},
		"its state has another VM than the one of its name": {
			vm: foreign, state: parsed(t, "", "ovirt_vm="+otherVMID),
		},
		"a machine that was applied": {
			change: (*objects).hasVM, vm: ownVM(true), state: parsed(t, "digest", "ovirt_vm="+vmID),
		},
		"a VM of an inventory": {
			change: func(o *objects) { o.pooled(); o.more = append(o.more, claimOf("vm-a", "m", "c1/m")) },
			vm:     ownVM(false), fresh: true, whole: true, recreates: true,
		},
		"a VM of an inventory whose state is lost": {
			change: pooled, vm: ownVM(true), imports: []string{"ovirt_adopted_vm.this", "ovirt_vm_start.this"},
		},
		"a VM of an inventory that is off, and whose state is lost": {
			change: pooled, vm: ownVM(false), imports: []string{"ovirt_adopted_vm.this"},
		},
		"a VM of an inventory that was applied": {
			change: pooled, vm: ownVM(true), state: parsed(t, "digest", "ovirt_adopted_vm="+vmID),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.vm.Name == "" {
				tt.vm = ovirtsim.VM{Name: "unrelated", ID: otherVMID}
			}

			b := withEngine(t, tt.change, tt.vm)
			subject := b.r.newSubject(b.configured())
			if tt.vanishes {
				check.Error(t, b.session.DeleteVM(t.Context(), vmID), "")
				b.eventually("the VM is gone", func() bool { return len(b.sim.ListVMs()) == 0 })
			}

			out, err := subject.Render(t.Context(), tt.state)
			var field *blocker.Error
			errors.As(err, &field)
			if tt.conflict {
				check.Equal(t, "the reason", reasonOf(field), infrav1.VMNameConflictReason)
				return
			}

			check.Error(t, err, "")
			check.Equal(t, "nothing exists", out.Fresh, tt.fresh)
			check.Equal(t, "nothing is left to remove", out.Whole, tt.whole)
			check.Equal(t, "owner", out.Owner, ownComment)
			check.Equal(t, "names", out.Names, []string{"m"})

			refusal := out.Guard(terraform.Change{Type: "ovirt_vm", Action: "create"})
			check.Equal(t, "its VM may be made", refusal == "", tt.recreates)

			imports := string(out.Files[render.ImportsFile])
			check.Equal(t, "imports", strings.Count(imports, "import {"), len(tt.imports))

			for _, address := range tt.imports {
				check.Contains(t, "imports", imports, address)
			}
		})
	}
}

// TestWhatARunMayNotShow covers the secrets to redact from the output of a run.
func TestWhatARunMayNotShow(t *testing.T) {
	b := withEngine(t, nil)
	scope := b.configured()
	subject := b.r.newSubject(scope)
	out, err := subject.Render(t.Context(), nil)
	check.Error(t, err, "")
	check.Equal(t, "secrets", out.Secrets, []string{
		b.sim.Password(), scope.desired.built.Machine.UserData, "#cloud-config\nwrite_files: []\n",
	})

	out, err = subject.RenderDestroy(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "secrets of a destruction", out.Secrets, []string{b.sim.Password()})
	check.Contains(t, "its provider", string(out.Files[render.ProviderFile]), b.sim.URL())
	check.Equal(t, "what it renders of the machine", len(out.Files[render.MainFile]), 0)

	booted := withEngine(t, (*objects).hasVM, ownVM(true))
	out, err = booted.r.newSubject(booted.configured()).Render(t.Context(), parsed(t, "digest", "ovirt_vm="+vmID))
	check.Error(t, err, "")
	check.Equal(t, "secrets of a machine that has booted", out.Secrets, []string{booted.sim.Password(), ""})
}

// TestRenderOfAnEngineThatDoesNotAnswer verifies that nothing is rendered if the existing VM is unknown.
func TestRenderOfAnEngineThatDoesNotAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*objects)
		path   string
	}{
		"for a VM of that name": {func(*objects) {}, "/api/vms"},
		"for the VM that was claimed": {func(o *objects) {
			o.hasVM()
			o.pooled()
			o.more = append(o.more, claimOf("vm-a", "m", "c1/m"))
		}, "/api/vms/"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, tt.change, ownVM(true))
			subject := b.r.newSubject(b.configured())
			check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: tt.path, Status: 503}), "")
			out, err := subject.Render(t.Context(), nil)
			var unreachable *engine.UnreachableError
			check.Equal(t, "the engine did not answer", errors.As(err, &unreachable), true)
			check.Equal(t, "files", len(out.Files), 0)
		})
	}
}

// TestASubjectIsACopy changes a machine while its run waits.
func TestASubjectIsACopy(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	scope := b.configured()
	subject := b.r.newSubject(scope)
	scope.olvmMachine.Spec.VirtualMachine.Memory = "8GB"
	check.Equal(t, "memory", subject.owner.Spec.VirtualMachine.Memory, "4GB")
	check.Equal(t, "the VM", subject.vmID, vmID)
	check.Equal(t, "data center", subject.dataCenter, "Default")
}

func TestKeepsVM(t *testing.T) {
	for address, want := range map[string]bool{
		"ovirt_vm.this": true, "ovirt_adopted_vm.this": true, "ovirt_nic.this": false, "ovirt_vm_start.this": false,
		"": false,
	} {
		check.Equal(t, address, isVMAddress(address), want)
	}
}

// TestRecordVM verifies that a run records its VM, and no other resource, as the provider ID.
func TestRecordVM(t *testing.T) {
	for name, tt := range map[string]struct {
		address string
		want    string
	}{
		"a VM that is made":       {"ovirt_vm.this", providerID},
		"a VM that is taken over": {"ovirt_adopted_vm.this", providerID},
		"a network interface":     {"ovirt_nic.this", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, nil)
			scope := b.configured()
			b.r.newSubject(scope).recordVM(t.Context(), tt.address, vmID)
			check.Equal(t, "provider ID", b.stored().Spec.ProviderID, tt.want)
			check.Equal(t, "woken at once", b.woken(), false)
		})
	}
}

// TestRecordVMBesideOthers changes the machine while a run records the VM. No event would start a pass for that change.
func TestRecordVMBesideOthers(t *testing.T) {
	b := withEngine(t, nil)
	subject := b.r.newSubject(b.configured())
	b.endPasses()
	b.meanwhile = func() {
		before := b.stored()
		after := before.DeepCopy()
		after.ResourceVersion = "777"
		b.r.passes.ChangedPredicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	subject.recordVM(t.Context(), "ovirt_vm.this", vmID)
	check.Equal(t, "provider ID", b.stored().Spec.ProviderID, providerID)
	check.Equal(t, "woken at once", b.woken(), true)
}

// TestAVMThatCannotBeRecordedIsFoundLater verifies that a refused record does not end the run.
func TestAVMThatCannotBeRecordedIsFoundLater(t *testing.T) {
	b := withEngine(t, nil)
	subject := b.r.newSubject(b.configured())
	b.refuse("patch", &infrav1.OLVMMachine{})
	subject.recordVM(t.Context(), "ovirt_vm.this", vmID)
	check.Equal(t, "provider ID", b.stored().Spec.ProviderID, "")
}

// TestALongRunLooksAtItsVMBeforeItEnds verifies that a run wakes its machine before a long run ends.
func TestALongRunLooksAtItsVMBeforeItEnds(t *testing.T) {
	t.Parallel() // it waits
	b := withEngine(t, nil)
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	b.executor.run = func(ctx context.Context, request terraform.Request) error {
		request.Applied(ctx, "ovirt_vm.this", vmID)
		<-end

		return nil
	}
	b.pass()
	b.awaitRun()
	check.Equal(t, "the run goes on", b.r.Runs.HasRuns(), true)
	check.Equal(t, "provider ID", b.stored().Spec.ProviderID, providerID)
}

// TestOutdated covers changes of a machine with and without effect on a waiting run.
func TestOutdated(t *testing.T) {
	subject := &machineSubject{owner: newMachine("")}

	for name, tt := range map[string]struct {
		change func(*infrav1.OLVMMachine)
		want   bool
	}{
		"nothing":            {func(*infrav1.OLVMMachine) {}, false},
		"its VM is recorded": {func(m *infrav1.OLVMMachine) { m.Spec.ProviderID = providerID }, false},
		"its status":         {func(m *infrav1.OLVMMachine) { m.Status.FailureDomain = "a" }, false},
		"an empty list in place of none": {
			func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Tags = []string{} }, false,
		},
		"more memory": {func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Memory = "8GB" }, true},
	} {
		current := newMachine("")
		tt.change(current)
		check.Equal(t, name, subject.Outdated(current), tt.want)
	}

	check.Equal(t, "an object of another kind", subject.Outdated(&infrav1.OLVMCluster{}), true)
}

// TestUnblock verifies that snapshots are only removed if they cause a failure.
func TestUnblock(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(false))
	subject := b.r.newSubject(b.configured())

	again, err := subject.Unblock(t.Context(), errors.New("no space left"))
	check.Error(t, err, "")
	check.Equal(t, "after another failure it is tried again", again, false)

	again, err = subject.Unblock(t.Context(), errors.New("disk d is already configured in a snapshot"))
	check.Error(t, err, "")
	check.Equal(t, "it is tried again", again, true)
}

// TestRemoveOrphans covers when a run looks for VMs and disks without a state. The tests of internal/desired cover the
// removal.
func TestRemoveOrphans(t *testing.T) {
	complete, begun := parsed(t, "digest", "ovirt_vm="+vmID), parsed(t, "", "ovirt_vm="+vmID)

	for name, tt := range map[string]struct {
		change    func(*objects)
		operation terraform.Operation
		before    *tfstate.State
		vm, disks bool
	}{
		"a change of a machine that was applied": {withDisk, terraform.Apply, complete, false, false},
		"a first run":                            {withDisk, terraform.Apply, nil, false, true},
		"a first run after one that failed":      {withDisk, terraform.Apply, begun, false, true},
		"a destruction by the state":             {withDisk, terraform.Destroy, complete, false, true},
		"a destruction without a state":          {withDisk, terraform.Destroy, nil, true, true},
		"a destruction by an empty state":        {withDisk, terraform.Destroy, parsed(t, ""), true, true},
		"a machine without data disks":           {func(*objects) {}, terraform.Destroy, nil, true, false},
		"a VM of an inventory that is made ready": {
			func(o *objects) { o.pooled() }, terraform.Apply, nil, false, false,
		},
		"a VM of an inventory that its state gives back": {
			func(o *objects) { o.pooled() }, terraform.Destroy, complete, false, false,
		},
		"a VM of an inventory that no state has": {
			func(o *objects) { o.pooled() }, terraform.Destroy, nil, true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				tt.change(o)
				o.hasVM()
				o.olvmMachine.Spec.ProviderID = "olvm://" + noVMID
			})
			subject := b.r.newSubject(b.connected())
			loads := 0
			err := subject.RemoveOrphans(t.Context(), tt.operation, tt.before,
				func(context.Context) (*tfstate.State, error) {
					loads++
					return nil, nil
				})
			check.Error(t, err, "")
			check.Equal(
				t,
				"it looks for the VM",
				slices.ContainsFunc(b.sim.ListRequests(), func(r ovirtsim.Request) bool {
					return strings.HasSuffix(r.Path, "/api/vms/"+noVMID)
				}),
				tt.vm,
			)
			check.Equal(t, "it looks for disks", loads == 1, tt.disks)
		})
	}
}

// TestAnOrphanThatCannotBeRemovedFailsTheRun makes the engine refuse the request for the VM.
func TestAnOrphanThatCannotBeRemovedFailsTheRun(t *testing.T) {
	b := withEngine(t, func(o *objects) { o.hasVM(); withDisk(o) }, ownVM(true))
	subject := b.r.newSubject(b.connected())
	check.Error(t, b.sim.Inject(ovirtsim.Fault{
		Path: "/api/vms/", Status: 403, Reason: "Operation Failed", Detail: "[No permission.]",
	}), "")
	loads := 0
	err := subject.RemoveOrphans(t.Context(), terraform.Destroy, nil, func(context.Context) (*tfstate.State, error) {
		loads++
		return nil, nil
	})
	check.Error(t, err, "No permission")
	check.Equal(t, "states that were read", loads, 0)
}

// TestAVMOfAnotherIsNoOrphan covers a VM whose owner mark has changed since the last check.
func TestAVMOfAnotherIsNoOrphan(t *testing.T) {
	b := withEngine(t, func(o *objects) { o.hasVM() }, ownVM(true))
	subject := b.r.newSubject(b.connected())
	session, comment := subject.session, "capolvm owner=prod/other uid=u"
	_, err := session.UpdateVM(t.Context(), subject.vmID, &engine.VM{Comment: &comment})
	check.Error(t, err, "")

	err = subject.RemoveOrphans(t.Context(), terraform.Destroy, nil, nil)
	check.Error(t, err, "does not have the mark of this machine")
	check.Length(t, "VMs", b.sim.ListVMs(), 1)
}

// TestAVMWhoseIDWasNotRecordedIsFoundByItsName covers a VM created by a killed run.
func TestAVMWhoseIDWasNotRecordedIsFoundByItsName(t *testing.T) {
	t.Parallel() // it waits
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.olvmMachine.Spec.ProviderID = ""
		o.olvmMachine.Annotations[infrav1.CreateRequestedAnnotation] = "asked-for"
		o.olvmMachine.DeletionTimestamp, o.olvmMachine.Finalizers = ptr.To(metav1.Now()), []string{
			infrav1.MachineFinalizer,
		}
	}, ovirtsim.VM{Name: "asked-for", ID: vmID, Comment: ownComment})
	subject := b.r.newSubject(b.connected())
	check.Error(t, subject.RemoveOrphans(t.Context(), terraform.Destroy, nil, nil), "")
	check.Length(t, "VMs", b.sim.ListVMs(), 0)
}
