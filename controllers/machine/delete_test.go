package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// TestWhyNoEngine deletes a machine without a Cluster, with none, one and two OLVMClusters with the cluster's label.
func TestWhyNoEngine(t *testing.T) {
	const vm, end = "123e4567-e89b-12d3-a456-426614174000", ". To keep the VM, remove the finalizer " +
		infrav1.MachineFinalizer + " from this object"

	for name, tt := range map[string]struct {
		clusters []string
		found    string
		why      string
	}{
		"none": {
			why: "The OLVMCluster with the engine's URL does not exist. To delete the VM " + vm +
				", recreate it with the label cluster.x-k8s.io/cluster-name=prod" + end,
		},
		"one": {clusters: []string{"a"}, found: "a"},
		"two": {
			clusters: []string{"b", "a"},
			why: "Several OLVMClusters have the label cluster.x-k8s.io/cluster-name=prod: a, b. To delete the VM " + vm +
				", keep the label only on the OLVMCluster with the machine's engine" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := api.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}

			r := &Reconciler{
				Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(labelled(tt.clusters)...).Build(),
			}
			scope := &machineScope{olvmMachine: &infrav1.OLVMMachine{}, workspace: &workspace.Workspace{}}
			scope.olvmMachine.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
			scope.olvmMachine.Spec.ProviderID = "olvm://" + vm
			if err := r.findOLVMCluster(t.Context(), scope); err != nil {
				t.Fatal(err)
			}

			if tt.found != "" {
				if scope.olvmCluster == nil || scope.olvmCluster.Name != tt.found {
					t.Errorf("the OLVMCluster is %v, not %s", scope.olvmCluster, tt.found)
				}

				return
			}

			if scope.olvmCluster != nil {
				t.Errorf("the OLVMCluster is %s", scope.olvmCluster.Name)
			}

			if diff := cmp.Diff(tt.why, explainNoEngine(scope).Message); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// labelled returns OLVMClusters of these names with the label of the Cluster prod.
func labelled(names []string) []client.Object {
	var out []client.Object

	for _, name := range names {
		cluster := &infrav1.OLVMCluster{}
		cluster.Name = name
		cluster.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
		out = append(out, cluster)
	}

	return out
}

// TestWhatADeletionWaitsFor covers deletions that must wait, and deletions that proceed.
func TestWhatADeletionWaitsFor(t *testing.T) {
	const gone = "gone"
	protect := ownVM(true)
	protect.DeleteProtected = true
	foreign := ovirtsim.VM{Name: "m", ID: vmID, Comment: "the payroll database", Up: true}
	moved := ownVM(true)
	moved.Comment = "capolvm owner=ns/m uid=of-before-the-move"

	for name, tt := range map[string]struct {
		change  func(*objects)
		vm      ovirtsim.VM
		state   []byte
		want    string // the reason of the condition Deleting, or gone
		message string
		after   time.Duration
		run     bool
	}{
		"one that never had a VM goes at once": {vm: ovirtsim.VM{Name: "other", ID: vmID}, want: gone},
		"one with a VM has it destroyed": {
			change: (*objects).hasVM, vm: ownVM(true), state: stateOf(1, "ovirt_vm="+vmID),
			want: infrav1.DeletingReason, run: true,
		},
		"one with a VM that no state has": {
			change: (*objects).hasVM, vm: ownVM(true), want: infrav1.DeletingReason, run: true,
		},
		"one whose VM has the mark of before a move": {
			change: (*objects).hasVM, vm: moved, state: stateOf(1,
				"ovirt_vm="+vmID), want: infrav1.DeletingReason, run: true,
		},
		"one whose VM is gone, and whose state is empty": {
			change: func(o *objects) { o.hasVM(); o.olvmMachine.Spec.ProviderID = "olvm://" + noVMID },
			vm:     foreign, state: stateOf(1), want: gone,
		},
		"one whose VM is gone, and whose state has more": {
			change: func(o *objects) { o.hasVM(); o.olvmMachine.Spec.ProviderID = "olvm://" + noVMID },
			vm:     foreign, state: stateOf(1, "ovirt_disk=d"), want: infrav1.DeletingReason, run: true,
		},
		"one that may have a VM of which nothing is recorded": {
			change: func(o *objects) { o.hasVM(); o.olvmMachine.Spec.ProviderID = "" },
			vm:     ownVM(true), want: infrav1.DeletingReason, run: true,
		},
		"one that is moved leaves its VM": {
			change: func(o *objects) { o.hasVM(); o.olvmMachine.Annotations[clusterctlv1.DeleteForMoveAnnotation] = "" },
			vm:     ownVM(true), state: stateOf(1, "ovirt_vm="+vmID),
			want: infrav1.DeletionBlockedReason, message: "being moved to another management cluster; its VM stays",
		},
		"a VM that is not ours is not touched": {
			change: (*objects).hasVM, vm: foreign, state: stateOf(1, "ovirt_vm="+vmID),
			want: infrav1.DeletionBlockedReason, after: engineRetry,
			message: `VM m (` + vmID + `) does not have the mark of this machine: its comment is "the payroll ` +
				`database". To delete the VM, replace its comment with exactly "` + ownComment +
				`". To keep it, remove the finalizer ` + infrav1.MachineFinalizer,
		},
		"a VM that is another machine's is not touched": {
			change: (*objects).hasVM, vm: ovirtsim.VM{Name: "m", ID: vmID, Comment: "capolvm owner=ns/n uid=1"},
			state: stateOf(1, "ovirt_vm="+vmID), want: infrav1.DeletionBlockedReason, after: engineRetry,
			message: "does not have the mark of this machine",
		},
		"a VM that is protected is not powered off for nothing": {
			change: (*objects).hasVM, vm: protect, state: stateOf(1, "ovirt_vm="+vmID),
			want: infrav1.DeletionBlockedReason, after: engineRetry, message: "turn off Delete Protection",
		},
		"a VM of an inventory may be protected": {
			change: func(o *objects) { o.hasVM(); o.pooled() }, vm: protect, state: stateOf(1,
				"ovirt_adopted_vm="+vmID),
			want: infrav1.DeletingReason, run: true,
		},
		"the engine is not known, and there may be a VM": {
			change: func(o *objects) { o.hasVM(); o.olvmCluster = nil }, vm: ownVM(true),
			want: infrav1.DeletionBlockedReason, after: steadyInterval,
			message: "The OLVMCluster with the engine's URL does not exist",
		},
		"the engine is not known, and the state has something": {
			change: func(o *objects) { o.olvmCluster = nil }, vm: ownVM(true), state: stateOf(1, "ovirt_disk=d"),
			want: infrav1.DeletionBlockedReason, after: steadyInterval,
			message: "The OLVMCluster with the engine's URL does not exist",
		},
		"the engine is not known, and there is nothing": {
			change: func(o *objects) { o.olvmCluster = nil }, vm: ownVM(true), want: gone,
		},
		"the Cluster and the Machine were deleted by force": {
			change: func(o *objects) { o.hasVM(); o.cluster, o.machine = nil, nil }, vm: ownVM(true),
			state: stateOf(1, "ovirt_vm="+vmID), want: infrav1.DeletingReason, run: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.olvmMachine.Finalizers = []string{infrav1.MachineFinalizer}
				if tt.change != nil {
					tt.change(o)
				}
			}, tt.vm)
			if tt.state != nil {
				b.store(tt.state, "digest")
			}

			b.delete()
			result := b.pass()
			m := b.stored()
			if tt.want == gone {
				check.Equal(t, "the object is gone", m == nil, true)
				check.Length(t, "states", b.states(), 0)
				check.Equal(t, "times that its VM was let go", b.watcher.unwatched, 1)
				check.Length(t, "changes of the engine", b.changes(), 0)

				return
			}

			check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+tt.want)
			check.Contains(t, "the message", message(m, infrav1.DeletingCondition), tt.message)
			check.Equal(t, "when to look again", result.RequeueAfter, tt.after)
			check.Equal(t, "finalizers", m.Finalizers, []string{infrav1.MachineFinalizer})

			if tt.run {
				b.eventually("a run", b.ran)
				return
			}

			check.Equal(t, "a run", b.ran(), false)
			check.Length(t, "changes of the engine", b.changes(), 0)
		})
	}
}

