package preview

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// findState returns Terraform's state of a running machine. It is nil if neither the management cluster nor, without
// one, the manifests have it. A management cluster's state is withheld if the engine's login comes from the manifests.
// They may be a stranger's, and refreshing the state would show it to the stranger's engine.
func (m *Manifests) findState(machine Machine, credentials Credentials) (*tfstate.State, error) {
	if !machine.live || m.Connected && credentials.Username == "" && !m.hasLiveLogin(machine.engine()) {
		return nil, nil
	}

	from := m.Written
	if m.Connected {
		from = m.Running
	}

	secret := from.Secrets[planinput.StateKey(&infrav1.OLVMMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.infraName},
	})]
	if secret == nil {
		return nil, nil
	}

	return tfstate.DecodeSecret(secret)
}

// hasLiveLogin reports whether the login for an engine comes from the management cluster.
func (m *Manifests) hasLiveLogin(of connection.Engine) bool {
	identity := m.Running.Identities[types.NamespacedName{Name: connection.GetIdentityName(of)}]
	key, ok := connection.CredentialsKey(of, identity)

	return ok && m.Running.Secrets[key] != nil
}

// connectionObjects returns the Secret, CA, identity and namespace for connecting to an engine. If the Secret is the
// management cluster's, so are the identity that permits it, and the CA that proves the engine. Objects of the
// manifests apply only to Secrets of the manifests. An identity of the manifests counts only if no management cluster
// is read.
func (m *Manifests) connectionObjects(of connection.Engine) (connection.Objects, error) {
	from := m.Written
	if m.Connected && connection.GetIdentityName(of) != "" {
		from = m.Running
	}

	identity := from.Identities[types.NamespacedName{Name: connection.GetIdentityName(of)}]
	key, _ := connection.CredentialsKey(of, identity)

	if m.Running.Secrets[key] != nil {
		from = m.Running
		if err := m.checkVerified(of); err != nil {
			return connection.Objects{}, err
		}
	}

	out := connection.Objects{
		Secret:    from.Secrets[key],
		Identity:  identity,
		Namespace: from.Spaces[types.NamespacedName{Name: of.Key.Namespace}],
	}

	if caKey, ok := connection.CAKey(of, identity); ok {
		out.CA = cmp.Or(m.Running.ConfigMaps[caKey], from.ConfigMaps[caKey])
	}

	if tool := from.Encrypted[key]; tool != "" {
		return out, encryptedError(key, tool)
	}

	return out, nil
}

// encryptedError returns the error for a Secret encrypted by a tool. Sending its text to the engine would count as a
// wrong password, and a few of those lock the user.
func encryptedError(key types.NamespacedName, tool string) error {
	return blocker.New(infrav1.CredentialsNotFoundReason, "spec.olvmOvirtAPIServer.credentialsSecret",
		"Secret %s is encrypted by %s; decrypt it, compare with a management cluster that has it (--kubeconfig), or "+
			"set OLVM_USERNAME, OLVM_PASSWORD and OLVM_URL", key, tool)
}

// checkVerified refuses to send a Secret of the management cluster to an engine if the manifests skip verifying its
// certificate. It permits this if the management cluster's own OLVMCluster skips it for the same engine: nothing new is
// risked.
func (m *Manifests) checkVerified(of connection.Engine) error {
	server := of.Server
	if !server.InsecureSkipTLSVerify {
		return nil
	}

	live := m.LiveClusters[of.Key]
	if live != nil && live.Spec.OLVMOvirtAPIServer.InsecureSkipTLSVerify &&
		live.Spec.OLVMOvirtAPIServer.ServerURL == server.ServerURL {
		return nil
	}

	return unverifiedError("a Secret of the management cluster is")
}

func unverifiedError(what string) error {
	return blocker.New(infrav1.CredentialsNotAllowedReason, "spec.olvmOvirtAPIServer.insecureSkipTLSVerify",
		"%s sent only to an engine whose certificate is verified; remove it, and give the engine's CA", what)
}

// checkWritten refuses a login of the manifests that somebody has yet to fill in. A login of the management cluster is
// in use, however weak it is.
func (m *Manifests) checkWritten(of connection.Engine, secret *corev1.Secret) error {
	if secret == nil || m.Running.Secrets[client.ObjectKeyFromObject(secret)] == secret {
		return nil
	}

	username, password := connection.GetLogin(secret)
	if err := engine.CheckWrittenLogin(username, password); err != nil {
		return blocker.New(infrav1.CredentialsNotFoundReason, "spec.olvmOvirtAPIServer.credentialsSecret",
			"Secret %q of cluster %s: %v", secret.Name, of.Key, err)
	}

	return nil
}

// engineConfig returns the configuration of an engine. The caller's values come first, then the management cluster's,
// then the manifests'.
func (m *Manifests) engineConfig(of connection.Engine, credentials Credentials) (engine.Config, error) {
	objects, err := m.connectionObjects(of)
	given := credentials.Username != "" || credentials.Password != ""

	if err != nil && !given {
		return engine.Config{}, err
	}

	if given || len(credentials.CA) > 0 {
		if err := credentials.checkEngine(of); err != nil {
			return engine.Config{}, err
		}

		of, objects = credentials.overrideSettings(of, objects)
	}

	if !given {
		if err := m.checkWritten(of, objects.Secret); err != nil {
			return engine.Config{}, err
		}
	}

	secret, ca := objects.Secret, objects.CA
	if secret == nil && credentials.Places.Credentials != "" {
		return engine.Config{}, &blocker.Error{
			Reason:  infrav1.CredentialsNotFoundReason,
			Field:   "the credentials of the engine",
			Message: "they are not there; give " + credentials.Places.Credentials,
		}
	}

	config, err := connection.BuildConfig(of, objects)
	var field *blocker.Error
	if errors.As(err, &field) && secret == nil {
		field.Message += " in the manifests, or set OLVM_USERNAME and OLVM_PASSWORD"
	} else if errors.As(err, &field) && ca == nil && field.Reason == infrav1.CAConfigMapInvalidReason {
		where := "manifests"
		if secret.Namespace != "" && m.Connected {
			where = "management cluster"
		}

		field.Message += " in the " + where + ", or give --ca-file"
	}

	return config, err
}
