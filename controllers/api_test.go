package controllers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnEndpointIsAnAddressOrAName covers valid and invalid endpoint hosts. Once stored, an invalid host could not be
// corrected.
func TestAnEndpointIsAnAddressOrAName(t *testing.T) {
	s := newSite(t, nil)

	for host, want := range map[string]bool{
		"10.0.0.5": true, "api.example.com": true, "api": true, "fd00::5": true, "::ffff:10.0.0.5": true,
		"10.0.0.5:6443": false, "api.example.com:6443": false, "abc:6443": false, "https://api.example.com": false,
		"api.example.com/path": false, "[fd00::5]": false, "fd00::5%eth0": false, "a b": false, "-api": false,
	} {
		c := s.OLVM.DeepCopy()
		c.ObjectMeta = s.NewMeta("endpoint")
		c.Spec.ControlPlaneEndpoint.Host = host
		err := suite.client.Create(t.Context(), c, client.DryRunAll)

		switch {
		case want:
			check.Error(t, err, "")
		case err == nil || !strings.Contains(err.Error(), "host must be an IP address or a DNS name"):
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestTheNameOfAMachineIsAHostName(t *testing.T) {
	s := newSite(t, nil)

	for name, want := range map[string]string{
		"localhost":                "localhost is every machine's name for itself",
		"a.localhost":              "localhost is every machine's name for itself",
		"localhost.localdomain":    "localhost is every machine's name for itself",
		strings.Repeat("x", 64):    "must have at most 63 characters",
		strings.Repeat("x", 63):    "",
		"localhost-1":              "",
		"localhost.example.com":    "",
		"not-localhost":            "",
		"localhost.localdomain.eu": "",
	} {
		m := &infrav1.OLVMMachine{ObjectMeta: s.NewMeta(name)}
		m.Spec.FromInventory = &infrav1.FromInventory{InventoryName: "lab"}

		err := suite.client.Create(t.Context(), m, client.DryRunAll)
		check.Error(t, err, want)
	}
}

func TestManifestsOfOraclesCLIApplyUnchanged(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "peer"}}
	if err := suite.client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}

	content, err := os.ReadFile("testdata/peer.yaml")
	if err != nil {
		t.Fatal(err)
	}

	objects, err := manifest.Read(content)
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		want, err := yaml.Marshal(object.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}

		object.SetNamespace("peer")
		err = suite.client.Create(t.Context(), object, client.FieldValidation(metav1.FieldValidationStrict))
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			continue
		}

		// The object read back has every written field.
		if got, err := yaml.Marshal(object.Object["spec"]); err != nil || string(got) != string(want) {
			t.Errorf("%s %s came back as\n%s, %v", object.GetKind(), object.GetName(), got, err)
		}
	}
}

