package preview

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// supported is a cluster with a pair of load balancers. One of them is running.
const supported = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec: {infrastructureRef: {kind: OLVMCluster, name: demo, apiGroup: infrastructure.cluster.x-k8s.io}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMCluster
metadata: {name: demo}
spec:
  olvmDatacenterName: Default
  olvmOvirtAPIServer: {serverURL: "https://engine.example.com/ovirt-engine", credentialsSecret: {name: creds}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OLVMSupportServices
metadata: {name: demo}
spec:
  clusterName: demo
  loadBalancers:
  - {name: api, role: ControlPlane, replicas: 2, virtualIP: 10.0.0.5, machineTemplateName: lb}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMMachineTemplate
metadata: {name: lb}
spec:
  template:
    spec:
      olvmOvirtClusterName: Default
      vmTemplateName: ol9
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        memory: 2GB
        network: {ipv4: {subnet: 10.0.0.0/24, ipAddresses: [10.0.0.30-10.0.0.31]}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMMachine
metadata:
  name: demo-lb-api-0
  labels: {infrastructure.cluster.x-k8s.io/support-service: lb-api}
  annotations: {cluster.x-k8s.io/cloned-from-name: old}
spec:
  olvmOvirtClusterName: Default
  vmTemplateName: ol9
  olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
  virtualMachine: {memory: 1GB, network: {ipv4: {subnet: 10.0.0.0/24, ipAddresses: [10.0.0.31]}}}
`

func TestVMsOfSupportServicesArePlanned(t *testing.T) {
	t.Parallel()
	m, err := load([]string{"-"}, strings.NewReader(supported))
	check.Error(t, err, "")
	machines, err := m.Machines()
	check.Error(t, err, "")
	check.Length(t, "machines", machines, 2)

	results := DescribeOffline(m, machines)
	check.Equal(t, "the first", results[0].Name, "demo-lb-api-0")
	check.Equal(t, "it is of another template", results[0].Replaced,
		"it comes from OLVMMachineTemplate old, but the spec names lb")
	check.Equal(t, "the second", results[1].Name, "demo-lb-api-1")
	check.Equal(t, "its addresses", results[1].Addresses, []string{"10.0.0.30"})
	check.Equal(t, "what asks for it", results[1].From, "OLVMSupportServices/demo lb-api")
	check.Contains(t, "what it is", results[1].Text, "2GB of memory")
}

func TestSupportServicesThatCannotBeAreNamed(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ old, changed, want string }{
		{"machineTemplateName: lb}", "machineTemplateName: none}", "OLVMSupportServices default/demo: " +
			"spec.loadBalancers[0].machineTemplateName: OLVMMachineTemplate default/none not found"},
		{"metadata: {name: demo}\nspec: {infra", "metadata: {name: other}\nspec: {infra", "OLVMSupportServices default/demo: " +
			"spec.clusterName: Cluster demo not found in the manifests or in the management cluster"},
		{"{kind: OLVMCluster,", "{kind: OCICluster,", "the infrastructure of Cluster demo is of kind OCICluster"},
		{"role: ControlPlane,", `role: ControlPlane, ports: ["1-3", "2"],`, "ports[1]: 1-3 and 2 both have port 2"},
	} {
		m, err := load([]string{"-"}, strings.NewReader(strings.Replace(supported, test.old, test.changed, 1)))
		check.Error(t, err, "")
		_, err = m.Machines()
		check.Error(t, err, test.want)
	}
}
