package addressing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// addressBook is an allocator with a fake API server, and an IPAM provider with one pool.
type addressBook struct {
	t         *testing.T
	api       client.WithWatch
	allocator *Allocator
	clusters  map[string]*infrav1.OLVMCluster
	live      map[string]*infrav1.OLVMMachine
	given     int // number of addresses the IPAM provider has assigned
	// write is called before a machine is written. It may be nil.
	write func()
	// learned has the VMs' addresses that the engine reports.
	learned Addresses
}

func newAddressBook(t *testing.T) *addressBook {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(api.AddToScheme(scheme), ipamv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}

	b := &addressBook{
		t:        t,
		api:      fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&ipamv1.IPAddressClaim{}).Build(),
		clusters: map[string]*infrav1.OLVMCluster{},
		live:     map[string]*infrav1.OLVMMachine{},
	}
	for name, engine := range map[string]string{
		"a": "https://one.example.com",
		"b": "https://one.example.com/ovirt-engine/api",
		"c": "https://two.example.com",
	} {
		b.clusters[name] = &infrav1.OLVMCluster{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default",
				Name:      name,
				Labels:    map[string]string{clusterv1.ClusterNameLabel: name},
			},
			Spec: infrav1.OLVMClusterSpec{
				ControlPlaneEndpoint: infrav1.APIEndpoint{
					Host: map[string]string{"a": "10.0.0.5", "b": "10.0.0.6", "c": "10.0.0.5"}[name],
					Port: 6443,
				},
				OLVMOvirtAPIServer: infrav1.OvirtAPIServer{ServerURL: engine},
				IPProfiles:         []infrav1.IPProfile{{Name: "shared", Addressing: ranges(12)}},
			},
		}
		b.create(b.clusters[name])
	}

	b.restart()

	return b
}

// ranges returns ranges with this many addresses of each family.
func ranges(size int) infrav1.Addressing {
	return infrav1.Addressing{
		IPv4: &infrav1.IPv4Network{
			Subnet:      "10.0.0.0/24",
			IPAddresses: []string{fmt.Sprintf("10.0.0.10-10.0.0.%d", 9+size)},
		},
		IPv6: &infrav1.IPv6Network{IPAddresses: []string{fmt.Sprintf("fd00::10-fd00::%x", 15+size)}},
	}
}

func (b *addressBook) create(object client.Object) {
	b.t.Helper()
	if err := b.api.Create(context.Background(), object); err != nil {
		b.t.Fatal(err)
	}
}

// restart forgets everything except the records.
func (b *addressBook) restart() {
	b.allocator = &Allocator{Client: b.api, Reader: b.api}
}

func (b *addressBook) clusterOf(m *infrav1.OLVMMachine) *infrav1.OLVMCluster {
	return b.clusters[m.Labels[clusterv1.ClusterNameLabel]]
}

func (b *addressBook) allocate(m *infrav1.OLVMMachine) (map[string][]string, error) {
	nics, err := BuildNICs(m.Spec, b.clusterOf(m).Spec)
	if err != nil {
		return nil, err
	}

	given, err := b.allocator.Allocate(
		context.Background(), m, connection.GetEngineID(b.clusterOf(m)), nics, b.writer(m), b.learn,
	)
	out := map[string][]string{}

	for name, list := range given {
		for _, address := range list {
			out[name] = append(out[name], address.Addr().String())
		}
	}

	return out, err
}

// writer returns a function that writes a machine like its controller.
func (b *addressBook) writer(m *infrav1.OLVMMachine) func(context.Context) error {
	return func(ctx context.Context) error {
		if b.write != nil {
			b.write()
		}

		return b.api.Update(ctx, m)
	}
}

func (b *addressBook) learn(context.Context) (Addresses, error) { return b.learned, nil }

// allocated expects that an allocation succeeds, and returns the addresses.
func (b *addressBook) allocated(m *infrav1.OLVMMachine) map[string][]string {
	b.t.Helper()
	given, err := b.allocate(m)
	if err != nil {
		b.t.Fatal(err)
	}

	return given
}

// refused expects that an allocation fails with this reason, and returns the message.
func (b *addressBook) refused(m *infrav1.OLVMMachine, reason string) string {
	b.t.Helper()
	given, err := b.allocate(m)
	var field *blocker.Error
	if !errors.As(err, &field) || field.Reason != reason {
		b.t.Fatalf("got %v, %v, want %s", given, err, reason)
	}

	return field.Error()
}

