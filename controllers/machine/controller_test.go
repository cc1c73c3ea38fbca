package machine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// within checks a requeue delay with jitter: at least the period, and at most a fifth longer.
func within(t *testing.T, what string, got, period time.Duration) {
	t.Helper()

	if got < period || got > period+period/5 {
		t.Errorf("%s is %s, want %s and up to a fifth more", what, got, period)
	}
}

func TestSetupNeedsAllItsParts(t *testing.T) {
	complete := newBench(t, nil).r

	for name, drop := range map[string]func(*Reconciler){
		"Client":    func(r *Reconciler) { r.Client = nil },
		"APIReader": func(r *Reconciler) { r.APIReader = nil },
		"Engines":   func(r *Reconciler) { r.Engines = nil },
		"Recorder":  func(r *Reconciler) { r.Recorder = nil },
		"Runs":      func(r *Reconciler) { r.Runs = nil },
		"Addresses": func(r *Reconciler) { r.Addresses = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				Client: complete.Client, APIReader: complete.APIReader, Engines: complete.Engines,
				Recorder: complete.Recorder, Runs: complete.Runs, Addresses: complete.Addresses,
			}
			drop(r)
			check.Error(t, r.SetupWithManager(t.Context(), nil, controller.Options{}), "must be set")
		})
	}
}

// TestWhichChangesOfAMachineAreNews covers changes of a Machine that start a pass, and changes that do not. Cluster API
// updates the status of a Machine many times while its node joins.
func TestWhichChangesOfAMachineAreNews(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*clusterv1.Machine)
		news   bool
	}{
		"nothing": {func(*clusterv1.Machine) {}, false},
		"a condition": {
			func(m *clusterv1.Machine) { m.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, false,
		},
		"its phase":          {func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, false},
		"its specification":  {func(m *clusterv1.Machine) { m.Generation++ }, true},
		"it becomes a node":  {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "m" }, true},
		"its deletion":       {func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"another label":      {func(m *clusterv1.Machine) { m.Labels["a"] = "b" }, true},
		"another annotation": {func(m *clusterv1.Machine) { m.Annotations = map[string]string{"a": "b"} }, true},
	} {
		before := newObjects().machine
		after := before.DeepCopy()
		tt.change(after)
		check.Equal(t, name, ownerChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), tt.news)
	}

	other := &clusterv1.Cluster{}
	check.Equal(t, "an object of another kind before",
		ownerChanged.Update(event.UpdateEvent{ObjectOld: other, ObjectNew: newObjects().machine}), true)
	check.Equal(t, "an object of another kind after",
		ownerChanged.Update(event.UpdateEvent{ObjectOld: newObjects().machine, ObjectNew: other}), true)
}

// TestAClusterWakesItsMachines verifies that machines of other clusters and namespaces are not woken.
func TestAClusterWakesItsMachines(t *testing.T) {
	b := newBench(t, func(o *objects) {
		second, other, elsewhere := o.olvmMachine.DeepCopy(), o.olvmMachine.DeepCopy(), o.olvmMachine.DeepCopy()
		second.Name, other.Name, elsewhere.Namespace = "n", "other", "elsewhere"
		other.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
		o.more = append(o.more, second, other, elsewhere)
	})

	var got []string
	for _, request := range b.r.olvmClusterToMachines(t.Context(), newObjects().olvmCluster) {
		got = append(got, request.String())
	}

	slices.Sort(got)
	check.Equal(t, "woken", got, []string{"ns/m", "ns/n"})

	b.refuse("list", &infrav1.OLVMMachineList{})
	check.Length(t, "woken without a list", b.r.olvmClusterToMachines(t.Context(), newObjects().olvmCluster), 0)
}