// TestADeletionWhoseEngineIsAway verifies that an unreachable VM does not count as missing.
func TestADeletionWhoseEngineIsAway(t *testing.T) {
	for name, spoil := range map[string]func(*bench){
		"it does not answer": func(b *bench) {
			check.Error(b.t, b.sim.Inject(ovirtsim.Fault{Path: "^/api", Status: 503}), "")
		},
		"its credentials are gone": func(b *bench) {
			check.Error(b.t, b.api.Delete(b.t.Context(), newObjects().credentials), "")
		},
		"its OLVMCluster says so": func(b *bench) {
			change(b, &infrav1.OLVMCluster{ObjectMeta: named("demo")}, func(c *infrav1.OLVMCluster) {
				conditions.Set(c, metav1.Condition{
					Type: infrav1.EngineAvailableCondition, Status: "False", Reason: "Away", Message: "it is away",
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, (*objects).hasVM, ownVM(true))
			b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
			spoil(b)
			b.delete()
			check.Equal(t, "it is looked at again", b.pass().RequeueAfter > 0, true)
			m := b.stored()
			check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+infrav1.WaitingForEngineReason)
			check.Equal(t, "finalizers", m.Finalizers, []string{infrav1.MachineFinalizer})
			check.Length(t, "runs", b.executor.seen(), 0)
			check.Length(t, "states", b.states(), 1)
		})
	}
}

// TestADeletionWithoutOurFinalizer verifies that the controller ignores a machine in deletion without the controller's
// finalizer.
func TestADeletionWithoutOurFinalizer(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.olvmMachine.Finalizers = []string{"foregroundDeletion"}
	}, ownVM(true))
	b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
	b.delete()
	check.Equal(t, "when to look again", b.pass(), ctrl.Result{})
	check.Length(t, "runs", b.executor.seen(), 0)
	check.Length(t, "requests to the engine", b.sim.ListRequests(), 0)
	check.Length(t, "states", b.states(), 1)
}

