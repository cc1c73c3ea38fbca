package controllers

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_1"
	"github.com/vincent-petithory/dataurl"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// stockIgnition is Ignition 2.3 as written by stock Cluster API.
const stockIgnition = `{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"root","path":"/etc/motd","mode":420,"contents":{"source":"data:,hello"}}]},"systemd":{"units":[{"name":"kubeadm.service","enabled":true,"contents":"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}]}}`

// ofIgnition selects an image with Ignition.
func ofIgnition(spec *infrav1.OLVMMachineSpec) { spec.VMTemplateName = "ock-1.36" }

func TestAnIgnitionGuestGetsItsNetworkFromItsUserData(t *testing.T) {
	s := newSite(t, nil)
	s.UserData, s.Format = stockIgnition, "ignition"
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.UserData = &infrav1.UserData{
			SSH:   &infrav1.SSHAccess{AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}},
			Proxy: &infrav1.ProxySettings{HTTPSProxy: "http://proxy:3128"},
		}
	})
	m := s.CreateMachine("m", func(spec *infrav1.OLVMMachineSpec) {
		ofIgnition(spec)
		spec.VirtualMachine.Network.DNSServers = []string{"10.0.0.53"}
		spec.UserData = &infrav1.UserData{
			Extra: []infrav1.ExtraUserData{
				{
					Inline: "variant: fcos\nversion: 1.4.0\nstorage:\n  files:\n  - {path: /etc/extra, " +
						"contents: {inline: extra}}\n",
				},
			},
		}
	})
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready") // the simulated guest is only up with an address
	s.Eventually("the run is in the status", func() error {
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		if err != nil || m.Status.Terraform == nil || m.Status.Terraform.Runs == 0 {
			return fmt.Errorf("%+v, %w", m.Status.Terraform, err)
		}

		return nil
	})

	init := s.inspect("m").vm.Initialization
	for _, want := range []string{`"version":"3.3.0"`, "/etc/NetworkManager/system-connections/enp1s0.nmconnection",
		"/etc/hostname", "/etc/motd", "/etc/extra", "ssh-ed25519 AAAA me", "10-capolvm-proxy.conf"} {
		if !strings.Contains(init.CustomScript, want) {
			t.Errorf("the user data has no %s:\n%s", want, init.CustomScript)
		}
	}

	if init.HostName != "" {
		t.Errorf("the engine would add its own /etc/hostname: %q", init.HostName)
	}

	if runs := m.Status.Terraform.Runs; runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestBootstrapDataThatDoesNotFit(t *testing.T) {
	skipProved(t, "TestBootstrapDataThatDoesNotFit of controllers/machine")

	s := newSite(t, nil)
	waiting := func(m *infrav1.OLVMMachine, want ...string) {
		t.Helper()

		message := s.ExpectCondition(
			m, infrav1.BootstrapDataAvailableCondition, "False/"+infrav1.BootstrapDataInvalidReason,
		)
		for _, text := range want {
			if !strings.Contains(message, text) {
				t.Errorf("%s: %q does not say %q", m.Name, message, text)
			}
		}
	}
	waiting(s.CreateMachine("cloud-init", ofIgnition), "spec.virtualMachine.osType", `it is "rhcos_x64"`,
		"bootstrap Secret cloud-init-bootstrap is a cloud-config", "Set the format of the KubeadmConfig to ignition")
	s.UserData, s.Format = stockIgnition, "ignition"
	waiting(s.CreateMachine("ignition", nil), "spec.virtualMachine.osType", `it is "ol_9x64"`,
		"bootstrap Secret ignition-bootstrap is for Ignition", "set it to rhcos_x64")
	s.UserData = "{}"
	waiting(
		s.CreateMachine("none", ofIgnition), "bootstrap Secret none-bootstrap", "it is not an Ignition configuration",
	)
	s.UserData, s.Format = "#cloud-config\nwrite_files: [{path: /a, content: b}]\n", ""
	waiting(s.CreateMachine("conflict", func(spec *infrav1.OLVMMachineSpec) {
		spec.UserData = &infrav1.UserData{
			Extra: []infrav1.ExtraUserData{{Inline: "write_files: [{path: /a, content: c}]\n"}},
		}
	}), "the file /a is set differently by the bootstrap data and by userData.extra[0].inline")
	s.UserData = "#cloud-config\nwrite_files: [{path: /a, content: " + strings.Repeat("x", 512<<10) + "}]\n"
	waiting(
		s.CreateMachine("large", nil), "bootstrap Secret large-bootstrap", "but a VM can get at most 524288",
	)
	if vms := s.Sim.Summarize().VMs; vms != 0 {
		t.Errorf("%d VMs were made", vms)
	}
}

