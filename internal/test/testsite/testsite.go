// Package testsite provides tests with an API server that has our CRDs, and with sites. A site is a namespace with its
// own engine simulator and the objects of one cluster. Cluster API does not run. Instead, the site itself writes owners
// and statuses.
package testsite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/guest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// APIServer is a kube-apiserver with its etcd.
type APIServer struct {
	// Env runs both processes, and can add users.
	Env *envtest.Environment
	// Config and Client have all rights on the API server.
	Config *rest.Config
	Client client.Client
	Scheme *runtime.Scheme
	// Assets is the folder with the binaries of both.
	Assets string
}

// StartAPIServer starts an API server with our CRDs and policies, and with Cluster API's CRDs. Callers must call Stop
// even after an error.
func StartAPIServer(ctx context.Context, tools *toolchain.Toolchain) (*APIServer, error) {
	testenv.CollectLessGarbage()

	assets, err := tools.Dir("plane")
	if err != nil {
		return nil, err
	}

	if _, err := tools.Path("plane", "kube-apiserver"); err != nil {
		return nil, err
	}

	crds, err := readCRDs(
		filepath.Join(tools.Root(), "config", "crd", "bases"), filepath.Join(assets, "manifests", "capi-core", "crd"))
	if err != nil {
		return nil, err
	}

	a := &APIServer{Assets: assets, Scheme: runtime.NewScheme(), Env: &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDs:                     crds,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: wait.Limit},
		ControlPlaneStartTimeout: wait.Limit,
		ControlPlaneStopTimeout:  wait.Limit,
	}}
	localplane.KeepToLoopback(a.Env.ControlPlane.GetAPIServer())

	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme,
		ipamv1.AddToScheme, api.AddToScheme} {
		if err := add(a.Scheme); err != nil {
			return a, fmt.Errorf("failed to build the scheme: %w", err)
		}
	}

	testenv.OnInterrupt(a.Stop)

	if a.Config, err = a.Env.Start(); err != nil {
		return a, fmt.Errorf("failed to start the API server: %w", err)
	}

	a.Config.QPS, a.Config.Burst = 200, 400
	if a.Client, err = client.New(a.Config, client.Options{Scheme: a.Scheme}); err != nil {
		return a, fmt.Errorf("failed to make a client: %w", err)
	}

	policies, err := manifest.ReadFiles(filepath.Join(tools.Root(), "config", "policy"))
	if err != nil {
		return a, err
	}

	return a, localplane.Apply(ctx, a.Client, policies...)
}

// readCRDs reads our CRDs and those of Cluster API, and labels them like clusterctl init. With labels added later, the
// API server would compile the rules of the CRDs again.
func readCRDs(folders ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var out []*apiextensionsv1.CustomResourceDefinition

	for _, folder := range folders {
		objects, err := manifest.ReadFiles(folder)
		if err != nil {
			return nil, err
		}

		for _, object := range objects {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
				return nil, fmt.Errorf("failed to read CRD %s: %w", object.GetName(), err)
			}

			metav1.SetMetaDataLabel(&crd.ObjectMeta, clusterctlv1.ClusterctlLabel, "")
			out = append(out, crd)
		}
	}

	if len(out) == 0 {
		return nil, fmt.Errorf("%s have no CRDs", strings.Join(folders, " and "))
	}

	return out, nil
}

// Stop stops both processes, even after a failed start.
func (a *APIServer) Stop() {
	if a != nil {
		_ = a.Env.Stop()
	}
}

// Site is a namespace with its own engine and everything that the tests of one cluster need.
type Site struct {
	T         *testing.T
	Client    client.Client
	Sim       *ovirtsim.Server
	Namespace string
	Cluster   *clusterv1.Cluster
	OLVM      *infrav1.OLVMCluster
	// UserData is the user data of the next Machine, and Format is its format. Empty means a cloud-config without an
	// effect.
	UserData, Format string
	// Label and Domain are for the next Machine.
	Label  map[string]string
	Domain string
	// Maker is the controller of the next Machine from the start, such as a MachineSet; nil means none.
	Maker *metav1.OwnerReference
}

// Options configure a site; the zero value is usable.
type Options struct {
	// Inventory is the inventory of the engine; an empty one means the simulator's default.
	Inventory ovirtsim.Inventory
	// Change may make credentials, the CA and the OLVMCluster invalid before they are written.
	Change func(*corev1.Secret, *corev1.ConfigMap, *infrav1.OLVMCluster)
	// Gate returns a handler that gets each request before the engine does; nil means none.
	Gate func(http.Handler) http.Handler
}