// machine returns a machine of a cluster. network and second are the networks of its guest's interfaces.
func (b *addressBook) machine(
	name, cluster string, network infrav1.GuestNetwork, second *infrav1.AdditionalGuestNetwork,
) *infrav1.OLVMMachine {
	b.t.Helper()
	m := &infrav1.OLVMMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      name,
			UID:       types.UID("uid-" + name),
			Labels:    map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Spec: infrav1.OLVMMachineSpec{
			OLVMNetwork:    infrav1.OLVMNetwork{NetworkName: "vlan"},
			VirtualMachine: infrav1.VirtualMachine{Network: network},
		},
	}
	if second != nil {
		m.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
			{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "vlan"}, Guest: second},
		}
	}

	b.create(m)

	return m
}

// TestShardsThatChooseTheSameAddressChooseAnew has a manager of another shard that records the same address. It does so
// after this manager has read the addresses in use, and before its record is written.
func TestShardsThatChooseTheSameAddressChooseAnew(t *testing.T) {
	for name, killed := range map[string]bool{
		"the manager goes on":                         false,
		"the manager is killed before it looks again": true,
	} {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)
			network := infrav1.GuestNetwork{Addressing: ranges(4)}
			one, two := b.machine("one", "a", network, nil), b.machine("two", "b", network, nil)
			others := &Allocator{Client: b.api, Reader: b.api}
			raced := false
			b.write = func() {
				if !raced {
					raced = true
					mine := b.allocator
					b.allocator = others
					b.allocated(two)
					b.allocator = mine
				}
			}
			if killed {
				b.allocator.Reader = interceptor.NewClient(
					b.api,
					interceptor.Funcs{
						List: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
							options ...client.ListOption) error {
							if raced {
								return errors.New("killed")
							}

							return c.List(ctx, l, options...)
						},
					},
				)
			}

			if given, err := b.allocate(one); err == nil {
				t.Fatalf("one got %v although two has the same", given)
			}

			// The record is written at the end of the pass.
			if record := one.Annotations[infrav1.AddressesAnnotation]; !killed && record != "{}" {
				t.Errorf("one keeps %s", record)
			}

			b.restart()
			fresh := func(m *infrav1.OLVMMachine) *infrav1.OLVMMachine {
				out := m.DeepCopy()
				if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(m), out); err != nil {
					t.Fatal(err)
				}

				return out
			}
			if _, err := b.allocate(fresh(one)); killed == (err == nil) {
				t.Fatalf("the first look after it got %v", err)
			}

			mine, theirs := b.allocated(fresh(one)), b.allocated(fresh(two))
			if mine["nic1"][0] == theirs["nic1"][0] || len(mine["nic1"]) != 2 {
				t.Errorf("one has %v, two has %v", mine, theirs)
			}
		})
	}
}

// TestAddressesThatAreNotWrittenYetAreHeld has a manager with all machines in its cache. It writes an address together
// with all other changes of a pass. No other machine may get the address meanwhile.
func TestAddressesThatAreNotWrittenYetAreHeld(t *testing.T) {
	b := newAddressBook(t)
	b.allocator.CacheHasAll = true
	network := infrav1.GuestNetwork{Addressing: ranges(2)}
	one, two, three := b.machine("one", "a", network, nil), b.machine("two", "b", network, nil),
		b.machine("three", "a", network, nil)
	written := 0
	b.write = func() { written++ }

	first, second := b.allocated(one)["nic1"][0], b.allocated(two)["nic1"][0]
	check.Equal(t, "the first two", []string{first, second}, []string{"10.0.0.10", "10.0.0.11"})
	check.Equal(t, "writes of the allocator", written, 0)
	b.refused(three, infrav1.AddressRangeExhaustedReason)

	// The pass over the first machine has failed before its write, and another pass begins.
	check.Error(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(one), one), "")
	check.Equal(t, "the first, again", b.allocated(one)["nic1"][0], first)
	check.Error(t, b.api.Update(t.Context(), one), "")

	// A deleted object holds no address, whether its record was written or not.
	check.Error(t, b.api.Delete(t.Context(), two), "")
	check.Equal(t, "the third", b.allocated(three)["nic1"][0], second)
}

