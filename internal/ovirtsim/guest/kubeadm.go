package guest

import (
	"cmp"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmconstants "k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"sigs.k8s.io/cluster-api/util/certs"
)

var (
	// bootstrapToken matches a token in kubeadm's format.
	bootstrapToken = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
)

// node is the result of kubeadm on a VM, based on the files on the VM's disk.
type node struct {
	name       string
	providerID string
	// addresses are the node's InternalIPs, in the order of nodeIPs. Without nodeIPs, the IPv4 address is first.
	addresses []string
	// nodeIPs are the addresses that the kubelet must register; without any, the kubelet chooses.
	nodeIPs []string
	version string
	// coreDNS is the image of the cluster's DNS; only the first node has it.
	coreDNS      string
	controlPlane bool
	init         bool
	labels       map[string]string
	taints       []corev1.Taint
	// criSocket is the socket of the container runtime; "" lets kubeadm choose.
	criSocket string
	// endpoint is the control plane's endpoint, as host:port. bindPort is the port of this node's API server.
	endpoint string
	bindPort int32
	// clusterCA and etcdCA sign the certificates of a control plane node.
	clusterCA, etcdCA *authority
	// token and caHashes let a joining node and its cluster authenticate each other.
	token    string
	caHashes []string
}

type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
}

// publicKeyHash returns the CA's hash in the form that joining nodes use.
func (a *authority) publicKeyHash() string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(a.cert.RawSubjectPublicKeyInfo))
}

// newNode runs kubeadm on a machine with the given host name and kubeadm version. It reads kubeadm's configuration and
// certificates.
func newNode(sys *system, call *kubeadmCall, hostName, version string) (*node, error) {
	if version == "" {
		return nil, errors.New("kubeadm: command not found")
	}

	out := &node{init: call.verb == "init", controlPlane: call.verb == "init"}
	if err := out.readConfig(sys.read(call.config), version); err != nil {
		return nil, fmt.Errorf("kubeadm: %s: %w", call.config, err)
	}

	if _, _, err := net.SplitHostPort(out.endpoint); err != nil {
		return nil, fmt.Errorf("kubeadm: the control plane endpoint %q is not host:port: %w", out.endpoint, err)
	}

	if out.init && minorVersion(out.version) != minorVersion(version) {
		return nil, fmt.Errorf("kubeadm: this version of kubeadm (%s) does not deploy clusters with version %s",
			version, out.version)
	}

	out.version = version
	if out.name = strings.ToLower(strings.TrimSpace(out.name)); out.name == "" {
		out.name = hostName
	}

	if out.name == "" {
		return nil, errors.New("kubeadm: the guest has no host name")
	}

	if problems := validation.IsDNS1123Subdomain(out.name); len(problems) > 0 {
		return nil, fmt.Errorf("kubeadm: nodeRegistration.name: Invalid value: %q: %s", out.name,
			strings.Join(problems, "; "))
	}

	if !out.init && !bootstrapToken.MatchString(out.token) {
		return nil, fmt.Errorf("kubeadm: discovery.bootstrapToken.token: the bootstrap token is not of the form %q",
			bootstrapToken)
	}

	if !out.controlPlane {
		return out, nil
	}

	var err error
	if out.clusterCA, err = readAuthority(sys, "/etc/kubernetes/pki/ca"); err != nil {
		return nil, err
	}

	out.etcdCA, err = readAuthority(sys, "/etc/kubernetes/pki/etcd/ca")

	return out, err
}

// readConfig reads kubeadm's configuration in the way of the given kubeadm version.
func (n *node) readConfig(text, version string) error {
	config, err := readKubeadmConfig(text, version)
	if err != nil {
		return err
	}

	if n.init {
		return n.readInit(config, version)
	}

	if config.join == nil {
		return errors.New("it has no JoinConfiguration")
	}

	join := config.join
	if control := join.ControlPlane; control != nil {
		n.controlPlane, n.bindPort = true, control.LocalAPIEndpoint.BindPort
	}

	token := join.Discovery.BootstrapToken
	if token == nil {
		return errors.New("the simulated guest joins with discovery.bootstrapToken only")
	}

	n.endpoint, n.token, n.caHashes = token.APIServerEndpoint, token.Token, token.CACertHashes
	if len(n.caHashes) == 0 && !token.UnsafeSkipCAVerification {
		return errors.New("discovery.bootstrapToken.caCertHashes is empty")
	}

	n.readRegistration(join.NodeRegistration)

	return nil
}

func (n *node) readInit(config *kubeadmConfig, version string) error {
	if config.init == nil {
		return errors.New("it has no InitConfiguration")
	}

	if cluster := config.cluster; cluster != nil {
		n.endpoint, n.version = cluster.ControlPlaneEndpoint, cluster.KubernetesVersion
		if strings.HasPrefix(n.version, "stable") { // kubeadm asks the Internet, or uses its own version
			n.version = version
		}

		n.coreDNS = cmp.Or(cluster.DNS.ImageRepository,
			"registry.k8s.io/coredns") + "/coredns:" + cmp.Or(cluster.DNS.ImageTag, "v1.12.1")
	}

	n.bindPort = config.init.LocalAPIEndpoint.BindPort
	n.readRegistration(config.init.NodeRegistration)

	return nil
}

func (n *node) readRegistration(registration kubeadm.NodeRegistrationOptions) {
	args := argumentMap(registration.KubeletExtraArgs)
	n.name, n.providerID, n.criSocket = registration.Name, args["provider-id"], registration.CRISocket
	if args["node-ip"] != "" {
		n.nodeIPs = strings.Split(args["node-ip"], ",")
	}

	n.labels, n.taints = parseLabels(args["node-labels"]), registration.Taints
	if n.taints == nil && n.controlPlane {
		n.taints = []corev1.Taint{kubeadmconstants.ControlPlaneTaint}
	}
}

// chooseAddresses chooses the kubelet's addresses from the addresses of its guest.
func (n *node) chooseAddresses(found []string) error {
	if len(n.nodeIPs) == 0 {
		n.addresses = found[:1] // a kubelet without node IPs chooses one
		return nil
	}

	for _, address := range n.nodeIPs {
		if !slices.Contains(found, address) {
			return fmt.Errorf(
				"kubelet: failed to validate nodeIP: node IP: %q not found in the host's network "+
					"interfaces, which have %s",
				address,
				strings.Join(found, ", "),
			)
		}
	}

	n.addresses = n.nodeIPs

	return nil
}

// minorVersion returns the MAJOR.MINOR part of a version.
func minorVersion(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return version
	}

	return parts[0] + "." + parts[1]
}

func parseLabels(list string) map[string]string {
	out := map[string]string{}

	for _, pair := range strings.Split(list, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			out[key] = value
		}
	}

	return out
}

func readAuthority(sys *system, path string) (*authority, error) {
	cert, err := certs.DecodeCertPEM([]byte(sys.read(path + ".crt")))
	if err != nil || cert == nil {
		return nil, fmt.Errorf("kubeadm: %s.crt is missing or no certificate", path)
	}

	key, err := certs.DecodePrivateKeyPEM([]byte(sys.read(path + ".key")))
	if err != nil || key == nil {
		return nil, fmt.Errorf("kubeadm: %s.key is missing or no key", path)
	}

	rsaKey, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("kubeadm: %s.key is a %T; the simulated guest signs with RSA keys only", path, key)
	}

	return &authority{cert: cert, key: rsaKey}, nil
}
