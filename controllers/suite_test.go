package controllers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/guest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// suite is a real kube-apiserver with our controllers in this process. Nothing of Cluster API runs: the tests play its
// part by writing owners and status.
var suite struct {
	client   client.Client
	workDir  string
	sessions *engine.Sessions
	// assets has the binaries of etcd and kube-apiserver.
	assets string
	// stopWorkload stops the workload cluster, if one was started.
	stopWorkload func()
}

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (int, error) {
	ctrl.SetLogger(logr.Discard())
	tools, err := toolchain.New()
	if err != nil {
		return 0, err
	}
	assets, err := tools.Dir("plane")
	if err != nil {
		return 0, err
	}
	suite.assets, suite.stopWorkload = assets, func() {}
	if _, err := tools.Path("plane", "kube-apiserver"); err != nil {
		return 0, err
	}
	executable, err := tools.FindExecutor(context.Background())
	if err != nil {
		return 0, err
	}
	if suite.workDir, err = os.MkdirTemp("", "capolvm-test-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(suite.workDir)

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, ipamv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 0, err
		}
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(tools.Root(), "config", "crd", "bases"), filepath.Join(assets, "manifests", "capi-core", "crd")},
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	defer func() { _ = env.Stop() }() // also what a start that failed half way left running
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	config.QPS, config.Burst = 200, 400
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: ptr.To(time.Minute),
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		return 0, err
	}
	if suite.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	policy, err := os.ReadFile(filepath.Join(tools.Root(), "config", "policy", "template_immutability.yaml"))
	if err != nil {
		return 0, err
	}
	policies, err := localplane.ReadObjects(policy)
	if err != nil {
		return 0, err
	}
	if err := localplane.Apply(ctx, suite.client, policies...); err != nil {
		return 0, err
	}
	suite.sessions = &engine.Sessions{}
	engines := &Engines{Reader: mgr.GetAPIReader(), Sessions: suite.sessions}
	provider := tfprovider.InProcess{Options: tfprovider.Options{Sessions: suite.sessions, ReturnOnStart: true}}
	executor, runs := terraform.NewExecutor(executable, provider, filepath.Join(suite.workDir, ".init")), NewRuns(4)
	if err := (&OLVMClusterReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Engines: engines, Runs: runs, WorkDir: suite.workDir, Executor: executor, Recorder: mgr.GetEventRecorder("test"),
	}).SetupWithManager(ctx, mgr, controller.Options{}); err != nil {
		return 0, err
	}
	if err := (&OLVMMachineTemplateReconciler{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("test")}).SetupWithManager(ctx, mgr, controller.Options{}); err != nil {
		return 0, err
	}
	workloads, err := NewClusterCache(ctx, mgr, "test", "")
	if err != nil {
		return 0, err
	}
	connections := workloads.(interface {
		SetConnectionCreationRetryInterval(interval time.Duration)
		Shutdown()
	})
	connections.SetConnectionCreationRetryInterval(time.Second)
	if err := (&NodeReconciler{
		Client: mgr.GetClient(), ClusterCache: workloads, Recorder: mgr.GetEventRecorder("test"), ApproveServingCertificates: true,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 4}); err != nil {
		return 0, err
	}
	if err := (&OLVMMachineReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Engines: engines, Runs: runs, WorkDir: suite.workDir,
		Executor: executor, Recorder: mgr.GetEventRecorder("test"),
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 4}); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	code := m.Run()
	cancel()
	err = <-ended
	connections.Shutdown() // its watches would keep the API server up
	suite.stopWorkload()
	return code, err
}

// site is a namespace with an engine of its own, and what the tests of one cluster need.
type site struct {
	t         *testing.T
	sim       *ovirtsim.Server
	namespace string
	cluster   *clusterv1.Cluster
	olvm      *infrav1.OLVMCluster
	// label and domain of the next Machine; looks counts how often the cluster was touched.
	label  map[string]string
	domain string
	looks  int
}

var siteCount atomic.Int32

