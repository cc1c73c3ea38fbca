package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// access is what decides how engines are reached, and who may reach them.
type access struct {
	secrets    map[types.NamespacedName]*corev1.Secret
	configMaps map[types.NamespacedName]*corev1.ConfigMap
	// identities and namespaces belong to no namespace: their keys have a name alone.
	identities map[types.NamespacedName]*infrav1alpha1.OLVMClusterIdentity
	spaces     map[types.NamespacedName]*corev1.Namespace
	// encrypted are the Secrets of manifests that a tool has to decrypt before they are applied, with that tool.
	encrypted map[types.NamespacedName]string
}

func newAccess() access {
	return access{
		secrets:    map[types.NamespacedName]*corev1.Secret{},
		configMaps: map[types.NamespacedName]*corev1.ConfigMap{},
		identities: map[types.NamespacedName]*infrav1alpha1.OLVMClusterIdentity{},
		spaces:     map[types.NamespacedName]*corev1.Namespace{},
		encrypted:  map[types.NamespacedName]string{},
	}
}

// add reads an object of the core API, not strictly: a Secret may be encrypted, or carry fields of the tool that made
// it. One that cannot be read is passed over; the check of what needs it reports that it is missing.
func (a *access) add(object *unstructured.Unstructured, key types.NamespacedName) {
	switch object.GetKind() {
	case "Namespace":
		addCore(object, types.NamespacedName{Name: key.Name}, a.spaces)
	case "ConfigMap":
		addCore(object, key, a.configMaps)
	case "Secret":
		if _, found := object.Object["sops"]; found {
			a.encrypted[key] = "sops"
		}

		secret := addCore(object, key, a.secrets)
		if secret == nil {
			return
		}

		for name, text := range secret.StringData {
			if secret.Data == nil {
				secret.Data = map[string][]byte{}
			}

			secret.Data[name] = []byte(text)
		}
	}
}

// addCore adds an object, and returns it; nil if it is not of its type.
func addCore[T any](
	object *unstructured.Unstructured, key types.NamespacedName, into map[types.NamespacedName]*T,
) *T {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil
	}

	into[key] = typed

	return typed
}

// addAccess reads the Secrets and ConfigMaps with the credentials and CAs of the engines.
func (m *Manifests) addAccess(ctx context.Context, c client.Reader) error {
	engines := make([]connection.Engine, 0, len(m.olvmClusters)+len(m.inventories))
	for _, cluster := range m.olvmClusters {
		engines = append(engines, connection.ClusterEngine(cluster))
	}

	for _, pool := range m.inventories {
		engines = append(engines, connection.InventoryEngine(pool))
	}

	for _, of := range engines {
		identity, err := m.addIdentity(ctx, c, of)
		if err != nil {
			return err
		}

		// else OLVM_USERNAME may be set
		if key, ok := connection.CredentialsKey(of, identity); ok {
			if err := addReadable(ctx, c, key, m.running.secrets, &corev1.Secret{}); err != nil {
				return err
			}
		}

		if key, ok := connection.CAKey(of, identity); ok {
			if err := addReadable(ctx, c, key, m.running.configMaps, &corev1.ConfigMap{}); err != nil {
				return err
			}
		}
	}

	return nil
}

// addIdentity reads the OLVMClusterIdentity of a cluster, and the namespace by whose labels it may choose it; nil if
// there is none. One that does not permit the namespace is as none: the Secret that it names is not read.
func (m *Manifests) addIdentity(
	ctx context.Context, c client.Reader, of connection.Engine,
) (*infrav1alpha1.OLVMClusterIdentity, error) {
	key := types.NamespacedName{Name: connection.IdentityOf(of)}
	if key.Name == "" {
		return nil, nil
	}

	err := addReadable(ctx, c, key, m.running.identities, &infrav1alpha1.OLVMClusterIdentity{})
	identity := m.running.identities[key]

	if err != nil || identity == nil {
		return nil, err
	}

	space := types.NamespacedName{Name: of.Key.Namespace}
	if err := addReadable(ctx, c, space, m.running.spaces, &corev1.Namespace{}); err != nil {
		return nil, err
	}

	if !connection.MayUse(identity, of.Key.Namespace, m.running.spaces[space]) {
		return nil, nil
	}

	return identity, nil
}

// addReadable reads an object into a map. One that is missing, or that the user may not read, is none.
func addReadable[T client.Object](
	ctx context.Context, c client.Reader, key types.NamespacedName, into map[types.NamespacedName]T, object T,
) error {
	if err := c.Get(ctx, key, object); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to get %T %s: %w", object, key, err)
	}

	into[key] = object

	return nil
}

// AddStates reads the Terraform states of the machines that run, for plans that begin with them. No Secret is read
// beside these and those with credentials.
func (m *Manifests) AddStates(ctx context.Context, c client.Reader) error {
	for _, machine := range m.olvmMachines {
		if err := addReadable(ctx, c, stateKey(machine), m.running.secrets, &corev1.Secret{}); err != nil {
			return err
		}
	}

	return nil
}

// DropUnreadableStates drops the states of machines whose names Terraform's kubernetes backend does not take, and names
// these machines: what exists is imported then.
func (m *Manifests) DropUnreadableStates() []string {
	var out []string

	for key, machine := range m.olvmMachines {
		if _, ok := tfstate.BackendSuffix(machine.Name); !ok && m.running.secrets[stateKey(machine)] != nil {
			delete(m.running.secrets, stateKey(machine))
			out = append(out, key.String())
		}
	}

	slices.Sort(out)

	return out
}

