package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// DNS serves the names of a cluster on one of its nodes. It is CoreDNS in a static pod, so the kubelet runs it even if
// the cluster is down. Control plane nodes know all nodes. Other nodes forward queries for node names to them, and
// answer all other queries themselves.
type DNS struct {
	// Domain is the domain of the cluster, without a trailing dot.
	Domain string
	// Addresses are the addresses of the node. Floating are the endpoint addresses that the node may hold. The server
	// also listens on them.
	Addresses, Floating []netip.Addr
	// Endpoint and Ingress are the addresses of the control plane and of ingress. Either may be empty.
	Endpoint, Ingress []netip.Addr
	// ControlPlane reports whether the node is a control plane node. Other nodes forward queries for node names to
	// Servers, in this order.
	ControlPlane bool
	Servers      []netip.Addr
	// Upstream are the servers for all other names, in this order.
	Upstream []netip.Addr
	// Image is the image of CoreDNS.
	Image string
}

// These are the locations of the name server's files, on the node and in its pod.
const (
	dnsFolder    = "/etc/capolvm/dns"
	dnsPodFolder = "/etc/coredns"
)

// maxServers is the number of servers to which CoreDNS can forward.
const maxServers = 15

// APINames returns the names of the control plane endpoint.
func (d *DNS) APINames() []string {
	if d == nil {
		return nil
	}

	return []string{"api." + d.Domain, "api-int." + d.Domain}
}

func (d *DNS) buildFiles(hostName string) []File {
	if d == nil {
		return nil
	}

	file := func(name, content string) File {
		return File{Path: dnsFolder + "/" + name, Mode: 0o644, Content: content}
	}
	out := []File{
		file("Corefile", renderFile("Corefile", map[string]any{
			"Domain":       d.Domain,
			"Folder":       dnsPodFolder,
			"Bind":         joinAddresses(slices.Concat(d.Addresses, d.Floating), " "),
			"API":          strings.Join(d.APINames(), " "),
			"Apps":         len(d.Ingress) > 0,
			"ControlPlane": d.ControlPlane,
			"Servers":      joinAddresses(d.Servers[:min(len(d.Servers), maxServers)], " "),
			"Upstream":     joinAddresses(d.Upstream[:min(len(d.Upstream), maxServers)], " "),
		})),
		file("endpoint.zone", renderZone("@", d.Endpoint)),
	}
	if len(d.Ingress) > 0 {
		out = append(out, file("apps.zone", renderZone("*", d.Ingress)))
	}

	if d.ControlPlane {
		out = append(out, file("nodes.zone", renderZone(strings.TrimSuffix(hostName, "."+d.Domain), d.Addresses)))
	}

	return append(out, File{Path: "/etc/kubernetes/manifests/capolvm-dns.yaml", Mode: 0o600, Content: d.renderPod()})
}

// renderZone returns a zone file with the addresses of a name.
func renderZone(name string, addresses []netip.Addr) string {
	var out strings.Builder
	out.WriteString(renderFile("zone", "1"))

	for _, address := range addresses {
		kind := "A"
		if address.Is6() {
			kind = "AAAA"
		}

		fmt.Fprintf(&out, "%s IN %s %s\n", name, kind, address)
	}

	return out.String()
}

func (d *DNS) renderPod() string {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "capolvm-dns", Namespace: metav1.NamespaceSystem},
		Spec: corev1.PodSpec{
			HostNetwork: true, DNSPolicy: corev1.DNSDefault,
			PriorityClassName: "system-node-critical",
			// The pod reads files of the host.
			SecurityContext: &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}},
			Containers: []corev1.Container{{
				Name:            "coredns",
				Image:           d.Image,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Args:            []string{"-conf", dnsPodFolder + "/Corefile"},
				// Without privilege escalation, the container would lose a file capability. So it runs as root, with no
				// other privilege.
				SecurityContext: &corev1.SecurityContext{
					RunAsUser:                ptr.To[int64](0),
					AllowPrivilegeEscalation: ptr.To(false),
					ReadOnlyRootFilesystem:   ptr.To(true),
					Capabilities: &corev1.Capabilities{
						Add:  []corev1.Capability{"NET_BIND_SERVICE"},
						Drop: []corev1.Capability{"ALL"},
					},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: dnsPodFolder, ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{
				{
					Name: "config",
					VolumeSource: corev1.VolumeSource{
						HostPath: &corev1.HostPathVolumeSource{Path: dnsFolder, Type: ptr.To(corev1.HostPathDirectory)},
					},
				},
			},
		},
	}

	return encodePod(pod)
}
