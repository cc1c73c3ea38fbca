package clusterfile

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

var update = flag.Bool("update", false, "write the golden files anew")

// read reads a file in testdata after replacing parts of its text.
func read(t *testing.T, name string, changes ...string) *Source {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}

	text := string(content)
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s has no %q", name, changes[i])
		}

		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}

	dir := t.TempDir()
	ca, err := os.ReadFile("testdata/ca.crt")
	if err != nil {
		t.Fatal(err)
	}

	for file, content := range map[string][]byte{"cluster.yaml": []byte(text), "ca.crt": ca} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	s, err := Read(filepath.Join(dir, "cluster.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func texts(problems []Problem) string {
	var out []string

	for _, p := range problems {
		p.File = filepath.Base(p.File)
		out = append(out, p.Error())
	}

	return strings.Join(out, "\n")
}

// ingress and domain return changes that add a key to a file.
func ingress(text string) []string { return added("ingressVirtualIp: " + text) }
func domain(text string) []string  { return added("baseDomain: " + text) }

func added(text string) []string {
	return []string{"\n    olvmDatacenterName:", "\n    " + text + "\n    olvmDatacenterName:"}
}

func none(string) (string, bool) { return "", false }

func TestTheManifestsOfAClusterFile(t *testing.T) {
	for _, name := range []string{"current", "older"} {
		t.Run(name, func(t *testing.T) {
			s := read(t, name+".yaml")
			if problems := s.Validate(); len(problems) != 0 {
				t.Fatal(texts(problems))
			}

			objects, err := s.Manifests(DefaultFlavor, none)
			if err != nil {
				t.Fatal(err)
			}

			var got bytes.Buffer
			if err := manifest.Write(&got, objects); err != nil {
				t.Fatal(err)
			}

			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}

			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("other manifests than in %s; see go test -update\n%s", golden, got.String())
			}
		})
	}
}

// The sample in the documentation of Oracle's developer release is accepted without changes, except for an added CA
// certificate.
func TestTheDocumentedSampleIsAcceptedAsItIs(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)

	if err := os.CopyFS(filepath.Join(home, "olvm"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}

	s, err := Read(filepath.Join("testdata", "sample.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}

	problems := s.Validate()
	if HasErrors(problems) {
		t.Fatal(texts(problems))
	}

	check.Contains(t, "warnings", texts(problems),
		"sample.yaml:4: warning: virtualIp: 100.101.70.160 is not in the subnet 1.2.3.0/24")

	objects, err := s.Manifests(DefaultFlavor, none)
	if err != nil {
		t.Fatal(err)
	}

	cluster := decoded[infrav1.OLVMCluster](t, objects, "OLVMCluster", "demo")
	check.Equal(t, "endpoint", cluster.Spec.ControlPlaneEndpoint.Host, "100.101.70.160")
}

// decoded returns an object as the API server decodes it.
func decoded[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind &&
			o.GetName() == name
	})
	if at < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}

	text, err := kyaml.Marshal(objects[at].Object)
	if err != nil {
		t.Fatal(err)
	}

	var out T
	if err := kyaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	return &out
}

func TestBothFormatsSayTheSame(t *testing.T) {
	s := read(t, "older.yaml")
	if problems := s.Validate(); len(problems) != 0 {
		t.Fatal(texts(problems))
	}

	objects, err := s.Manifests(DefaultFlavor, none)
	if err != nil {
		t.Fatal(err)
	}

	m := decoded[infrav1.OLVMMachineTemplate](t, objects, "OLVMMachineTemplate", "demo-md-0").Spec.Template.Spec
	network := m.VirtualMachine.Network
	check.Equal(t, "m.OLVMOvirtClusterName", m.OLVMOvirtClusterName, "Default")
	check.Equal(t, "m.OLVMNetwork.VNICName", m.OLVMNetwork.VNICName, "nic-1")
	check.Equal(t, "network.IPv4.Subnet", network.IPv4.Subnet, "10.20.30.0/24")
	check.Equal(t, "network.IPv4.IPAddresses[0]", network.IPv4.IPAddresses[0], "10.20.30.161/24")
	check.Equal(t, "network.Gateway", network.Gateway, "10.20.30.1")
	check.Equal(t, "network.Interface", network.Interface, "enp1s0")

	cluster := decoded[infrav1.OLVMCluster](t, objects, "OLVMCluster", "demo").Spec
	check.Equal(t, "cluster.OLVMOvirtAPIServer.CAConfigMap.Name", cluster.OLVMOvirtAPIServer.CAConfigMap.Name, "demo-ovirt-ca")
	check.Equal(t, "cluster.UserData.Proxy.HTTPSProxy", cluster.UserData.Proxy.HTTPSProxy, "http://proxy.example.com:3128")
	check.Length(t, "cluster.UserData.Extra", cluster.UserData.Extra, 2)
	check.Contains(t, "cluster.UserData.Extra[0].Inline", cluster.UserData.Extra[0].Inline, "ocne.service")
	check.Contains(t, "cluster.UserData.Extra[1].Inline", cluster.UserData.Extra[1].Inline, "nameserver 10.20.30.250")
}