// newSite starts an engine and writes a Cluster with its OLVMCluster, the Secret and the CA. change may spoil them.
func newSite(t *testing.T, change func(*corev1.Secret, *corev1.ConfigMap, *infrav1.OLVMCluster)) *site {
	t.Helper()
	return newSiteIn(t, ovirtsim.DefaultInventory(), change)
}

// newSiteIn is newSite with another inventory of the engine.
func newSiteIn(t *testing.T, inventory ovirtsim.Inventory, change func(*corev1.Secret, *corev1.ConfigMap, *infrav1.OLVMCluster)) *site {
	t.Helper()
	t.Parallel()
	guests, err := guest.New(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory, Guest: guests, Timings: ovirtsim.Timings{Clone: 50 * time.Millisecond, Launch: 10 * time.Millisecond, PowerUp: 50 * time.Millisecond, PowerDown: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	s := &site{t: t, sim: sim, namespace: fmt.Sprintf("site-%d", siteCount.Add(1))}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.cluster = &clusterv1.Cluster{ObjectMeta: s.meta("demo"), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMCluster", Name: "demo"},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "demo"},
	}}
	s.create(s.cluster)
	s.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	s.updateStatus(s.cluster)
	secret := &corev1.Secret{ObjectMeta: s.meta("creds"), StringData: map[string]string{"username": sim.Username(), "password": sim.Password()}}
	ca := &corev1.ConfigMap{ObjectMeta: s.meta("ca"), Data: map[string]string{"ca.crt": string(sim.CA())}}
	s.olvm = &infrav1.OLVMCluster{ObjectMeta: s.meta("demo"), Spec: infrav1.OLVMClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443}, OLVMDatacenterName: "Default",
		OLVMOvirtAPIServer: infrav1.OvirtAPIServer{ServerURL: sim.URL(), CredentialsSecret: infrav1.NamespacedName{Name: "creds"}, CAConfigMap: &infrav1.NamespacedName{Name: "ca"}},
	}}
	s.olvm.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: s.cluster.UID}}
	if change != nil {
		change(secret, ca, s.olvm)
	}
	s.create(secret)
	s.create(ca)
	s.create(s.olvm)
	return s
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
}

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := suite.client.Create(context.Background(), object); err != nil {
		s.t.Fatalf("failed to create %T: %v", object, err)
	}
}

func (s *site) updateStatus(object client.Object) {
	s.t.Helper()
	if err := suite.client.Status().Update(context.Background(), object); err != nil {
		s.t.Fatalf("failed to update the status of %T: %v", object, err)
	}
}

// change reads an object, changes it and writes it, until no one else wrote in between.
func change[T client.Object](s *site, object T, apply func(T)) {
	s.t.Helper()
	s.eventually("the change is written", func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		apply(object)
		return suite.client.Update(context.Background(), object)
	})
}

// machineSpec asks for what the engine has.
func (s *site) machineSpec() infrav1.OLVMMachineSpec {
	return infrav1.OLVMMachineSpec{
		OLVMOvirtClusterName: "Default", VMTemplateName: "ol9-k8s",
		OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "kvm-vlan", VNICProfileName: "kvm-vlan"},
		VirtualMachine: infrav1.VirtualMachine{Memory: "4GB", Network: infrav1.GuestNetwork{Addressing: infrav1.Addressing{
			IPv4: &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10-10.0.0.19"}},
		}}},
	}
}

// machine writes a Machine with its bootstrap data and its OLVMMachine. spoil may change the latter.
func (s *site) machine(name string, spoil func(*infrav1.OLVMMachineSpec)) *infrav1.OLVMMachine {
	s.t.Helper()
	s.create(&corev1.Secret{ObjectMeta: s.meta(name + "-bootstrap"), Data: map[string][]byte{
		"format": []byte("cloud-config"), "value": []byte("## template: jinja\n#cloud-config\nwrite_files: []\n"),
	}})
	owner := &clusterv1.Machine{ObjectMeta: s.meta(name), Spec: clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.1", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-bootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMMachine", Name: name},
	}}
	owner.Spec.FailureDomain = s.domain
	for key, value := range s.label {
		owner.Labels[key] = value
	}
	s.create(owner)
	m := &infrav1.OLVMMachine{ObjectMeta: s.meta(name), Spec: s.machineSpec()}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID, Controller: ptr.To(true)}}
	if spoil != nil {
		spoil(&m.Spec)
	}
	s.create(m)
	return m
}

