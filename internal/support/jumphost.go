package support

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// These constants are the default names of users.
const (
	defaultJumpUser = "jump"
	defaultNodeUser = "core"
)

// checkKeys checks each authorized key. The error contains the index of the invalid key.
func (s Service) checkKeys() error {
	for i, text := range s.JumpHost.AuthorizedKeys {
		_, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))

		switch field := fmt.Sprintf("authorizedKeys[%d]", i); {
		case err != nil:
			return s.NewInvalidError(field, "it is not a line of authorized_keys, such as ssh-ed25519 AAAA... name")
		case len(strings.TrimSpace(string(rest))) > 0 || strings.ContainsAny(strings.TrimSpace(text), "\r\n"):
			return s.NewInvalidError(field, "it has several lines; use one line per key")
		case len(options) > 0:
			return s.NewInvalidError(field, "it has the options %s; use the key without options",
				strings.Join(options, ","))
		}
	}

	return nil
}

// CollectSecrets returns the keys of the Secrets to which an OLVMSupportServices object refers.
func CollectSecrets(of *infrav1alpha1.OLVMSupportServices) []client.ObjectKey {
	var names []string
	if host := of.Spec.JumpHost; host != nil {
		names = append(names, host.NodeKeysSecretName, host.KubeconfigSecretName, host.EngineCredentialsSecretName)
	}

	if oidc := of.Spec.OIDC; oidc != nil {
		names = append(names, oidc.ConnectorsSecretName, oidc.CASecretName)
	}

	var out []client.ObjectKey

	for _, name := range names {
		if name != "" {
			out = append(out, client.ObjectKey{Namespace: of.Namespace, Name: name})
		}
	}

	return out
}

// keyName matches the allowed names of private keys in a Secret.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][-._A-Za-z0-9]*$`)

// CheckNodeKeys checks private keys, given by their names.
func CheckNodeKeys(keys map[string][]byte) error {
	for name, key := range keys {
		_, err := ssh.ParseRawPrivateKey(key)
		var encrypted *ssh.PassphraseMissingError

		switch {
		case !keyName.MatchString(name):
			return fmt.Errorf("%q is not a valid key name; use letters, digits, dots and dashes", name)
		case errors.As(err, &encrypted):
			return fmt.Errorf("the key %s has a passphrase, which cannot be entered on the jump host; use a key "+
				"without a passphrase", name)
		case err != nil:
			return fmt.Errorf("%s is not a private key: %w", name, err)
		}
	}

	return nil
}

// JumpHost is the configuration of a jump host's VM.
type JumpHost struct {
	// User logs in to the jump host with the AuthorizedKeys. NodeUser is the user on the nodes.
	User, NodeUser string
	AuthorizedKeys []string
	// Nodes are the nodes of the cluster, sorted by name.
	Nodes []Node
	// NodeKeys are private keys by their names. Kubeconfig is the kubeconfig of the cluster. Both are empty as long as
	// they do not exist.
	NodeKeys   map[string][]byte
	Kubeconfig []byte
}

// NewJumpHost returns the configuration of the service's VM.
func (s Service) NewJumpHost(cluster infrav1.OLVMClusterSpec, nodes []Node) JumpHost {
	return JumpHost{
		User:           cmp.Or(s.JumpHost.User, defaultJumpUser),
		NodeUser:       cmp.Or(s.JumpHost.NodeUser, getSSHUser(cluster), defaultNodeUser),
		AuthorizedKeys: s.JumpHost.AuthorizedKeys,
		Nodes:          sortNodes(nodes),
	}
}

// getSSHUser returns the user on a cluster's nodes, or "" if none is set.
func getSSHUser(cluster infrav1.OLVMClusterSpec) string {
	if cluster.UserData == nil || cluster.UserData.SSH == nil {
		return ""
	}

	return cluster.UserData.SSH.User
}

// KeyNames returns the sorted names of the private keys. The template calls this method.
func (j JumpHost) KeyNames() []string {
	var out []string
	for name := range j.NodeKeys {
		out = append(out, name)
	}

	slices.Sort(out)

	return out
}

// BuildFiles returns the configuration files of the VM.
func (j JumpHost) BuildFiles() []bootstrap.File {
	var hosts strings.Builder
	for _, node := range j.Nodes {
		fmt.Fprintf(&hosts, "%s %s # capolvm\n", node.Address, node.Name)
	}

	keys := ""
	for _, key := range j.AuthorizedKeys {
		keys += strings.TrimSpace(key) + "\n"
	}

	out := []bootstrap.File{
		{Path: applyFile, Content: render("jumphost.sh", nil), Mode: 0o700},
		{Path: "user", Content: j.User + "\n", Mode: 0o644},
		{Path: "authorized_keys", Content: keys, Mode: 0o644},
		{Path: "sshd.conf", Content: render("sshd.conf", j), Mode: 0o644},
		{Path: "ssh.conf", Content: render("ssh.conf", j), Mode: 0o644},
		{Path: "hosts", Content: hosts.String(), Mode: 0o644},
		{Path: "host", Content: render("host.sh", nil), Mode: 0o755},
		{Path: "kubeconfig", Content: string(j.Kubeconfig), Mode: 0o600},
	}
	for _, name := range j.KeyNames() {
		key := strings.TrimSpace(string(j.NodeKeys[name])) + "\n"
		out = append(out, bootstrap.File{Path: "key-" + name, Content: key, Mode: 0o600})
	}

	return out
}