func TestFlavorsOfAClusterFile(t *testing.T) {
	flavors := Flavors()
	check.Equal(t, `slices.Contains(flavors, "default")`, slices.Contains(flavors, "default"), true)
	check.Equal(t, `slices.Contains(flavors, "ock")`, slices.Contains(flavors, "ock"), true)
	check.Equal(t, `slices.Contains(flavors, "topology")`, slices.Contains(flavors, "topology"), false)
	if len(flavors) < 9 {
		t.Errorf("len(flavors) < 9: %v", len(flavors))
	}

	s := read(t, "older.yaml", "extraIgnitionInline:", "catalogs:")
	s.Validate()
	_, err := s.Manifests("failure-domains", none)
	if err == nil || !strings.Contains(err.Error(), "OLVM_FAILURE_DOMAIN_A, OLVM_FAILURE_DOMAIN_B, OLVM_FAILURE_DOMAIN_C") {
		t.Errorf("a variable that nobody gives: %v", err)
	}

	lookup := func(name string) (string, bool) { return strings.ToLower(name[len(name)-1:]), true }
	objects, err := s.Manifests("failure-domains", lookup)
	if err != nil {
		t.Fatal(err)
	}

	cluster := decoded[infrav1.OLVMCluster](t, objects, "OLVMCluster", "demo").Spec
	check.Length(t, "cluster.FailureDomains", cluster.FailureDomains, 3)
	if cluster.ControlPlaneServices.VirtualIPProvider == "Keepalived" {
		t.Errorf("VirtualIPProvider == \"Keepalived\": %v", cluster.ControlPlaneServices.VirtualIPProvider)
	}

	check.Equal(t, "cluster.OLVMDatacenterName", cluster.OLVMDatacenterName, "Default")

	objects, err = s.Manifests("ipam", lookup)
	if err != nil {
		t.Fatal(err)
	}

	m := decoded[infrav1.OLVMMachineTemplate](t, objects, "OLVMMachineTemplate", "demo-md-0").Spec.Template.Spec
	if m.VirtualMachine.Network.IPv4 != nil || len(m.VirtualMachine.Network.AddressesFromPools) != 1 {
		t.Errorf("%+v", m.VirtualMachine.Network)
	}

	_, err = read(t, "current.yaml").Manifests("default", none)
	if err == nil || !strings.Contains(err.Error(), "extraIgnition requires an image with Ignition") {
		t.Errorf("Ignition for cloud-init: %v", err)
	}

	if _, err := s.Manifests("windows", none); err == nil || !strings.Contains(err.Error(), "failure-domains") {
		t.Errorf("a flavor of nobody's: %v", err)
	}
}

// TestDNSServersOfAClusterFile expects each role of machines to have the DNS servers in its settings, and no others.
func TestDNSServersOfAClusterFile(t *testing.T) {
	for _, flavor := range []string{"default", "dns", "ipam", "ock"} {
		for servers, want := range map[string][]string{"": nil, "10.20.30.53, 10.20.30.54": {"10.20.30.53", "10.20.30.54"}} {
			t.Run(flavor+" "+servers, func(t *testing.T) {
				s := read(t, "older.yaml", "extraIgnitionInline:", "catalogs:")
				s.Providers.OLVM.ControlPlaneMachine.VirtualMachine.Network.DNSServers = servers

				s.Validate()
				objects, err := s.Manifests(flavor, func(string) (string, bool) { return "x", true })
				check.Error(t, err, "")

				for name, want := range map[string][]string{"demo-control-plane": want, "demo-md-0": nil} {
					template := decoded[infrav1.OLVMMachineTemplate](t, objects, "OLVMMachineTemplate", name)
					check.Equal(t, name, template.Spec.Template.Spec.VirtualMachine.Network.DNSServers, want)
				}
			})
		}
	}
}

// TestKeysOfOraclesCommandThatMeanNothingHere has all keys that olvmctl ignores. It expects one warning with advice for
// each.
func TestKeysOfOraclesCommandThatMeanNothingHere(t *testing.T) {
	const more = `name: demo
quiet: true
autoStartUI: "false"
kubeProxyMode: ipvs
bootVolumeContainerImage: container-registry.oracle.com/olcne/ock:1.33
certificateInformation: {country: US, org: OCNE, orgUnit: Demo, state: TX}
catalog: false
communityCatalog: true
ephemeralCluster: {name: ocne-ephemeral, preserve: true, node: {memory: 8Gi, cpus: 4}}
directory: /var/lib/ocne
kubeconfig: ~/.kube/config`
	s := read(t, "current.yaml", "name: demo", more, "providers:\n", "providers:\n  oci: {kubeconfig: x}\n")
	got := s.Validate()
	if HasErrors(got) {
		t.Errorf("the file is refused:\n%s", texts(got))
	}

	for key := range passedOver {
		if n := strings.Count(texts(got), "warning: "+key+": ignored"); n != 1 {
			t.Errorf("%d warnings about %s in\n%s", n, key, texts(got))
		}
	}
}