func TestExtraUserDataIsWaitedFor(t *testing.T) {
	skipProved(t, "TestExtraUserDataIsWaitedFor of controllers/machine")

	s := newSite(t, nil)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.UserData = &infrav1.UserData{
			Extra: []infrav1.ExtraUserData{{ConfigMapKeyRef: &infrav1.KeyReference{Name: "extra", Key: "user-data"}}},
		}
	})
	m := s.CreateMachine("m", func(spec *infrav1.OLVMMachineSpec) {
		spec.UserData = &infrav1.UserData{
			Extra: []infrav1.ExtraUserData{{SecretKeyRef: &infrav1.KeyReference{Name: "extra", Key: "user-data"}}},
		}
	})
	waits := func(want string) {
		t.Helper()
		s.Eventually(want, func() error {
			message := s.ExpectCondition(m, infrav1.BootstrapDataAvailableCondition,
				"False/"+infrav1.WaitingForBootstrapDataReason)
			if !strings.Contains(message, want) {
				return errors.New(message)
			}

			return nil
		})
	}
	waits("ConfigMap extra (userData.extra) does not exist; create it, or correct the name")
	s.Create(&corev1.ConfigMap{
		ObjectMeta: s.NewMeta("extra"),
		Data:       map[string]string{"user-data": "ntp: {enabled: true}\n"},
	})
	waits("Secret extra (userData.extra) does not exist")
	secret := &corev1.Secret{ObjectMeta: s.NewMeta("extra"), Data: map[string][]byte{"other": []byte("a: 1\n")}}
	s.Create(secret)
	waits(`Secret extra (userData.extra) has no key "user-data"`)
	change(s, secret, func(secret *corev1.Secret) { secret.Data["user-data"] = []byte("timezone: CET\n") })
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")
	script := s.inspect("m").vm.Initialization.CustomScript
	if !strings.Contains(script, "timezone: CET") || !strings.Contains(script, "enabled: true") {
		t.Errorf("the user data:\n%s", script)
	}
}

// TestTheKubeletIsToldItsAddresses verifies that a node registers an address of each IP family of its pods.
func TestTheKubeletIsToldItsAddresses(t *testing.T) {
	skipProved(t, "TestTheKubeletIsToldItsAddresses of controllers/machine")

	for name, test := range map[string]struct {
		pods []string
		want string
	}{
		"IPv4":       {[]string{"10.244.0.0/16"}, "value: 10.0.0.10\n"},
		"dual stack": {[]string{"fd01::/48", "10.244.0.0/16"}, "value: fd00::10,10.0.0.10\n"},
		"IPv6":       {[]string{"fd01::/48"}, "value: fd00::10\n"},
		"not said":   {nil, "value: 10.0.0.10\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			change(s, s.Cluster, func(c *clusterv1.Cluster) {
				c.Spec.ClusterNetwork = clusterv1.ClusterNetwork{Pods: clusterv1.NetworkRanges{CIDRBlocks: test.pods}}
			})
			s.UserData = "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: " +
				"|\n    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: JoinConfiguration\n"
			m := s.CreateMachine("m", func(spec *infrav1.OLVMMachineSpec) {
				spec.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{IPAddresses: []string{"fd00::10-fd00::19"}}
			})
			s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")
			script := s.inspect("m").vm.Initialization.CustomScript
			if !strings.Contains(script, "name: node-ip\n") || !strings.Contains(script, test.want) {
				t.Errorf("the user data:\n%s", script)
			}
		})
	}
}

// written returns a file of a VM's user data, or "".
func (s *site) written(vm, path string) string {
	s.T.Helper()
	var config struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal([]byte(s.inspect(vm).vm.Initialization.CustomScript), &config); err != nil {
		s.T.Fatal(err)
	}

	for _, file := range config.WriteFiles {
		if file.Path == path {
			return file.Content
		}
	}

	return ""
}

