package addressing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const urlOne = "https://one.example.com"

var engineOne = connection.EngineID{Host: "one.example.com"}

// beside returns the holders of addresses as seen by a VM of an inventory.
func (b *addressBook) beside(vm string) map[string]string {
	b.t.Helper()

	out := map[string]string{}
	err := b.allocator.WithHeld(b.t.Context(), client.ObjectKey{Namespace: "default", Name: vm}, engineOne,
		func(held Held) error {
			for address, holder := range held.HoldersOn("") {
				out[address.String()] = holder
			}

			return nil
		})
	check.Error(b.t, err, "")

	return out
}

// TestWhatOthersHold has objects in this namespace and in another one, on this engine and on others.
func TestWhatOthersHold(t *testing.T) {
	cluster := func(namespace, url string, connected bool) *infrav1.OLVMCluster {
		out := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "x", Labels: map[string]string{clusterv1.ClusterNameLabel: "x"},
		}}
		out.Spec.OLVMOvirtAPIServer.ServerURL = url
		out.Spec.ControlPlaneEndpoint.Host = "10.0.0.200"

		if connected {
			out.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{ServerURL: url}
		}

		return out
	}
	machine := func(namespace, address string) *infrav1.OLVMMachine {
		return &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "x"},
			Annotations: map[string]string{infrav1.AddressesAnnotation: `{"nic1":["` + address + `"]}`},
		}}
	}
	inventory := func(namespace, url string, connected bool) *infrav1alpha1.OLVMInventory {
		out := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pool"}}
		out.Spec.OLVMOvirtAPIServer.ServerURL = url

		if connected {
			out.Status.ServerURL = url
		}

		return out
	}
	pooled := func(namespace, name string) *infrav1alpha1.OLVMInventoryVM {
		out := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		out.Spec.InventoryName = "pool"
		out.Spec.FromProvision = &infrav1alpha1.ProvisionedVM{NICs: []infrav1alpha1.ProvisionedNIC{
			{Name: "nic1", NetworkName: "vlan", IPAddresses: []string{"10.0.0.60"}},
		}}

		return out
	}
	unprovisioned := pooled("default", "vm")
	unprovisioned.Spec.FromProvision = nil
	running := machine("default", "10.0.0.50")
	running.Annotations = nil
	running.Spec.ProviderID = "olvm://x"
	running.Status.Addresses = []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "10.0.0.50"}, {
			Type: clusterv1.MachineInternalIP, Address: "fd00::50",
		},
	}
	waiting := running.DeepCopy()
	waiting.Spec.ProviderID = ""

	const (
		theirs = "an OLVMMachine of another namespace"
		ours   = "OLVMMachine default/m"
	)

	tests := map[string]struct {
		objects []client.Object
		want    map[string]string
	}{
		"a machine of this namespace": {
			[]client.Object{cluster("default", urlOne, false), machine("default", "10.0.0.50")},
			map[string]string{
				"10.0.0.50": ours, "10.0.0.200": "the control plane endpoint of OLVMCluster default/x",
			},
		},
		"a machine of another namespace that the engine let in": {
			[]client.Object{cluster("other", urlOne+"/ovirt-engine/api", true), machine("other", "10.0.0.50")},
			map[string]string{
				"10.0.0.50": theirs, "10.0.0.200": "the control plane endpoint of an OLVMCluster of another namespace",
			},
		},
		"a machine of another namespace that the engine did not let in": {
			[]client.Object{cluster("other", urlOne, false), machine("other", "10.0.0.50")}, nil,
		},
		"a machine of another engine": {
			[]client.Object{cluster("other", "https://else.example.com", true), machine("other", "10.0.0.50")}, nil,
		},
		"a machine of this namespace on another engine": {
			[]client.Object{cluster("default", "https://else.example.com", true), machine("default", "10.0.0.50")}, nil,
		},
		"a machine of this namespace whose cluster is not there": {
			[]client.Object{machine("default", "10.0.0.50")}, map[string]string{"10.0.0.50": ours},
		},
		"a machine of another namespace whose cluster is not there": {
			[]client.Object{machine("other", "10.0.0.50")}, nil,
		},
		"a machine whose record is lost, and that has its VM": {
			[]client.Object{running}, map[string]string{"10.0.0.50": ours, "fd00::50": ours},
		},
		"a machine without a record and a VM": {[]client.Object{waiting}, nil},
		"a VM of a pool of this namespace": {
			[]client.Object{inventory("default", urlOne, false), pooled("default", "vm")},
			map[string]string{"10.0.0.60": "OLVMInventoryVM default/vm"},
		},
		"a VM of a pool of another namespace that the engine let in": {
			[]client.Object{inventory("other", urlOne, true), pooled("other", "vm")},
			map[string]string{"10.0.0.60": "an OLVMInventoryVM of another namespace"},
		},
		"a VM of a pool of another namespace that the engine did not let in": {
			[]client.Object{inventory("other", urlOne, false), pooled("other", "vm")}, nil,
		},
		"a VM of a pool of another engine": {
			[]client.Object{inventory("default", "https://else.example.com", true), pooled("default", "vm")}, nil,
		},
		"a VM whose pool is not there": {[]client.Object{pooled("default", "vm")}, nil},
		"a VM of a pool that was not made": {
			[]client.Object{inventory("default", urlOne, true), unprovisioned}, nil,
		},
		"the VM of the pool itself": {
			[]client.Object{inventory("default", urlOne, true), pooled("default", "self")}, nil,
		},
		"a VM of the same name of another namespace": {
			[]client.Object{inventory("other", urlOne, true), pooled("other", "self")},
			map[string]string{"10.0.0.60": "an OLVMInventoryVM of another namespace"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)
			always := b.beside("self") // endpoints of the address book, which always count

			for _, object := range test.objects {
				object = object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
				object.SetResourceVersion("")
				b.create(object)
			}

			want := maps.Clone(always)
			maps.Copy(want, test.want)
			check.Equal(t, "held", b.beside("self"), want)
		})
	}
}