var siteCount atomic.Int32

// New starts an engine and writes a Cluster with its OLVMCluster, the Secret and the CA.
func New(t *testing.T, api client.Client, options Options) *Site {
	t.Helper()
	guests, err := guest.New(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}

	sim, err := ovirtsim.New(ovirtsim.Options{
		Inventory: options.Inventory, Guest: guests, Gate: options.Gate,
		Timings: ovirtsim.Timings{
			Clone:     50 * time.Millisecond,
			Launch:    10 * time.Millisecond,
			PowerUp:   50 * time.Millisecond,
			PowerDown: 20 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	s := &Site{T: t, Client: api, Sim: sim, Namespace: fmt.Sprintf("site-%d", siteCount.Add(1))}
	t.Cleanup(s.RemoveObjects)
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
	s.Cluster = s.newCluster()
	s.Create(s.Cluster)
	s.Cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	s.UpdateStatus(s.Cluster)
	secret := &corev1.Secret{
		ObjectMeta: s.NewMeta("creds"),
		StringData: map[string]string{
			"username":                   sim.Username(),
			"password":                   sim.Password(),
			infrav1.AllowedServerURLsKey: sim.URL(),
		},
	}
	ca := &corev1.ConfigMap{ObjectMeta: s.NewMeta("ca"), Data: map[string]string{"ca.crt": string(sim.CA())}}
	s.OLVM = &infrav1.OLVMCluster{ObjectMeta: s.NewMeta("demo"), Spec: infrav1.OLVMClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443}, OLVMDatacenterName: "Default",
		OLVMOvirtAPIServer: infrav1.OvirtAPIServer{
			ServerURL:         sim.URL(),
			CredentialsSecret: infrav1.NamespacedName{Name: "creds"},
			CAConfigMap:       &infrav1.NamespacedName{Name: "ca"},
		},
	}}
	s.OLVM.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: s.Cluster.UID},
	}
	if options.Change != nil {
		options.Change(secret, ca, s.OLVM)
	}

	s.Create(secret)
	s.Create(ca)
	s.Create(s.OLVM)

	return s
}

// newCluster returns the Cluster of the site.
func (s *Site) newCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: s.NewMeta("demo"), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group,
			Kind:     "OLVMCluster",
			Name:     "demo",
		},
		ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "controlplane.cluster.x-k8s.io",
			Kind:     "KubeadmControlPlane",
			Name:     "demo",
		},
	}}
}

// RemoveObjects removes the objects that a test has left. The next engine may get the same port, and its machines must
// not find the addresses of old machines in use.
func (s *Site) RemoveObjects() {
	ctx := context.Background()
	var machines infrav1.OLVMMachineList
	var clusters infrav1.OLVMClusterList
	_ = s.Client.List(ctx, &machines, client.InNamespace(s.Namespace))
	_ = s.Client.List(ctx, &clusters, client.InNamespace(s.Namespace))

	var left []client.Object
	for i := range machines.Items {
		left = append(left, &machines.Items[i])
	}

	for i := range clusters.Items {
		left = append(left, &clusters.Items[i])
	}

	for _, object := range left {
		_ = s.Client.Delete(ctx, object)
		_ = s.Client.Patch(
			ctx,
			object,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)),
		)
	}
}

// NewMeta returns the metadata of an object of the cluster.
func (s *Site) NewMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Namespace,
		Name:      name,
		Labels:    map[string]string{clusterv1.ClusterNameLabel: "demo"},
	}
}

// Create creates an object in the API server.
func (s *Site) Create(object client.Object) {
	s.T.Helper()
	if err := s.Client.Create(context.Background(), object); err != nil {
		s.T.Fatalf("failed to create %T: %v", object, err)
	}
}

// UpdateStatus writes the status of an object.
func (s *Site) UpdateStatus(object client.Object) {
	s.T.Helper()
	if err := s.Client.Status().Update(context.Background(), object); err != nil {
		s.T.Fatalf("failed to update the status of %T: %v", object, err)
	}
}

// UpdateObject reads, changes and writes an object, and repeats this after conflicting writes.
func UpdateObject[T client.Object](s *Site, object T, apply func(T)) {
	s.T.Helper()
	s.Eventually("the change is written", func() error {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}

		apply(object)

		return s.Client.Update(context.Background(), object)
	})
}