func TestNodesMakeTheEndpointOfTheirCluster(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443}
		c.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{
			VirtualIPProvider:    "Keepalived",
			LoadBalancerProvider: "HAProxy",
			IngressVirtualIP:     "10.0.0.6",
		}
	})
	s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
	ids, err := desired.ParseRouterIDs(s.OLVM)
	check.Error(t, err, "")
	check.Set(t, "the ID of the endpoint", ids[desired.APIRouter])
	check.Set(t, "the ID of ingress", ids[desired.IngressRouter])

	if ids[desired.APIRouter] == ids[desired.IngressRouter] {
		t.Fatalf("both IDs are %d", ids[desired.APIRouter])
	}

	s.UserData = "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: |\n    " +
		"apiVersion: kubeadm.k8s.io/v1beta4\n    kind: JoinConfiguration\n    controlPlane: {}\n"
	first := s.controlPlane("cp-1", "", nil)
	s.ExpectCondition(first, infrav1.ReadyCondition, "True/Ready")
	second := s.controlPlane("cp-2", "", nil)
	s.ExpectCondition(second, infrav1.ReadyCondition, "True/Ready")
	worker := s.CreateMachine("worker", nil)
	s.ExpectCondition(worker, infrav1.ReadyCondition, "True/Ready")

	nodes := s.written("cp-2", "/etc/capolvm/control-plane")
	if nodes != second.Status.Addresses[0].Address+"\n"+first.Status.Addresses[0].Address+"\n" {
		t.Errorf("the nodes that the second one knows: %q", nodes)
	}

	config := s.written("cp-2", "/etc/capolvm/keepalived.conf")
	for _, want := range []string{fmt.Sprintf("virtual_router_id %d\n", ids[desired.APIRouter]),
		fmt.Sprintf("virtual_router_id %d\n", ids[desired.IngressRouter]), "10.0.0.5/32 dev enp1s0",
		"10.0.0.6/32 dev enp1s0",
		"unicast_src_ip " + second.Status.Addresses[0].Address} {
		if !strings.Contains(config, want) {
			t.Errorf("keepalived's configuration has no %q:\n%s", want, config)
		}
	}

	kubeadm := s.written("cp-2", "/run/kubeadm/kubeadm-join-config.yaml")
	if !strings.Contains(kubeadm, "bindPort: 6444") {
		t.Errorf("kubeadm's configuration:\n%s", kubeadm)
	}

	if config := s.written("worker", "/etc/capolvm/keepalived.conf"); strings.Contains(config, "10.0.0.5") ||
		!strings.Contains(config, "10.0.0.6/32") {
		t.Errorf("a worker's keepalived:\n%s", config)
	}

	if s.written("worker", "/etc/capolvm/haproxy.cfg") != "" {
		t.Error("a worker has the load balancer of the control plane")
	}

	inRange := s.CreateMachine("in-range", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.6-10.0.0.9"}
	})
	message := s.ExpectCondition(
		inRange, infrav1.AddressesAllocatedCondition, "False/"+infrav1.EndpointInAddressRangeReason,
	)
	if !strings.Contains(message, "the ingress address 10.0.0.6 is inside") {
		t.Error(message)
	}
}

func TestTheEndpointWithKubeVIP(t *testing.T) {
	skipProved(t, "TestTheEndpointWithKubeVIP of controllers/machine")

	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443}
		c.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "KubeVIP"}
	})
	for name, test := range map[string]struct{ kind, path, config string }{
		"init": {"InitConfiguration", "/run/kubeadm/kubeadm.yaml", "/etc/kubernetes/super-admin.conf"},
		"join": {"JoinConfiguration\n    controlPlane: {}", "/run/kubeadm/kubeadm-join-config.yaml",
			"/etc/kubernetes/admin.conf"},
	} {
		s.UserData = "#cloud-config\nwrite_files:\n- path: " + test.path + "\n  content: |\n    apiVersion: " +
			"kubeadm.k8s.io/v1beta4\n    kind: " + test.kind + "\n"
		s.ExpectCondition(s.controlPlane(name, "", nil), infrav1.ReadyCondition, "True/Ready")
		var pod corev1.Pod
		err := yaml.UnmarshalStrict([]byte(s.written(name, "/etc/kubernetes/manifests/kube-vip.yaml")), &pod)
		if err != nil {
			t.Fatal(err)
		}

		if pod.Spec.Volumes[0].HostPath.Path != test.config ||
			!slices.ContainsFunc(pod.Spec.Containers[0].Env, func(e corev1.EnvVar) bool {
				return e.Name == "address" &&
					e.Value == "10.0.0.5"
			}) {
			t.Errorf("%s: %+v", name, pod.Spec)
		}

		if s.written(name, "/etc/capolvm/keepalived.conf") != "" {
			t.Errorf("%s has keepalived, too", name)
		}
	}
}

