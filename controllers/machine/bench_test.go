package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	machineUID = "11111111-1111-4111-8111-111111111111"
	clusterUID = "22222222-2222-4222-8222-222222222222"
	ownUID     = "33333333-3333-4333-8333-333333333333"

	vmID      = "01939bb4-0000-4000-8000-000000000001"
	otherVMID = "01939bb4-0000-4000-8000-000000000002"
	noVMID    = "01939bb4-0000-4000-8000-000000000009"

	// ownComment is the mark on the VM of the machine m.
	ownComment = "capolvm owner=ns/m uid=" + ownUID
	providerID = bootstrap.ProviderIDPrefix + vmID

	// patience limits each wait of a test. It catches hangs, and is long enough for any machine.
	patience = time.Minute
)

// errRefused is the API server's error for a request that a test refuses.
var errRefused = errors.New("the API server refuses")

// bench is a Reconciler with its dependencies: a client without a real API server, a simulated engine, and an executor
// instead of Terraform. It starts with the machine m of the cluster demo, before the machine's first pass.
type bench struct {
	t        *testing.T
	r        *Reconciler
	api      client.WithWatch
	sim      *ovirtsim.Server
	session  *engine.Client
	executor *executor
	watcher  *watcher
	recorder *events.FakeRecorder

	// passes are the passes of scopes that have not ended yet.
	passes []*pass.Pass

	mu      sync.Mutex
	refused map[string]bool
	// meanwhile runs before each patch of an OLVMMachine, unless it is nil.
	meanwhile func()
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()

	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, clusterv1.AddToScheme, ipamv1.AddToScheme, api.AddToScheme,
	} {
		check.Error(t, add(scheme), "")
	}

	return scheme
}

// newBench returns a bench without an engine. change edits the objects before they are stored; it may be nil.
func newBench(t *testing.T, change func(*objects)) *bench {
	t.Helper()
	stored := newObjects()
	if change != nil {
		change(stored)
	}

	b := &bench{t: t, executor: &executor{}, watcher: &watcher{}, recorder: events.NewFakeRecorder(100)}
	b.refused = map[string]bool{}
	b.api = fake.NewClientBuilder().WithScheme(newScheme(t)).WithStatusSubresource(&infrav1.OLVMMachine{}).
		WithIndex(&infrav1alpha1.OLVMInventoryVM{}, claimantIndex, claimantKeys).WithObjects(stored.list()...).Build()
	api := interceptor.NewClient(b.api, b.faults())

	runs := workspace.NewRunQueue(1, patience)
	runs.Executor, runs.WorkDir, runs.Client, runs.APIReader = b.executor, t.TempDir(), api, api
	t.Cleanup(func() { runs.Shutdown(patience) })

	b.r = &Reconciler{
		Client:    api,
		APIReader: api,
		Engines:   &enginepool.Registry{Reader: api, Sessions: &engine.Sessions{}},
		Runs:      runs,
		Addresses: &addressing.Allocator{Client: api, Reader: api, CacheHasAll: true},
		Recorder:  b.recorder,
	}
	b.r.setUpWorkspaces()
	b.r.watcher = b.watcher
	b.r.limiter.Limit = 1

	return b
}

// withEngine returns a bench with these VMs in its engine.
func withEngine(t *testing.T, change func(*objects), vms ...ovirtsim.VM) *bench {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()

	for _, vm := range vms {
		vm.Cluster, vm.Template = "Default", "ol9-k8s"
		inventory.DataCenters[0].VMs = append(inventory.DataCenters[0].VMs, vm)
	}

	return withOptions(t, ovirtsim.Options{Inventory: inventory}, change)
}

