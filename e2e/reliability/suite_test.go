// Package reliability tests the promise: whatever is killed or cut, and whenever, each OLVMMachine ends with exactly
// the VM it asked for, or none once deleted. Real manager processes, with the shipped roles only, real Terraform or
// OpenTofu, a real API server behind a gate, and an engine simulator behind another.
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

// manager is a manager process, its API server behind a gate.
type manager struct {
	*testsite.Manager
	api *gate
}

// newManager starts nothing yet. args add to those that each manager has.
func newManager(t *testing.T, args ...string) *manager {
	t.Helper()
	m := &manager{api: &gate{name: writeCall}}
	m.Manager = suite.Program.New(
		t,
		m.api.wrap,
		append([]string{"--kube-api-qps=200", "--kube-api-burst=400"}, args...)...)

	return m
}

// provider plays the IPAM provider of a namespace: it fulfils claims out of 10.9.0.0/16 and takes addresses back.
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

// pool has the addresses of a provider.
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

	// One that is there already came with a move, which drops the claim's status.
	if err := p.Create(ctx, address); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}

	claim.Status.AddressRef.Name = claim.Name

	return ctrl.Result{}, p.Status().Update(ctx, &claim)
}

// bench is one manager with one cluster, in which case after case is tried.
type bench struct {
	*manager
	site   *testsite.Site
	engine *gate
	// live plays a life with that name from its beginning to its end.
	live func(t *testing.T, name string)
	// args are those that its managers have in common, and own, which may be nil, those that each has alone.
	args []string
	own  func(*testing.T) []string
	// rests, which may be nil, is called by a life when there is nothing to do.
	rests func(*testsite.Site)
	// tidies, which may be nil, reports that a leader that is halted there makes something late, which its successor
	// removes.
	tidies func(point) bool
}

// rest tells that a life has nothing to do until it goes on.
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

// newColdBench is newBench with a manager that is not started.
func newColdBench(t *testing.T, change func(*infrav1.OLVMCluster), args ...string) *bench {
	t.Helper()

	return newColdBenchIn(t, ovirtsim.Inventory{}, change, args...)
}

// newColdBenchIn is newColdBench with an engine that has an inventory.
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

// another makes a manager for the objects of the bench, which is not started.
func (b *bench) another(t *testing.T) *manager {
	t.Helper()

	args := slices.Clone(b.args)
	if b.own != nil {
		args = append(args, b.own(t)...)
	}

	return newManager(t, args...)
}