// TestARecordOfAHaltedLeaderIsComparedBeforeItsFirstUse has two machines with the same address, which two leaders have
// recorded. The manager's cache has all machines.
func TestARecordOfAHaltedLeaderIsComparedBeforeItsFirstUse(t *testing.T) {
	b := newAddressBook(t)
	b.allocator.CacheHasAll = true
	network := infrav1.GuestNetwork{Addressing: ranges(3)}
	one, two := b.machine("one", "a", network, nil), b.machine("two", "a", network, nil)

	for _, m := range []*infrav1.OLVMMachine{one, two} {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.AddressesAnnotation, `{"nic1":["10.0.0.10","fd00::10"]}`)
		check.Error(t, b.api.Update(t.Context(), m), "")
	}

	_, err := b.allocate(one)
	check.Equal(t, "the first look finds the conflict", err != nil, true)
	check.Error(t, b.api.Update(t.Context(), one), "") // like the pass, which writes the released record
	mine, theirs := b.allocated(one)["nic1"][0], b.allocated(two)["nic1"][0]
	check.Equal(t, "each has its own", mine != theirs, true)

	one.Annotations[infrav1.CreateRequestedAnnotation] = "one"
	check.Equal(t, "one that may have a VM keeps it", b.allocated(one)["nic1"][0], mine)
}

// TestARecordThatSomebodyEditsIsComparedAgain has a user who writes another machine's address into a record that was
// already compared.
func TestARecordThatSomebodyEditsIsComparedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		edited string
		// late reports whether the user edits the record before the cache has the machine's own one.
		late bool
	}{
		"the cache has its own record": {`{"nic1":["10.0.0.10","fd00::10"]}`, false},
		"the cache is behind":          {`{"nic1":["10.0.0.10","fd00::10"]}`, true},
		"as an address of IPv6":        {`{"nic1":["::ffff:10.0.0.10","fd00::13"]}`, false},
	} {
		b := newAddressBook(t)
		b.allocator.CacheHasAll = true
		network := infrav1.GuestNetwork{Addressing: ranges(4)}
		one, two := b.machine("one", "a", network, nil), b.machine("two", "a", network, nil)
		first := b.allocated(one)["nic1"][0]
		check.Error(t, b.api.Update(t.Context(), one), "")
		b.allocated(two)

		if !test.late {
			check.Error(t, b.api.Update(t.Context(), two), "")
			b.allocated(b.machine("three", "a", network, nil))
		}

		metav1.SetMetaDataAnnotation(&two.ObjectMeta, infrav1.AddressesAnnotation, test.edited)
		check.Error(t, b.api.Update(t.Context(), two), "")

		_, err := b.allocate(two)
		check.Error(t, err, "also has "+first)
		check.Equal(t, name+": each has its own", b.allocated(two)["nic1"][0] != first, true)
	}
}

// TestAnEditedRecordIsHeld has a user who writes another free address before the cache has the first one.
func TestAnEditedRecordIsHeld(t *testing.T) {
	b := newAddressBook(t)
	b.allocator.CacheHasAll = true
	network := infrav1.GuestNetwork{Addressing: ranges(3)}
	one := b.machine("one", "a", network, nil)
	b.allocated(one)

	metav1.SetMetaDataAnnotation(&one.ObjectMeta, infrav1.AddressesAnnotation, `{"nic1":["10.0.0.11","fd00::11"]}`)
	check.Error(t, b.api.Update(t.Context(), one), "")
	check.Equal(t, "it has what was chosen", b.allocated(one)["nic1"], []string{"10.0.0.11", "fd00::11"})

	two := b.allocated(b.machine("two", "a", network, nil))["nic1"]
	check.Equal(t, "the next one has another", two, []string{"10.0.0.10", "fd00::10"})
	three := b.allocated(b.machine("three", "a", network, nil))["nic1"]
	check.Equal(t, "and so has the one after", three, []string{"10.0.0.12", "fd00::12"})
}

// fulfil acts like the IPAM provider. Each claim gets the next address, starting with 10.0.0.100.
func (b *addressBook) fulfil() {
	b.t.Helper()
	var claims ipamv1.IPAddressClaimList
	if err := b.api.List(context.Background(), &claims); err != nil {
		b.t.Fatal(err)
	}

	for i := range claims.Items {
		if claims.Items[i].Status.AddressRef.Name == "" {
			b.given++
			b.give(&claims.Items[i], fmt.Sprintf("10.0.0.%d", 99+b.given), "10.0.0.1")
		}
	}
}

