package support

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// asked is a cluster that requests support services.
type asked struct {
	infrav1.OLVMClusterSpec
	services *infrav1alpha1.OLVMSupportServices
}

// with returns a cluster with the given load balancers.
func with(balancers ...infrav1alpha1.SupportLoadBalancer) asked {
	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.LoadBalancers = balancers

	return asked{infrav1.OLVMClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443},
	}, of}
}

func (a asked) validate() error { return Validate(a.OLVMClusterSpec, a.services) }

func (a asked) endpoint() string { return FindEndpoint(a.OLVMClusterSpec, a.services) }

func worker(ports ...string) infrav1alpha1.SupportLoadBalancer {
	return infrav1alpha1.SupportLoadBalancer{Name: "w", Role: infrav1.WorkerRole, Ports: ports}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	virtual := func(b infrav1alpha1.SupportLoadBalancer, address string) infrav1alpha1.SupportLoadBalancer {
		b.VirtualIP = address
		return b
	}
	api := infrav1alpha1.SupportLoadBalancer{Name: "api", Role: infrav1.ControlPlaneRole}
	held := with(virtual(api, "10.0.0.5"))
	held.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived"}
	ingress := with(virtual(worker("1"), "10.0.0.7"))
	ingress.ControlPlaneServices = &infrav1.ControlPlaneServices{IngressVirtualIP: "10.0.0.7"}
	capital := with(virtual(worker("1"), "FD00::5"))
	capital.ControlPlaneEndpoint.Host = "fd00::5"
	spread := worker("1")
	spread.FailureDomains = []string{"a", "b"}
	apart := with(spread)
	apart.FailureDomains = []infrav1.OLVMFailureDomain{{Name: "a"}}
	elsewhere := api
	elsewhere.Ports = []string{"8443"}

	for name, test := range map[string]struct {
		cluster asked
		want    string
	}{
		"none":              {asked{}, ""},
		"all is well":       {with(worker("30002-30011", "443"), virtual(api, "10.0.0.5")), ""},
		"no port":           {with(worker("http")), `loadBalancers[0].ports[0]: "http" is not a port`},
		"half a range":      {with(worker("443", "30002-")), `ports[1]: "30002-" is not a port`},
		"port 0":            {with(worker("0")), `"0" is outside of 1 to 65535`},
		"a range backwards": {with(worker("12-11")), `"12-11" ends before it begins`},
		"a port twice":      {with(worker("10-20", "20-30")), "10-20 and 20-30 both have port 20"},
		"too many":          {with(worker("1000-1300")), "a load balancer can have at most 256 ports"},
		"the VM's own":      {with(worker("1900-2000")), "the VM itself uses port 1936"},
		"no address":        {with(virtual(worker("1"), "x")), `virtualIP: "x" is not an IP address`},
		"an address twice": {
			with(virtual(api, "10.0.0.6"), virtual(worker("1"), "10.0.0.6")), "is also the address of lb-api",
		},
		"the endpoint": {with(virtual(worker("6443"), "10.0.0.5")), "set the role to ControlPlane"},
		"the endpoint's port": {
			with(virtual(elsewhere, "10.0.0.5")), "the port 6443 of the control plane endpoint is missing",
		},
		"an unknown domain": {
			apart, `loadBalancers[0].failureDomains[1]: the cluster has no failure domain "b"`,
		},
		"a zone":                      {with(virtual(worker("1"), "fd00::1%eth0")), "is not an IP address"},
		"that of ingress":             {ingress, "is also the address of controlPlaneServices.ingressVirtualIP"},
		"the same, spelled otherwise": {capital, "set the role to ControlPlane"},
		"held by others":              {held, "the control plane nodes hold "},
		"the second is no good":       {with(worker("1"), worker("1", "1")), "loadBalancers[1].ports[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Error(t, test.cluster.validate(), test.want)
		})
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	api := infrav1alpha1.SupportLoadBalancer{Name: "api", Role: infrav1.ControlPlaneRole, VirtualIP: "10.0.0.5"}
	other := api
	other.VirtualIP = "10.0.0.6"
	check.Equal(t, "the only one", with(api, worker("1")).endpoint(), "10.0.0.5")
	check.Equal(t, "two", with(api, other).endpoint(), "")
	check.Equal(t, "none", with(worker("1")).endpoint(), "")

	api.VirtualIP = "10.20.30.555"
	check.Equal(t, "one that is no address", with(api).endpoint(), "")
	api.VirtualIP, api.Ports = "10.0.0.5", []string{"8443"}
	check.Equal(t, "one without the endpoint's port", with(api).endpoint(), "")
	api.VirtualIP, api.Ports = "FD00::5", nil
	check.Equal(t, "one that is written otherwise", with(api).endpoint(), "fd00::5")
}