// TestADeletionThatCannotRead verifies that a failed read keeps the finalizer.
func TestADeletionThatCannotRead(t *testing.T) {
	for name, tt := range map[string]struct {
		verb   string
		object runtime.Object
		want   string
	}{
		"the state":     {"get", &corev1.Secret{}, "failed to get the state Secret"},
		"its claim":     {"list", &infrav1alpha1.OLVMInventoryVMList{}, "failed to list the OLVMInventoryVMs"},
		"its addresses": {"list", &ipamv1.IPAddressClaimList{}, "failed to list the IPAddressClaims"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.pooled()
				o.olvmMachine.Finalizers = []string{infrav1.MachineFinalizer}
				o.olvmMachine.Status.Terraform = &infrav1.TerraformStatus{}
			})
			b.delete()
			b.refuse(tt.verb, tt.object)
			_, err := b.reconcile()
			check.Error(t, err, tt.want)
			check.Equal(t, "finalizers", b.stored().Finalizers, []string{infrav1.MachineFinalizer})
		})
	}
}

// TestWhatADeletedMachineGivesBack verifies that addresses and a claimed VM are released after the destruction, and not
// before it.
func TestWhatADeletedMachineGivesBack(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.pooled()
		claim := &ipamv1.IPAddressClaim{ObjectMeta: named("m-0-0")}
		claim.Finalizers = []string{infrav1.MachineFinalizer}
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "OLVMMachine", Name: "m", UID: ownUID,
			Controller: new(true)}}
		o.more = append(o.more, claim, claimOf("vm-a", "m", "c1/m"))
	}, ownVM(true))
	b.store(stateOf(1, "ovirt_adopted_vm="+vmID), "digest")
	b.delete()
	has := func() (address, released bool) {
		vm := &infrav1alpha1.OLVMInventoryVM{}
		check.Error(t, b.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "vm-a"}, vm), "")
		err := b.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "m-0-0"}, &ipamv1.IPAddressClaim{})

		return err == nil, vm.Spec.ClaimRef.Released
	}

	b.pass()
	address, released := has()
	check.Equal(t, "it has its address while its VM is destroyed", address, true)
	check.Equal(t, "its VM is released meanwhile", released, false)

	b.awaitRun()
	b.pass()
	address, released = has()
	check.Equal(t, "it has its address after it", address, false)
	check.Equal(t, "its VM is released after it", released, true)
	check.Equal(t, "the object is gone", b.stored() == nil, true)
}

