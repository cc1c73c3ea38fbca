package node

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
)

const (
	// nodeUserPrefix and nodesGroup identify an authenticated kubelet.
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

func containsIP(ips []net.IP, ip net.IP) bool {
	return slices.ContainsFunc(ips, ip.Equal)
}

// findMachineByName returns the machine with a host name. It ignores unprovisioned machines, because their host name,
// address and provider ID are not final. If two machines have the name, it returns nil.
func findMachineByName(name string, machines []*infrav1.OLVMMachine) *infrav1.OLVMMachine {
	var found *infrav1.OLVMMachine

	for _, m := range machines {
		isHost := slices.ContainsFunc(m.Status.Addresses, func(a clusterv1.MachineAddress) bool {
			return a.Type == clusterv1.MachineHostName && a.Address == name
		})
		if !isHost || !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Spec.ProviderID == "" {
			continue
		}

		if found != nil {
			return nil
		}

		found = m
	}

	return found
}

// findMachineOfNode returns the machine for a Node without a provider ID. problem explains why the Node is not the
// machine's, or is "". A name alone is no proof: Cluster API deletes, drains and counts a Machine by the Node with its
// ID.
func findMachineOfNode(node *corev1.Node, machines []*infrav1.OLVMMachine) (_ *infrav1.OLVMMachine, problem string) {
	if node.Spec.ProviderID != "" {
		return nil, ""
	}

	m := findMachineByName(node.Name, machines)
	if m == nil {
		return nil, ""
	}

	var reported []string
	_, ips := addressing.CollectNamesAndAddresses(m)

	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}

		if ip := net.ParseIP(address.Address); ip != nil && containsIP(ips, ip) {
			return m, ""
		}

		reported = append(reported, address.Address)
	}

	if len(reported) == 0 {
		return nil, "" // the kubelet has not reported yet
	}

	return m, fmt.Sprintf(
		"Node %s has no provider ID, and the controller does not set this machine's: the Node reports the addresses "+
			"%s, but the machine has %s",
		node.Name,
		strings.Join(reported, ", "),
		joinIPs(ips),
	)
}

// findMachineWithID returns the machine with the name and the provider ID of a Node.
func findMachineWithID(node *corev1.Node, machines []*infrav1.OLVMMachine) *infrav1.OLVMMachine {
	m := findMachineByName(node.Name, machines)
	if m == nil || node.Spec.ProviderID != m.Spec.ProviderID {
		return nil
	}

	return m
}

func joinIPs(ips []net.IP) string {
	texts := make([]string, 0, len(ips))
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}

	return strings.Join(texts, ", ")
}

// isPendingServing reports whether a kubelet's request for a serving certificate is undecided.
func isPendingServing(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeletServingSignerName && len(csr.Status.Certificate) == 0 &&
		!slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied ||
				c.Type == certificatesv1.CertificateFailed
		})
}

// checkServingRequest returns the machine of a request. problem explains why the request must not be approved, or is
// "". checkServingRequest trusts only the kubelet's authenticated identity. If a node could choose its names, it could
// impersonate another node, or the API server. A guest can report any address, so an address known only from the guest
// must belong to nobody else.
func checkServingRequest(
	csr *certificatesv1.CertificateSigningRequest, machines []*infrav1.OLVMMachine, taken reserved,
) (_ *infrav1.OLVMMachine, problem string) {
	name, isNode := strings.CutPrefix(csr.Spec.Username, nodeUserPrefix)
	if !isNode || name == "" || !slices.Contains(csr.Spec.Groups, nodesGroup) {
		return nil, fmt.Sprintf("its requester %q is not a node", csr.Spec.Username)
	}

	m := findMachineByName(name, machines)
	if m == nil {
		return nil, fmt.Sprintf("no single provisioned machine of the cluster has the host name %q", name)
	}

	if !hasServingUsages(csr.Spec.Usages) {
		return m, fmt.Sprintf(
			"its usages are %v; those of a serving certificate are server auth, digital signature and, optionally, "+
				"key encipherment",
			csr.Spec.Usages,
		)
	}

	request, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return m, err.Error()
	}

	switch {
	case request.Subject.CommonName != csr.Spec.Username:
		return m, fmt.Sprintf("its common name is %q, but its requester is %q", request.Subject.CommonName,
			csr.Spec.Username)
	case len(request.Subject.Organization) != 1 || request.Subject.Organization[0] != nodesGroup:
		return m, fmt.Sprintf("its organizations are %q; those of a node are %s", request.Subject.Organization,
			nodesGroup)
	case len(request.EmailAddresses) > 0 || len(request.URIs) > 0:
		return m, "it requests e-mail addresses or URIs; no node has these"
	case len(request.DNSNames)+len(request.IPAddresses) == 0:
		return m, "it requests neither a name nor an address"
	}

	names, ips := addressing.CollectNamesAndAddresses(m)
	for _, asked := range request.DNSNames {
		if !slices.Contains(names, asked) {
			return m, fmt.Sprintf("it requests the name %q, but the machine has %s", asked, strings.Join(names, ", "))
		}
	}

	for _, asked := range request.IPAddresses {
		if !containsIP(ips, asked) {
			return m, fmt.Sprintf("it requests the address %s, but the machine has %s", asked, joinIPs(ips))
		}

		if holder := taken.findHolder(asked, m); holder != "" {
			return m, fmt.Sprintf("it requests the address %s; only the guest reports this address, and it is %s",
				asked, holder)
		}
	}

	return m, ""
}