func TestTheAPIServerRefusesWhatMustNotChange(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.OLVM.ResourceVersion, m.ResourceVersion = "", "" // the controllers may write meanwhile

	tests := map[string]struct {
		change func() client.Object
		want   string
	}{
		"the endpoint's host": {func() client.Object {
			c := s.OLVM.DeepCopy()
			c.Spec.ControlPlaneEndpoint.Host = "10.0.0.6"
			return c
		}, "controlPlaneEndpoint.host is immutable"},
		"the endpoint's port": {func() client.Object {
			c := s.OLVM.DeepCopy()
			c.Spec.ControlPlaneEndpoint.Port = 7443
			return c
		}, "controlPlaneEndpoint.port is immutable"},
		"the provider ID": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.ProviderID = "olvm://other"
			return c
		}, "providerID is immutable"},
		"memory beside an instance type": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.InstanceType = "Large"
			return c
		}, "exactly one of virtualMachine.memory and virtualMachine.instanceType"},
		"a description that is too long": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.Description = strings.Repeat("x", 256)
			return c
		}, "virtualMachine.description: Too long: may not be more than 255"},
		"a description that the engine refuses": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.Description = "all right 👍"
			return c
		}, "virtualMachine.description: Invalid value: \"all right 👍\": the engine refuses emoji"},
		"a name of a network interface that the engine refuses": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.OLVMNetwork.VNICName = "first one"
			return c
		}, "olvmNetwork.vnicName: Invalid value: \"first one\": write letters, digits, dots"},
		"a MAC address that is none": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.OLVMNetwork.MACAddress = "56:6f"
			return c
		}, "macAddress"},
		"a network without any name": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "nic2"}},
			}

			return c
		}, "set networkName, vnicProfileName or both"},
		"DHCP beside ranges": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.Network.IPv4.DHCP = true
			return c
		}, "set subnet and ipAddresses, or dhcp"},
		"a profile beside ranges": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.Network.IPProfileName = "lab"
			return c
		}, "ipProfileName says where addresses come from"},
		"pools beside ranges": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.Network.AddressesFromPools = []ipamv1.IPPoolReference{
				{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "pool"},
			}

			return c
		}, "addressesFromPools says where addresses come from"},
		"SLAAC and DHCPv6": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{AutoConf: true, DHCP: true}
			return c
		}, "set one of autoConf and dhcp"},
		"a further interface whose name in the guest nobody knows": {func() client.Object {
			c := m.DeepCopy()
			c.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{
					OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "a", VNICProfileName: "a"},
					Guest:       &infrav1.AdditionalGuestNetwork{},
				},
			}

			return c
		}, "set guest.interface"},
		"enforcing that is none": {func() client.Object {
			c := s.OLVM.DeepCopy()
			c.Spec.AffinityGroups = []infrav1.AffinityGroup{{Name: "g", Enforcing: "Sometimes"}}
			return c
		}, "Auto"},
		"a group whose name the engine would refuse": {func() client.Object {
			c := s.OLVM.DeepCopy()
			c.Spec.AffinityGroups = []infrav1.AffinityGroup{{Name: "my group"}}
			return c
		}, "spec.affinityGroups[0].name"},
		"hosts by names and by label": {func() client.Object {
			c := s.OLVM.DeepCopy()
			c.Spec.FailureDomains = []infrav1.OLVMFailureDomain{
				{Name: "a", Hosts: infrav1.FailureDomainHosts{Names: []string{"host-1"}, AffinityLabel: "rack-a"}},
			}

			return c
		}, "either by names or by affinityLabel"},
		"a port that is none": {func() client.Object {
			c := s.OLVM.DeepCopy()
			c.Spec.ControlPlaneEndpoint.Port = 70000
			return c
		}, "65535"},
	}
	for name, test := range tests {
		// A dry run leaves the object unchanged even if the change is accepted.
		err := suite.client.Patch(t.Context(), test.change(), client.Merge, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}

	remove := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"controlPlaneEndpoint":null}}`))
	err := suite.client.Patch(t.Context(), s.OLVM, remove, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "immutable once set") {
		t.Errorf("the endpoint as a whole: %v", err)
	}
}

func TestTemplatesAreImmutableButForDryRunsOfTheTopologyController(t *testing.T) {
	s := newSite(t, nil)
	spec := s.MachineSpec()
	s.Create(&infrav1.OLVMMachineTemplate{
		ObjectMeta: s.NewMeta("machine"),
		Spec:       infrav1.OLVMMachineTemplateSpec{Template: infrav1.OLVMMachineTemplateResource{Spec: spec}},
	})
	s.Create(&infrav1.OLVMClusterTemplate{
		ObjectMeta: s.NewMeta("cluster"),
		Spec:       infrav1.OLVMClusterTemplateSpec{Template: infrav1.OLVMClusterTemplateResource{Spec: s.OLVM.Spec}},
	})
	const annotation = `"metadata":{"annotations":{"topology.cluster.x-k8s.io/dry-run":""}},`

	kinds := map[string]struct {
		object client.Object
		change string
	}{
		"OLVMMachineTemplate": {&infrav1.OLVMMachineTemplate{
			ObjectMeta: s.NewMeta("machine"),
		}, `"spec":{"template":{"spec":{"virtualMachine":{"memory":"8GB"}}}}`},
		"OLVMClusterTemplate": {&infrav1.OLVMClusterTemplate{
			ObjectMeta: s.NewMeta("cluster"),
		}, `"spec":{"template":{"spec":{"olvmDatacenterName":"Other"}}}`},
	}
	for kind, k := range kinds {
		patch := func(body string, options ...client.PatchOption) error {
			object := k.object.DeepCopyObject().(client.Object)

			return suite.client.Patch(
				t.Context(),
				object,
				client.RawPatch(types.MergePatchType, []byte("{"+body+"}")),
				options...)
		}
		refused := func(err error) error {
			if err == nil || !strings.Contains(err.Error(), "spec.template.spec is immutable: create a new "+kind) {
				return fmt.Errorf("it was not refused with the remedy: %w", err)
			}

			return nil
		}

		// The API server needs a moment to load a new policy.
		s.Eventually(kind+": a dry run that is not the topology controller's", func() error {
			return refused(patch(k.change, client.DryRunAll))
		})

		for name, err := range map[string]error{
			"a change":                             refused(patch(k.change)),
			"a change that claims to be a dry run": refused(patch(annotation + k.change)),
			"a dry run of the topology controller": patch(annotation+k.change, client.DryRunAll),
			"other metadata":                       patch(`"metadata":{"labels":{"team":"a"}}`),
			"metadata of what is made":             patch(`"spec":{"template":{"metadata":{"labels":{"team":"a"}}}}`),
		} {
			if err != nil {
				t.Errorf("%s: %s: %v", kind, name, err)
			}
		}
	}
}
