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

// findState returns the Terraform state of a running machine. It reads the state from the management cluster or,
// without one, from the manifests. It returns nil if there is no state. It also returns nil if the login for the engine
// comes from the manifests, and not from the management cluster or the user. Such manifests may come from a stranger,
// and a refresh would send the state to the stranger's engine.
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

// connectionObjects returns the Secret, CA, identity and namespace for the connection to an engine. If the Secret comes
// from the management cluster, the identity permitting its use and the CA of the engine come from there, too. Objects
// in the manifests apply only to Secrets in the manifests. An identity in the manifests counts only if no management
// cluster is read.
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

// encryptedError returns the error for a Secret encrypted by the given tool. The engine would count the encrypted text
// as a wrong password, and locks the user after a few failures.
func encryptedError(key types.NamespacedName, tool string) error {
	return blocker.New(infrav1.CredentialsNotFoundReason, "spec.olvmOvirtAPIServer.credentialsSecret",
		"Secret %s is encrypted by %s; decrypt it, compare with a management cluster that has it (--kubeconfig), or "+
			"set OLVM_USERNAME, OLVM_PASSWORD and OLVM_URL", key, tool)
}

// checkVerified rejects a Secret of the management cluster if the manifests disable certificate verification for the
// engine. It accepts the Secret if the management cluster's own OLVMCluster already disables verification for the same
// engine, because this adds no risk.
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
		"%s sent only to an engine whose certificate is verified; remove it, and specify the engine's CA", what)
}

// checkWritten rejects placeholder credentials in the manifests. It accepts weak credentials in the management cluster,
// because they are in use.
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

// engineConfig returns the configuration of an engine. Values of the caller take precedence over values of the
// management cluster, and these over values of the manifests.
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
			Message: "missing; set " + credentials.Places.Credentials,
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

		field.Message += " in the " + where + ", or use --ca-file"
	}

	return config, err
}
