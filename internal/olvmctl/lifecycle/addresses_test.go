package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestScaleSaysWhereAddressesEnd has a template with ten addresses.
func TestScaleSaysWhereAddressesEnd(t *testing.T) {
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "workers"}}
	template.Spec.Template.Spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{
		Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10-10.0.0.19"},
	}
	dynamic := &infrav1.OLVMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "dynamic"}}
	dynamic.Spec.Template.Spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{DHCP: true}

	in := clusterWith(t, template, dynamic,
		&infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "prod"}})
	cluster := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{Kind: "OLVMCluster", Name: "prod"},
	}}

	for name, test := range map[string]struct {
		kind, template string
		machines       int32
		want           string
	}{
		"enough":          {"OLVMMachineTemplate", "workers", 10, ""},
		"too many":        {"OLVMMachineTemplate", "workers", 11, "workers has 10 addresses for network interface nic1"},
		"DHCP":            {"OLVMMachineTemplate", "dynamic", 500, ""},
		"another's":       {"OCIMachineTemplate", "workers", 11, ""},
		"not to be found": {"OLVMMachineTemplate", "none", 11, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string

			ref := clusterv1.ContractVersionedObjectReference{Kind: test.kind, Name: test.template}
			warnOfAddresses(
				t.Context(), in, cluster, ref, test.machines, func(line string) { said = append(said, line) },
			)

			check.Contains(t, "what it says", strings.Join(said, "\n"), test.want)
			check.Equal(t, "whether it says something", len(said) > 0, test.want != "")
		})
	}
}