// withOptions returns a bench with these options of its engine.
func withOptions(t *testing.T, options ovirtsim.Options, change func(*objects)) *bench {
	t.Helper()
	options.Timings = ovirtsim.Timings{
		Clone: time.Millisecond, Launch: time.Millisecond, PowerUp: time.Millisecond, PowerDown: time.Millisecond,
		Fence: time.Hour, // a host is fenced only when a test recovers it
	}
	sim, err := ovirtsim.New(options)
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	b := newBench(t, func(o *objects) {
		o.olvmCluster.Spec.OLVMOvirtAPIServer.ServerURL = sim.URL()
		o.credentials.Data = map[string][]byte{
			"username":                   []byte(sim.Username()),
			"password":                   []byte(sim.Password()),
			infrav1.AllowedServerURLsKey: []byte(sim.URL()),
		}
		o.ca.Data = map[string]string{"ca.crt": string(sim.CA())}
		if change != nil {
			change(o)
		}
	})
	b.sim = sim
	b.session, err = engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")
	b.executor.destroyed = func(ctx context.Context) { b.destroyVMs(ctx) }

	return b
}

// destroyVMs deletes the VMs of the machine m, as the provider does.
func (b *bench) destroyVMs(ctx context.Context) {
	for _, vm := range b.sim.ListVMs() {
		id := engine.ID(vm.ID)
		if vm.Comment != ownComment {
			continue
		}

		for ctx.Err() == nil && !engine.IsNotFound(b.session.DeleteVM(ctx, id)) {
			_ = b.session.StopVM(ctx, id, true)

			time.Sleep(time.Millisecond)
		}
	}
}

// ownVM returns the VM of the machine m.
func ownVM(up bool) ovirtsim.VM {
	return ovirtsim.VM{Name: "m", ID: vmID, Comment: ownComment, Up: up}
}

// objects holds the initial objects of a bench.
type objects struct {
	cluster     *clusterv1.Cluster
	olvmCluster *infrav1.OLVMCluster
	machine     *clusterv1.Machine
	olvmMachine *infrav1.OLVMMachine
	credentials *corev1.Secret
	ca          *corev1.ConfigMap
	bootstrap   *corev1.Secret
	// more holds further objects. A test omits one of the objects above by setting it to nil.
	more []client.Object
}

func newObjects() *objects {
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group}
	clusterRef, machineRef := ref, ref
	clusterRef.Kind, clusterRef.Name = "OLVMCluster", "demo"
	machineRef.Kind, machineRef.Name = "OLVMMachine", "m"

	out := &objects{
		cluster: &clusterv1.Cluster{
			ObjectMeta: named("demo"), Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterRef},
		},
		olvmCluster: &infrav1.OLVMCluster{ObjectMeta: named("demo"), Spec: infrav1.OLVMClusterSpec{
			ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443},
			OLVMDatacenterName:   "Default",
			AffinityGroups:       []infrav1.AffinityGroup{},
			OLVMOvirtAPIServer: infrav1.OvirtAPIServer{
				ServerURL:         "https://127.0.0.1:1/ovirt-engine",
				CredentialsSecret: infrav1.NamespacedName{Name: "creds"},
				CAConfigMap:       &infrav1.NamespacedName{Name: "ca"},
			},
		}},
		machine: &clusterv1.Machine{ObjectMeta: named("m"), Spec: clusterv1.MachineSpec{
			ClusterName:       "demo",
			Version:           "v1.36.1",
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("m-bootstrap")},
			InfrastructureRef: machineRef,
		}},
		olvmMachine: &infrav1.OLVMMachine{ObjectMeta: named("m"), Spec: infrav1.OLVMMachineSpec{
			OLVMOvirtClusterName: "Default",
			VMTemplateName:       "ol9-k8s",
			OLVMNetwork:          infrav1.OLVMNetwork{NetworkName: "kvm-vlan", VNICProfileName: "kvm-vlan"},
			VirtualMachine: infrav1.VirtualMachine{
				Memory: "4GB",
				Network: infrav1.GuestNetwork{Addressing: infrav1.Addressing{
					IPv4: &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10-10.0.0.19"}},
				}},
			},
		}},
		credentials: &corev1.Secret{ObjectMeta: named("creds")},
		ca:          &corev1.ConfigMap{ObjectMeta: named("ca")},
		bootstrap: &corev1.Secret{ObjectMeta: named("m-bootstrap"), Data: map[string][]byte{
			"format": []byte("cloud-config"), "value": []byte("#cloud-config\nwrite_files: []\n"),
		}},
	}
	out.cluster.UID, out.machine.UID, out.olvmMachine.UID = clusterUID, machineUID, ownUID
	out.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	out.olvmCluster.Status.Initialization.Provisioned = ptr.To(true)
	out.olvmMachine.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: machineUID,
		Controller: ptr.To(true),
	}}

	return out
}