func TestAVMOfAnInventoryWakesTheMachineThatHasIt(t *testing.T) {
	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: named("vm-a")}
	check.Length(t, "woken by a VM that nobody has", inventoryVMToMachine(t.Context(), vm), 0)
	check.Length(t, "keys of a VM that nobody has", claimantKeys(vm), 0)

	vm.Spec.ClaimRef = &infrav1alpha1.InventoryClaim{MachineName: "m"}
	check.Equal(t, "woken", inventoryVMToMachine(t.Context(), vm),
		[]ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "m"}}})
	check.Equal(t, "keys", claimantKeys(vm), []string{"m"})
	check.Length(t, "woken by another object", inventoryVMToMachine(t.Context(), newObjects().machine), 0)
}

// TestMachinesThatAreLeftAlone covers machines outside the controller's responsibility.
func TestMachinesThatAreLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*objects)
		filter string
		waits  bool
	}{
		"nobody owns it yet":       {change: func(o *objects) { o.olvmMachine.OwnerReferences = nil }, waits: true},
		"its owner is not there":   {change: func(o *objects) { o.machine = nil }, waits: true},
		"its Cluster is not there": {change: func(o *objects) { o.cluster = nil }, waits: true},
		"it has no Cluster":        {change: func(o *objects) { o.olvmMachine.Labels = nil }, waits: true},
		"another manager looks after it": {
			change: func(o *objects) { o.olvmMachine.Labels[clusterv1.WatchLabel] = "b" }, filter: "a",
		},
		"no manager does": {filter: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *objects) {
				o.olvmMachine.CreationTimestamp = metav1.Now() // its Machine may be on its way

				if tt.change != nil {
					tt.change(o)
				}
			})
			b.r.WatchFilterValue = tt.filter
			before := b.stored()
			after := b.pass().RequeueAfter
			check.Equal(t, "it is looked at again", after > 0 && after <= ownerGrace, tt.waits)
			check.Equal(t, "the object", b.stored(), before)
		})
	}
}

func TestAMachineOfThisManager(t *testing.T) {
	b := newBench(t, func(o *objects) { o.olvmMachine.Labels[clusterv1.WatchLabel] = "a" })
	b.r.WatchFilterValue = "a"
	b.pass()
	check.Equal(t, "finalizers", b.stored().Finalizers, []string{infrav1.MachineFinalizer})
}

// TestAPausedMachine verifies that a pass over a paused machine only reports the pause.
func TestAPausedMachine(t *testing.T) {
	object := func(o *objects) { o.olvmMachine.Annotations[clusterv1.PausedAnnotation] = "" }
	cluster := func(o *objects) { o.cluster.Spec.Paused = ptr.To(true) }

	for name, tt := range map[string]struct {
		pause   func(*objects)
		deleted bool
		says    string
	}{
		"itself":                     {object, false, "OLVMMachine has the cluster.x-k8s.io/paused annotation"},
		"its cluster":                {cluster, false, "Cluster spec.paused is set to true"},
		"itself while it is deleted": {object, true, "OLVMMachine has the cluster.x-k8s.io/paused annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.hasVM()
				o.olvmMachine.Annotations[clusterctlv1.BlockMoveAnnotation] = ""
				tt.pause(o)
			}, ownVM(true))
			b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
			if tt.deleted {
				b.delete()
			}

			check.Equal(t, "when to look again", b.pass(), ctrl.Result{})
			m := b.stored()
			check.Equal(t, "the condition", condition(m, clusterv1.PausedCondition), "True/"+clusterv1.PausedReason)
			check.Equal(t, "the message", message(m, clusterv1.PausedCondition), tt.says)
			check.Length(t, "conditions", m.Status.Conditions, 1)
			check.Equal(t, "finalizers", m.Finalizers, []string{infrav1.MachineFinalizer})
			check.Length(t, "requests to the engine", b.sim.ListRequests(), 0)
			check.Length(t, "runs", b.executor.seen(), 0)

			_, blocked := m.Annotations[clusterctlv1.BlockMoveAnnotation]
			check.Equal(t, "clusterctl may not move it", blocked, false)
		})
	}
}