func TestWhatIsWrongInAClusterFile(t *testing.T) {
	for name, test := range map[string]struct {
		file    string
		changes []string
		want    []string
	}{
		"an unknown key": {"current", []string{"virtualIp:", "virtualIP:"},
			[]string{"cluster.yaml:5: virtualIP: unknown key; did you mean virtualIp?",
				"cluster.yaml: virtualIp: required"}},
		"an unknown key deep down": {"current", []string{"vnicProfileName: kvm-vlan", "vnicProfile: kvm-vlan"},
			[]string{"providers.olvm.controlPlaneMachine.olvmNetwork.vnicProfile: unknown key; did you mean " +
				"vnicProfileName?"}},
		"a key of the other format": {"older", []string{"ovirtDatacenterName", "olvmDatacenterName"}, []string{
			"cluster.yaml:12: providers.olvm.olvmCluster.olvmDatacenterName: unknown key; did you mean " +
				"ovirtDatacenterName?", "providers.olvm.olvmCluster.ovirtDatacenterName: required"}},
		"a key twice": {"current",
			[]string{"virtualIp: 10.20.30.160", "virtualIp: 10.20.30.160\nvirtualIp: 10.20.30.159"},
			[]string{"cluster.yaml:6: virtualIp: duplicate key, already in line 5; remove one of them"}},
		"a key twice in a list": {"current", []string{"name: demo", "name: demo\ncatalogs: [{name: a, name: b}]"},
			[]string{"catalogs.name: duplicate key, already in line "}},
		"a key twice in what is free": {"current",
			[]string{"name: demo", "name: demo\nclusterDefinitionInline: {a: {b: 1, b: 2}}"},
			[]string{"cluster.yaml:2: clusterDefinitionInline.a.b: duplicate key, already in line 2"}},
		"a key twice in the older": {"older",
			[]string{"namespace: olvm-cluster", "namespace: olvm-cluster\n    namespace: other"},
			[]string{"cluster.yaml:11: providers.olvm.namespace: duplicate key, already in line 10"}},
		"a word for a number": {"current", []string{"controlPlaneNodes: 3", "controlPlaneNodes: three"},
			[]string{`cluster.yaml:3: controlPlaneNodes: "three" is not an integer`}},
		"an even control plane": {"current", []string{"controlPlaneNodes: 3", "controlPlaneNodes: 2"},
			[]string{"cluster.yaml:3: controlPlaneNodes: 2 is even"}},
		"fewer than none": {"current", []string{"workerNodes: 2", "workerNodes: -1"},
			[]string{"workerNodes: -1 is less than 0"}},
		"another provider": {"current", []string{"provider: olvm", "provider: vsphere"},
			[]string{`provider: unsupported value "vsphere"; use oci or olvm`}},
		"a version of nobody's": {"current", []string{"kubernetesVersion: 1.33", "kubernetesVersion: latest"},
			[]string{`kubernetesVersion: invalid version "latest"`}},
		"a version without its patch": {"current", []string{"kubernetesVersion: 1.33", "kubernetesVersion: 1.99"},
			[]string{"1.99 has no patch version"}},
		"a virtual IP in the ranges": {"current", []string{"virtualIp: 10.20.30.160", "virtualIp: 10.20.30.163"},
			[]string{"the control plane endpoint 10.20.30.163 is inside the machine ranges",
				"providers.olvm.controlPlaneMachine.virtualMachine.network.ipv4.ipAddresses"}},
		"what needs no ranges": {"current",
			[]string{"gateway: 10.20.30.1\n", "gateway: 10.20.31.1\n", "virtualIp: 10.20.30.160",
				"virtualIp: 10.20.31.160", "ipAddresses: 10.20.30.161", "ipAddresses: # 10.20.30.161"},
			[]string{"virtualIp: 10.20.31.160 is not in the subnet 10.20.30.0/24",
				"controlPlaneMachine.virtualMachine.network.gateway: \"10.20.31.1\" is not " +
					"an address of the subnet", "controlPlaneMachine.virtualMachine.network.ipv4.ipAddresses: " +
					"required"}},
		"a DNS server that is none": {"current",
			[]string{"gateway: 10.20.30.1\n", "gateway: 10.20.30.1\n          dnsServers: 10.20.30.53, dns.example.com\n"},
			[]string{"controlPlaneMachine.virtualMachine.network.dnsServers: invalid IP address \"dns.example.com\""}},
		"an ingress address that is none": {"current", ingress("apps"),
			[]string{`providers.olvm.ingressVirtualIp: invalid IP address "apps"`}},
		"an ingress address that is the endpoint": {"current", ingress("10.20.30.160"),
			[]string{"providers.olvm.ingressVirtualIp: 10.20.30.160 is the same as virtualIp"}},
		"an ingress address that is the gateway": {"current", ingress("10.20.30.1"),
			[]string{"providers.olvm.ingressVirtualIp: 10.20.30.1 is the gateway"}},
		"an ingress address that is the broadcast address": {"current", ingress("10.20.30.255"),
			[]string{"providers.olvm.ingressVirtualIp: 10.20.30.255 is the network or broadcast address"}},
		"an ingress address in the ranges": {"current", ingress("10.20.30.163"),
			[]string{"the ingress address 10.20.30.163 is inside the machine ranges"}},
		"an ingress address of another subnet": {"current", ingress("10.20.31.6"),
			[]string{"warning: providers.olvm.ingressVirtualIp: 10.20.31.6 is not in the subnet 10.20.30.0/24"}},
		"an ingress address of another family": {"current", ingress(`"fd00::6"`),
			[]string{"providers.olvm.ingressVirtualIp: fd00::6 has an IP family without ipAddresses"}},
		"an ingress address with a zone": {"current", ingress(`"fe80::6%eth0"`),
			[]string{`providers.olvm.ingressVirtualIp: invalid IP address "fe80::6%eth0"`}},
		"an ingress address that Services may get": {"current", ingress("10.20.30.6\n    serviceLoadBalancers: " +
			"{ipAddresses: 10.20.30.5-10.20.30.7}"),
			[]string{"10.20.30.5-10.20.30.7 contains ingressVirtualIp (10.20.30.6)"}},
		"a base domain that is none": {"current", domain("Example.com"),
			[]string{`providers.olvm.baseDomain: invalid domain "Example.com"`}},
		"a base domain that is an address": {"current", domain("10.20.30.5"),
			[]string{`providers.olvm.baseDomain: invalid domain "10.20.30.5"`}},
		"a base domain that is too long": {"current", domain(strings.Repeat("a.", 99) + "com"),
			[]string{"providers.olvm.baseDomain: the domain with the name of the cluster has 206 characters"}},
		"a virtual IP that is none": {"current", []string{"virtualIp: 10.20.30.160", "virtualIp: api.example.com"},
			[]string{`virtualIp: invalid IP address "api.example.com"`}},
		"too few addresses": {"current",
			[]string{"ipAddresses: 10.20.30.210-10.20.30.220", "ipAddresses: 10.20.30.210"},
			[]string{"providers.olvm.workerMachine.virtualMachine.network.ipv4.ipAddresses: not enough addresses: " +
				"1 address for 2 machines"}},
		"no address for an upgrade": {"current",
			[]string{"ipAddresses: 10.20.30.210-10.20.30.220", "ipAddresses: 10.20.30.210-10.20.30.211"},
			[]string{"warning: providers.olvm.workerMachine.virtualMachine.network.ipv4.ipAddresses: no spare " +
				"address for an upgrade"}},
		"too few addresses for both": {"older",
			[]string{"startingIpAddress: 10.20.30.161", "startingIpAddress: 10.20.30.251"},
			[]string{"olvmVmIpProfile: not enough addresses for both roles: 4 for 5 machines"}},
		"ranges that overlap": {"current", []string{"ipAddresses: 10.20.30.161/30, 10.20.30.196, " +
			"10.20.30.200-10.20.30.205", "ipAddresses: 10.20.30.210-10.20.30.213",
			"ipAddresses: 10.20.30.210-10.20.30.220", "ipAddresses: 10.20.30.211-10.20.30.213"},
			[]string{"not enough addresses for both roles: 4 for 5 machines"}},
		"a virtual IP of the gateway": {"current", []string{"virtualIp: 10.20.30.160", "virtualIp: 10.20.30.1"},
			[]string{"virtualIp: 10.20.30.1 is the gateway of the subnet 10.20.30.0/24"}},
		"a virtual IP of the network": {"current", []string{"virtualIp: 10.20.30.160", "virtualIp: 10.20.30.255"},
			[]string{"virtualIp: 10.20.30.255 is the network or broadcast address"}},
		"an address that is none": {"current", []string{"10.20.30.196,", "10.20.30.1960,"},
			[]string{"controlPlaneMachine.virtualMachine.network.ipv4.ipAddresses: ", "10.20.30.1960"}},
		"a gateway elsewhere": {"current", []string{"gateway: 10.20.30.1\n", "gateway: 10.20.31.1\n"},
			[]string{"network.gateway: ", "10.20.31.1"}},
		"networks that overlap": {"current", []string{"10.244.0.0/16,fd01::/48", "10.20.0.0/16,fd01::/48"},
			[]string{"network.ipv4.subnet: 10.20.30.0/24 overlaps with 10.20.0.0/16 (podSubnet)"}},
		"two networks of one family": {"current", []string{"10.96.0.0/12,fd02::/112", "10.96.0.0/12,10.128.0.0/12"},
			[]string{"serviceSubnet: contains two IPv4 networks",
				"serviceSubnet: the networks must have the same IP families as in podSubnet"}},
		"memory of nobody's": {"current", []string{"memory: 7GB", "memory: much"},
			[]string{"controlPlaneMachine.virtualMachine.memory: "}},
		"an engine with /api": {"current", []string{"/ovirt-engine", "/ovirt-engine/api"},
			[]string{"warning: providers.olvm.olvmOvirtAPIServer.serverURL: olvmctl uses " +
				"https://engine.example.com/ovirt-engine instead"}},
		"an engine without TLS": {"current", []string{"https://engine", "http://engine"},
			[]string{"serverURL: the engine URL must begin with https://, not http://; write " +
				"https://engine.example.com/ovirt-engine"}},
		"a CA that is not there": {"current", []string{"serverCAPath: ca.crt", "serverCAPath: other.crt"},
			[]string{"serverCAPath: open ", "other.crt: no such file"}},
		"a CA that is none": {"current", []string{"serverCAPath: ca.crt", "serverCAPath: cluster.yaml"},
			[]string{"serverCAPath: no PEM certificate found"}},
		"a CA of no use": {"current", []string{"serverCAPath: ca.crt", "serverCAPath: ca.crt\n      " +
			"insecureSkipTLSVerify: true"}, []string{"warning: " +
			"providers.olvm.olvmOvirtAPIServer.insecureSkipTLSVerify: if true, the CA is ignored"}},
		"a password in clear": {"current", []string{`"$6$rounds=4096$salt$hash"`, "secret"},
			[]string{"password: must be a password hash"}},
		"a key that is none": {"current", []string{"ssh-ed25519 AAAA", "ssh-ed25519 "},
			[]string{"sshPublicKey: invalid SSH public key"}},
		"Butane that is none": {"current", []string{"variant: fcos", "variant: windows"},
			[]string{"extraIgnitionInline: it is neither Ignition nor Butane"}},
		"ports that are one": {"current", []string{"name: demo", "name: demo\nkubeApiServerBindPortAlt: 6443"},
			[]string{"the load balancer itself listens on port 6443"}},
		"a proxy that is none": {"current", []string{"httpsProxy: http://proxy.example.com:3128",
			"httpsProxy: proxy:3128"}, []string{`proxy.httpsProxy: invalid proxy URL "proxy:3128"`}},
		"what is not rendered": {"current", []string{"workerNodes: 2", "workerNodes: 0", "name: demo",
			"name: demo\napplications: [{name: ui}]\ncni: weave\nloadBalancer: x\nclusterDefinition: c.yaml\nclusterDefinitionInline: {a: b}"},
			[]string{"warning: workerNodes: 0 means 1", "warning: cni:",
				`warning: applications: ui is not installed: no such catalog "" in catalogs`,
				"warning: loadBalancer:", "clusterDefinition: cannot be set together with clusterDefinitionInline"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, test.file+".yaml", test.changes...)

			got := s.Validate()
			for _, want := range test.want {
				if !strings.Contains(texts(got), want) {
					t.Errorf("no %q in\n%s", want, texts(got))
				}
			}

			for i, p := range got {
				if slices.Contains(got[:i], p) {
					t.Errorf("it is said twice: %v", p)
				}
			}

			if want := strings.Contains(strings.Join(test.want, ""), "warning: providers"); HasErrors(got) == want {
				t.Errorf("failed: %t\n%s", HasErrors(got), texts(got))
			}
		})
	}
}