func (b *addressBook) give(claim *ipamv1.IPAddressClaim, address, gateway string) {
	b.t.Helper()
	b.create(&ipamv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name},
		Spec: ipamv1.IPAddressSpec{
			Address:  address,
			Prefix:   ptr.To(int32(24)),
			Gateway:  gateway,
			PoolRef:  claim.Spec.PoolRef,
			ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name},
		},
	})
	claim.Status.AddressRef.Name = claim.Name
	if err := b.api.Status().Update(context.Background(), claim); err != nil {
		b.t.Fatal(err)
	}
}

func (b *addressBook) claim(name string) *ipamv1.IPAddressClaim {
	b.t.Helper()
	claim := &ipamv1.IPAddressClaim{}
	if err := b.api.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, claim); err != nil {
		b.t.Fatal(err)
	}

	return claim
}

// holders maps the recorded addresses on an engine to their machines. It ends the test if two machines have the same
// address.
func (b *addressBook) holders(engine string) map[string]string {
	b.t.Helper()
	out := map[string]string{}

	for name, m := range b.live {
		if connection.GetEngineID(b.clusterOf(m)).Host != engine {
			continue
		}

		recorded, err := ParseRecorded(m)
		if err != nil {
			b.t.Fatal(err)
		}

		for _, list := range recorded {
			for _, address := range list {
				if other, taken := out[address.String()]; taken {
					b.t.Fatalf("%s and %s have %s", other, name, address)
				}

				out[address.String()] = name
			}
		}
	}

	return out
}

var pool = []ipamv1.IPPoolReference{{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "pool"}}

// TestNoAddressIsEverGivenTwice runs random sequences of creations, deletions and restarts, several at a time. Two
// clusters share a network, and a third one does not. The test checks each address ever assigned. The addresses come
// from ranges, IP profiles and an IPAM provider, and have both families. They belong to one interface, or to two on one
// network.
func TestNoAddressIsEverGivenTwice(t *testing.T) {
	const size, steps = 12, 80

	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}

	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a sequence that can be repeated
			b := newAddressBook(t)
			networks := []infrav1.GuestNetwork{
				{Addressing: ranges(size)},
				{IPProfileName: "shared"},
				{AddressesFromPools: pool},
			}
			made := 0

			for range steps {
				switch random.IntN(4) {
				case 0, 1: // several new machines at once, as in a scale-up
					var wait sync.WaitGroup
					var fresh []*infrav1.OLVMMachine

					for range 1 + random.IntN(4) {
						made++
						var second *infrav1.AdditionalGuestNetwork
						if random.IntN(4) == 0 {
							second = &infrav1.AdditionalGuestNetwork{Interface: "enp2s0", Addressing: ranges(size)}
						}

						fresh = append(
							fresh,
							b.machine(
								fmt.Sprintf("m-%d", made),
								[]string{"a", "b", "c"}[random.IntN(3)],
								networks[random.IntN(3)],
								second,
							),
						)
					}

					for _, m := range fresh {
						wait.Go(func() {
							given, err := b.allocate(m)
							var missing *blocker.Error
							if errors.As(err, &missing) &&
								(missing.Reason == infrav1.AddressRangeExhaustedReason ||
									missing.Reason == infrav1.WaitingForIPAddressesReason) {
								return
							}

							text := m.Annotations[infrav1.AddressesAnnotation]
							check.Error(t, err, "")
							check.Set(t, "len(given)", len(given))

							check.Set(t, "text", text)
						})
					}

					wait.Wait()

					for _, m := range fresh {
						b.live[m.Name] = m
					}

					b.fulfil()
				case 2: // a machine is deleted
					for name, m := range b.live {
						err := errors.Join(b.allocator.ReleaseClaims(context.Background(), m),
							b.api.Delete(context.Background(), m))
						if err != nil {
							t.Fatal(err)
						}

						delete(b.live, name)
						break
					}

				case 3: // a restart: only the records remain
					b.restart()

					for name := range b.live {
						var fresh infrav1.OLVMMachine
						err := b.api.Get(context.Background(), client.ObjectKey{
							Namespace: "default",
							Name:      name,
						}, &fresh)
						if err != nil {
							t.Fatal(err)
						}

						before := b.live[name].Annotations[infrav1.AddressesAnnotation]
						_, err = b.allocate(&fresh)
						if before != "" && (err != nil || fresh.Annotations[infrav1.AddressesAnnotation] != before) {
							t.Fatalf("%s had %s and got %s, %v after a restart", name, before,
								fresh.Annotations[infrav1.AddressesAnnotation], err)
						}

						b.live[name] = &fresh
					}
				}

				for _, engine := range []string{"one.example.com", "two.example.com"} {
					held := b.holders(engine)
					for _, endpoint := range []string{"10.0.0.5", "10.0.0.6"} {
						if holder := held[endpoint]; holder != "" {
							t.Fatalf("%s has the control plane endpoint %s", holder, endpoint)
						}
					}

					// No address leaks: a machine gets no address only if all are in use.
					v4 := 0

					for address := range held {
						if strings.HasPrefix(address, "10.0.0.1") || strings.HasPrefix(address, "10.0.0.2") {
							v4++
						}
					}

					for name, m := range b.live {
						if m.Annotations[infrav1.AddressesAnnotation] == "" && len(m.Spec.AdditionalNetworks) == 0 &&
							connection.GetEngineID(b.clusterOf(m)).Host == engine && v4 < size {
							if _, err := b.allocate(m); err != nil {
								t.Fatalf("%s gets none although %d of %d are held: %v", name, v4, size, err)
							}

							break
						}
					}
				}
			}

			if made < 30 || b.given == 0 {
				t.Errorf("only %d machines were made, and %d claims fulfilled", made, b.given)
			}
		})
	}
}

