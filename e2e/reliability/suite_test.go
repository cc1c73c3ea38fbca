// Package reliability tests the provider's promise about any kill or cut at any time: each OLVMMachine ends with
// exactly the VM that it requests, or without a VM after its deletion. The tests run real manager processes with only
// the shipped roles, and real Terraform or OpenTofu. A real API server is behind one gate, and an engine simulator
// behind another.
package reliability

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

var suite testsite.Suite

func TestMain(m *testing.M) {
	suite.Main(m, "reliability", nil, func() { second.api.Stop() })
}

// manager is a manager process whose API server is behind a gate.
type manager struct {
	*testsite.Manager
	api *gate
}

// newManager returns a manager that is not started yet. The parameter args follows the arguments that all managers
// have.
func newManager(t *testing.T, args ...string) *manager {
	t.Helper()

	return newManagerOf(t, suite.Program, args...)
}

// newManagerOf is like newManager, for another build of the program.
func newManagerOf(t *testing.T, program *testsite.Program, args ...string) *manager {
	t.Helper()
	m := &manager{api: &gate{name: writeCall}}
	m.Manager = program.NewManager(
		t,
		m.api.wrap,
		append([]string{"--kube-api-qps=200", "--kube-api-burst=400"}, args...)...)

	return m
}

// provider acts as the IPAM provider of a namespace. It fulfils claims with addresses in 10.9.0.0/16, and takes
// addresses back.
func provider(t *testing.T, api *testsite.APIServer, namespace string) {
	t.Helper()
	manager, err := ctrl.NewManager(api.Config, ctrl.Options{
		Scheme:  api.Scheme,
		Logger:  logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}

	addresses := &pool{Client: manager.GetClient()}
	err = ctrl.NewControllerManagedBy(manager).
		For(&ipamv1.IPAddressClaim{}).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}).
		Complete(addresses)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the IPAM provider of %s: %v", namespace, err)
		}
	})
	go func() { ended <- manager.Start(ctx) }()
}

// pool holds the addresses of a provider.
type pool struct {
	client.Client
	given int
}

func (p *pool) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var claim ipamv1.IPAddressClaim
	err := p.Get(ctx, request.NamespacedName, &claim)
	if apierrors.IsNotFound(err) {
		address := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
		return ctrl.Result{}, client.IgnoreNotFound(p.Delete(ctx, address))
	}

	if err != nil || claim.Status.AddressRef.Name != "" || !claim.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, err
	}

	p.given++
	address := &ipamv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace,
			Name:      claim.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: ipamv1.GroupVersion.String(),
				Kind:       "IPAddressClaim",
				Name:       claim.Name,
				UID:        claim.UID,
				Controller: ptr.To(true),
			}},
		},
		Spec: ipamv1.IPAddressSpec{
			ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name},
			PoolRef:  claim.Spec.PoolRef,
			Address:  fmt.Sprintf("10.9.%d.%d", p.given/250, p.given%250+1),
			Prefix:   ptr.To(int32(16)), Gateway: "10.9.255.1",
		},
	}

	// An existing address came with a move, because a move drops the status of the claim.
	if err := p.Create(ctx, address); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}

	claim.Status.AddressRef.Name = claim.Name

	return ctrl.Result{}, p.Status().Update(ctx, &claim)
}

// bench is a manager with one cluster. It runs one case after another.
type bench struct {
	*manager
	site   *testsite.Site
	engine *gate
	// live plays a whole life under the given name.
	live func(t *testing.T, name string)
	// args are the arguments of all managers of the bench. If own is not nil, it returns the arguments of one of them.
	args []string
	own  func(*testing.T) []string
	// rests is called by a life while there is nothing to do, unless it is nil.
	rests func(*testsite.Site)
	// tidies reports whether a leader halted at a point creates something late that its successor must remove. It may
	// be nil.
	tidies func(point) bool
}

// rest marks a pause of a life, in which there is nothing to do.
func (b *bench) rest(s *testsite.Site) {
	s.T.Helper()

	if b.rests != nil {
		b.rests(s)
	}
}

func newBench(t *testing.T, change func(*infrav1.OLVMCluster), args ...string) *bench {
	t.Helper()
	b := newColdBench(t, change, args...)
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return b
}

// newColdBench is like newBench, but does not start the manager.
func newColdBench(t *testing.T, change func(*infrav1.OLVMCluster), args ...string) *bench {
	t.Helper()

	return newColdBenchIn(t, ovirtsim.Inventory{}, change, args...)
}

// newColdBenchIn is like newColdBench, with an inventory for the engine.
func newColdBenchIn(
	t *testing.T, inventory ovirtsim.Inventory, change func(*infrav1.OLVMCluster), args ...string,
) *bench {
	t.Helper()
	b := &bench{engine: &gate{name: engineCall}}
	b.live = b.life
	b.site = testsite.New(t, suite.API.Client, testsite.Options{
		Inventory: inventory,
		Gate:      b.engine.wrap,
		Change: func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			if change != nil {
				change(c)
			}
		},
	})
	provider(t, suite.API, b.site.Namespace)
	b.args = append(slices.Clone(args), "--namespace="+b.site.Namespace)
	b.manager = b.another(t)

	return b
}

// another returns another manager for the objects of the bench. The manager is not started yet.
func (b *bench) another(t *testing.T) *manager {
	t.Helper()

	args := slices.Clone(b.args)
	if b.own != nil {
		args = append(args, b.own(t)...)
	}

	return newManager(t, args...)
}