func TestNodesAnswerForTheNamesOfTheirDualStackCluster(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "10.0.0.5", Port: 6443}
		c.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{
			VirtualIPProvider:          "Keepalived",
			AdditionalVirtualIP:        "fd00::5",
			IngressVirtualIP:           "10.0.0.6",
			AdditionalIngressVirtualIP: "fd00::6",
			DNS:                        &infrav1.ClusterDNS{Domain: "one.example.com"},
		}
	})
	s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
	dual := func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.DNSServers = []string{"10.0.0.53"}
		spec.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{IPAddresses: []string{"fd00::10-fd00::40"}}
	}
	init := "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  content: |\n    apiVersion: " +
		"kubeadm.k8s.io/v1beta4\n    kind: ClusterConfiguration\n    apiServer: {certSANs: [%s]}\n    ---\n    " +
		"kind: InitConfiguration\n"
	s.UserData = fmt.Sprintf(init, `api-int.one.example.com, "fd00:0::5"`)
	lacks := s.controlPlane("lacks", "", dual)
	message := s.ExpectCondition(
		lacks, infrav1.BootstrapDataAvailableCondition, "False/"+infrav1.BootstrapDataInvalidReason,
	)
	if !strings.Contains(message, "would lack api.one.example.com") ||
		!strings.Contains(message, "apiServer.certSANs of the KubeadmControlPlane") {
		t.Error(message)
	}

	s.UserData = fmt.Sprintf(init, `api.one.example.com, api-int.one.example.com, "fd00:0::5"`)
	first := s.controlPlane("cp", "", dual)
	s.ExpectCondition(first, infrav1.ReadyCondition, "True/Ready")
	self4, self6 := first.Status.Addresses[0].Address, first.Status.Addresses[1].Address
	told := s.inspect("cp").vm.Initialization
	if told.DNSServers != self4+" 10.0.0.53" || told.DNSSearch != "one.example.com" {
		t.Errorf("the guest asks %q, in %q", told.DNSServers, told.DNSSearch)
	}

	for path, wants := range map[string][]string{
		"/etc/capolvm/dns/Corefile": {"bind " + self4 + " " + self6 + " 10.0.0.5 fd00::5\n",
			"file /etc/coredns/nodes.zone", "forward . 10.0.0.53 {"},
		"/etc/capolvm/dns/endpoint.zone":             {"@ IN A 10.0.0.5\n@ IN AAAA fd00::5\n"},
		"/etc/capolvm/dns/apps.zone":                 {"* IN A 10.0.0.6\n* IN AAAA fd00::6\n"},
		"/etc/capolvm/dns/nodes.zone":                {"cp IN A " + self4 + "\ncp IN AAAA " + self6 + "\n"},
		"/etc/kubernetes/manifests/capolvm-dns.yaml": {"registry.k8s.io/coredns/coredns:"},
		"/etc/capolvm/keepalived.conf":               {"fd00::5/128 dev enp1s0", "fd00::6/128 dev enp1s0"},
	} {
		for _, want := range wants {
			if got := s.written("cp", path); !strings.Contains(got, want) {
				t.Errorf("%s has no %q:\n%s", path, want, got)
			}
		}
	}

	s.UserData = "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: |\n    " +
		"apiVersion: kubeadm.k8s.io/v1beta4\n    kind: JoinConfiguration\n"
	worker := s.CreateMachine("worker", dual)
	s.ExpectCondition(worker, infrav1.ReadyCondition, "True/Ready")
	got := s.written("worker", "/etc/capolvm/dns/Corefile")
	check.Contains(t, "got", got, "forward . 10.0.0.5 fd00::5 10.0.0.1")
	check.Contains(t, "got", got, " "+self4+" ")
	check.Contains(t, "got", got, " "+self6+" ")
	check.Lacks(t, "got", got, "nodes.zone")
	check.Lacks(t, "got", got, "bind 10.0.0.5")

	leased := s.CreateMachine("leased", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{DHCP: true}
		spec.VirtualMachine.Network.Gateway = ""
	})
	message = s.ExpectCondition(leased, infrav1.InfrastructureAppliedCondition,
		"False/"+infrav1.ControlPlaneServicesInvalidReason)
	if !strings.Contains(message, "needs a static address on the first network interface") {
		t.Error(message)
	}
}

