package guest

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/yaml"
)

// node is what kubeadm makes of a VM, from the files on its disk.
type node struct {
	name         string
	providerID   string
	address      string
	version      string
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
	Kind                 string    `json:"kind"`
	ControlPlaneEndpoint string    `json:"controlPlaneEndpoint"`
	KubernetesVersion    string    `json:"kubernetesVersion"`
	ControlPlane         *struct{} `json:"controlPlane"`
	NodeRegistration     struct {
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

// nodeFrom reads kubeadm's configuration, and the certificates beside it.
func nodeFrom(sys *system) (*node, error) {
	out := &node{init: sys.kubeadm == "init", controlPlane: sys.kubeadm == "init"}
	found := false
	for _, document := range strings.Split(sys.files[sys.config], "\n---") {
		var doc kubeadmDocument
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---")), &doc); err != nil {
			return nil, fmt.Errorf("kubeadm: %s: %w", sys.config, err)
		}
		switch doc.Kind {
		case "ClusterConfiguration":
			out.endpoint, out.version = doc.ControlPlaneEndpoint, doc.KubernetesVersion
			continue
		case "InitConfiguration":
			found = found || out.init
		case "JoinConfiguration":
			found = found || !out.init
			out.controlPlane = doc.ControlPlane != nil
			token := doc.Discovery.BootstrapToken
			out.endpoint, out.token, out.caHashes = token.APIServerEndpoint, token.Token, token.CACertHashes
			if len(out.caHashes) == 0 && !token.UnsafeSkipCAVerification {
				return nil, errors.New("kubeadm: discovery.bootstrapToken.caCertHashes is empty")
			}
		default:
			continue
		}
		args, err := kubeletArgs(doc.NodeRegistration.KubeletExtraArgs)
		if err != nil {
			return nil, err
		}
		out.name, out.providerID = doc.NodeRegistration.Name, args["provider-id"]
		out.labels = parseLabels(args["node-labels"])
		if doc.NodeRegistration.Taints != nil {
			out.taints = *doc.NodeRegistration.Taints
		} else if out.controlPlane {
			out.taints = []taint{{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"}}
		}
	}
	if !found {
		return nil, fmt.Errorf("kubeadm: %s has no %sConfiguration", sys.config, strings.ToUpper(sys.kubeadm[:1])+sys.kubeadm[1:])
	}
	if _, _, err := net.SplitHostPort(out.endpoint); err != nil {
		return nil, fmt.Errorf("kubeadm: the control plane endpoint %q is not host:port: %w", out.endpoint, err)
	}
	if !out.controlPlane {
		return out, nil
	}
	var err error
	if out.clusterCA, err = authorityFrom(sys.files, "/etc/kubernetes/pki/ca"); err != nil {
		return nil, err
	}
	out.etcdCA, err = authorityFrom(sys.files, "/etc/kubernetes/pki/etcd/ca")
	return out, err
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
				return nil, errors.New("kubeadm: kubeletExtraArgs holds something that is not name and value")
			}
			out[fmt.Sprint(arg["name"])] = fmt.Sprint(arg["value"])
		}
	default:
		return nil, errors.New("kubeadm: kubeletExtraArgs is neither a list nor a map")
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

func authorityFrom(files map[string]string, path string) (*authority, error) {
	cert, err := certs.DecodeCertPEM([]byte(files[path+".crt"]))
	if err != nil || cert == nil {
		return nil, fmt.Errorf("kubeadm: %s.crt is missing or no certificate", path)
	}
	key, err := certs.DecodePrivateKeyPEM([]byte(files[path+".key"]))
	if err != nil || key == nil {
		return nil, fmt.Errorf("kubeadm: %s.key is missing or no key", path)
	}
	rsaKey, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("kubeadm: %s.key is a %T; the simulated guest signs with RSA keys only", path, key)
	}
	return &authority{cert: cert, key: rsaKey}, nil
}