// UseEndpoint gives the Cluster and its OLVMCluster the endpoint in a server's URL. It does not change a provisioned
// OLVMCluster, because its endpoint is immutable.
func (s *Site) UseEndpoint(server string) {
	s.T.Helper()
	at, err := url.Parse(server)
	if err != nil {
		s.T.Fatal(err)
	}

	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		s.T.Fatal(err)
	}

	endpoint := clusterv1.APIEndpoint{Host: at.Hostname(), Port: int32(port)}
	UpdateObject(s, s.Cluster, func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint = endpoint })

	if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
		s.T.Fatal(err)
	}

	if ptr.Deref(s.OLVM.Status.Initialization.Provisioned, false) {
		return
	}

	again := &infrav1.OLVMCluster{ObjectMeta: s.NewMeta(s.OLVM.Name), Spec: *s.OLVM.Spec.DeepCopy()}
	again.OwnerReferences, again.Annotations = s.OLVM.OwnerReferences, s.OLVM.Annotations
	again.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint(endpoint)

	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	s.OLVM = again
	s.Create(s.OLVM)
}

// MachineSpec returns a spec that matches the engine's inventory.
func (s *Site) MachineSpec() infrav1.OLVMMachineSpec {
	return infrav1.OLVMMachineSpec{
		OLVMOvirtClusterName: "Default", VMTemplateName: "ol9-k8s",
		OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "kvm-vlan", VNICProfileName: "kvm-vlan"},
		VirtualMachine: infrav1.VirtualMachine{
			Memory: "4GB",
			Network: infrav1.GuestNetwork{Addressing: infrav1.Addressing{
				IPv4: &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10-10.0.0.19"}},
			}},
		},
	}
}

// ForSubtest returns the site for a subtest.
func (s *Site) ForSubtest(t *testing.T) *Site {
	t.Helper()
	out := *s
	out.T = t

	return &out
}

// ExpectEmptyEngine fails the test if VMs, network interfaces or disks are left. Affinity groups may be left only as
// long as the OLVMCluster exists.
func (s *Site) ExpectEmptyEngine() {
	s.T.Helper()
	left := s.Sim.Summarize()
	err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), &infrav1.OLVMCluster{})
	if err == nil {
		left.AffinityGroups = 0 // these exist as long as the OLVMCluster
	}

	if left.VMs+left.NICs+left.Disks+left.AffinityGroups != 0 {
		s.T.Errorf("left in the engine: %+v", left)
	}
}

// CreateMachine creates a Machine with its bootstrap data and its OLVMMachine. Before this, spoil may change the spec
// of the OLVMMachine.
func (s *Site) CreateMachine(name string, spoil func(*infrav1.OLVMMachineSpec)) *infrav1.OLVMMachine {
	s.T.Helper()
	s.Create(&corev1.Secret{ObjectMeta: s.NewMeta(name + "-bootstrap"), Data: map[string][]byte{
		"format": []byte(cmp.Or(s.Format, "cloud-config")),
		"value":  []byte(cmp.Or(s.UserData, "## template: jinja\n#cloud-config\nwrite_files: []\n")),
	}})
	owner := &clusterv1.Machine{ObjectMeta: s.NewMeta(name), Spec: clusterv1.MachineSpec{
		ClusterName: "demo",
		Version:     "v1.36.1",
		Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-bootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group,
			Kind:     "OLVMMachine",
			Name:     name,
		},
	}}
	owner.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: s.Cluster.UID},
	}
	if s.Maker != nil {
		owner.OwnerReferences = append(owner.OwnerReferences, *s.Maker)
	}

	owner.Spec.FailureDomain = s.Domain
	maps.Copy(owner.Labels, s.Label)
	s.Create(owner)
	m := &infrav1.OLVMMachine{ObjectMeta: s.NewMeta(name), Spec: s.MachineSpec()}
	maps.Copy(m.Labels, s.Label)
	m.OwnerReferences = []metav1.OwnerReference{
		{
			APIVersion: clusterv1.GroupVersion.String(),
			Kind:       "Machine",
			Name:       name,
			UID:        owner.UID,
			Controller: ptr.To(true),
		},
	}
	if spoil != nil {
		spoil(&m.Spec)
	}

	s.Create(m)

	return m
}

