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

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/yaml"
)

var (
	// bootstrapToken is the form that kubeadm asks of a token.
	bootstrapToken = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	// kubeadmAPI are the versions of its configuration that kubeadm reads.
	kubeadmAPI = regexp.MustCompile(`\Akubeadm\.k8s\.io/v1beta[34]\z`)
)

// node is what kubeadm makes of a VM, from the files on its disk.
type node struct {
	name       string
	providerID string
	// addresses are the node's InternalIPs, those of nodeIPs in their order, else IPv4 first.
	addresses []string
	// nodeIPs are what the kubelet is told to register; empty lets it look for itself.
	nodeIPs []string
	version string
	// coreDNS is the image of the cluster's DNS; of the node that initialises it.
	coreDNS      string
	controlPlane bool
	init         bool
	labels       map[string]string
	taints       []taint
	// endpoint is host:port of the control plane.
	endpoint string
	// clusterCA and etcdCA sign the certificates of a control plane node.
	clusterCA, etcdCA *authority
	// token and caHashes prove to each other that node and cluster belong together; for joining nodes.
	token    string
	caHashes []string
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
}

// hash is the form in which a joining node is told the cluster's CA.
func (a *authority) hash() string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(a.cert.RawSubjectPublicKeyInfo))
}

// kubeadmDocument is the union of the documents in a kubeadm configuration, as far as they decide what a node becomes.
type kubeadmDocument struct {
	APIVersion           string `json:"apiVersion"`
	Kind                 string `json:"kind"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	KubernetesVersion    string `json:"kubernetesVersion"`
	DNS                  struct {
		ImageRepository string `json:"imageRepository"`
		ImageTag        string `json:"imageTag"`
	} `json:"dns"`
	ControlPlane     *struct{} `json:"controlPlane"`
	NodeRegistration struct {
		Name             string   `json:"name"`
		KubeletExtraArgs any      `json:"kubeletExtraArgs"`
		Taints           *[]taint `json:"taints"`
	} `json:"nodeRegistration"`
	Discovery struct {
		BootstrapToken struct {
			APIServerEndpoint        string   `json:"apiServerEndpoint"`
			Token                    string   `json:"token"`
			CACertHashes             []string `json:"caCertHashes"`
			UnsafeSkipCAVerification bool     `json:"unsafeSkipCAVerification"`
		} `json:"bootstrapToken"`
	} `json:"discovery"`
}

// nodeFrom is kubeadm on a machine with a host name and a version of kubeadm: it reads the configuration, and the
// certificates beside it.
func nodeFrom(sys *system, call *kubeadmCall, hostName, version string) (*node, error) {
	if version == "" {
		return nil, errors.New("kubeadm: command not found")
	}

	out := &node{init: call.verb == "init", controlPlane: call.verb == "init"}
	if err := out.readConfig(sys.read(call.config), call); err != nil {
		return nil, fmt.Errorf("kubeadm: %s: %w", call.config, err)
	}

	if _, _, err := net.SplitHostPort(out.endpoint); err != nil {
		return nil, fmt.Errorf("kubeadm: the control plane endpoint %q is not host:port: %w", out.endpoint, err)
	}

	if out.init && minor(out.version) != minor(version) {
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
	if out.clusterCA, err = authorityFrom(sys, "/etc/kubernetes/pki/ca"); err != nil {
		return nil, err
	}

	out.etcdCA, err = authorityFrom(sys, "/etc/kubernetes/pki/etcd/ca")

	return out, err
}

// readConfig reads the documents of kubeadm's configuration.
func (n *node) readConfig(text string, call *kubeadmCall) error {
	found := false

	for _, document := range strings.Split(text, "\n---") {
		var doc kubeadmDocument
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---")), &doc); err != nil {
			return err
		}

		switch doc.Kind {
		case "ClusterConfiguration", "InitConfiguration", "JoinConfiguration":
			if !kubeadmAPI.MatchString(doc.APIVersion) {
				return fmt.Errorf("no kind %q is registered for version %q", doc.Kind, doc.APIVersion)
			}
		}

		switch doc.Kind {
		case "ClusterConfiguration":
			n.endpoint, n.version = doc.ControlPlaneEndpoint, doc.KubernetesVersion
			n.coreDNS = cmp.Or(doc.DNS.ImageRepository,
				"registry.k8s.io/coredns") + "/coredns:" + cmp.Or(doc.DNS.ImageTag, "v1.12.1")
			continue
		case "InitConfiguration":
			found = found || n.init
		case "JoinConfiguration":
			found = found || !n.init
			n.controlPlane = doc.ControlPlane != nil
			token := doc.Discovery.BootstrapToken
			n.endpoint, n.token, n.caHashes = token.APIServerEndpoint, token.Token, token.CACertHashes
			if len(n.caHashes) == 0 && !token.UnsafeSkipCAVerification {
				return errors.New("discovery.bootstrapToken.caCertHashes is empty")
			}
		default:
			continue
		}

		args, err := kubeletArgs(doc.NodeRegistration.KubeletExtraArgs)
		if err != nil {
			return err
		}

		n.name, n.providerID = doc.NodeRegistration.Name, args["provider-id"]
		if n.nodeIPs = nil; args["node-ip"] != "" {
			n.nodeIPs = strings.Split(args["node-ip"], ",")
		}

		n.labels = parseLabels(args["node-labels"])
		if doc.NodeRegistration.Taints != nil {
			n.taints = *doc.NodeRegistration.Taints
		} else if n.controlPlane {
			n.taints = []taint{{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"}}
		}
	}

	if !found {
		return fmt.Errorf("it has no %sConfiguration", strings.ToUpper(call.verb[:1])+call.verb[1:])
	}

	return nil
}

// register decides the addresses with which the kubelet registers, of those that its guest has.
func (n *node) register(found []string) error {
	if len(n.nodeIPs) == 0 {
		n.addresses = found[:1] // a kubelet that looks for itself takes one
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

// minor is the MAJOR.MINOR of a version.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return version
	}

	return parts[0] + "." + parts[1]
}

// kubeletArgs reads extra arguments in both shapes: a list of name and value (v1beta4), a map (v1beta3).
func kubeletArgs(raw any) (map[string]string, error) {
	out := map[string]string{}

	switch args := raw.(type) {
	case nil:
	case map[string]any:
		for name, value := range args {
			out[name] = fmt.Sprint(value)
		}
	case []any:
		for _, entry := range args {
			arg, ok := entry.(map[string]any)
			if !ok {
				return nil, errors.New("kubeletExtraArgs holds something that is not name and value")
			}

			out[fmt.Sprint(arg["name"])] = fmt.Sprint(arg["value"])
		}
	default:
		return nil, errors.New("kubeletExtraArgs is neither a list nor a map")
	}

	return out, nil
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

func authorityFrom(sys *system, path string) (*authority, error) {
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
