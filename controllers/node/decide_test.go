package node

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testcsr"
)

// provisioned returns a machine with a host name and an address.
func provisioned(name, address string) *infrav1.OLVMMachine {
	m := &infrav1.OLVMMachine{}
	m.Namespace, m.Name, m.Spec.ProviderID = "default", name, "olvm://"+name
	m.Status.Initialization.Provisioned = ptr.To(true)
	m.Status.Addresses = []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: address},
		{Type: clusterv1.MachineHostName, Address: name},
	}

	return m
}

func TestAServingCertificateIsApprovedOnlyForTheNamesAndAddressesOfItsMachine(t *testing.T) {
	type csr = certificatesv1.CertificateSigningRequest

	tests := map[string]struct {
		request  func(*x509.CertificateRequest)
		csr      func(*csr)
		machines func([]*infrav1.OLVMMachine) []*infrav1.OLVMMachine
		problem  string // empty: approved
	}{
		"what a kubelet asks for": {},
		"with an RSA key": {
			csr: func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageKeyEncipherment) },
		},
		"usages in another order": {csr: func(c *csr) {
			c.Spec.Usages = []certificatesv1.KeyUsage{
				certificatesv1.UsageServerAuth,
				certificatesv1.UsageDigitalSignature,
			}
		}},
		"the address alone": {request: func(r *x509.CertificateRequest) { r.DNSNames = nil }},
		"the name alone":    {request: func(r *x509.CertificateRequest) { r.IPAddresses = nil }},
		"the address in its IPv6 form": {
			request: func(r *x509.CertificateRequest) { r.IPAddresses[0] = r.IPAddresses[0].To16() },
		},
		"the name of another machine": {
			request: func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "two") },
			problem: `the name "two"`,
		},
		"the name of the API server": {
			request: func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "kubernetes.default") },
			problem: `"kubernetes.default"`,
		},
		"a wildcard": {
			request: func(r *x509.CertificateRequest) { r.DNSNames = []string{"*"} },
			problem: `"*"`,
		},
		"the address of another machine": {
			request: func(r *x509.CertificateRequest) {
				r.IPAddresses = append(r.IPAddresses,
					net.ParseIP("10.0.0.11"))
			},
			problem: "10.0.0.11",
		},
		"another address": {
			request: func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP("10.0.0.5")} },
			problem: "10.0.0.5",
		},
		"no names": {request: func(r *x509.CertificateRequest) {
			r.DNSNames = nil
			r.IPAddresses = nil
		}, problem: "neither a name nor an address"},
		"an e-mail address": {
			request: func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} },
			problem: "e-mail",
		},
		"a URI": {
			request: func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} },
			problem: "URIs",
		},
		"another common name": {
			request: func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:two" },
			problem: "common name",
		},
		"another organization": {
			request: func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} },
			problem: "organizations",
		},
		"one organization more": {
			request: func(r *x509.CertificateRequest) {
				r.Subject.Organization = []string{"system:nodes", "system:masters"}
			},
			problem: "organizations",
		},
		"a user that is no node": {csr: func(c *csr) { c.Spec.Username = "one" }, problem: "is not a node"},
		"a node without a name":  {csr: func(c *csr) { c.Spec.Username = "system:node:" }, problem: "is not a node"},
		"a user outside the group": {
			csr:     func(c *csr) { c.Spec.Groups = []string{"system:authenticated"} },
			problem: "is not a node",
		},
		"a client certificate's usage": {
			csr:     func(c *csr) { c.Spec.Usages[1] = certificatesv1.UsageClientAuth },
			problem: "usages",
		},
		"a usage more": {
			csr:     func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageClientAuth) },
			problem: "usages",
		},
		"a usage twice": {
			csr:     func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageServerAuth) },
			problem: "usages",
		},
		"a usage less": {csr: func(c *csr) { c.Spec.Usages = c.Spec.Usages[1:] }, problem: "usages"},
		"no PEM":       {csr: func(c *csr) { c.Spec.Request = []byte("x") }, problem: "PEM"},
		"two requests": {
			csr:     func(c *csr) { c.Spec.Request = append(c.Spec.Request, c.Spec.Request...) },
			problem: "PEM",
		},
		"a node that is no machine": {
			machines: func(m []*infrav1.OLVMMachine) []*infrav1.OLVMMachine { return m[1:] },
			problem:  "no single provisioned machine",
		},
		"a machine that is not provisioned": {
			machines: func(m []*infrav1.OLVMMachine) []*infrav1.OLVMMachine {
				m[0].Status.Initialization.Provisioned = nil
				return m
			}, problem: "no single provisioned machine",
		},
		"two machines of the name": {
			machines: func(m []*infrav1.OLVMMachine) []*infrav1.OLVMMachine {
				return append(m, provisioned("one", "10.0.0.12"))
			},
			problem: "no single provisioned machine",
		},
	}
	for name, test := range tests {
		request := testcsr.NewRequest("one", "10.0.0.10")
		machines := []*infrav1.OLVMMachine{provisioned("one", "10.0.0.10"), provisioned("two", "10.0.0.11")}
		if test.request != nil {
			test.request(request)
		}

		csr := testcsr.CSR(t, "one", request)
		if test.csr != nil {
			test.csr(csr)
		}

		if test.machines != nil {
			machines = test.machines(machines)
		}

		machine, problem := checkServingRequest(csr, machines, reserved{})
		if (problem == "") != (test.problem == "") || !strings.Contains(problem, test.problem) {
			t.Errorf("%s: got %q, want %q", name, problem, test.problem)
		}

		if problem == "" && (machine == nil || machine.Name != "one") {
			t.Errorf("%s: approved for %v", name, machine)
		}
	}
}