func TestAddressesOfPoolsAreClaimedAndGivenBack(t *testing.T) {
	b := newAddressBook(t)
	m := b.machine("one", "a", infrav1.GuestNetwork{
		AddressesFromPools: pool,
	}, &infrav1.AdditionalGuestNetwork{Interface: "enp2s0", AddressesFromPools: pool})
	message := b.refused(m, infrav1.WaitingForIPAddressesReason)
	if !strings.Contains(message, "IPAddressClaim one-0-0") {
		t.Error(message)
	}

	claim := b.claim("one-0-0")
	check.Equal(t, "claim.Spec.ClusterName", claim.Spec.ClusterName, "a")
	check.Equal(t, "claim.Labels[clusterv1.ClusterNameLabel]", claim.Labels[clusterv1.ClusterNameLabel], "a")
	check.Equal(t, "claim.Spec.PoolRef", claim.Spec.PoolRef, pool[0])
	check.Equal(t, "metav1.IsControlledBy(claim, m)", metav1.IsControlledBy(claim, m), true)
	check.Length(t, "claim.Finalizers", claim.Finalizers, 1)

	b.fulfil()
	nics, err := BuildNICs(m.Spec, b.clusters["a"].Spec)
	if err != nil {
		t.Fatal(err)
	}

	given, err := b.allocator.Allocate(
		t.Context(), m, connection.GetEngineID(b.clusters["a"]), nics, b.writer(m), b.learn,
	)
	check.Error(t, err, "")
	check.Equal(t, `given["nic1"][0].Prefix.Bits()`, given["nic1"][0].Prefix.Bits(), 24)
	check.Equal(t, `given["nic1"][0].Gateway.String()`, given["nic1"][0].Gateway.String(), "10.0.0.1")
	check.Equal(t, `given["nic2"][0].Gateway.IsValid()`, given["nic2"][0].Gateway.IsValid(), false)
	if t.Failed() {
		t.FailNow()
	}

	if err := b.allocator.ReleaseClaims(t.Context(), m); err != nil {
		t.Fatal(err)
	}

	var left ipamv1.IPAddressClaimList
	if err := b.api.List(t.Context(), &left); err != nil || len(left.Items) != 0 {
		t.Errorf("%d claims are left, %v", len(left.Items), err)
	}
}

// TestAClaimOfALaterMachineOfTheSameNameIsNotGivenBack delays a request of a halted leader. Meanwhile, the successor
// releases the claim, and another machine with the same name creates a new one.
func TestAClaimOfALaterMachineOfTheSameNameIsNotGivenBack(t *testing.T) {
	b := newAddressBook(t)
	m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
	b.refused(m, infrav1.WaitingForIPAddressesReason)
	claim := b.claim("one-0-0")
	claim.UID = "first"
	check.Error(t, b.api.Update(t.Context(), claim), "")

	b.allocator.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var asked client.DeleteOptions
			asked.ApplyOptions(opts)

			if p := asked.Preconditions; p == nil || p.UID == nil || *p.UID != "first" {
				t.Errorf("the deletion is of whatever has the name: %+v", p)
			}

			return c.Delete(ctx, o, opts...)
		},
	})
	check.Error(t, b.allocator.ReleaseClaims(t.Context(), m), "")
}