// TestAMachineMayHaveWhatItHas looks for addresses as another machine, and then as the machine that holds the address.
func TestAMachineMayHaveWhatItHas(t *testing.T) {
	b := newAddressBook(t)
	b.allocated(b.machine("one", "a", infrav1.GuestNetwork{Addressing: ranges(2)}, nil))

	for machine, holder := range map[string]string{"one": "", "two": "OLVMMachine default/one"} {
		held, err := b.allocator.collectHeld(t.Context(), seeker{Namespace: "default", Machine: machine}, engineOne)
		check.Error(t, err, "")
		check.Equal(t, "holder for "+machine, held.HoldersOn("vlan")[netip.MustParseAddr("10.0.0.10")], holder)
	}

	held, err := b.allocator.collectHeld(t.Context(), seeker{Namespace: "other", Machine: "one"}, engineOne)
	check.Error(t, err, "")
	check.Equal(t, "addresses for a machine of the same name of another namespace, which the engine did not let in",
		len(held.HoldersOn("vlan")), 0)
}

// TestAListThatFailsGivesNoAddresses uses an API server that refuses one kind of list or read.
func TestAListThatFailsGivesNoAddresses(t *testing.T) {
	for kind, problem := range map[string]string{
		"*v1.OLVMClusterList":           "failed to list OLVMClusters",
		"*v1.OLVMMachineList":           "failed to list OLVMMachines",
		"*v1alpha1.OLVMInventoryList":   "failed to list OLVMInventories",
		"*v1alpha1.OLVMInventoryVMList": "failed to list OLVMInventoryVMs",
	} {
		for _, cached := range []bool{false, true} {
			b := newAddressBook(t)
			pool := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
			pool.Spec.OLVMOvirtAPIServer.ServerURL = urlOne
			b.create(pool)
			failing := interceptor.NewClient(b.api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
					if fmt.Sprintf("%T", l) == kind {
						return errors.New("refused")
					}

					return c.List(ctx, l, o...)
				},
			})
			b.allocator = &Allocator{Client: failing, Reader: failing, CacheHasAll: cached}
			m := b.machine("one", "a", infrav1.GuestNetwork{Addressing: ranges(2)}, nil)
			_, err := b.allocate(m)
			check.Error(t, err, problem+": refused")
			check.Equal(t, "record", m.Annotations[infrav1.AddressesAnnotation], "")

			called := false
			err = b.allocator.WithHeld(t.Context(), client.ObjectKey{Namespace: "default", Name: "vm"}, engineOne,
				func(Held) error { called = true; return nil })
			check.Error(t, err, problem+": refused")
			check.Equal(t, "a VM of a pool takes one", called, false)
		}
	}
}