// TestFindOwners covers the owners of a machine. Each of them may be missing.
func TestFindOwners(t *testing.T) {
	for name, tt := range map[string]struct {
		change                func(*objects)
		machine, cluster, via string
	}{
		"all are there":       {func(*objects) {}, "m", "demo", "demo"},
		"no Machine owns it":  {func(o *objects) { o.olvmMachine.OwnerReferences = nil }, "", "demo", "demo"},
		"the Machine is gone": {func(o *objects) { o.machine = nil }, "", "demo", "demo"},
		"the Cluster is gone, and its OLVMCluster has its label": {
			func(o *objects) { o.cluster = nil }, "m", "", "demo",
		},
		"the Cluster is gone, and several OLVMClusters have its label": {func(o *objects) {
			o.cluster = nil
			o.more = append(o.more, &infrav1.OLVMCluster{ObjectMeta: named("second")})
		}, "m", "", ""},
		"the Cluster names no infrastructure": {func(o *objects) {
			o.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
		}, "m", "demo", ""},
		"the OLVMCluster is gone": {func(o *objects) { o.olvmCluster = nil }, "m", "demo", ""},
		"it has no Cluster":       {func(o *objects) { o.olvmMachine.Labels = nil }, "m", "", ""},
		"it is of a support service": {func(o *objects) {
			o.olvmMachine.Labels[infrav1alpha1.SupportServiceLabel] = "lb-api"
			o.olvmMachine.OwnerReferences = []metav1.OwnerReference{{Kind: "OLVMSupportServices", Name: "demo",
				Controller: ptr.To(true)}}
			o.machine = nil
		}, "m", "demo", "demo"},
	} {
		t.Run(name, func(t *testing.T) {
			scope := newBench(t, tt.change).scope()
			check.Equal(t, "the Machine", nameOf(scope.machine), tt.machine)
			check.Equal(t, "the Cluster", nameOf(scope.cluster), tt.cluster)
			check.Equal(t, "the OLVMCluster", nameOf(scope.olvmCluster), tt.via)
		})
	}
}

// nameOf returns the name of an object, or "" for nil.
func nameOf[T any, P interface {
	*T
	client.Object
}](object P) string {
	if object == nil {
		return ""
	}

	return object.GetName()
}

// TestOwnersThatCannotBeRead verifies that an owner does not count as missing if reading it fails.
func TestOwnersThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		verb   string
		object client.Object
		gone   bool
		want   string
	}{
		"the Machine":     {"get", &clusterv1.Machine{}, false, "failed to get the owner of OLVMMachine"},
		"the Cluster":     {"get", &clusterv1.Cluster{}, false, "failed to get the Cluster of OLVMMachine"},
		"the OLVMCluster": {"get", &infrav1.OLVMCluster{}, false, "failed to get OLVMCluster ns/demo"},
		"the machine":     {"get", &infrav1.OLVMMachine{}, false, "failed to get the object of the pass"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.refuse(tt.verb, tt.object)
			_, err := b.reconcile()
			check.Error(t, err, tt.want)
			check.Length(t, "conditions", b.stored().Status.Conditions, 0)
		})
	}

	b := newBench(t, func(o *objects) { o.cluster = nil })
	b.refuse("list", &infrav1.OLVMClusterList{})
	_, err := b.reconcile()
	check.Error(t, err, "failed to list the OLVMClusters of Cluster demo")
}

// TestAMachineThatIsGone covers the leftovers of a deleted machine: claims of addresses, and the working directory.
func TestAMachineThatIsGone(t *testing.T) {
	b := newBench(t, func(o *objects) {
		claim := &ipamv1.IPAddressClaim{ObjectMeta: named("m-0-0")}
		claim.Finalizers = []string{infrav1.MachineFinalizer}
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "OLVMMachine", Name: "m", Controller: ptr.To(true)}}
		o.more, o.olvmMachine = append(o.more, claim), nil
	})
	folder := filepath.Join(b.r.Runs.WorkDir, "ns", "m-"+ownUID)
	check.Error(t, os.MkdirAll(folder, 0o700), "")
	check.Equal(t, "when to look again", b.pass(), ctrl.Result{})

	claim := &ipamv1.IPAddressClaim{}
	check.Error(t, b.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "m-0-0"}, claim), "")
	check.Length(t, "finalizers of its claim", claim.Finalizers, 0)
	check.Equal(t, "times that its VM was let go", b.watcher.unwatched, 1)

	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("its working directory is there: %v", err)
	}
}