func TestTheStorageDriverOfAClusterFile(t *testing.T) {
	s := read(t, "current.yaml")
	if problems := s.Validate(); HasErrors(problems) {
		t.Fatal(texts(problems))
	}

	objects, err := s.StorageDriver("admin@internal", "secret: #1")
	if err != nil {
		t.Fatal(err)
	}

	secret := decoded[corev1.Secret](t, objects, "Secret", "ovirt-csi-creds")
	var configuration map[string]any
	err = kyaml.Unmarshal(secret.Data["ovirt-config.yaml"], &configuration)
	check.Error(t, err, "")
	check.Equal(t, `configuration["ovirt_password"]`, configuration["ovirt_password"], "secret: #1")
	check.Equal(t, `configuration["ovirt_insecure"]`, configuration["ovirt_insecure"], false)
	check.Equal(t, `configuration["ovirt_url"]`, configuration["ovirt_url"], "https://engine.example.com/ovirt-engine/api")
	check.Equal(t, `configuration["ovirt_cafile"]`, configuration["ovirt_cafile"], csiCA)

	ca := decoded[corev1.ConfigMap](t, objects, "ConfigMap", "ovirt-csi-ca.crt")
	if ca.Namespace != "ovirt-csi" || !strings.Contains(ca.Data["ca.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("the CA: %+v", ca)
	}

	node := decoded[appsv1.DaemonSet](t, objects, "DaemonSet", "ovirt-csi-node-plugin")
	for _, container := range node.Spec.Template.Spec.Containers {
		if !strings.HasPrefix(container.Image, "container-registry.oracle.com/olcne/") {
			t.Errorf("image %s", container.Image)
		}
	}

	no := read(t, "current.yaml", "    olvmOCK:", "    ovirtCsiDriver: {install: false}\n    olvmOCK:")
	no.Validate()
	if wanted, asked := no.WantsStorageDriver(); wanted || !asked {
		t.Errorf("it is not wanted: %t, %t", wanted, asked)
	}

	if wanted, asked := s.WantsStorageDriver(); !wanted || asked {
		t.Errorf("it is wanted by default: %t, %t", wanted, asked)
	}

	kept, err := s.StorageDriver("", "")
	if err != nil || len(kept) != len(objects)-1 {
		t.Errorf("without credentials there are %d objects, with them %d, %v", len(kept), len(objects), err)
	}

	odd := read(t, "current.yaml", "    olvmOCK:", "    ovirtCsiDriver: {credentials: Mine}\n    olvmOCK:")
	problems := texts(odd.Validate())
	if !strings.Contains(
		problems,
		`providers.olvm.ovirtCsiDriver.credentials: unsupported value "Mine"; use Own or Machines`,
	) {
		t.Errorf("odd credentials: %s", problems)
	}
}

func TestDefaultsOfAUser(t *testing.T) {
	dir := t.TempDir()
	defaults := filepath.Join(dir, "defaults.yaml")
	err := os.WriteFile(
		defaults,
		[]byte(
			"registry: registry.example.com\nname: other\nproviders:\n  olvm:\n    namespace: mine\n    "+
				"olvmDatacenterName: Mine\n    selfmanaged: true\n",
		),
		0o600,
	)
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("OCNE_DEFAULTS", defaults)
	if DefaultsPath() != defaults {
		t.Errorf("the defaults are %q", DefaultsPath())
	}

	content, err := os.ReadFile("testdata/older.yaml")
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(dir, "cluster.yaml")
	err = os.WriteFile(path, bytes.Replace(content, []byte("    namespace: olvm-cluster\n"), nil, 1), 0o600)
	if err != nil {
		t.Fatal(err)
	}

	s, err := Read(path, DefaultsPath())
	if err != nil {
		t.Fatal(err)
	}

	problems := texts(s.Validate())
	check.Equal(t, "s.Registry", s.Registry, "registry.example.com")
	check.Equal(t, "s.Name", s.Name, "demo")
	check.Equal(t, "s.Providers.OLVM.Namespace", s.Providers.OLVM.Namespace, "mine")
	check.Equal(t, "s.Providers.OLVM.DatacenterName", s.Providers.OLVM.DatacenterName, "Default")

	want := "defaults.yaml:7: providers.olvm.selfmanaged: unknown key; did you mean selfManaged?"
	if !strings.Contains(problems, want) {
		t.Errorf("no %q in\n%s", want, problems)
	}

	t.Setenv("OCNE_DEFAULTS", "")
	if DefaultsPath() != "" {
		t.Errorf("nobody wants defaults: %q", DefaultsPath())
	}
}

func TestIsClusterFile(t *testing.T) {
	for text, want := range map[string]bool{
		"provider: olvm\n":                      true,
		"providers: {olvm: {}}\n":               true,
		"apiVersion: v1\nkind: ConfigMap\n":     false,
		"kind: List\nprovider: olvm\n":          false,
		"name: x\n":                             false,
		"":                                      false,
		"provider: olvm\n---\nprovider: olvm\n": true,
		"# mine\n---\nprovider: olvm\nprovider: olvm\n": true,
		"[a]\n": false,
		":":     false,
	} {
		if IsClusterFile([]byte(text)) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}

// TestDocumentsOfAClusterFile has files that are partly unreadable, and files that only look unreadable.
func TestDocumentsOfAClusterFile(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"a second document is not ignored": {"name: a\n---\nname: b\n", "cluster.yaml:3: file: contains more than " +
			"one YAML document; remove the others"},
		"a second document that is not YAML is not": {"name: a\n---\n[\n", "cluster.yaml:"},
		"a list has no keys":                        {"- name: a\n", "cluster.yaml:1: file: not a YAML mapping"},
		"a text has no keys":                        {"name\n", "cluster.yaml:1: file: not a YAML mapping"},
		"what is not YAML has the line": {"name: a\nprovider: olvm: b\n", "cluster.yaml:2: file: invalid YAML: " +
			"mapping values are not allowed"},
		"documents around it that are empty are none":  {"# mine\n---\nname: a\n---\n# the end\n", ""},
		"a separator in a text is none":                {"name: a\nsshPublicKey: |\n  ---\n  b\n", ""},
		"a file with nothing has the defaults of keys": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse("cluster.yaml", []byte(test.content), "")

			var problem Problem
			switch {
			case test.want == "" && (err != nil || strings.Contains(test.content, "name: a") != (s.Name == "a")):
				t.Errorf("%v, %+v", err, s)
			case test.want != "" && (!errors.As(err, &problem) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func FuzzValidate(f *testing.F) {
	for _, name := range []string{"current.yaml", "older.yaml"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}

		f.Add(content)
	}

	f.Fuzz(func(t *testing.T, content []byte) {
		s := &Source{dir: t.TempDir()}
		if s.parseDocument("cluster.yaml", content) != nil || s.decodeDocuments() != nil {
			return
		}

		if HasErrors(s.Validate()) {
			return
		}

		if _, err := s.Manifests(DefaultFlavor, none); err != nil {
			t.Fatalf("it is valid, and has no manifests: %v", err)
		}
	})
}

func TestApplications(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}

		return path
	}
	write("values.yaml", "replicas: 2\n")
	defaults := write(
		"defaults.yaml",
		"catalogs: [{name: mine, protocol: helm, uri: https://charts.example.com}]\napplications: [{name: first, "+
			"catalog: mine, configFrom: values.yaml}]\n",
	)
	source, err := Read(
		write("cluster.yaml", `catalogs: [{name: hub, protocol: artifacthub, uri: https://artifacthub.io}]
applications:
- {name: second, catalog: mine, release: other, version: 1.2.3, namespace: apps, config: {a: 1}}
- {name: third, catalog: mine, config: "b: two"}
- {name: far, catalog: hub}
- {name: oracles}
- {name: both, catalog: mine, config: {a: 1}, configFrom: values.yaml}
- {catalog: mine}
- {nam: typo, name: typo, catalog: mine, configFrom: none.yaml}
`),
		defaults,
	)
	if err != nil {
		t.Fatal(err)
	}

	_, err = source.Charts()
	if err == nil || !strings.Contains(err.Error(), "applications: both: config and configFrom cannot be set "+
		"together") {
		t.Errorf("%v", err)
	}

	all := texts(source.Validate())
	for _, want := range []string{
		"applications: far is not installed: catalog hub is not a chart repository",
		`applications: oracles is not installed: no such catalog "" in catalogs`,
		"applications: both: config and configFrom", "cluster.yaml:8: applications: name: " +
			"required", "applications.nam: unknown key; did you mean name?",
		"applications: typo: configFrom: open ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}

	source.Applications = source.Applications[:3]
	got, err := source.Charts()
	want := []Chart{
		{
			Name:       "first",
			Repository: "https://charts.example.com",
			Release:    "first",
			Namespace:  "default",
			Values:     map[string]any{"replicas": 2.0},
		},
		{
			Name:       "second",
			Repository: "https://charts.example.com",
			Version:    "1.2.3",
			Release:    "other",
			Namespace:  "apps",
			Values:     map[string]any{"a": 1.0},
		},
		{
			Name:       "third",
			Repository: "https://charts.example.com",
			Release:    "third",
			Namespace:  "default",
			Values:     map[string]any{"b": "two"},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCatalogsAndReleases has mistakes that cause failures or misunderstandings in the running cluster.
func TestCatalogsAndReleases(t *testing.T) {
	const catalog = "catalogs:\n- {name: mine, protocol: helm, uri: https://charts.example.com}\n"
	for name, test := range map[string]struct{ content, want string }{
		"a catalog of https is valid": {catalog, ""},
		"one with a user is": {"catalogs: [{name: a, uri: " +
			"'http://me:hunter2@charts.example.com'}]\n", ""},
		"one in a registry is": {"catalogs: [{name: a, uri: " +
			"oci://registry.example.com/charts}]\n", ""},
		"one of another protocol has what URL it likes": {"catalogs: [{name: a, protocol: " +
			"artifacthub, uri: none}]\n", ""},
		"a file has no charts": {"catalogs:\n- name: a\n  uri: file:///charts\n", "cluster.yaml:3: catalogs.uri: " +
			"a: not an http, https or oci URL"},
		"a URL that is none is not repeated": {"catalogs: [{name: a, uri: 'https://me:hunter2 " +
			"@charts.example.com'}]\n", "cluster.yaml:1: catalogs.uri: a: not an http, https or oci URL"},
		"a URL without its scheme is not repeated": {"catalogs: [{name: a, uri: " +
			"'me:hunter2@charts.example.com'}]\n", "catalogs.uri: a: not an http, https or oci URL"},
		"a user of a registry logs in": {"catalogs: [{name: a, uri: " +
			"'oci://me:hunter2@registry.example.com'}]\n", "catalogs.uri: a: an oci URL cannot contain a user"},
		"a catalog like one of the defaults is another": {"catalogs:\n- {name: defaults, uri: " +
			"https://charts.example.com}\n", "cluster.yaml:2: catalogs.name: defaults: another " +
			"catalog has the same name"},
		"an application is valid": {catalog + "applications:\n- {name: a, catalog: mine, " +
			"version: ^1.2, namespace: apps, release: b.c}\n", ""},
		"one twice in namespaces is": {catalog + "applications: [{name: a, catalog: mine}, " +
			"{name: a, catalog: mine, namespace: apps}]\n", ""},
		"one that is not installed becomes nothing": {catalog + "applications: [{name: a, catalog: mine}, " +
			"{name: a, catalog: other}]\n", "cluster.yaml:3: warning: applications: a is not installed"},
		"a version that is none is not found": {catalog + "applications:\n- {name: a, catalog: " +
			"mine, version: newest}\n", `cluster.yaml:4: applications.version: a: "newest" is not a version`},
		"a namespace that is none cannot be made": {catalog + "applications:\n- name: a\n  catalog: mine\n  " +
			"namespace: My_Apps\n", `cluster.yaml:6: applications.namespace: a: invalid namespace "My_Apps": `},
		"a release that is none cannot be made": {catalog + "applications:\n- {name: a, catalog: mine, release: " +
			"My_App}\n", `cluster.yaml:4: applications.release: a: invalid release name "My_App"; use another name: `},
		"a name that is too long wants a release": {catalog + "applications:\n- {name: " + strings.Repeat("a", 54) +
			", catalog: mine}\n", "must be no more than 53 characters"},
		"two of one release would replace each other": {catalog + "applications:\n- {name: a, catalog: mine}\n- " +
			"{name: b, catalog: mine, release: a}\n", "cluster.yaml:5: applications.release: b: has the same " +
			"release default/a as a"},
	} {
		t.Run(name, func(t *testing.T) {
			defaults := filepath.Join(t.TempDir(), "defaults.yaml")
			err := os.WriteFile(defaults, []byte("catalogs: [{name: defaults, uri: https://charts.example.com}]\n"),
				0o600)
			if err != nil {
				t.Fatal(err)
			}

			s, err := Parse("cluster.yaml", []byte(test.content), defaults)
			if err != nil {
				t.Fatal(err)
			}

			all := texts(slices.DeleteFunc(s.Validate(), func(p Problem) bool {
				return !strings.HasPrefix(p.Path, "catalogs") && !strings.HasPrefix(p.Path, "applications")
			}))
			if test.want == "" && all != "" || !strings.Contains(all, test.want) || strings.Contains(all, "hunter2") {
				t.Errorf("no %q in %q", test.want, all)
			}
		})
	}
}

func TestTheReferenceHasEveryKey(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "user", "cluster-file.md"))
	if err != nil {
		t.Fatal(err)
	}

	var look func(reflect.Type, string)
	look = func(t2 reflect.Type, path string) {
		if t2.Kind() == reflect.Slice {
			t2 = t2.Elem()
		}

		for i := range t2.NumField() {
			field := t2.Field(i)
			key := field.Tag.Get("yaml")
			if !bytes.Contains(content, []byte(key+"`")) && !bytes.Contains(content, []byte(key+".")) {
				t.Errorf("docs/user/cluster-file.md says nothing of %s%s", path, key)
			}

			kind := field.Type.Kind()
			if (kind == reflect.Struct || kind == reflect.Slice) && field.Type != reflect.TypeFor[yaml.Node]() {
				look(field.Type, path+key+".")
			}
		}
	}
	look(reflect.TypeFor[File](), "")
}

func TestBootImages(t *testing.T) {
	for name, test := range map[string]struct {
		file             File
		image, tag, fail string
	}{
		"of nothing": {File{}, "container-registry.oracle.com/olcne/ock:1.33", "1.33", ""},
		"of a version with its patch": {File{
			KubernetesVersion: "v1.32.4",
		}, "container-registry.oracle.com/olcne/ock:1.32", "1.32", ""},
		"of another registry": {File{
			KubernetesVersion: "1.31",
			Registry:          "registry.example.com:5000/mirror",
		}, "registry.example.com:5000/mirror/olcne/ock:1.31", "1.31", ""},
		"of a version that is not one": {File{
			KubernetesVersion: "latest",
		}, "", "", `invalid Kubernetes version "latest"`},
	} {
		image, tag, err := test.file.BootImage()
		if image != test.image || tag != test.tag || (err == nil) != (test.fail == "") ||
			err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%s: %q, %q, %v", name, image, tag, err)
		}
	}
}