// named returns the metadata of an object of the cluster demo.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
	}
}

func (o *objects) list() []client.Object {
	out := o.more
	if o.cluster != nil {
		out = append(out, o.cluster)
	}

	if o.olvmCluster != nil {
		out = append(out, o.olvmCluster)
	}

	if o.machine != nil {
		out = append(out, o.machine)
	}

	if o.olvmMachine != nil {
		out = append(out, o.olvmMachine)
	}

	return append(out, o.credentials, o.ca, o.bootstrap)
}

// hasVM gives the machine m a VM, already provisioned.
func (o *objects) hasVM() {
	o.olvmMachine.Finalizers = []string{infrav1.MachineFinalizer}
	o.olvmMachine.Spec.ProviderID = providerID
	o.olvmMachine.Annotations = map[string]string{
		infrav1.CreateRequestedAnnotation: "m",
		infrav1.AddressesAnnotation:       `{"nic1":["10.0.0.10"]}`,
	}
	o.olvmMachine.Status.Initialization.Provisioned = ptr.To(true)
}

// refuse makes the API server refuse all requests with this verb for objects of this type.
func (b *bench) refuse(verb string, object runtime.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[fmt.Sprintf("%s %T", verb, object)] = true
}

func (b *bench) fault(verb string, object runtime.Object) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.refused[fmt.Sprintf("%s %T", verb, object)] {
		return errRefused
	}

	return nil
}

func (b *bench) faults() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if err := b.fault("get", o); err != nil {
				return err
			}

			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if err := b.fault("list", list); err != nil {
				return err
			}

			return c.List(ctx, list, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
		) error {
			if err := b.fault("patch", o); err != nil {
				return err
			}

			if _, ok := o.(*infrav1.OLVMMachine); ok && b.meanwhile != nil {
				b.meanwhile()
			}

			return c.Patch(ctx, o, p, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, part string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			if err := b.fault("patch "+part, o); err != nil {
				return err
			}

			return c.SubResource(part).Patch(ctx, o, p, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := b.fault("update", o); err != nil {
				return err
			}

			return c.Update(ctx, o, options...)
		},
	}
}

// scope begins a pass over the machine m, and returns its scope before the first phase.
func (b *bench) scope() *machineScope {
	b.t.Helper()
	m := &infrav1.OLVMMachine{}
	this, err := b.r.passes.BeginPass(b.t.Context(), b.r.Client, client.ObjectKey{Namespace: "ns", Name: "m"}, m)
	check.Error(b.t, err, "")
	b.passes = append(b.passes, this)

	scope := b.r.newScope(this, m)
	check.Error(b.t, b.r.findOwners(b.t.Context(), scope), "")

	return scope
}

// endPasses ends the passes of all scopes.
func (b *bench) endPasses() {
	for _, each := range b.passes {
		each.End(new(ctrl.Result), new(error))
	}

	b.passes = nil
}

// connected returns a scope with a session at the engine.
func (b *bench) connected() *machineScope {
	b.t.Helper()
	scope := b.scope()
	after, err := b.r.reconcileEngine(b.t.Context(), scope)
	check.Error(b.t, errors.Join(err, scope.engine.err), "")
	check.Equal(b.t, "when to look again at an engine that answers", after, 0)

	return scope
}