// TestPortsOfAPIServers verifies that load balancers send connections to the ports of API servers.
func TestPortsOfAPIServers(t *testing.T) {
	t.Parallel()
	cluster := with(infrav1alpha1.SupportLoadBalancer{Name: "api", Role: infrav1.ControlPlaneRole})
	backend := []Node{
		{"b", netip.MustParseAddr("fd00::2"), true}, {"a", netip.MustParseAddr("10.0.0.2"), true},
		{"worker", netip.MustParseAddr("10.0.0.3"), false},
	}
	config := func() string {
		t.Helper()
		balancer, err := CollectServices(cluster.services)[0].NewBalancer(cluster.OLVMClusterSpec, backend)
		check.Error(t, err, "")

		for _, file := range balancer.BuildFiles() {
			if file.Path == "haproxy.cfg" {
				return file.Content
			}
		}

		return ""
	}
	check.Contains(t, "in their order", config(), "    server a 10.0.0.2:6443\n    server b [fd00::2]:6443\n")

	cluster.ControlPlaneServices = &infrav1.ControlPlaneServices{LoadBalancerProvider: "HAProxy"}
	check.Contains(t, "behind the nodes' own load balancers", config(), "server a 10.0.0.2:6444\n")
	cluster.ControlPlaneServices.APIServerPort = 7000
	check.Contains(t, "at a port of their own", config(), "server a 10.0.0.2:7000\n")
	cluster.services.Spec.LoadBalancers[0].BackendPort = 8000
	check.Contains(t, "at the port that is written", config(), "server a 10.0.0.2:8000\n")

	cluster.services.Spec.LoadBalancers[0].BackendPort, cluster.ControlPlaneEndpoint.Port = 0, 8443
	for holder, server := range map[string]string{
		"KubeVIP": "server a 10.0.0.2:8443\n", "Keepalived": "server a 10.0.0.2:8443\n",
		"External": "server a 10.0.0.2:6443\n",
	} {
		cluster.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: holder}
		check.Contains(t, "an endpoint at another port, held by "+holder, config(), server)
	}
}

// TestMachineOf verifies that there is a stand-in only without a Machine.
func TestMachineOf(t *testing.T) {
	t.Parallel()
	of := &infrav1alpha1.OLVMSupportServices{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "uid"}}
	of.Spec.ClusterName = "demo"
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "lb"}}
	balancer := worker("443")
	balancer.MachineTemplateName, balancer.FailureDomains, balancer.Replicas = "lb", []string{"a", "b"}, 2
	of.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{balancer}
	service := CollectServices(of)[0]
	vm := service.VMs("demo")[1]
	m, err := service.NewMachine(of, vm, template)
	check.Error(t, err, "")

	machine := NewStandInMachine(m)
	check.Equal(t, "name", machine.Name, "demo-lb-w-1")
	check.Equal(t, "failure domain", machine.Spec.FailureDomain, "b")
	check.Equal(t, "data", *machine.Spec.Bootstrap.DataSecretName, "demo-lb-w-1-support")
	check.Equal(t, "up to date", service.ExplainOutdated(m, vm), "")
	check.Contains(t, "another domain", service.ExplainOutdated(m, service.VMs("demo")[0]),
		`the spec names failure domain "a"`)

	labelled := m.DeepCopy()
	labelled.OwnerReferences[0].Kind = "Machine"
	check.Equal(t, "one that a Machine owns", NewStandInMachine(labelled) == nil, true)
	delete(m.Labels, infrav1alpha1.SupportServiceLabel)
	check.Equal(t, "a node", NewStandInMachine(m) == nil, true)

	template.Spec.Template.Spec.FromInventory = &infrav1.FromInventory{}
	_, err = service.NewMachine(of, vm, template)
	check.Error(t, err, "spec.loadBalancers[0].machineTemplateName: OLVMMachineTemplate lb takes VMs from")
}