// reserved has the addresses of a cluster forbidden to guests.
type reserved struct {
	// machines are the machines of the cluster, including paused ones.
	machines []*infrav1.OLVMMachine
	networks []reservedNetwork
	virtual  []addressing.VirtualAddress
}

// reservedNetwork is a range of addresses with its purpose, for messages.
type reservedNetwork struct {
	netip.Prefix
	purpose string
}

// defaultServices is kubeadm's default range for Services.
const defaultServices = "10.96.0.0/12"

// collectReserved returns the addresses of a cluster forbidden to guests. olvmCluster and support may be nil.
func collectReserved(
	cluster *clusterv1.Cluster,
	olvmCluster *infrav1.OLVMCluster,
	support *infrav1alpha1.OLVMSupportServices,
	machines []*infrav1.OLVMMachine,
) reserved {
	out := reserved{machines: machines}
	add := func(purpose string, blocks []string) {
		for _, block := range blocks {
			if prefix, err := netip.ParsePrefix(block); err == nil {
				out.networks = append(out.networks, reservedNetwork{prefix, purpose})
			}
		}
	}
	services := cluster.Spec.ClusterNetwork.Services.CIDRBlocks
	if len(services) == 0 {
		services = []string{defaultServices}
	}

	add("of the Cluster's Services", services)
	add("of the Cluster's Pods", cluster.Spec.ClusterNetwork.Pods.CIDRBlocks)

	if endpoint, err := netip.ParseAddr(cluster.Spec.ControlPlaneEndpoint.Host); err == nil {
		out.virtual = append(out.virtual, addressing.VirtualAddress{
			Address: endpoint,
			What:    "the control plane endpoint",
		})
	}

	if olvmCluster != nil {
		out.virtual = append(out.virtual, addressing.CollectVirtualAddresses(olvmCluster.Spec)...)
		out.virtual = append(out.virtual, addressing.CollectSupportAddresses(olvmCluster.Spec, support)...)
	}

	return out
}

// findHolder returns the other holder of an address reported by a machine, for messages. It returns "" if the manager
// allocated the address to the machine, or if nobody else has the address.
func (r reserved) findHolder(ip net.IP, m *infrav1.OLVMMachine) string {
	address, ok := netip.AddrFromSlice(ip)
	if !ok {
		return "no address"
	}

	address = address.Unmap()
	if isGivenAddress(m, address) {
		return ""
	}

	for _, network := range r.networks {
		if network.Contains(address) {
			return network.purpose
		}
	}

	for _, virtual := range r.virtual {
		if virtual.Address.Unmap() == address {
			return virtual.What
		}
	}

	for _, other := range r.machines {
		_, theirs := addressing.CollectNamesAndAddresses(other)
		if other != m && (isGivenAddress(other, address) || containsIP(theirs, ip)) {
			return "also an address of OLVMMachine " + other.Name
		}
	}

	return ""
}

// isGivenAddress reports whether the controller allocated the address to a machine. Otherwise, only the guest reports
// it.
func isGivenAddress(m *infrav1.OLVMMachine, address netip.Addr) bool {
	recorded, err := addressing.ParseRecorded(m)
	if err != nil {
		return false
	}

	for _, list := range recorded {
		if slices.Contains(list, address) {
			return true
		}
	}

	return false
}

// hasServingUsages reports whether the usages are exactly those of a serving certificate, each once. RSA keys also need
// key encipherment.
func hasServingUsages(usages []certificatesv1.KeyUsage) bool {
	asked := slices.Sorted(slices.Values(usages))

	return slices.Equal(
		asked,
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	) ||
		slices.Equal(
			asked,
			[]certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageKeyEncipherment,
				certificatesv1.UsageServerAuth,
			},
		)
}

func parseRequest(encoded []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(encoded)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("it is not a single PEM block with a certificate request")
	}

	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}

	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("its signature is wrong: %w", err)
	}

	return request, nil
}

// approveRequest adds the condition Approved. The caller writes it to the approval subresource.
func approveRequest(csr *certificatesv1.CertificateSigningRequest, m *infrav1.OLVMMachine) {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:           certificatesv1.CertificateApproved,
		Status:         corev1.ConditionTrue,
		Reason:         infrav1.ServingCertificateApprovedReason,
		Message:        fmt.Sprintf("Names and addresses match OLVMMachine %s/%s", m.Namespace, m.Name),
		LastUpdateTime: metav1.Now(),
	})
}
