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

// Credentials that stand in for those of the manifests; empty fields do not.
type Credentials struct {
	Username, Password string
	// ServerURLs are the engines to which the user name and the password may be sent.
	ServerURLs []string
	// Anywhere has them sent to the engine that a file names, if ServerURLs is empty: for who wrote that file.
	Anywhere bool
	// CA in PEM.
	CA []byte
	// Places are where the user corrects all of it.
	Places blocker.Places
}

// check refuses to send the credentials to an engine that whoever gave them has not named. Manifests may be those of a
// stranger: they choose the engine, and whether its certificate is verified.
func (c Credentials) check(of connection.Engine) error {
	server := of.Server
	if c.Username == "" && c.Password == "" || c.Anywhere && len(c.ServerURLs) == 0 {
		return nil
	}

	if err := c.CheckServer(server.ServerURL); err != nil || !server.InsecureSkipTLSVerify {
		return err
	}

	return unverifiedError(c.from() + " are")
}

// from is where the credentials come from.
func (c Credentials) from() string {
	return cmp.Or(c.Places.Credentials, "OLVM_USERNAME and OLVM_PASSWORD")
}

// CheckServer refuses an engine that is none of ServerURLs.
func (c Credentials) CheckServer(url string) error {
	field := cmp.Or(c.Places.URL, "spec.olvmOvirtAPIServer.serverURL")

	switch {
	case c.Anywhere && len(c.ServerURLs) == 0:
		return nil
	case len(c.ServerURLs) == 0:
		return blocker.New(infrav1.EngineNotAllowedReason, field, "%s may not be sent to %s: it is not said which "+
			"engine they are for; set OLVM_URL to its URL, or list it in allowedServerURLs of the Secret of "+
			"--credentials",
			c.from(), plaintext.OneLine(url))
	case !connection.ListsEngine(c.ServerURLs, url):
		return blocker.New(infrav1.EngineNotAllowedReason, field, "%s may be sent to %s, and not to %s; correct the "+
			"URL, or OLVM_URL, or allowedServerURLs of the Secret of --credentials", c.from(),
			strings.Join(c.ServerURLs, ", "), plaintext.OneLine(url))
	}

	return nil
}

// over puts what a user gives in the place of what a cluster names. A user with credentials of their own needs no
// identity.
func (c Credentials) over(
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