func TestServicesOfTheControlPlaneThatCannotBe(t *testing.T) {
	s := newSite(t, nil)

	for name, services := range map[string]infrav1.ControlPlaneServices{
		"loadBalancerProvider needs virtualIPProvider Keepalived": {
			VirtualIPProvider: "KubeVIP", LoadBalancerProvider: "HAProxy",
		},
		"set loadBalancerProvider, or remove it":       {VirtualIPProvider: "Keepalived", APIServerPort: 6445},
		"nginxImage needs loadBalancerProvider Nginx":  {VirtualIPProvider: "Keepalived", NginxImage: "nginx"},
		"kubeVIPImage needs virtualIPProvider KubeVIP": {VirtualIPProvider: "Keepalived", KubeVIPImage: "kube-vip"},
		"additionalVirtualIP needs virtualIPProvider":  {AdditionalVirtualIP: "fd00::5"},
		"IP needs ingressVirtualIP":                    {AdditionalIngressVirtualIP: "fd00::6"},
		"dns.domain":                                   {DNS: &infrav1.ClusterDNS{Domain: "Example.com"}},
	} {
		c := &infrav1.OLVMCluster{ObjectMeta: s.NewMeta("refused"), Spec: s.OLVM.Spec}
		c.Spec.ControlPlaneServices = &services
		if err := s.Client.Create(t.Context(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLargeUserDataIsDelivered delivers user data of nearly the maximum size, through Terraform and its state in a
// Secret. The data cannot be compressed.
func TestLargeUserDataIsDelivered(t *testing.T) {
	s := newSite(t, nil)
	content := make([]byte, 350<<10)
	_, _ = rand.Read(content) // never fails
	text := base64.StdEncoding.EncodeToString(content)
	s.UserData = "#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: " + text + "}]\n"
	s.ExpectCondition(s.CreateMachine("m", nil), infrav1.ReadyCondition, "True/Ready")
	if script := s.inspect("m").vm.Initialization.CustomScript; !strings.Contains(script, text) {
		t.Errorf("%d bytes of user data arrived", len(script))
	}
}

// TestUserDataByPointer verifies that the engine and the Terraform state have no user data, but a pointer to it. The
// pointer is no longer valid once the VM has used it.
func TestUserDataByPointer(t *testing.T) {
	s := newSiteIn(t, networkedInventory(), nil)
	s.UserData, s.Format = stockIgnition, "ignition"
	leased := func(spec *infrav1.OLVMMachineSpec) {
		spec.OLVMNetwork = infrav1.OLVMNetwork{NetworkName: "dynamic", VNICName: "nic1", VNICProfileName: "dynamic"}
		spec.VirtualMachine.Network = infrav1.GuestNetwork{
			Interface:  "enp1s0",
			Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}},
		}
		spec.UserData = &infrav1.UserData{BootstrapDelivery: "Pointer"}
	}
	m := s.CreateMachine("m", func(spec *infrav1.OLVMMachineSpec) { ofIgnition(spec); leased(spec) })
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready") // the simulated guest is up only after fetching its data
	s.expectEvent("m", "UserDataDelivered", "127.0.0.1")
	told := s.inspect("m").vm.Initialization.CustomScript
	stub, messages, err := v3_1.Parse([]byte(told))
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, messages.String(), told)
	}

	check.Lacks(t, "told", told, "hello")
	check.Lacks(t, "told", told, "/etc/motd")
	if len(told) > 3000 {
		t.Errorf("len(told) > 3000: %v", len(told))
	}

	var secret corev1.Secret
	s.Eventually("the Secret is empty", func() error {
		err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: "m-user-data"}, &secret)
		if err != nil || len(secret.Data) > 0 || !metav1.IsControlledBy(&secret, m) {
			return fmt.Errorf("%d keys, %v, %w", len(secret.Data), secret.OwnerReferences, err)
		}

		return nil
	})
	source := stub.Ignition.Config.Replace
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, *source.Source, nil)
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set(source.HTTPHeaders[0].Name, *source.HTTPHeaders[0].Value)
	authority, err := dataurl.DecodeString(*stub.Ignition.Security.TLS.CertificateAuthorities[0].Source)
	if err != nil {
		t.Fatal(err)
	}

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Data)
	again, err := (&http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if again.StatusCode != http.StatusForbidden {
		t.Errorf("whoever comes second is told %s", again.Status)
	}

	s.UserData, s.Format = "#cloud-config\n{}\n", ""
	cloud := s.CreateMachine("cloud", leased)
	message := s.ExpectCondition(
		cloud, infrav1.BootstrapDataAvailableCondition, "False/"+infrav1.BootstrapDataInvalidReason,
	)
	if !strings.Contains(message, "userData.bootstrapDelivery: Pointer works only for images with Ignition") {
		t.Error(message)
	}
}