// Unpaused names the Clusters whose controllers work on the states of their machines.
func (m *Manifests) Unpaused() []string {
	var out []string

	for _, cluster := range m.clusters {
		if paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused"); !paused {
			out = append(out, cluster.GetNamespace()+"/"+cluster.GetName())
		}
	}

	slices.Sort(out)

	return out
}

// stateKey is the name of the Secret with the Terraform state of a machine.
func stateKey(machine *infrav1.OLVMMachine) types.NamespacedName {
	return types.NamespacedName{Namespace: machine.Namespace, Name: tfstate.SecretName(machine)}
}

// state is what Terraform knows of a machine that runs; nil if neither the management cluster nor, without one, the
// manifests have it. A state of the management cluster is not refreshed at an engine whose login is that of manifests:
// they may be a stranger's, whose engine would see it.
func (m *Manifests) state(machine Machine, credentials Credentials) (*tfstate.State, error) {
	if !machine.live || m.connected && credentials.Username == "" && !m.hasLiveLogin(machine.engine()) {
		return nil, nil
	}

	from := m.written
	if m.connected {
		from = m.running
	}

	secret := from.secrets[stateKey(&infrav1.OLVMMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.infraName},
	})]
	if secret == nil {
		return nil, nil
	}

	return tfstate.Decode(secret)
}

// hasLiveLogin reports whether the login for an engine is that of the management cluster.
func (m *Manifests) hasLiveLogin(of connection.Engine) bool {
	identity := m.running.identities[types.NamespacedName{Name: connection.IdentityOf(of)}]
	key, ok := connection.CredentialsKey(of, identity)

	return ok && m.running.secrets[key] != nil
}

// objects are what decides the connection to the engine of a cluster. Everything that goes with a Secret of the
// management cluster is of the management cluster, too: the identity that permits it, and the CA that proves the
// engine. What the manifests have counts for their own Secrets alone. An identity of theirs counts only if no
// management cluster is read.
func (m *Manifests) objects(of connection.Engine) (connection.Objects, error) {
	from := m.written
	if m.connected && connection.IdentityOf(of) != "" {
		from = m.running
	}

	identity := from.identities[types.NamespacedName{Name: connection.IdentityOf(of)}]
	key, _ := connection.CredentialsKey(of, identity)

	if m.running.secrets[key] != nil {
		from = m.running
		if err := m.checkVerified(of); err != nil {
			return connection.Objects{}, err
		}
	}

	out := connection.Objects{
		Secret:    from.secrets[key],
		Identity:  identity,
		Namespace: from.spaces[types.NamespacedName{Name: of.Key.Namespace}],
	}

	if caKey, ok := connection.CAKey(of, identity); ok {
		out.CA = cmp.Or(m.running.configMaps[caKey], from.configMaps[caKey])
	}

	if tool := from.encrypted[key]; tool != "" {
		return out, encryptedError(key, tool)
	}

	return out, nil
}

// encryptedError is that of a Secret that only a tool can read. Its text would count as a wrong password at the engine,
// which locks the user after a few of them.
func encryptedError(key types.NamespacedName, tool string) error {
	return blocker.New(infrav1.CredentialsNotFoundReason, "spec.olvmOvirtAPIServer.credentialsSecret",
		"Secret %s is encrypted by %s; decrypt it, compare with a management cluster that has it (--kubeconfig), or "+
			"set OLVM_USERNAME, OLVM_PASSWORD and OLVM_URL", key, tool)
}

// checkVerified refuses to send a Secret of the management cluster to an engine whose certificate the manifests leave
// unverified. If the management cluster's own OLVMCluster does so for the same engine, nothing new is risked.
func (m *Manifests) checkVerified(of connection.Engine) error {
	server := of.Server
	if !server.InsecureSkipTLSVerify {
		return nil
	}

	live := m.liveClusters[of.Key]
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

// checkWritten refuses a login of the manifests that somebody has still to fill in. One of the management cluster is in
// use, however weak it is.
func (m *Manifests) checkWritten(of connection.Engine, secret *corev1.Secret) error {
	if secret == nil || m.running.secrets[client.ObjectKeyFromObject(secret)] == secret {
		return nil
	}

	username, password := connection.Login(secret)
	if err := engine.CheckWrittenLogin(username, password); err != nil {
		return blocker.New(infrav1.CredentialsNotFoundReason, "spec.olvmOvirtAPIServer.credentialsSecret",
			"Secret %q of cluster %s: %v", secret.Name, of.Key, err)
	}

	return nil
}

// engineConfig takes what the caller gave, else what the management cluster has, else what the manifests have.
func (m *Manifests) engineConfig(of connection.Engine, credentials Credentials) (engine.Config, error) {
	objects, err := m.objects(of)
	given := credentials.Username != "" || credentials.Password != ""

	if err != nil && !given {
		return engine.Config{}, err
	}

	if given || len(credentials.CA) > 0 {
		if err := credentials.check(of); err != nil {
			return engine.Config{}, err
		}

		of, objects = credentials.over(of, objects)
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

	config, err := connection.Config(of, objects)
	var field *blocker.Error
	if errors.As(err, &field) && secret == nil {
		field.Message += " in the manifests, or set OLVM_USERNAME and OLVM_PASSWORD"
	} else if errors.As(err, &field) && ca == nil && field.Reason == infrav1.CAConfigMapInvalidReason {
		where := "manifests"
		if secret.Namespace != "" && m.connected {
			where = "management cluster"
		}

		field.Message += " in the " + where + ", or give --ca-file"
	}

	return config, err
}