// configured returns a scope after all phases that precede the run.
func (b *bench) configured() *machineScope {
	b.t.Helper()
	scope := b.scope()
	_, err := runPhases(b.t.Context(), scope,
		b.r.reconcileState, b.r.reconcileBootstrapData, b.r.reconcileEngine, b.r.reconcileClaim, b.r.reconcileAddresses,
		b.r.reconcileVM, b.r.reconcileConfiguration,
	)
	check.Error(b.t, errors.Join(err, scope.engine.err, scope.network.err, scope.vm.err, scope.desired.err), "")

	return scope
}

// pass reconciles the machine m once.
func (b *bench) pass() ctrl.Result {
	b.t.Helper()
	result, err := b.reconcile()
	check.Error(b.t, err, "")

	return result
}

func (b *bench) reconcile() (ctrl.Result, error) {
	key := client.ObjectKey{Namespace: "ns", Name: "m"}
	return b.r.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: key})
}

// stored reads the machine m from the API server. It returns nil if there is none.
func (b *bench) stored() *infrav1.OLVMMachine {
	b.t.Helper()
	out := &infrav1.OLVMMachine{}
	err := b.api.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: "m"}, out)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}

	if err != nil {
		return nil
	}

	return out
}

// change edits a stored object.
func change[T client.Object](b *bench, object T, apply func(T)) {
	b.t.Helper()
	check.Error(b.t, b.api.Get(b.t.Context(), client.ObjectKeyFromObject(object), object), "")
	apply(object)
	check.Error(b.t, b.api.Update(b.t.Context(), object), "")
}

// delete deletes the machine m.
func (b *bench) delete() {
	b.t.Helper()
	check.Error(b.t, b.api.Delete(b.t.Context(), &infrav1.OLVMMachine{ObjectMeta: named("m")}), "")
}

// store writes the state of the machine m, as a run does after it has applied the configuration with this digest.
func (b *bench) store(state []byte, digest string) {
	b.t.Helper()
	states := &tfstate.Store{Client: b.api, Reader: b.api}
	check.Error(b.t, states.SaveApplied(b.t.Context(), b.stored(), "demo", state, digest), "")
}

// awaitRun waits until something wakes the machine m, such as the end of its run.
func (b *bench) awaitRun() {
	b.t.Helper()

	select {
	case <-b.r.Runs.WakeChannel(workspace.MachineKind):
	case <-time.After(patience):
		b.t.Fatal("nothing wakes the machine")
	}
}

// ran reports whether a run of the machine m is queued, is running, or has ended.
func (b *bench) ran() bool {
	return b.r.Runs.HasRuns() || len(b.executor.seen()) > 0 || b.woken()
}

// woken reports whether something has woken the machine m.
func (b *bench) woken() bool {
	select {
	case <-b.r.Runs.WakeChannel(workspace.MachineKind):
		return true
	default:
		return false
	}
}

// events returns the events since the last call.
func (b *bench) events() []string {
	var out []string

	for {
		select {
		case event := <-b.recorder.Events:
			out = append(out, event)
		default:
			return out
		}
	}
}

// states lists the names of the state Secrets.
func (b *bench) states() []string {
	b.t.Helper()
	var list corev1.SecretList
	check.Error(b.t, b.api.List(b.t.Context(), &list), "")

	var out []string

	for i := range list.Items {
		if list.Items[i].Type == tfstate.SecretType {
			out = append(out, list.Items[i].Name)
		}
	}

	return out
}

// changes lists all requests to the engine except reads.
func (b *bench) changes() []string {
	var out []string

	for _, request := range b.sim.ListRequests() {
		if request.Method != "GET" && strings.HasPrefix(request.Path, "/api") {
			path := strings.NewReplacer(vmID, "own", otherVMID, "other").Replace(request.Path)
			out = append(out, request.Method+" "+path)
		}
	}

	return out
}

