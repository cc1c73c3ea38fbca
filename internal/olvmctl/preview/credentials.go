package preview

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

// Credentials override the credentials in the manifests. Empty fields override nothing.
type Credentials struct {
	Username, Password string
	// ServerURLs are the engines that may receive the user name and the password.
	ServerURLs []string
	// Anywhere allows any engine in the manifests if ServerURLs is empty. Only the author of the manifests may set it.
	Anywhere bool
	// CA is the engine's CA in PEM.
	CA []byte
	// Places tell the user where to correct each of these values.
	Places blocker.Places
}

// checkEngine refuses to send the credentials to an engine unless their owner has allowed the engine. Manifests may
// come from a stranger. They choose the engine, and whether to verify its certificate.
func (c Credentials) checkEngine(of connection.Engine) error {
	server := of.Server
	if c.Username == "" && c.Password == "" || c.Anywhere && len(c.ServerURLs) == 0 {
		return nil
	}

	if err := c.CheckServer(server.ServerURL); err != nil || !server.InsecureSkipTLSVerify {
		return err
	}

	return unverifiedError(c.describeSource() + " are")
}

// describeSource describes the source of the credentials for error messages.
func (c Credentials) describeSource() string {
	return cmp.Or(c.Places.Credentials, "OLVM_USERNAME and OLVM_PASSWORD")
}

// CheckServer rejects any engine outside ServerURLs.
func (c Credentials) CheckServer(url string) error {
	field := cmp.Or(c.Places.URL, "spec.olvmOvirtAPIServer.serverURL")

	switch {
	case c.Anywhere && len(c.ServerURLs) == 0:
		return nil
	case len(c.ServerURLs) == 0:
		return blocker.New(infrav1.EngineNotAllowedReason, field, "%s may not be sent to %s, because no engine is "+
			"allowed; set OLVM_URL to its URL, or list the URL in allowedServerURLs of the Secret of --credentials",
			c.describeSource(), plaintext.OneLine(url))
	case !connection.ListsEngine(c.ServerURLs, url):
		return blocker.New(infrav1.EngineNotAllowedReason, field, "%s may be sent only to %s, not to %s; correct "+
			"the URL, or OLVM_URL, or allowedServerURLs of the Secret of --credentials", c.describeSource(),
			strings.Join(c.ServerURLs, ", "), plaintext.OneLine(url))
	}

	return nil
}

// overrideSettings replaces the cluster's connection settings by the user's. A user with credentials needs no identity.
func (c Credentials) overrideSettings(
	of connection.Engine, objects connection.Objects,
) (connection.Engine, connection.Objects) {
	server := &of.Server

	if c.Username != "" || c.Password != "" {
		objects.Secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "environment"},
			Data: map[string][]byte{"username": []byte(c.Username), "password": []byte(c.Password)}}

		if objects.Identity != nil && objects.CA != nil {
			server.CAConfigMap = &infrav1.NamespacedName{Name: objects.CA.Name}
			objects.CA = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: objects.CA.Name}, Data: objects.CA.Data}
		}

		server.IdentityRef, objects.Identity = nil, nil
	}

	if len(c.CA) > 0 {
		objects.CA = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "--ca-file"},
			Data:       map[string]string{"ca.crt": string(c.CA)},
		}
		if objects.Identity != nil {
			identity := objects.Identity.DeepCopy()
			identity.Spec.CAConfigMap = &infrav1alpha1.ObjectOfNamespace{Name: "--ca-file"}
			objects.Identity = identity
		} else {
			server.CAConfigMap = &infrav1.NamespacedName{Name: "--ca-file"}
		}
	}

	return of, objects
}