// TestAReleaseThatFailsKeepsTheMachine verifies that the finalizer stays if a step of the release fails.
func TestAReleaseThatFailsKeepsTheMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		verb   string
		object runtime.Object
		want   string
	}{
		"the state":          {"update", &corev1.Secret{}, "failed to release the state Secret"},
		"the VM of its pool": {"patch", &infrav1alpha1.OLVMInventoryVM{}, "failed to release OLVMInventoryVM vm-a"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.pooled()
				o.olvmMachine.Finalizers = []string{infrav1.MachineFinalizer}
				o.olvmMachine.Status.Terraform = &infrav1.TerraformStatus{}
				o.more = append(o.more, claimOf("vm-a", "m", ""))
			})
			b.store(stateOf(1), "")
			b.delete()
			b.refuse(tt.verb, tt.object)
			_, err := b.reconcile()
			check.Error(t, err, tt.want)
			check.Equal(t, "finalizers", b.stored().Finalizers, []string{infrav1.MachineFinalizer})
			check.Equal(t, "times that its VM was let go", b.watcher.unwatched, 0)
		})
	}
}

// TestShutdownLeft covers the time left for a guest to shut down, counted from the deletion.
func TestShutdownLeft(t *testing.T) {
	graceful := infrav1.Shutdown{Mode: "Graceful", TimeoutSeconds: 60}

	for name, tt := range map[string]struct {
		want infrav1.Shutdown
		vm   *engine.VM
		ago  time.Duration
		left time.Duration
	}{
		"a guest that was deleted now": {graceful, &engine.VM{Status: engine.VMUp}, 0, time.Minute},
		"it has used half of its time": {graceful, &engine.VM{Status: engine.VMUp}, 30 * time.Second, 30 * time.Second},
		"it shuts down":                {graceful, &engine.VM{Status: engine.VMPoweringDown}, 0, time.Minute},
		"it has used all of its time":  {graceful, &engine.VM{Status: engine.VMUp}, time.Hour, 0},
		"it is down":                   {graceful, &engine.VM{Status: engine.VMDown}, 0, 0},
		"it is paused, and cannot":     {graceful, &engine.VM{Status: engine.VMPaused}, 0, 0},
		"it is not known":              {graceful, nil, 0, 0},
		"its power is to be cut": {
			infrav1.Shutdown{Mode: "PowerOff", TimeoutSeconds: 60}, &engine.VM{Status: engine.VMUp}, 0, 0,
		},
		"nobody says how": {infrav1.Shutdown{}, &engine.VM{Status: engine.VMUp}, 0, 0},
		"nobody says for how long": {
			infrav1.Shutdown{Mode: "Graceful"}, &engine.VM{Status: engine.VMUp}, 0, 5 * time.Minute,
		},
	} {
		scope := &machineScope{olvmMachine: newMachine(vmID), vm: vmFacts{current: tt.vm}}
		scope.olvmMachine.Spec.VirtualMachine.Shutdown = tt.want
		scope.olvmMachine.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-tt.ago)}
		got := computeShutdownLeft(scope)

		// Some time has passed since the deletion.
		if got > tt.left || got < tt.left-patience/3 || (got == 0) != (tt.left == 0) {
			t.Errorf("%s: %s are left, want %s", name, got, tt.left)
		}
	}
}