// TestNodeKeys verifies that keys are refused if ssh on the VM cannot use them.
func TestNodeKeys(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check.Error(t, err, "")
	plain, err := ssh.MarshalPrivateKey(private, "")
	check.Error(t, err, "")
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	check.Error(t, err, "")

	for name, test := range map[string]struct {
		keys map[string][]byte
		want string
	}{
		"a key":        {map[string][]byte{"id_ed25519": pem.EncodeToMemory(plain)}, ""},
		"a passphrase": {map[string][]byte{"id": pem.EncodeToMemory(locked)}, "the key id has a passphrase"},
		"a certificate": {map[string][]byte{"ca.crt": []byte("-----BEGIN CERTIFICATE-----")},
			"ca.crt is not a private key"},
		"a path": {map[string][]byte{"..": pem.EncodeToMemory(plain)}, `".." is not a valid key name`},
	} {
		check.Error(t, CheckNodeKeys(test.keys), test.want)

		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestJumpHostOfACluster verifies that a jump host uses the cluster's user by default, and refers to the cluster's
// Secrets.
func TestJumpHostOfACluster(t *testing.T) {
	t.Parallel()
	cluster := infrav1.OLVMClusterSpec{UserData: &infrav1.UserData{SSH: &infrav1.SSHAccess{User: "opc"}}}
	of := &infrav1alpha1.OLVMSupportServices{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	of.Spec.JumpHost = &infrav1alpha1.SupportJumpHost{
		NodeKeysSecretName: "keys", EngineCredentialsSecretName: "creds",
	}
	jump := CollectServices(of)[0].NewJumpHost(cluster, nil)
	check.Equal(t, "users", jump.User+" "+jump.NodeUser, "jump opc")
	check.Equal(
		t, "Secrets", CollectSecrets(of), []client.ObjectKey{
			{Namespace: "ns", Name: "keys"}, {Namespace: "ns", Name: "creds"},
		},
	)
	check.Equal(t, "Secrets of others", CollectSecrets(with(worker("1")).services), nil)

	for _, file := range jump.BuildFiles() {
		if file.Path == "ssh.conf" {
			check.Equal(t, "no nodes", file.Content, "# Made by capolvm.\n")
		}
	}
}

// TestUserDataIsACloudConfig verifies that only root can read the file with the token on the VM.
func TestUserDataIsACloudConfig(t *testing.T) {
	t.Parallel()
	data, err := RenderUserData(
		bootstrap.Pointer{URL: "https://m:9445/v1/x", Token: "T0KEN", CA: []byte("CERTIFICATE\n")},
	)
	check.Error(t, err, "")
	merged, err := bootstrap.Merge(data, bootstrap.CloudConfig, bootstrap.Guest{HostName: "lb"})
	check.Error(t, err, "")

	var config struct {
		WriteFiles []struct{ Path, Permissions, Content string } `json:"write_files"`
		RunCmd     []string                                      `json:"runcmd"`
	}
	check.Error(t, yaml.Unmarshal(merged, &config), "")

	for _, file := range config.WriteFiles {
		if strings.Contains(file.Content, "T0KEN") {
			check.Equal(t, "mode of "+file.Path, file.Permissions, "0600")
		}
	}

	check.Contains(t, "user data", string(merged), "T0KEN")
	check.Lacks(t, "commands", strings.Join(config.RunCmd, " "), "T0KEN")
}