// TestMachinesWhoseVMIsBeingMadeDoNotWaitForOthers fills the queue of machines without a VM.
func TestMachinesWhoseVMIsBeingMadeDoNotWaitForOthers(t *testing.T) {
	b := newBench(t, func(o *objects) { o.hasVM() })
	ready := b.scope()
	leave, ok := b.r.acquirePlace(t.Context(), ready)
	check.Equal(t, "the first one enters", ok, true)
	defer leave()

	// With this context, a pass enters at once or not at all.
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	_, ok = b.r.acquirePlace(ended, ready)
	check.Equal(t, "a second one enters", ok, false)

	made := b.scope()
	made.olvmMachine.Status.Initialization.Provisioned = nil
	_, ok = b.r.acquirePlace(ended, made)
	check.Equal(t, "one whose VM is being made enters", ok, true)

	elsewhere := b.scope()
	elsewhere.olvmCluster.Spec.OLVMOvirtAPIServer.ServerURL = "https://other.example.com/ovirt-engine"
	_, ok = b.r.acquirePlace(ended, elsewhere)
	check.Equal(t, "one of another engine enters", ok, true)

	nowhere := b.scope()
	nowhere.olvmCluster = nil
	leaveNothing, ok := b.r.acquirePlace(ended, nowhere)
	check.Equal(t, "one without an engine enters", ok, true)
	leaveNothing()
}

