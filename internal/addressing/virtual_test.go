package addressing

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	installationOne = "5ea7cafe-0000-4000-8000-000000000001"
	// wantedAddress is the virtual address that the new cluster wants in the tests.
	wantedAddress = "10.0.0.77"
)

// newCluster returns a cluster that is already connected to engine one.
func newCluster(namespace, name string, changes ...func(*infrav1.OLVMCluster)) *infrav1.OLVMCluster {
	out := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name),
		Labels:            map[string]string{clusterv1.ClusterNameLabel: name},
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}}
	out.Spec.OLVMOvirtAPIServer.ServerURL = urlOne
	out.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: wantedAddress, Port: 6443}
	out.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{ServerURL: urlOne, EngineID: installationOne}

	for _, change := range changes {
		change(out)
	}

	return out
}

// templateOf returns a template for machines of a cluster on this network.
func templateOf(cluster *infrav1.OLVMCluster, network string) *infrav1.OLVMMachineTemplate {
	out := &infrav1.OLVMMachineTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: cluster.Name + "-" + network,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: "1",
		}},
	}}
	out.Spec.Template.Spec.OLVMNetwork.NetworkName = network

	return out
}

// TestAVirtualAddressThatAnotherHasIsRefused covers a new cluster, and objects on its engine that have its address.
func TestAVirtualAddressThatAnotherHasIsRefused(t *testing.T) {
	provisioned := func(c *infrav1.OLVMCluster) { c.Status.Initialization.Provisioned = ptr.To(true) }
	endpoint := func(host string, port int32) func(*infrav1.OLVMCluster) {
		return func(c *infrav1.OLVMCluster) {
			c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: host, Port: port}
		}
	}
	services := func(services infrav1.ControlPlaneServices) func(*infrav1.OLVMCluster) {
		return func(c *infrav1.OLVMCluster) { c.Spec.ControlPlaneServices = &services }
	}
	at := func(url, installation string) func(*infrav1.OLVMCluster) {
		return func(c *infrav1.OLVMCluster) {
			c.Spec.OLVMOvirtAPIServer.ServerURL = url
			c.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{ServerURL: url, EngineID: installation}
		}
	}
	younger := func(c *infrav1.OLVMCluster) {
		c.CreationTimestamp = metav1.NewTime(c.CreationTimestamp.Add(time.Hour))
	}
	older := func(c *infrav1.OLVMCluster) {
		c.CreationTimestamp = metav1.NewTime(c.CreationTimestamp.Add(-time.Hour))
	}
	machine := func(cluster *infrav1.OLVMCluster, change func(*infrav1.OLVMMachine)) *infrav1.OLVMMachine {
		out := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: "m", Labels: map[string]string{
				clusterv1.ClusterNameLabel: cluster.Name,
			},
		}}
		out.Spec.OLVMNetwork.NetworkName = "vlan"
		change(out)

		return out
	}
	static := func(m *infrav1.OLVMMachine) {
		m.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["` + wantedAddress + `"]}`}
	}
	dynamic := func(m *infrav1.OLVMMachine) {
		m.Spec.ProviderID = "olvm://x"
		m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: wantedAddress}}
	}
	both := func(m *infrav1.OLVMMachine) { static(m); dynamic(m) }
	elsewhere := newCluster("default", "other", endpoint("10.0.0.9", 6443), provisioned)
	away := newCluster("far", "other", endpoint("10.0.0.9", 6443), provisioned)
	pool := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
	pool.Spec.OLVMOvirtAPIServer.ServerURL = urlOne
	pooled := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm"}}
	pooled.Spec.InventoryName = "pool"
	pooled.Spec.FromProvision = &infrav1alpha1.ProvisionedVM{NICs: []infrav1alpha1.ProvisionedNIC{
		{Name: "nic1", NetworkName: "vlan", IPAddresses: []string{wantedAddress}},
	}}

	const theirs = "the control plane endpoint of an OLVMCluster of another namespace"

	tests := map[string]struct {
		own     func(*infrav1.OLVMCluster)
		objects []client.Object
		want    string
		field   string
	}{
		"nobody": {},
		"the endpoint of a cluster": {
			objects: []client.Object{newCluster("default", "other", provisioned)},
			want:    "the control plane endpoint of OLVMCluster default/other",
		},
		"the endpoint of a cluster of another namespace, which is not named": {
			objects: []client.Object{newCluster("far", "other", provisioned)}, want: theirs,
		},
		"the endpoint of a cluster of another namespace that the engine did not let in": {
			objects: []client.Object{
				newCluster("far", "other", func(c *infrav1.OLVMCluster) { c.Status.OLVMDatacenter = nil }),
			},
		},
		"the endpoint of a cluster that names the engine otherwise": {
			objects: []client.Object{newCluster("far", "other", provisioned, at("https://alias", installationOne))},
			want:    theirs,
		},
		"the endpoint of a cluster of another engine": {
			objects: []client.Object{newCluster("far", "other", provisioned, at("https://alias", "another"))},
		},
		"the ingress address of a cluster": {
			objects: []client.Object{newCluster("default", "other", provisioned, endpoint("10.0.0.9", 6443),
				services(infrav1.ControlPlaneServices{IngressVirtualIP: wantedAddress}))},
			want: "the ingress address of OLVMCluster default/other",
		},
		"the endpoint of a cluster, as the new cluster's ingress address": {
			own: func(c *infrav1.OLVMCluster) {
				endpoint("10.0.0.9", 6443)(c)
				services(infrav1.ControlPlaneServices{IngressVirtualIP: wantedAddress})(c)
			},
			objects: []client.Object{newCluster("default", "other", provisioned)},
			want:    "the control plane endpoint of OLVMCluster default/other",
			field:   "spec.controlPlaneServices.ingressVirtualIP",
		},
		"the endpoint of an older cluster without machines": {
			objects: []client.Object{newCluster("default", "other", older)},
			want:    "the control plane endpoint of OLVMCluster default/other",
		},
		"the endpoint of a younger cluster without machines": {
			objects: []client.Object{newCluster("default", "other", younger)},
		},
		"the endpoint of a younger cluster with machines": {
			objects: []client.Object{newCluster("default", "other", younger, provisioned)},
			want:    "the control plane endpoint of OLVMCluster default/other",
		},
		"the endpoint of a cluster behind one load balancer, at another port": {
			objects: []client.Object{newCluster("default", "other", provisioned, endpoint(wantedAddress, 7443))},
		},
		"the endpoint of a cluster whose nodes hold it, at another port": {
			objects: []client.Object{newCluster("default", "other", provisioned, endpoint(wantedAddress, 7443),
				services(infrav1.ControlPlaneServices{VirtualIPProvider: "KubeVIP"}))},
			want: "the control plane endpoint of OLVMCluster default/other",
		},
		"the endpoint of a cluster on another network": {
			objects: []client.Object{
				newCluster("default", "other", provisioned), templateOf(newCluster("default", "other"), "blue"),
				templateOf(newCluster("default", "new"), "red"),
			},
		},
		"the endpoint of a cluster of which one machine is on the same network": {
			objects: []client.Object{
				newCluster("default", "other", provisioned), templateOf(newCluster("default", "other"), "blue"),
				templateOf(newCluster("default", "other"), "red"), templateOf(newCluster("default", "new"), "red"),
			},
			want: "the control plane endpoint of OLVMCluster default/other",
		},
		"a machine": {
			objects: []client.Object{elsewhere, machine(elsewhere, static)}, want: "OLVMMachine default/m",
		},
		"a machine of another namespace": {
			objects: []client.Object{away, machine(away, static)}, want: "an OLVMMachine of another namespace",
		},
		"a machine that the network gave it": {
			objects: []client.Object{elsewhere, machine(elsewhere, dynamic)}, want: "OLVMMachine default/m",
		},
		"a machine on another network": {
			objects: []client.Object{
				elsewhere, machine(elsewhere, both), templateOf(newCluster("default", "new"), "red"),
			},
		},
		"a machine of the cluster itself": {
			objects: []client.Object{machine(newCluster("default", "new"), both)},
		},
		"a VM of a pool": {
			objects: []client.Object{pool, pooled}, want: "OLVMInventoryVM default/vm",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)

			for _, object := range test.objects {
				object = object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
				object.SetResourceVersion("")
				b.create(object)
			}

			c := newCluster("default", "new")
			if test.own != nil {
				test.own(c)
			}

			b.create(c)

			taken, err := b.allocator.CheckVirtualAddresses(t.Context(), c, connection.GetEngineID(c))
			check.Error(t, err, "")

			switch {
			case test.want == "" && taken != nil:
				t.Error(taken.ToError())
			case test.want != "" && taken == nil:
				t.Errorf("it is free, want %s", test.want)
			case taken != nil:
				check.Equal(t, "holder", taken.Holder, test.want)
				check.Contains(t, "error", taken.ToError().Error(), wantedAddress+" belongs to "+test.want)
				check.Equal(t, "field", taken.Field, map[bool]string{
					true: "spec.controlPlaneEndpoint.host", false: test.field,
				}[test.field == ""])
			}
		})
	}
}

// TestAddressesOfLoadBalancersThatOthersHave has a load balancer of one cluster, and objects that may hold its address.
func TestAddressesOfLoadBalancersThatOthersHave(t *testing.T) {
	balanced := func(cluster string, minutes int, serves bool) *infrav1alpha1.OLVMSupportServices {
		out := &infrav1alpha1.OLVMSupportServices{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: cluster, UID: types.UID("services-" + cluster),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC)),
		}}
		out.Spec.ClusterName = cluster
		out.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{{Name: "apps", VirtualIP: wantedAddress}}

		if serves {
			out.Status.Services = []infrav1alpha1.SupportServiceStatus{{
				Name: "lb-apps", Address: wantedAddress, ReadyMachines: 1,
				Conditions: []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}},
			}}
		}

		return out
	}
	elsewhere := func(c *infrav1.OLVMCluster) { c.Spec.ControlPlaneEndpoint.Host = "10.0.0.9" }
	provisioned := func(c *infrav1.OLVMCluster) { c.Status.Initialization.Provisioned = ptr.To(true) }
	machine := func(cluster, service string) *infrav1.OLVMMachine {
		return &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "m",
			Labels: map[string]string{
				clusterv1.ClusterNameLabel: cluster, infrav1alpha1.SupportServiceLabel: service,
			},
			Annotations: map[string]string{infrav1.AddressesAnnotation: `{"nic1":["` + wantedAddress + `"]}`},
		}}
	}
	other := newCluster("default", "other", elsewhere, provisioned)

	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"nobody": {},
		"an older load balancer": {
			[]client.Object{other, balanced("other", 0, false)}, "OLVMSupportServices default/other",
		},
		"a younger load balancer": {[]client.Object{other, balanced("other", 9, false)}, ""},
		"a younger one that serves": {
			[]client.Object{other, balanced("other", 9, true)}, "OLVMSupportServices default/other",
		},
		"the endpoint of a cluster": {
			[]client.Object{newCluster("default", "other", provisioned)}, "OLVMCluster default/other",
		},
		"a node of another cluster":    {[]client.Object{other, machine("other", "")}, "OLVMMachine default/m"},
		"a node of the cluster itself": {[]client.Object{machine("new", "")}, "OLVMMachine default/m"},
		"the load balancer's own VM":   {[]client.Object{machine("new", "lb-apps")}, ""},
		"the VM of another's service":  {[]client.Object{other, machine("other", "lb-apps")}, "OLVMMachine default/m"},
		"a load balancer without a VIP": {
			[]client.Object{
				other,
				&infrav1alpha1.OLVMSupportServices{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}},
			},
			"",
		},
		"a load balancer of no cluster": {[]client.Object{balanced("gone", 0, true)}, ""},
		"another namespace of that name": {
			[]client.Object{newCluster("far", "other", elsewhere, provisioned), balanced("other", 0, true)}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newAddressBook(t)

			for _, object := range test.objects {
				object = object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
				object.SetResourceVersion("")
				b.create(object)
			}

			c, of := newCluster("default", "new", elsewhere), balanced("new", 5, false)
			b.create(c)
			b.create(of)
			taken, err := b.allocator.CheckSupportAddresses(t.Context(), c, of, connection.GetEngineID(c))
			check.Error(t, err, "")

			holder := ""
			if len(taken) > 0 {
				holder = taken[0].Holder
				check.Equal(t, "field", taken[0].Field, "spec.loadBalancers[0].virtualIP")
			}

			if test.want == "" {
				check.Equal(t, "holder", holder, "")
			}

			check.Contains(t, "holder", holder, test.want)
		})
	}
}

// TestOneOfTwoNewClustersKeepsTheAddress checks two clusters in either order, before any status is written.
func TestOneOfTwoNewClustersKeepsTheAddress(t *testing.T) {
	for _, order := range [][]string{{"one", "two"}, {"two", "one"}} {
		b := newAddressBook(t)
		kept := 0

		for _, name := range order { // created in the same second, and checked at the same time
			c := newCluster("default", name)
			b.create(c)

			taken, err := b.allocator.CheckVirtualAddresses(t.Context(), c, connection.GetEngineID(c))
			check.Error(t, err, "")

			if taken == nil {
				kept++
			}
		}

		check.Equal(t, "clusters that keep the address", kept, 1)
	}
}

// TestOneEngineOfTwoNamesGivesNoAddressTwice has clusters that use the same engine by its name and by an alias.
func TestOneEngineOfTwoNamesGivesNoAddressTwice(t *testing.T) {
	for _, same := range []bool{false, true} {
		b := newAddressBook(t)

		for _, name := range []string{"a", "c"} {
			c := b.clusters[name]
			c.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{
				ServerURL: c.Spec.OLVMOvirtAPIServer.ServerURL, EngineID: installationOne,
			}
			if name == "c" && !same {
				c.Status.OLVMDatacenter.EngineID = "another"
			}

			check.Error(t, b.api.Update(t.Context(), c), "")
		}

		first := b.allocated(b.machine("one", "a", infrav1.GuestNetwork{Addressing: ranges(2)}, nil))
		second := b.allocated(b.machine("two", "c", infrav1.GuestNetwork{Addressing: ranges(2)}, nil))
		check.Equal(t, "the second machine gets other addresses", first["nic1"][0] != second["nic1"][0], same)
	}
}