// TestTheCacheIsBehind has a manager that assigns all addresses. Its cache lacks the last write, or a recreated object.
func TestTheCacheIsBehind(t *testing.T) {
	network := infrav1.GuestNetwork{Addressing: ranges(4)}

	tests := map[string]struct {
		change func(*addressBook, *infrav1.OLVMMachine) error
		want   string
		// kept reports whether the record must stay in memory afterwards.
		kept bool
	}{
		"it lacks the record": {
			func(*addressBook, *infrav1.OLVMMachine) error { return nil }, "10.0.0.11", true,
		},
		"it has the record": {
			func(b *addressBook, m *infrav1.OLVMMachine) error { return b.api.Update(b.t.Context(), m) },
			"10.0.0.11", false,
		},
		"the machine is gone": {
			func(b *addressBook, m *infrav1.OLVMMachine) error { return b.api.Delete(b.t.Context(), m) },
			"10.0.0.10", false,
		},
		"the machine was made anew": {
			func(b *addressBook, m *infrav1.OLVMMachine) error {
				anew := &infrav1.OLVMMachine{Spec: m.Spec, ObjectMeta: metav1.ObjectMeta{
					Namespace: m.Namespace, Name: m.Name, UID: "anew", Labels: m.Labels,
				}}

				return errors.Join(b.api.Delete(b.t.Context(), m), b.api.Create(b.t.Context(), anew))
			}, "10.0.0.10", false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)
			b.allocator.CacheHasAll = true
			before := b.machine("before", "c", network, nil)
			before.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.0.0.99"]}`}
			check.Error(t, b.api.Update(t.Context(), before), "")

			one, two := b.machine("one", "a", network, nil), b.machine("two", "a", network, nil)
			check.Equal(t, "the first", b.allocated(one)["nic1"][0], "10.0.0.10")
			check.Error(t, test.change(b, one), "")
			check.Equal(t, "the second", b.allocated(two)["nic1"][0], test.want)

			check.Error(t, b.api.Update(t.Context(), two), "")
			_ = b.beside("self")
			check.Equal(t, "a record is kept", len(b.allocator.recorded) > 0, test.kept)
		})
	}
}

// TestTheFirstLookIsPastTheCache has a cache that lacks the records of an earlier manager.
func TestTheFirstLookIsPastTheCache(t *testing.T) {
	network := infrav1.GuestNetwork{Addressing: ranges(4)}
	b := newAddressBook(t)
	b.allocated(b.machine("one", "a", network, nil))

	lists := map[string]int{}
	counted := func(which string) client.Client {
		return interceptor.NewClient(b.api, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
				lists[which+" "+fmt.Sprintf("%T", l)]++

				return c.List(ctx, l, o...)
			},
		})
	}
	b.allocator = &Allocator{Client: counted("cache"), Reader: counted("server"), CacheHasAll: true}

	for i, name := range []string{"two", "three"} {
		got := b.allocated(b.machine(name, "a", network, nil))["nic1"][0]
		check.Equal(t, name, got, []string{"10.0.0.11", "10.0.0.12"}[i])
	}

	check.Equal(t, "lists", lists, map[string]int{
		"server *v1.OLVMMachineList": 1, "cache *v1.OLVMMachineList": 1,
		"cache *v1.OLVMClusterList": 2, "cache *v1alpha1.OLVMInventoryList": 2,
		"cache *v1alpha1.OLVMSupportServicesList": 2,
	})
}

// TestARecordThatIsCompleteIsNotLookedUp has a machine whose addresses no other machine can have chosen.
func TestARecordThatIsCompleteIsNotLookedUp(t *testing.T) {
	network := infrav1.GuestNetwork{Addressing: ranges(2)}

	tests := map[string]struct {
		cached  bool
		change  func(*infrav1.OLVMMachine)
		looksUp bool
	}{
		"a manager that gives all addresses, in its first look": {true, func(*infrav1.OLVMMachine) {}, true},
		"a VM that may have them already": {
			false, func(m *infrav1.OLVMMachine) { m.Annotations[infrav1.CreateRequestedAnnotation] = "x" }, false,
		},
		"another shard may have chosen the same": {false, func(*infrav1.OLVMMachine) {}, true},
		"an address is missing": {
			true, func(m *infrav1.OLVMMachine) {
				m.Annotations[infrav1.AddressesAnnotation] = `{"nic1":["10.0.0.10"]}`
			}, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)
			m := b.machine("one", "a", network, nil)
			b.allocated(m)
			test.change(m)

			looked := false
			reader := interceptor.NewClient(b.api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
					looked = true

					return c.List(ctx, l, o...)
				},
			})
			b.allocator = &Allocator{Client: reader, Reader: reader, CacheHasAll: test.cached}
			check.Equal(t, "addresses", b.allocated(m)["nic1"], []string{"10.0.0.10", "fd00::10"})
			check.Equal(t, "others are looked at", looked, test.looksUp)

			looked = false
			check.Equal(t, "addresses, again", b.allocated(m)["nic1"], []string{"10.0.0.10", "fd00::10"})
			check.Equal(t, "others are looked at again", looked, test.looksUp && !test.cached)
		})
	}
}