func TestAPassThatFindsNoPlaceComesAgain(t *testing.T) {
	b := newBench(t, nil)
	leave, ok := b.r.acquirePlace(t.Context(), b.scope())
	check.Equal(t, "it enters", ok, true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	key := client.ObjectKey{Namespace: "ns", Name: "m"}
	result, err := b.r.Reconcile(ended, ctrl.Request{NamespacedName: key})
	check.Error(t, err, "")
	within(t, "when to look again", result.RequeueAfter, engineRetry)
	check.Length(t, "conditions", b.stored().Status.Conditions, 0)

	leave()
	b.pass()
	check.Equal(t, "the next pass ends, and leaves", len(b.stored().Status.Conditions) > 0, true)

	leave, ok = b.r.acquirePlace(ended, b.scope())
	check.Equal(t, "there is a place after it", ok, true)
	leave()
}

func TestBegun(t *testing.T) {
	b := newBench(t, nil)
	scope := b.scope()
	check.Equal(t, "nothing yet", hasBegun(scope), false)

	scope.olvmMachine.Spec.ProviderID = providerID
	check.Equal(t, "a VM that is not up", hasBegun(scope), true)

	scope.olvmMachine.Status.Initialization.Provisioned = ptr.To(false)
	check.Equal(t, "a VM that is not up, said in so many words", hasBegun(scope), true)

	scope.olvmMachine.Status.Initialization.Provisioned = ptr.To(true)
	check.Equal(t, "all there since a day", hasBegun(scope), false)
}

// TestBegunByARun covers a machine during its first run.
func TestBegunByARun(t *testing.T) {
	b := withEngine(t, nil)
	goes, end := make(chan struct{}), make(chan struct{})
	b.executor.run = func(context.Context, terraform.Request) error {
		close(goes)
		<-end

		return nil
	}
	b.pass()

	select {
	case <-goes:
	case <-time.After(patience):
		t.Fatal("no run begins")
	}

	check.Equal(t, "a run goes", hasBegun(b.scope()), true)
	close(end)
	b.awaitRun()
}

// TestAMachineFromItsFirstPassToItsLast covers the life of a machine: creation, a pass without changes, and deletion.
func TestAMachineFromItsFirstPassToItsLast(t *testing.T) {
	b := withEngine(t, nil, ovirtsim.VM{Name: "spare", ID: vmID, Up: true})
	ended := make(chan struct{}) // closed at the end of the pass: a change during the pass would start another one
	b.executor.run = func(ctx context.Context, request terraform.Request) error {
		if request.Destroy {
			return request.SaveState(ctx, stateOf(2), true)
		}

		<-ended

		if _, err := b.session.UpdateVM(ctx, vmID, &engine.VM{Name: "m", Comment: &request.Owner}); err != nil {
			return err
		}

		request.Applied(ctx, "ovirt_vm.this", vmID)

		return request.SaveState(ctx, stateOf(1, "ovirt_vm="+vmID, "ovirt_nic=nic"), true)
	}

	b.pass()
	m := b.stored()
	close(ended)
	check.Equal(t, "finalizers", m.Finalizers, []string{infrav1.MachineFinalizer})
	check.Equal(t, "its addresses are recorded", m.Annotations[infrav1.AddressesAnnotation], `{"nic1":["10.0.0.10"]}`)
	check.Equal(t, "the VM that may exist", m.Annotations[infrav1.CreateRequestedAnnotation], "m")
	check.Equal(t, "applied", condition(m, infrav1.InfrastructureAppliedCondition), "False/"+infrav1.ApplyingReason)
	check.Equal(t, "its name before it exists", m.Status.OLVM.VirtualMachine.VMName, "m")
	check.Equal(t, "paused", condition(m, clusterv1.PausedCondition), "False/"+clusterv1.NotPausedReason)

	b.awaitRun()
	b.pass()
	m = b.stored()
	check.Equal(t, "provider ID", m.Spec.ProviderID, providerID)
	check.Equal(t, "ready", condition(m, infrav1.ReadyCondition), "True/Ready")
	check.Equal(t, "provisioned", ptr.Deref(m.Status.Initialization.Provisioned, false), true)
	check.Equal(t, "creation", m.Status.OLVM.VirtualMachine.CreationStatus, "Created")
	check.Equal(t, "VM status", m.Status.OLVM.VirtualMachine.Status, "up")
	check.Equal(t, "address", m.Status.OLVM.IPAddress, "10.0.0.10")
	check.Equal(t, "network interface", m.Status.OLVM.VNICID, "nic")
	check.Equal(t, "template", m.Status.OLVM.VMTemplateName, "ol9-k8s")
	check.Equal(t, "it is told once that it is up", slices.DeleteFunc(b.events(), func(text string) bool {
		return !strings.Contains(text, "is up at")
	}), []string{"Normal " + infrav1.VirtualMachineRunningReason + " VM m (" + vmID + ") is up at 10.0.0.10"})

	b.pass()
	check.Length(t, "runs of a machine that is as it should be", b.executor.seen(), 1)
	check.Length(t, "events of a pass that finds nothing new", b.events(), 0)

	b.delete()
	b.pass()
	m = b.stored()
	check.Equal(t, "deleting", condition(m, infrav1.DeletingCondition), "True/"+infrav1.DeletingReason)
	check.Equal(t, "finalizers until its VM is gone", m.Finalizers, []string{infrav1.MachineFinalizer})
	check.Equal(t, "events", b.events(), []string{"Normal " + infrav1.DeletingReason + " The VM is being deleted"})

	b.awaitRun()
	check.Equal(t, "when to look again at what is gone", b.pass(), ctrl.Result{})
	if left := b.stored(); left != nil {
		t.Errorf("it is there, with finalizers %v", left.Finalizers)
	}

	check.Length(t, "runs", b.executor.seen(), 2)
	check.Equal(t, "the last one destroys", b.executor.seen()[1].Destroy, true)
	check.Length(t, "states", b.states(), 0)
}

// TestAPassThatCannotWrite verifies that a pass records no events if it cannot write the status.
func TestAPassThatCannotWrite(t *testing.T) {
	b := withEngine(t, func(o *objects) { o.hasVM() }, ownVM(true))
	b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
	b.refuse("patch status", &infrav1.OLVMMachine{})
	_, err := b.reconcile()
	check.Error(t, err, "failed to write ns/m")
	check.Length(t, "events", b.events(), 0)
}