func TestAClaimThatCannotBeFulfilledSaysWhy(t *testing.T) {
	b := newAddressBook(t)
	m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
	b.refused(m, infrav1.WaitingForIPAddressesReason)
	claim := b.claim("one-0-0")
	claim.Status.Conditions = []metav1.Condition{
		{
			Type:               clusterv1.ReadyCondition,
			Status:             metav1.ConditionFalse,
			Reason:             ipamv1.IPAddressClaimReadyPoolExhaustedReason,
			Message:            "the pool is full",
			LastTransitionTime: metav1.Now(),
		},
	}
	if err := b.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}

	if message := b.refused(m, infrav1.AddressRangeExhaustedReason); !strings.Contains(message, "the pool is full") {
		t.Error(message)
	}
}

func TestWhatAnIPAMProviderMustNotGive(t *testing.T) {
	for name, test := range map[string]struct {
		address, gateway, reason, message string
	}{
		"the control plane endpoint": {"10.0.0.5", "10.0.0.1", infrav1.IPAddressConflictReason,
			"control plane endpoint of OLVMCluster default/a"},
		"the address of another": {"10.0.0.10", "10.0.0.1", infrav1.IPAddressConflictReason,
			"OLVMMachine default/other"},
		"what is none":                 {"ten", "10.0.0.1", infrav1.AddressRangeInvalidReason, `address "ten"`},
		"a gateway that is none":       {"10.0.0.100", "one", infrav1.AddressRangeInvalidReason, `gateway "one"`},
		"an address of another engine": {"10.0.0.11", "10.0.0.1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)
			b.allocated(b.machine("other", "b", infrav1.GuestNetwork{IPProfileName: "shared"}, nil))
			b.allocated(b.machine("elsewhere", "c", infrav1.GuestNetwork{
				IPProfileName: "shared",
			}, &infrav1.AdditionalGuestNetwork{Interface: "enp2s0", IPProfileName: "shared"}))
			m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
			b.refused(m, infrav1.WaitingForIPAddressesReason)
			b.give(b.claim("one-0-0"), test.address, test.gateway)
			if test.reason == "" {
				b.allocated(m)
			} else if message := b.refused(m, test.reason); !strings.Contains(message, test.message) {
				t.Error(message)
			}
		})
	}
}

func TestAddressesOfRangesSidestepThoseOfPools(t *testing.T) {
	b := newAddressBook(t)
	m := b.machine("one", "a", infrav1.GuestNetwork{
		AddressesFromPools: pool,
	}, &infrav1.AdditionalGuestNetwork{Interface: "enp2s0", Addressing: ranges(2)})
	b.refused(m, infrav1.WaitingForIPAddressesReason)
	b.give(b.claim("one-0-0"), "10.0.0.10", "10.0.0.1")
	if given := b.allocated(m); given["nic2"][0] != "10.0.0.11" {
		t.Errorf("the second interface got %v", given)
	}

	given := b.allocated(b.machine("two", "b", infrav1.GuestNetwork{Addressing: ranges(3)}, nil))
	if given["nic1"][0] != "10.0.0.12" {
		t.Errorf("the second machine got %v", given)
	}
}

