package e2e

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheClassHandsAWholeVirtualMachineOn lets Cluster API's own controllers create the templates of a cluster. The
// variables of the cluster describe the whole hardware of its machines.
func TestTheClassHandsAWholeVirtualMachineOn(t *testing.T) {
	const subnet = 77
	w := prepare(t, "hardware")
	w.applyTemplates(subnet, nil, func(object *unstructured.Unstructured) {
		if object.GetKind() == "Cluster" {
			setVariable(t, object, "controlPlaneMachines", fmt.Sprintf(`
virtualMachine: {memory: 8GB, cpu: {autoPinningPolicy: resize_and_pin}, placement: {hostNames: [host-1]}}
ipAddresses: [127.20.%d.10-127.20.%[1]d.19]`, subnet))
			setVariable(t, object, "workerMachines", `
virtualMachine: {instanceType: Large, network: {ipProfileName: workers}}`)
			setVariable(t, object, "network", `{vnicProfileName: kvm-vlan}`)
		}
	}, "clusterclass-olvm.yaml", "cluster-template-topology.yaml")

	w.eventually("the templates are made", func() error {
		var templates infrav1.OLVMMachineTemplateList
		err := w.plane.Client.List(t.Context(), &templates, client.InNamespace(w.namespace),
			client.HasLabels{clusterv1.ClusterTopologyOwnedLabel})
		if err != nil || len(templates.Items) != 2 {
			return fmt.Errorf("%d templates: %w", len(templates.Items), err)
		}

		for _, template := range templates.Items {
			spec := template.Spec.Template.Spec
			check.Equal(t, "vNIC profile", spec.OLVMNetwork, infrav1.OLVMNetwork{VNICProfileName: "kvm-vlan"})

			vm := spec.VirtualMachine
			if vm.InstanceType != "" {
				check.Equal(t, "instance type", vm.InstanceType, "Large")
				check.Equal(t, "memory of the worker", vm.Memory, "")
				check.Equal(t, "network of the worker", vm.Network, infrav1.GuestNetwork{IPProfileName: "workers"})
				continue
			}

			check.Equal(t, "pinning", vm.CPU, infrav1.CPU{AutoPinningPolicy: "resize_and_pin"})
			check.Equal(t, "hosts", vm.Placement.HostNames, []string{"host-1"})
			check.Equal(t, "subnet", vm.Network.IPv4.Subnet, fmt.Sprintf("127.20.%d.0/24", subnet))
			check.Equal(t, "gateway", vm.Network.Gateway, fmt.Sprintf("127.20.%d.1", subnet))
			check.Equal(t, "addresses", len(vm.Network.IPv4.IPAddresses), 1)
		}

		return nil
	})

	checkVariablesAreValidated(t, w)
}