// TestAGuestIsAskedToShutDown verifies that a guest gets its time to shut down before its VM is destroyed.
func TestAGuestIsAskedToShutDown(t *testing.T) {
	for name, tt := range map[string]struct {
		up         bool
		fault      int // the engine's response status
		asked, run bool
	}{
		"a guest that runs":                  {up: true, asked: true},
		"one that the engine cannot ask now": {up: true, fault: 409, asked: true},
		"one that the engine fails to ask":   {up: true, fault: 500, asked: true},
		"one that is off":                    {run: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.hasVM()
				o.olvmMachine.Spec.VirtualMachine.Shutdown = infrav1.Shutdown{Mode: "Graceful", TimeoutSeconds: 3600}
			}, ownVM(tt.up))
			b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
			if tt.fault > 0 {
				check.Error(t, b.sim.Inject(ovirtsim.Fault{
					Method: "POST", Path: "/shutdown$", Status: tt.fault, Reason: "Operation Failed",
					Detail: "[It migrates.]",
				}), "")
			}

			b.delete()
			result := b.pass()
			check.Equal(t, "it is asked", slices.Contains(b.changes(), "POST /api/vms/own/shutdown"), tt.asked)
			if tt.run {
				b.awaitRun()
				check.Length(t, "runs", b.executor.seen(), 1)

				return
			}

			check.Equal(t, "deleting", condition(b.stored(), infrav1.DeletingCondition),
				"True/"+infrav1.WaitingForGuestShutdownReason)
			check.Equal(t, "it is looked at again soon", result.RequeueAfter, time.Second)
			check.Length(t, "runs", b.executor.seen(), 0)
		})
	}
}

// TestADestructionThatCannotBeRecordedDoesNotBegin makes the API server refuse the write that must precede a destroy
// run.
func TestADestructionThatCannotBeRecordedDoesNotBegin(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
	b.delete()
	b.refuse("patch", &infrav1.OLVMMachine{})
	_, err := b.reconcile()
	check.Error(t, err, "failed to block moves of")
	check.Equal(t, "a run", b.ran(), false)
	check.Equal(t, "finalizers", b.stored().Finalizers, []string{infrav1.MachineFinalizer})
}

// TestAGuestThatShutsDownIsNotAskedAgain covers a VM that is already powering down.
func TestAGuestThatShutsDownIsNotAskedAgain(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.olvmMachine.Spec.VirtualMachine.Shutdown = infrav1.Shutdown{Mode: "Graceful", TimeoutSeconds: 3600}
	}, ownVM(true))
	b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
	b.delete()
	scope := b.connected()
	_, err := b.r.reconcileState(t.Context(), scope)
	check.Error(t, err, "")
	scope.vm.current = &engine.VM{ID: vmID, Status: engine.VMPoweringDown}
	_, err = b.r.reconcileDestroy(t.Context(), scope)
	check.Error(t, err, "")
	check.Length(t, "changes of the engine", b.changes(), 0)
	check.Equal(t, "what it waits for", scope.action.Reason, infrav1.WaitingForGuestShutdownReason)
}

// TestReconcileOwnership covers the checks of a VM before its deletion.
func TestReconcileOwnership(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	b.delete()

	away := b.scope()
	b.r.checkOwnershipForDelete(t.Context(), away)
	check.Equal(t, "without a session nothing is known", away.vm, vmFacts{})

	scope := b.connected()
	scope.olvmMachine.Spec.ProviderID = ""
	b.r.checkOwnershipForDelete(t.Context(), scope)
	check.Equal(t, "without an ID nothing is known", scope.vm, vmFacts{})

	scope.olvmMachine.Spec.ProviderID = "olvm://" + noVMID
	b.r.checkOwnershipForDelete(t.Context(), scope)
	check.Equal(t, "one that is gone is missing", scope.vm, vmFacts{missing: true})

	scope = b.connected()
	b.r.checkOwnershipForDelete(t.Context(), scope)
	check.Equal(t, "the VM that was seen", scope.vm.current.ID, vmID)
	check.Equal(t, "it is missing", scope.vm.missing, false)
	check.Equal(t, "why it must not go", reasonOf(scope.blocked), "")
}