// TestClaimsOfAGuest covers a guest with a DHCP address that reports additional addresses: threat H2 of
// docs/operate/security.md.
func TestClaimsOfAGuest(t *testing.T) {
	cluster := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{
		ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "10.0.0.4", Port: 6443},
		ClusterNetwork: clusterv1.ClusterNetwork{
			Pods: clusterv1.NetworkRanges{CIDRBlocks: []string{"192.168.0.0/16", "fd01::/48"}},
		},
	}}
	olvm := &infrav1.OLVMCluster{
		Spec: infrav1.OLVMClusterSpec{
			ControlPlaneServices: &infrav1.ControlPlaneServices{IngressVirtualIP: "10.0.0.6"},
		},
	}
	olvm.Spec.ControlPlaneEndpoint.Host = "10.0.0.4"
	static := provisioned("static", "10.0.0.10")
	static.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.0.0.10"]}`}
	inServices := provisioned("in-services", "10.96.0.9")
	inServices.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.96.0.9"]}`}
	dynamic := provisioned("dynamic", "10.0.0.77")
	other := provisioned("other", "10.0.0.78")

	for address, test := range map[string]struct {
		machine *infrav1.OLVMMachine
		problem string
	}{
		"10.0.0.77":   {dynamic, ""},
		"10.96.0.1":   {dynamic, "Services"},
		"192.168.3.4": {dynamic, "Pods"},
		"fd01::7":     {dynamic, "Pods"},
		"10.0.0.10":   {dynamic, "also an address of OLVMMachine static"},
		"10.0.0.78":   {dynamic, "also an address of OLVMMachine other"},
		"10.0.0.4":    {dynamic, "the control plane endpoint"},
		"10.0.0.6":    {dynamic, "the ingress address"},
		// An address given to a machine is its own, regardless of its range and of reports by others.
		"::ffff:10.0.0.10": {static, ""},
		"10.96.0.9":        {inServices, ""},
	} {
		machine := test.machine.DeepCopy()
		if machine.Name == "dynamic" {
			machine.Status.Addresses = append(machine.Status.Addresses, clusterv1.MachineAddress{
				Type:    clusterv1.MachineInternalIP,
				Address: address,
			})
		}

		machines := []*infrav1.OLVMMachine{machine, other}
		if machine.Name != "static" {
			machines = append(machines, static)
		}

		csr := testcsr.CSR(t, machine.Name, testcsr.NewRequest(machine.Name, address))
		_, problem := checkServingRequest(csr, machines, collectReserved(cluster, olvm, nil, machines))
		if (problem == "") != (test.problem == "") || !strings.Contains(problem, test.problem) {
			t.Errorf("%s for %s: got %q, want %q", address, machine.Name, problem, test.problem)
		}
	}
}

func TestARequestWithAWrongSignatureIsNotApproved(t *testing.T) {
	csr := testcsr.CSR(t, "one", testcsr.NewRequest("one", "10.0.0.10"))
	block, _ := pem.Decode(csr.Spec.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	csr.Spec.Request = pem.EncodeToMemory(block)
	_, problem := checkServingRequest(csr, []*infrav1.OLVMMachine{provisioned("one", "10.0.0.10")}, reserved{})
	if problem == "" {
		t.Error("it was approved")
	}
}

func TestOnlyUndecidedRequestsForServingCertificatesAreLookedAt(t *testing.T) {
	tests := map[string]struct {
		change func(*certificatesv1.CertificateSigningRequest)
		want   bool
	}{
		"pending": {func(*certificatesv1.CertificateSigningRequest) {}, true},
		"another signer": {func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		}, false},
		"signed": {func(c *certificatesv1.CertificateSigningRequest) { c.Status.Certificate = []byte("x") }, false},
		"denied by someone": {func(c *certificatesv1.CertificateSigningRequest) {
			c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
				{Type: certificatesv1.CertificateDenied},
			}
		}, false},
		"approved": {func(c *certificatesv1.CertificateSigningRequest) {
			approveRequest(c, provisioned("one", "10.0.0.10"))
		}, false},
	}
	for name, test := range tests {
		csr := testcsr.CSR(t, "one", testcsr.NewRequest("one", "10.0.0.10"))
		test.change(csr)
		if got := isPendingServing(csr); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestANodeGetsAProviderIDOnlyByNameAndAddress(t *testing.T) {
	node := func(name, providerID string, addresses ...string) *corev1.Node {
		n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}}

		n.Name = name
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}

		return n
	}

	tests := map[string]struct {
		node    *corev1.Node
		machine string
		problem bool
	}{
		"name and address":             {node("one", "", "10.0.0.10"), "one", false},
		"one of several addresses":     {node("one", "", "192.168.0.1", "10.0.0.10"), "one", false},
		"an ID that is there":          {node("one", "olvm://other", "10.0.0.10"), "", false},
		"a node that is no machine":    {node("three", "", "10.0.0.10"), "", false},
		"no address reported yet":      {node("one", ""), "", false},
		"another address":              {node("one", "", "10.0.0.11"), "one", true},
		"an address that is no number": {node("one", "", "10.0.0.10.example.com"), "one", true},
	}
	for name, test := range tests {
		machine, problem := findMachineOfNode(
			test.node,
			[]*infrav1.OLVMMachine{provisioned("one", "10.0.0.10"), provisioned("two", "10.0.0.11")},
		)
		got := ""
		if machine != nil {
			got = machine.Name
		}

		if got != test.machine || (problem != "") != test.problem {
			t.Errorf("%s: got %q, %q", name, got, problem)
		}
	}
}
