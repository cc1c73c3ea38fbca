package clusterfile

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// sixOnly are the changes that make a cluster file IPv6-only.
var sixOnly = []string{
	"virtualIp: 10.20.30.160", "virtualIp: fd00:20:30::5",
	"podSubnet: 10.244.0.0/16,fd01::/48\nserviceSubnet: 10.96.0.0/12,fd02::/112\n", "",
	"inline: |\n          nameserver 10.20.30.53", "inline: |\n          nameserver fd00:20:30::53",
	`          gateway: 10.20.30.1
          ipv4:
            subnet: 10.20.30.0/24
            ipAddresses: 10.20.30.161/30, 10.20.30.196, 10.20.30.200-10.20.30.205
          ipv6:
            autoConf: true
`, `          ipv6: {subnet: "fd00:20:30::/64", gateway: "fd00:20:30::1", ipAddresses: "fd00:20:30::10-fd00:20:30::19"}
`,
	`          gateway: 10.20.30.1
          ipv4:
            subnet: 10.20.30.0/24
            ipAddresses: 10.20.30.210-10.20.30.220`,
	`          ipv6: {subnet: "fd00:20:30::/64", gateway: "fe80::1", ipAddresses: "fd00:20:30::100-fd00:20:30::109"}`,
}

func TestAClusterFileOfIPv6Alone(t *testing.T) {
	for _, flavor := range []string{DefaultFlavor, "ipv6"} {
		changes := sixOnly
		if flavor != DefaultFlavor {
			changes = append([]string{"extraIgnitionInline: |", "catalogs: []\nextraIgnitionInlineOff: |"}, sixOnly...)
		}

		s := read(t, "current.yaml", changes...)
		if flavor == DefaultFlavor {
			check.Equal(t, "problems", texts(s.Validate()), "")
		} else {
			s.Validate() // it has an unsupported key, because Ignition works only with images of one flavor
		}

		objects, err := s.Manifests(flavor, none)
		check.Error(t, err, "")

		cluster := decoded[clusterv1.Cluster](t, objects, "Cluster", "demo")
		check.Equal(t, flavor+": pods", cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, []string{"fd01::/48"})
		check.Equal(t, flavor+": services", cluster.Spec.ClusterNetwork.Services.CIDRBlocks, []string{"fd02::/112"})

		infra := decoded[infrav1.OLVMCluster](t, objects, "OLVMCluster", "demo")
		check.Equal(t, flavor+": endpoint", infra.Spec.ControlPlaneEndpoint.Host, "fd00:20:30::5")

		for name, want := range map[string]infrav1.IPv6Network{
			"demo-control-plane": {
				Subnet: "fd00:20:30::/64", Gateway: "fd00:20:30::1", IPAddresses: []string{"fd00:20:30::10-fd00:20:30::19"},
			},
			"demo-md-0": {
				Subnet: "fd00:20:30::/64", Gateway: "fe80::1", IPAddresses: []string{"fd00:20:30::100-fd00:20:30::109"},
			},
		} {
			network := decoded[infrav1.OLVMMachineTemplate](t, objects, "OLVMMachineTemplate", name).
				Spec.Template.Spec.VirtualMachine.Network
			check.Equal(t, name+" has no IPv4", network.IPv4 == nil, true)
			check.Equal(t, name+" has no gateway of IPv4", network.Gateway, "")
			check.Equal(t, name, *network.IPv6, want)
		}
	}
}

func TestWhatIsWrongWithIPv6Alone(t *testing.T) {
	for name, test := range map[string]struct{ old, now, want string }{
		"an endpoint elsewhere": {
			"fd00:20:30::5", "fd00:20:31::5", "virtualIp: fd00:20:31::5 is not in the subnet fd00:20:30::/64",
		},
		"an endpoint among the machines": {
			"fd00:20:30::5", "fd00:20:30::12", "fd00:20:30::12",
		},
		"the gateway": {"fd00:20:30::5", "fd00:20:30::1", "is the gateway of the subnet"},
		"no subnet": {
			`subnet: "fd00:20:30::/64", gateway: "fe80::1", `, "",
			"providers.olvm.workerMachine.virtualMachine.network.ipv6.subnet: required",
		},
		"too few": {
			"fd00:20:30::100-fd00:20:30::109", "fd00:20:30::100",
			"network.ipv6.ipAddresses: not enough addresses: 1 address for 2 machines",
		},
	} {
		s := read(t, "current.yaml", append(sixOnly, test.old, test.now)...)
		check.Contains(t, name, texts(s.Validate()), test.want)
	}
}

func TestLoadBalancersOfAClusterFile(t *testing.T) {
	with := func(addresses string, more ...string) *Source {
		t.Helper()
		key := "    serviceLoadBalancers: {ipAddresses: \"" + addresses + "\"}\n"

		return read(t, "current.yaml", append(more, "    controlPlaneMachine:\n", key+"    controlPlaneMachine:\n")...)
	}

	s := with("10.20.30.240-10.20.30.244, 10.20.30.248/30, 10.20.30.250")
	check.Equal(t, "problems", texts(s.Validate()), "")
	check.Equal(t, "wanted", s.WantsLoadBalancers(), true)

	objects, err := s.LoadBalancers()
	check.Error(t, err, "")

	for _, object := range objects {
		if object.GetKind() == "ConfigMap" {
			check.Equal(t, "range", object.Object["data"], any(map[string]any{
				"range-global": "10.20.30.240-10.20.30.244,10.20.30.248-10.20.30.251,10.20.30.250-10.20.30.250",
			}))
		}
	}

	for addresses, want := range map[string]string{
		"10.20.30.300": `"10.20.30.300" is not an address, a range or a CIDR block`,
		"10.20.31.1-10.20.31.9": "10.20.31.1-10.20.31.9 must be in the subnet of providers.olvm.workerMachine " +
			"(10.20.30.0/24)",
		"10.20.30.150-10.20.30.160":   "contains virtualIp (10.20.30.160)",
		"10.20.30.1-10.20.30.3":       "contains the gateway 10.20.30.1",
		"fd00:20:31::1-fd00:20:31::9": "",
		"10.20.30.220-10.20.30.230":   "overlaps with the machine addresses 10.20.30.210-10.20.30.220",
	} {
		problems := texts(with(addresses).Validate())
		if check.Contains(t, addresses, problems, want); want == "" {
			check.Equal(t, addresses, problems, "")
		}
	}

	four := with("fd00:20:31::1", "10.244.0.0/16,fd01::/48", "10.244.0.0/16", "10.96.0.0/12,fd02::/112", "10.96.0.0/12")
	check.Contains(t, "IPv6 without pods of IPv6", texts(four.Validate()),
		"podSubnet (10.244.0.0/16) has no network of the IP family")

	router := with("fd00:20:30::1", sixOnly...)
	check.Contains(t, "the router", texts(router.Validate()), "contains the gateway fd00:20:30::1")

	six := with("fd00:20:30::200-fd00:20:30::20f", sixOnly...)
	check.Equal(t, "problems of IPv6", texts(six.Validate()), "")
	elsewhere := with("fd00:99::1", sixOnly...)
	check.Contains(t, "elsewhere", texts(elsewhere.Validate()), "must be in the subnet of providers.olvm")
}