// checkVariablesAreValidated submits variables to the webhook of Clusters.
func checkVariablesAreValidated(t *testing.T, w *workload) {
	t.Helper()

	for value, want := range map[string]string{
		`engine: {serverURL: "https://e/ovirt-engine", identityRef: {name: shared}}`: "",
		`engine: {serverURL: "https://e/ovirt-engine", identityRef: {name: shared}, credentialsSecret: {name: own}}`: "" +
			"and not both",
		`network: {vnicName: nic1}`:                                    "set networkName, vnicProfileName or both",
		`workerMachines: {virtualMachine: {}, memory: 8GB}`:            "set one of memory, virtualMachine",
		`workerMachines: {virtualMachine: {memory: 8GB}}`:              "set exactly one of ipAddresses",
		`workerMachines: {memory: 8GB, ipAddresses: [10.0.0.1], x: 1}`: "are not specified in the variable schema",
		`workerMachines: {virtualMachine: {memory: 8GB}, rootDisk: {size: 50GB}, ipAddresses: [10.0.0.1]}`: "" +
			"virtualMachine has rootDisk",

		// The following cases violate rules of fields.
		`engine: {serverURL: "http://e/ovirt-engine", identityRef: {name: shared}}`:                  "begins with https://",
		`engine: {serverURL: "https://e:0/ovirt-engine", identityRef: {name: shared}}`:               "a port from 1 to 65535",
		`engine: {serverURL: "https://e/ovirt-engine?a=b", identityRef: {name: shared}}`:             "without a user, a query",
		`engine: {serverURL: "https://e/ovirt-engine/webadmin", identityRef: {name: shared}}`:        "a page of the engine",
		`engine: {serverURL: "https://e/ovirt-engine", identityRef: {name: Shared}}`:                 "write the name of an object",
		`network: {networkName: a, macAddress: "56:6F:00:00:00:01", interfaceType: e1000}`:           "",
		`network: {networkName: a, macAddress: ""}`:                                                  "write a MAC address",
		`network: {networkName: a, macAddress: "01:00:5e:00:00:01"}`:                                 "of one network interface",
		`network: {networkName: a, interfaceType: ""}`:                                               "supported values",
		`subnet: {cidr: 10.0.0.0/24, gateway: "", dnsServers: [10.0.0.1, "fd00::5"]}`:                "",
		`subnet: {cidr: 10.0.0.0/24, dnsServers: [10.0.0.1, 10.0.0.1]}`:                              "an address is there twice",
		`subnet: {cidr: 10.0.0.0/24, dnsServers: [224.0.0.1]}`:                                       "the IP address of one machine",
		`workerMachines: {memory: 8GB, ipAddresses: ["10.0.0.1 - 10.0.0.9", 10.0.1.0/28, 10.0.2.1]}`: "",
		`workerMachines: {memory: 8GB, ipAddresses: ["fd00::5"]}`:                                    "write an IPv4 address",
		`controlPlaneMachines: {memory: 8GB, ipAddresses: [10.0.0.9-10.0.0.1]}`:                      "swap its ends",
		`bootstrapFormat: ignition`: "",
		`bootstrapFormat: json`:     "supported values",
		`ock: {registry: "registry.example.com:5000/mirror", etcdTag: 3.5.15}`: "",
		`ock: {registry: 'a"] #'}`:     "should match",
		`ock: {nginxImage: "a\nb: c"}`: "should match",
	} {
		cluster, err := w.cluster()
		check.Error(t, err, "")
		var variable map[string]any
		check.Error(t, yaml.Unmarshal([]byte(value), &variable), "")

		for name, said := range variable {
			text, err := yaml.Marshal(said)
			check.Error(t, err, "")
			json, err := yaml.YAMLToJSON(text)
			check.Error(t, err, "")

			variables := &cluster.Spec.Topology.Variables
			at := slices.IndexFunc(*variables, func(v clusterv1.ClusterVariable) bool { return v.Name == name })
			if at < 0 {
				at = len(*variables)
				*variables = append(*variables, clusterv1.ClusterVariable{Name: name})
			}

			(*variables)[at].Value.Raw = json
		}

		// Controllers change the version of the object with each write, so the request must not contain a version.
		cluster.ResourceVersion = ""
		cluster.ManagedFields = nil
		cluster.Name += "-variables"
		cluster.UID = ""
		check.Error(t, w.plane.Client.Create(t.Context(), cluster, client.DryRunAll), want)
	}
}

// setVariable sets a variable of a Cluster; null removes it.
func setVariable(t *testing.T, cluster *unstructured.Unstructured, name, value string) {
	t.Helper()
	path := []string{"spec", "topology", "variables"}
	list, _, err := unstructured.NestedSlice(cluster.Object, path...)
	check.Error(t, err, "")
	var said any
	check.Error(t, yaml.Unmarshal([]byte(value), &said), "")

	at := slices.IndexFunc(list, func(entry any) bool { return entry.(map[string]any)["name"] == name })

	switch {
	case said == nil && at >= 0:
		list = slices.Delete(list, at, at+1)
	case at < 0:
		list = append(list, map[string]any{"name": name, "value": said})
	default:
		list[at].(map[string]any)["value"] = said
	}

	check.Error(t, unstructured.SetNestedSlice(cluster.Object, list, path...), "")
}
