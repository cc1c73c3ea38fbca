package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
)

// TestNoAddressIsEverGivenTwice runs random sequences of creations, deletions and restarts, several at a time, over two
// clusters that share a network and a third that does not, and looks at every address that was ever handed out.
func TestNoAddressIsEverGivenTwice(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const size, steps = 12, 80
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a repeatable sequence
			api := fake.NewClientBuilder().WithScheme(scheme).Build()
			ctx := context.Background()
			clusters := map[string]*infrav1.OLVMCluster{}
			for name, engine := range map[string]string{"a": "https://one.example.com", "b": "https://one.example.com/ovirt-engine/api", "c": "https://two.example.com"} {
				clusters[name] = &infrav1.OLVMCluster{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}},
					Spec: infrav1.OLVMClusterSpec{
						ControlPlaneEndpoint: infrav1.APIEndpoint{Host: map[string]string{"a": "10.0.0.5", "b": "10.0.0.6", "c": "10.0.0.5"}[name], Port: 6443},
						OLVMOvirtAPIServer:   infrav1.OvirtAPIServer{ServerURL: engine},
					},
				}
				if err := api.Create(ctx, clusters[name]); err != nil {
					t.Fatal(err)
				}
			}
			allocator := &addressAllocator{client: api, reader: api}
			live := map[string]*infrav1.OLVMMachine{}
			holders := func(engine string) map[string]string { // address -> machine
				out := map[string]string{}
				for name, m := range live {
					if address := m.Annotations[infrav1.IPv4AddressAnnotation]; address != "" && engineOf(clusters[m.Labels[clusterv1.ClusterNameLabel]]) == engine {
						if other, taken := out[address]; taken {
							t.Fatalf("%s and %s have %s", other, name, address)
						}
						out[address] = name
					}
				}
				return out
			}
			made := 0
			for range steps {
				switch random.IntN(4) {
				case 0, 1: // some machines at once, as a scale-up makes them
					var wait sync.WaitGroup
					var mu sync.Mutex
					for range 1 + random.IntN(4) {
						made++
						owner := clusters[[]string{"a", "b", "c"}[random.IntN(3)]]
						m := &infrav1.OLVMMachine{
							ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("m-%d", made), Labels: map[string]string{clusterv1.ClusterNameLabel: owner.Name}},
							Spec: infrav1.OLVMMachineSpec{
								OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "vlan"},
								VirtualMachine: infrav1.VirtualMachine{Network: infrav1.GuestNetwork{IPv4: &infrav1.IPv4Network{
									Subnet: "10.0.0.0/24", IPAddresses: []string{fmt.Sprintf("10.0.0.10-10.0.0.%d", 9+size)},
								}}},
							},
						}
						if err := api.Create(ctx, m); err != nil {
							t.Fatal(err)
						}
						wait.Go(func() {
							address, err := allocator.allocate(ctx, m, owner)
							var exhausted *resolve.Error
							if errors.As(err, &exhausted) && exhausted.Reason == infrav1.AddressPoolExhaustedReason {
								err = nil
							}
							if err != nil || address != m.Annotations[infrav1.IPv4AddressAnnotation] {
								t.Errorf("%s got %q, %v and records %v", m.Name, address, err, m.Annotations)
							}
							mu.Lock()
							defer mu.Unlock()
							live[m.Name] = m
						})
					}
					wait.Wait()
				case 2: // a machine goes
					for name, m := range live {
						if err := api.Delete(ctx, m); err != nil {
							t.Fatal(err)
						}
						delete(live, name)
						break
					}
				case 3: // a restart: only what is recorded is known
					allocator = &addressAllocator{client: api, reader: api}
					for name := range live {
						var fresh infrav1.OLVMMachine
						if err := api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &fresh); err != nil {
							t.Fatal(err)
						}
						before := live[name].Annotations[infrav1.IPv4AddressAnnotation]
						if again, err := allocator.allocate(ctx, &fresh, clusters[fresh.Labels[clusterv1.ClusterNameLabel]]); before != "" && (err != nil || again != before) {
							t.Fatalf("%s had %s and got %s, %v after a restart", name, before, again, err)
						}
						live[name] = &fresh
					}
				}
				for _, engine := range []string{"one.example.com", "two.example.com"} {
					held := holders(engine)
					for _, endpoint := range []string{"10.0.0.5", "10.0.0.6"} {
						if holder := held[endpoint]; holder != "" {
							t.Fatalf("%s has the control plane endpoint %s", holder, endpoint)
						}
					}
					// Nothing leaks: a machine goes without an address only while all are held.
					for name, m := range live {
						if m.Annotations[infrav1.IPv4AddressAnnotation] == "" && engineOf(clusters[m.Labels[clusterv1.ClusterNameLabel]]) == engine && len(held) < size {
							if _, err := allocator.allocate(ctx, m, clusters[m.Labels[clusterv1.ClusterNameLabel]]); err != nil {
								t.Fatalf("%s gets none although %d of %d are held: %v", name, len(held), size, err)
							}
							break
						}
					}
				}
			}
			if made < 30 {
				t.Errorf("only %d machines were made", made)
			}
		})
	}
}
