package machine

import (
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// node returns a bench with a running control plane node, in a cluster with these services.
func node(t *testing.T, services *infrav1.ControlPlaneServices) *bench {
	t.Helper()

	return running(t, ownVM(true), func(o *objects) {
		o.machine.Labels["cluster.x-k8s.io/control-plane"] = ""
		o.olvmMachine.Labels["cluster.x-k8s.io/control-plane"] = ""
		o.olvmCluster.Spec.ControlPlaneServices = services
		o.olvmCluster.Annotations = map[string]string{
			infrav1.RouterIDsAnnotation: `{"` + desired.APIRouter + `":51,"` + desired.IngressRouter + `":52}`,
		}
		o.bootstrap.Data["value"] = []byte("#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  content: |\n" +
			"    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: InitConfiguration\n")
	})
}

// staysAsItIs fails if a pass over the machine starts a run or changes the engine.
func (b *bench) staysAsItIs(what string) {
	b.t.Helper()
	changes := len(b.changes())
	b.pass()
	b.pass()
	check.Equal(b.t, what+": a run", b.ran(), false)
	check.Length(b.t, what+": changes of the engine", b.changes(), changes)
	check.Equal(b.t, what+": applied", condition(b.stored(), infrav1.InfrastructureAppliedCondition),
		"True/"+infrav1.AppliedReason)
	check.Equal(b.t, what+": ready", condition(b.stored(), infrav1.ReadyCondition), "True/Ready")
}

// TestOtherServicesOfAClusterLeaveItsNodesAlone changes each field. A node reads its configuration once, at its first
// boot. Only machines created later use the new settings.
func TestOtherServicesOfAClusterLeaveItsNodesAlone(t *testing.T) {
	b := node(t, &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived", LoadBalancerProvider: "HAProxy"})

	for _, step := range []struct {
		what  string
		apply func(*infrav1.ControlPlaneServices)
	}{
		{"apiServerPort", func(s *infrav1.ControlPlaneServices) { s.APIServerPort = 7443 }},
		{"loadBalancerProvider", func(s *infrav1.ControlPlaneServices) { s.LoadBalancerProvider = "Nginx" }},
		{"nginxImage", func(s *infrav1.ControlPlaneServices) { s.NginxImage = "nginx" }},
		{"virtualRouterID", func(s *infrav1.ControlPlaneServices) { s.VirtualRouterID = 77 }},
		{"ingressVirtualIP", func(s *infrav1.ControlPlaneServices) { s.IngressVirtualIP = "10.0.0.6" }},
		{"ingressVirtualRouterID", func(s *infrav1.ControlPlaneServices) { s.IngressVirtualRouterID = 78 }},
		{
			"additionalIngressVirtualIP", func(s *infrav1.ControlPlaneServices) {
				s.AdditionalIngressVirtualIP = "fd00::6"
			},
		},
		{"additionalVirtualIP", func(s *infrav1.ControlPlaneServices) { s.AdditionalVirtualIP = "fd00::5" }},
		{"virtualIPProvider", func(s *infrav1.ControlPlaneServices) {
			*s = infrav1.ControlPlaneServices{VirtualIPProvider: "KubeVIP"}
		}},
		{"kubeVIPImage", func(s *infrav1.ControlPlaneServices) { s.KubeVIPImage = "kube-vip:2" }},
		{"kubeVIPLease", func(s *infrav1.ControlPlaneServices) {
			s.KubeVIPLease = &infrav1.KubeVIPLease{DurationSeconds: 60}
		}},
		{"an endpoint of others", func(s *infrav1.ControlPlaneServices) { s.VirtualIPProvider = "External" }},
	} {
		change(b, &infrav1.OLVMCluster{ObjectMeta: named("demo")}, func(c *infrav1.OLVMCluster) {
			step.apply(c.Spec.ControlPlaneServices)
		})
		b.staysAsItIs(step.what)
	}
}

// TestNamesOfAClusterLeaveItsNodesAlone expects a run without changes. The run is needed because the guest's DNS
// servers are part of the configuration. It changes nothing because data for the first boot is ignored.
func TestNamesOfAClusterLeaveItsNodesAlone(t *testing.T) {
	b := node(t, &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived"})
	changes := len(b.changes())
	b.executor.run = saves(stateOf(7, "ovirt_vm="+vmID))

	change(b, &infrav1.OLVMCluster{ObjectMeta: named("demo")}, func(c *infrav1.OLVMCluster) {
		c.Spec.ControlPlaneServices.DNS = &infrav1.ClusterDNS{Domain: "demo.example.com"}
	})
	b.pass()
	b.awaitRun()
	b.pass()
	check.Length(t, "runs", b.executor.seen(), 1)
	config := ""

	for _, text := range b.executor.seen()[0].Files {
		config += string(text)
	}

	_, lifecycle, _ := strings.Cut(config, "ignore_changes")
	check.Contains(t, "what is ignored", lifecycle, "initialization_dns_servers")
	check.Contains(t, "what is ignored", lifecycle, "initialization_search_domains")
	check.Length(t, "changes of the engine", b.changes(), changes)
	b.executor.requests = nil
	b.staysAsItIs("the names of the cluster")
}

// TestOtherUserDataLeavesNodesAlone changes the user data of the cluster, the machine, and its KubeadmConfig.
func TestOtherUserDataLeavesNodesAlone(t *testing.T) {
	b := node(t, nil)
	proxy := &infrav1.UserData{Proxy: &infrav1.ProxySettings{HTTPSProxy: "http://proxy:3128"}}

	change(b, &infrav1.OLVMCluster{ObjectMeta: named("demo")}, func(c *infrav1.OLVMCluster) { c.Spec.UserData = proxy })
	b.staysAsItIs("the proxy of the cluster")

	change(b, &infrav1.OLVMCluster{ObjectMeta: named("demo")}, func(c *infrav1.OLVMCluster) {
		c.Spec.UserData = &infrav1.UserData{SSH: &infrav1.SSHAccess{AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}}}
	})
	b.staysAsItIs("the keys of the cluster")

	b.patch(func(s *infrav1.OLVMMachineSpec) { s.UserData = proxy })
	b.staysAsItIs("the proxy of the machine")
}

// TestOtherSupportServicesLeaveNodesAlone adds a load balancer, and changes its ports.
func TestOtherSupportServicesLeaveNodesAlone(t *testing.T) {
	b := node(t, nil)
	balancer := infrav1alpha1.SupportLoadBalancer{Name: "w", Role: infrav1.WorkerRole, Ports: []string{"443"}}
	balancer.MachineTemplateName = "lb"

	of := &infrav1alpha1.OLVMSupportServices{ObjectMeta: named("demo")}
	of.Spec.ClusterName = "demo"
	check.Error(t, b.api.Create(t.Context(), of), "")

	for _, ports := range [][]string{{"443"}, {"80", "443"}} {
		change(b, of, func(of *infrav1alpha1.OLVMSupportServices) {
			balancer.Ports = ports
			of.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{balancer}
		})
		b.staysAsItIs("another load balancer")
	}
}

// TestOtherRangesLeaveTheAddressesOfNodesAlone changes a machine's range, DNS servers, and gateway.
func TestOtherRangesLeaveTheAddressesOfNodesAlone(t *testing.T) {
	b := node(t, nil)
	change(b, &infrav1.OLVMCluster{ObjectMeta: named("demo")}, func(c *infrav1.OLVMCluster) {
		c.Spec.IPProfiles = []infrav1.IPProfile{{Name: "other"}}
	})
	b.staysAsItIs("a profile of the cluster")
	check.Equal(t, "addresses", b.stored().Annotations[infrav1.AddressesAnnotation], `{"nic1":["10.0.0.10"]}`)
}