// eventually waits for a condition; the error says what is not met.
func (s *site) eventually(what string, check func() error) {
	s.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// object is one of ours.
type object interface {
	client.Object
	conditions.Getter
}

// expect waits for a condition of an object and returns its message. want is the status and the reason: "False/AddressPoolExhausted".
func (s *site) expect(o object, conditionType, want string) string {
	s.t.Helper()
	message := ""
	s.eventually(fmt.Sprintf("%s of %T %s", conditionType, o, o.GetName()), func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		c := conditions.Get(o, conditionType)
		if c == nil {
			return fmt.Errorf("is absent, want %s", want)
		}
		if got := string(c.Status) + "/" + c.Reason; got != want {
			return fmt.Errorf("is %s (%s), want %s", got, c.Message, want)
		}
		message = c.Message
		return nil
	})
	return message
}

// expectNamed waits until a machine is not made for a reason, whose message names all of these.
func (s *site) expectNamed(m *infrav1.OLVMMachine, conditionType, reason string, names []string) {
	s.t.Helper()
	message := s.expect(m, conditionType, "False/"+reason)
	for _, want := range names {
		if !strings.Contains(message, want) {
			s.t.Errorf("%q does not name %s", message, want)
		}
	}
	if s.sim.Summary().VMs != 0 {
		s.t.Error("a VM was made all the same")
	}
}

// expectProvisioned waits until the machine is provisioned as Cluster API sees it.
func (s *site) expectProvisioned(m *infrav1.OLVMMachine) {
	s.t.Helper()
	s.expect(m, infrav1.ReadyCondition, "True/Ready")
	s.eventually("the whole status is written", func() error { // conditions are written first
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Status.Terraform == nil || m.Status.Terraform.LastRun == nil {
			return fmt.Errorf("provisioned %v, terraform %+v", m.Status.Initialization.Provisioned, m.Status.Terraform)
		}
		return nil
	})
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) || !strings.HasPrefix(m.Spec.ProviderID, "olvm://") || len(m.Status.Addresses) == 0 {
		s.t.Errorf("a ready machine has provisioned %v, provider ID %q, addresses %v, conditions %+v", m.Status.Initialization.Provisioned, m.Spec.ProviderID, m.Status.Addresses, m.Status.Conditions)
	}
}

// expectGone waits until an object does not exist.
func (s *site) expectGone(o client.Object) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() error {
		err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it still exists with finalizers %v", o.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

func (s *site) delete(o client.Object) {
	s.t.Helper()
	if err := suite.client.Delete(context.Background(), o); err != nil {
		s.t.Fatalf("failed to delete %T: %v", o, err)
	}
}

// states lists the state Secrets of the site's machines.
func (s *site) states() []corev1.Secret {
	s.t.Helper()
	return slices.DeleteFunc(s.allStates(), func(secret corev1.Secret) bool {
		return strings.HasPrefix(secret.Labels["tfstateSecretSuffix"], statePrefix)
	})
}

// allStates lists the state Secrets of the site, also that of the cluster.
func (s *site) allStates() []corev1.Secret {
	s.t.Helper()
	var list corev1.SecretList
	if err := suite.client.List(context.Background(), &list, client.InNamespace(s.namespace), client.MatchingLabels{"tfstate": "true"}); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// posts counts the requests that create, start, stop or delete something in the engine.
func (s *site) changes() int {
	count := 0
	for _, r := range s.sim.Requests() {
		if r.Method != "GET" && strings.HasPrefix(r.Path, "/api") {
			count++
		}
	}
	return count
}