// TestWhatAGuestMayHaveIsNeverTakenBack changes the ranges, the claims and the record of a machine that has a VM.
func TestWhatAGuestMayHaveIsNeverTakenBack(t *testing.T) {
	t.Run("a machine without a VM takes from the ranges as they are now", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{Addressing: ranges(2)}, nil)
		b.allocated(m)
		if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}

		m.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.50"}
		if given := b.allocated(m); !slices.Equal(given["nic1"], []string{"10.0.0.50", "fd00::10"}) {
			t.Errorf("got %v", given)
		}

		if text := m.Annotations[infrav1.AddressesAnnotation]; text != `{"nic1":["10.0.0.50","fd00::10"]}` {
			t.Errorf("records %s", text)
		}
	})
	t.Run("a machine with a VM keeps what it has", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{Addressing: ranges(2)}, nil)
		before := b.allocated(m)
		m.Annotations[infrav1.CreateRequestedAnnotation] = "one"
		m.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.50"}
		if given := b.allocated(m); !slices.Equal(given["nic1"], before["nic1"]) {
			t.Errorf("had %v, got %v", before, given)
		}
	})
	t.Run("a claim that is gone is not made again for a machine that has its VM", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
		b.refused(m, infrav1.WaitingForIPAddressesReason)
		b.fulfil()
		b.allocated(m)
		m.Spec.ProviderID = "olvm://x"

		// Another client has deleted it.
		err := b.api.Delete(t.Context(), &ipamv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one-0-0"},
		})
		if err != nil {
			t.Fatal(err)
		}

		b.allocated(m)
		if err := b.allocator.ReleaseClaims(t.Context(), m); err != nil {
			t.Fatal(err)
		}

		b.allocated(m)
		var claims ipamv1.IPAddressClaimList
		if err := b.api.List(t.Context(), &claims); err != nil || len(claims.Items) != 0 {
			t.Errorf("there are the claims %+v, %v", claims.Items, err)
		}

		if text := m.Annotations[infrav1.AddressesAnnotation]; text != `{"nic1":["10.0.0.100"]}` {
			t.Errorf("records %s", text)
		}
	})
	t.Run("a claim that was made again while a VM may exist is noticed", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
		b.refused(m, infrav1.WaitingForIPAddressesReason)
		b.fulfil()
		b.allocated(m)
		m.Annotations[infrav1.CreateRequestedAnnotation] = "one"
		err := errors.Join(b.allocator.ReleaseClaims(t.Context(), m), b.api.Delete(t.Context(), &ipamv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one-0-0"},
		}))
		if err != nil {
			t.Fatal(err)
		}

		b.refused(m, infrav1.WaitingForIPAddressesReason)
		b.fulfil()
		message := b.refused(m, infrav1.IPAddressConflictReason)
		if !strings.Contains(message, "the guest may have [10.0.0.100]") {
			t.Error(message)
		}
	})
	t.Run("a family that a profile gets later is not for machines that have their VM", func(t *testing.T) {
		b := newAddressBook(t)
		v6 := b.clusters["a"].Spec.IPProfiles[0].IPv6
		b.clusters["a"].Spec.IPProfiles[0].IPv6 = nil
		m := b.machine("one", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil)
		b.allocated(m)
		m.Spec.ProviderID = "olvm://x"
		b.clusters["a"].Spec.IPProfiles[0].IPv6 = v6
		if given := b.allocated(m); !slices.Equal(given["nic1"], []string{"10.0.0.10"}) {
			t.Errorf("got %v", given)
		}
	})
	t.Run("a record that is lost gives nothing away", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil)
		b.allocated(m)
		if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}

		m.Spec.ProviderID, m.Annotations = "olvm://x", nil
		m.Status.Addresses = []clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: "10.0.0.10"},
			{Type: clusterv1.MachineInternalIP, Address: "fd00::10"},
		}
		if err := b.api.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}

		given := b.allocated(b.machine("two", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil))
		if !slices.Equal(given["nic1"], []string{"10.0.0.11", "fd00::11"}) {
			t.Errorf("another machine got %v", given)
		}

		b.learned = Addresses{"nic1": {netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("fd00::10")}}
		given = b.allocated(m)
		if !slices.Equal(given["nic1"], []string{"10.0.0.10", "fd00::10"}) ||
			m.Annotations[infrav1.AddressesAnnotation] != `{"nic1":["10.0.0.10","fd00::10"]}` {
			t.Errorf("the machine got %v and records %v", given, m.Annotations)
		}
	})
	t.Run("a record that cannot be read", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil)
		m.Annotations = map[string]string{infrav1.AddressesAnnotation: "10.0.0.10"}
		message := b.refused(m, infrav1.AddressRangeInvalidReason)
		if !strings.Contains(message, "restore its value") {
			t.Error(message)
		}

		b.allocated(b.machine("two", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil)) // others get one
	})
	t.Run("a claim that a backup brought back without its owner", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
		b.refused(m, infrav1.WaitingForIPAddressesReason)
		b.fulfil()

		before := b.allocated(m)
		for _, owners := range [][]metav1.OwnerReference{nil, {
			{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1",
				Kind:       "OLVMMachine",
				Name:       "one",
				UID:        "of before",
				Controller: ptr.To(true),
			},
		}} {
			claim := b.claim("one-0-0")
			claim.OwnerReferences, claim.Finalizers = owners, nil
			if err := b.api.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}

			if given := b.allocated(m); !slices.Equal(given["nic1"], before["nic1"]) {
				t.Errorf("had %v, got %v", before, given)
			}

			claim = b.claim("one-0-0")
			check.Equal(t, "metav1.IsControlledBy(claim, m)", metav1.IsControlledBy(claim, m), true)
			check.Length(t, "claim.OwnerReferences", claim.OwnerReferences, 1)
			check.Length(t, "claim.Finalizers", claim.Finalizers, 1)
			if claim.OwnerReferences[0].BlockOwnerDeletion != nil {
				t.Errorf(
					"claim.OwnerReferences[0].BlockOwnerDeletion is there: %v",
					claim.OwnerReferences[0].BlockOwnerDeletion,
				)
			}
		}
	})
	t.Run("a pool that is corrected, and a claim that somebody gave back", func(t *testing.T) {
		b := newAddressBook(t)
		typo := []ipamv1.IPPoolReference{{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "typo"}}
		m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: typo}, nil)
		b.refused(m, infrav1.WaitingForIPAddressesReason)

		m.Spec.VirtualMachine.Network.AddressesFromPools = pool
		for range 2 { // first releases, then claims
			b.refused(m, infrav1.WaitingForIPAddressesReason)
		}

		if claim := b.claim("one-0-0"); claim.Spec.PoolRef != pool[0] {
			t.Errorf("the claim is %+v", claim.Spec)
		}

		if err := b.api.Delete(t.Context(), b.claim("one-0-0")); err != nil { // its finalizer keeps it
			t.Fatal(err)
		}

		for range 2 {
			b.refused(m, infrav1.WaitingForIPAddressesReason)
		}

		if claim := b.claim("one-0-0"); !claim.DeletionTimestamp.IsZero() {
			t.Error("the claim that was given back is still there")
		}
	})
	t.Run("claims of a machine whose finalizer was taken away", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
		b.refused(m, infrav1.WaitingForIPAddressesReason)
		err := b.allocator.AbandonClaims(t.Context(), client.ObjectKey{Namespace: "default", Name: "other"})
		if err != nil || len(b.claim("one-0-0").Finalizers) != 1 {
			t.Errorf("the claim of another machine was let go: %v", err)
		}

		err = b.allocator.AbandonClaims(t.Context(), client.ObjectKeyFromObject(m))
		if err != nil || len(b.claim("one-0-0").Finalizers) != 0 {
			t.Errorf("the claim is held: %v", err)
		}
	})
	t.Run("machines that name a network, and others only its profile", func(t *testing.T) {
		b := newAddressBook(t)
		unnamed := b.machine("one", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil)
		unnamed.Spec.OLVMNetwork = infrav1.OLVMNetwork{VNICProfileName: "vlan"}
		if err := b.api.Update(t.Context(), unnamed); err != nil {
			t.Fatal(err)
		}

		got := b.allocated(unnamed)["nic1"][0] + " " + b.allocated(b.machine("two", "a", infrav1.GuestNetwork{
			IPProfileName: "shared",
		}, nil))["nic1"][0]
		third := b.machine("three", "a", infrav1.GuestNetwork{IPProfileName: "shared"}, nil)
		third.Spec.OLVMNetwork = infrav1.OLVMNetwork{VNICProfileName: "vlan"}
		if got += " " + b.allocated(third)["nic1"][0]; got != "10.0.0.10 10.0.0.11 10.0.0.12" {
			t.Errorf("they got %s", got)
		}
	})
	t.Run("the watch label is the claim's too", func(t *testing.T) {
		b := newAddressBook(t)
		m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)
		m.Labels[clusterv1.WatchLabel] = "blue"
		b.refused(m, infrav1.WaitingForIPAddressesReason)
		if label := b.claim("one-0-0").Labels[clusterv1.WatchLabel]; label != "blue" {
			t.Errorf("it is %q", label)
		}
	})
	t.Run("a claim of somebody else", func(t *testing.T) {
		b := newAddressBook(t)
		b.create(&ipamv1.IPAddressClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one-0-0"},
			Spec:       ipamv1.IPAddressClaimSpec{PoolRef: pool[0]},
		})
		b.refused(b.machine("one", "a", infrav1.GuestNetwork{
			AddressesFromPools: pool,
		}, nil), infrav1.IPAddressConflictReason)
	})
}