// vm reads a VM from the engine.
func (b *bench) vm(id engine.ID) *engine.VM {
	b.t.Helper()
	vm, err := b.session.FetchFullVM(b.t.Context(), id)
	check.Error(b.t, err, "")

	return vm
}

// eventually waits for a condition.
func (b *bench) eventually(what string, met func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(patience)

	for !met() {
		if time.Now().After(deadline) {
			b.t.Fatalf("it never comes: %s", what)
		}

		time.Sleep(5 * time.Millisecond)
	}
}

// stateOf returns a Terraform state with these resources, each written as "type=ID" or "type[key]=ID".
func stateOf(serial int, resources ...string) []byte {
	type instance struct {
		IndexKey   string            `json:"index_key,omitempty"`
		Attributes map[string]string `json:"attributes"`
	}

	list := []map[string]any{}

	for _, resource := range resources {
		address, id, _ := strings.Cut(resource, "=")
		kind, key, _ := strings.Cut(strings.TrimSuffix(address, "]"), "[")
		list = append(list, map[string]any{
			"mode": "managed", "type": kind, "name": "this",
			"instances": []instance{{IndexKey: key, Attributes: map[string]string{"id": id, "affinity_group_id": id}}},
		})
	}

	out, _ := json.Marshal(map[string]any{"version": 4, "serial": serial, "lineage": "l", "resources": list})

	return out
}

// parsed returns a state applied with this digest.
func parsed(t *testing.T, digest string, resources ...string) *tfstate.State {
	t.Helper()
	state, err := tfstate.Parse(stateOf(1, resources...))
	check.Error(t, err, "")
	state.AppliedDigest = digest

	return state
}

// executor stands in for Terraform.
type executor struct {
	mu       sync.Mutex
	requests []terraform.Request
	// refusal is the error of each plan. If it is nil, the executor accepts the plan.
	refusal error
	// run replaces a run. By default, a run saves an empty state.
	run func(ctx context.Context, request terraform.Request) error
	// destroyed is called after a run has destroyed the resources of its state. It is nil without an engine.
	destroyed func(ctx context.Context)
	// drift is the result of each drift check.
	drift []terraform.Drift
}

func (x *executor) Apply(ctx context.Context, request terraform.Request) (terraform.Summary, error) {
	x.mu.Lock()
	refusal := x.refusal
	x.mu.Unlock()

	if refusal != nil {
		return terraform.Summary{}, refusal
	}

	if err := request.Confirm(ctx); err != nil {
		return terraform.Summary{}, err
	}

	x.mu.Lock()
	x.requests = append(x.requests, request)
	run := x.run
	x.mu.Unlock()

	if run == nil {
		run = saves(stateOf(100))
	}

	err := run(ctx, request)
	if err == nil && request.Destroy && x.destroyed != nil {
		x.destroyed(ctx)
	}

	return terraform.Summary{}, err
}

func (x *executor) Check(context.Context, terraform.Request) ([]terraform.Drift, error) {
	return x.drift, nil
}

// seen returns the requests so far.
func (x *executor) seen() []terraform.Request {
	x.mu.Lock()
	defer x.mu.Unlock()

	return x.requests
}

// saves returns a run that saves this state.
func saves(state []byte) func(context.Context, terraform.Request) error {
	return func(ctx context.Context, request terraform.Request) error { return request.SaveState(ctx, state, true) }
}

// watcher records the watched VM.
type watcher struct {
	watched   *enginepool.WatchedVM
	unwatched int
}

func (w *watcher) Start(context.Context) error { return nil }

func (w *watcher) Watch(_ workspace.Key, vm enginepool.WatchedVM) { w.watched = &vm }

func (w *watcher) Unwatch(workspace.Key) {
	w.watched = nil
	w.unwatched++
}