// TestAddressesOfAFullRange has ranges whose last address is in use.
func TestAddressesOfAFullRange(t *testing.T) {
	b := newAddressBook(t)
	network := infrav1.GuestNetwork{Addressing: ranges(1)}
	b.allocated(b.machine("one", "a", network, nil))
	message := b.refused(b.machine("two", "b", network, nil), infrav1.AddressRangeExhaustedReason)
	check.Contains(t, "message", message, "spec.virtualMachine.network: all 1 addresses of a range are in use")

	b.allocated(b.machine("three", "c", network, nil)) // on another engine
}

// TestAProviderThatFailsIsNotWaitedFor has an API server that refuses a request about the claim.
func TestAProviderThatFailsIsNotWaitedFor(t *testing.T) {
	refused := errors.New("refused")

	tests := map[string]struct {
		funcs interceptor.Funcs
		// given creates and fulfils the claim before the test.
		given   bool
		act     func(*addressBook, *infrav1.OLVMMachine) error
		problem string
	}{
		"a claim is not read": {
			interceptor.Funcs{Get: failingGet[*ipamv1.IPAddressClaim](refused)}, false, allocation,
			"failed to claim an address of InClusterIPPool pool: refused",
		},
		"a claim is not made": {
			interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return refused
			}}, false, allocation,
			"failed to claim an address of InClusterIPPool pool: refused",
		},
		"the address is not read": {
			interceptor.Funcs{Get: failingGet[*ipamv1.IPAddress](refused)}, true, allocation,
			"failed to get the address of IPAddressClaim one-0-0: refused",
		},
		"a claim is not adopted": {
			interceptor.Funcs{Patch: failingPatch(refused)}, true,
			func(b *addressBook, m *infrav1.OLVMMachine) error {
				claim := b.claim("one-0-0")
				claim.OwnerReferences = nil
				check.Error(b.t, b.api.Update(b.t.Context(), claim), "")

				return allocation(b, m)
			},
			"failed to adopt IPAddressClaim one-0-0: refused",
		},
		"a claim is not released": {
			interceptor.Funcs{Patch: failingPatch(refused)}, true,
			func(b *addressBook, m *infrav1.OLVMMachine) error { return b.allocator.ReleaseClaims(b.t.Context(), m) },
			"failed to release IPAddressClaim one-0-0: refused",
		},
		"a claim is not deleted": {
			interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return refused
			}}, true,
			func(b *addressBook, m *infrav1.OLVMMachine) error { return b.allocator.ReleaseClaims(b.t.Context(), m) },
			"failed to delete IPAddressClaim one-0-0: refused",
		},
		"claims are not listed": {
			interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return refused
			}}, true,
			func(b *addressBook, m *infrav1.OLVMMachine) error { return b.allocator.ReleaseClaims(b.t.Context(), m) },
			"failed to list the IPAddressClaims of OLVMMachine default/one: refused",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)
			m := b.machine("one", "a", infrav1.GuestNetwork{AddressesFromPools: pool}, nil)

			if test.given {
				b.refused(m, infrav1.WaitingForIPAddressesReason)
				b.fulfil()
			}

			failing := interceptor.NewClient(b.api, test.funcs)
			b.allocator = &Allocator{Client: failing, Reader: failing}
			err := test.act(b, m)
			check.Error(t, err, test.problem)

			var waiting *blocker.Error
			check.Equal(t, "it is waited for", errors.As(err, &waiting), false)
		})
	}
}

func allocation(b *addressBook, m *infrav1.OLVMMachine) error {
	_, err := b.allocate(m)
	return err
}

// failingGet makes reads of one type of object fail.
func failingGet[T client.Object](err error) func(
	context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
) error {
	return func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
		options ...client.GetOption,
	) error {
		if _, ok := object.(T); ok {
			return err
		}

		return c.Get(ctx, key, object, options...)
	}
}

func failingPatch(err error) func(
	context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
) error {
	return func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return err
	}
}