// Eventually waits until check returns no error. The error describes what is missing.
func (s *Site) Eventually(what string, check func() error) {
	s.T.Helper()
	wait.For(s.T, what, check)
}

// Object is one of our objects.
type Object interface {
	client.Object
	conditions.Getter
}

// ExpectCondition waits for a condition of an object, and returns the message of the condition. The wanted value is the
// status and the reason, such as "False/AddressRangeExhausted".
func (s *Site) ExpectCondition(o Object, conditionType, want string) string {
	s.T.Helper()
	message := ""
	s.Eventually(fmt.Sprintf("%s of %T %s", conditionType, o, o.GetName()), func() error {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
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

// ExpectNamed waits until a machine without a VM is blocked for the given reason. The message must contain all names.
func (s *Site) ExpectNamed(m *infrav1.OLVMMachine, conditionType, reason string, names []string) {
	s.T.Helper()

	message := s.ExpectCondition(m, conditionType, "False/"+reason)
	for _, want := range names {
		if !strings.Contains(message, want) {
			s.T.Errorf("%q does not name %s", message, want)
		}
	}

	if s.Sim.Summarize().VMs != 0 {
		s.T.Error("a VM was made all the same")
	}
}

// ExpectProvisioned waits until Cluster API sees the machine as provisioned.
func (s *Site) ExpectProvisioned(m *infrav1.OLVMMachine) {
	s.T.Helper()
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")
	s.Eventually("the whole status is written", func() error { // the conditions are written first
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if !ptr.Deref(m.Status.Initialization.Provisioned,
			false) || m.Status.Terraform == nil || m.Status.Terraform.LastRun == nil {
			return fmt.Errorf("provisioned %v, terraform %+v", m.Status.Initialization.Provisioned, m.Status.Terraform)
		}

		return nil
	})
	if !ptr.Deref(m.Status.Initialization.Provisioned,
		false) || !strings.HasPrefix(m.Spec.ProviderID, "olvm://") || len(m.Status.Addresses) == 0 {
		s.T.Errorf("a ready machine has provisioned %v, provider ID %q, addresses %v, conditions %+v",
			m.Status.Initialization.Provisioned, m.Spec.ProviderID, m.Status.Addresses, m.Status.Conditions)
	}
}

// ExpectGone waits until an object no longer exists.
func (s *Site) ExpectGone(o client.Object) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() error {
		err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it still exists with finalizers %v", o.GetFinalizers())
		}

		return client.IgnoreNotFound(err)
	})
}

// Delete deletes an object, but does not wait until it is gone.
func (s *Site) Delete(o client.Object) {
	s.T.Helper()
	if err := s.Client.Delete(context.Background(), o); err != nil {
		s.T.Fatalf("failed to delete %T: %v", o, err)
	}
}

// ListStates returns the state Secrets of the site's machines.
func (s *Site) ListStates() []corev1.Secret {
	s.T.Helper()

	return slices.DeleteFunc(s.ListAllStates(), func(secret corev1.Secret) bool {
		return secret.Labels["tfstateSecretSuffix"] != "" && strings.HasPrefix(secret.Labels["tfstateSecretSuffix"],
			"olvmcluster.")
	})
}

// ListAllStates returns all state Secrets of the site, including that of the cluster.
func (s *Site) ListAllStates() []corev1.Secret {
	s.T.Helper()
	var list corev1.SecretList
	err := s.Client.List(context.Background(), &list, client.InNamespace(s.Namespace), client.MatchingLabels{
		"tfstate": "true",
	})
	if err != nil {
		s.T.Fatal(err)
	}

	return list.Items
}

// CountChanges returns the number of requests that create, start, stop or delete objects in the engine.
func (s *Site) CountChanges() int {
	count := 0

	for _, r := range s.Sim.ListRequests() {
		if r.Method != "GET" && strings.HasPrefix(r.Path, "/api") {
			count++
		}
	}

	return count
}

// NewSession returns a separate client of the site's engine. Tests use it for changes of which the controllers do not
// know.
func (s *Site) NewSession() *engine.Client {
	s.T.Helper()
	session, err := engine.New(engine.Config{
		URL:      s.Sim.URL(),
		Username: s.Sim.Username(),
		Password: s.Sim.Password(),
		CA:       s.Sim.CA(),
	})
	if err != nil {
		s.T.Fatal(err)
	}

	return session
}
