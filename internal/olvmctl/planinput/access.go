package planinput

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// Access has the objects that determine how to reach engines, and whether this is permitted.
type Access struct {
	Secrets    map[types.NamespacedName]*corev1.Secret
	ConfigMaps map[types.NamespacedName]*corev1.ConfigMap
	// Identities and Spaces are cluster-scoped, so their keys have only a name.
	Identities map[types.NamespacedName]*infrav1alpha1.OLVMClusterIdentity
	Spaces     map[types.NamespacedName]*corev1.Namespace
	// Encrypted maps encrypted Secrets in the manifests to the tool for decrypting them before an apply.
	Encrypted map[types.NamespacedName]string
}

// NewAccess returns an empty Access.
func NewAccess() Access {
	return Access{
		Secrets:    map[types.NamespacedName]*corev1.Secret{},
		ConfigMaps: map[types.NamespacedName]*corev1.ConfigMap{},
		Identities: map[types.NamespacedName]*infrav1alpha1.OLVMClusterIdentity{},
		Spaces:     map[types.NamespacedName]*corev1.Namespace{},
		Encrypted:  map[types.NamespacedName]string{},
	}
}

// addObject adds an object of the core API. It ignores unknown fields: a Secret may be encrypted, or may have fields of
// the tool that creates it. It skips an unreadable object, and a later check reports it as missing.
func (a *Access) addObject(object *unstructured.Unstructured, key types.NamespacedName) {
	switch object.GetKind() {
	case "Namespace":
		addCore(object, types.NamespacedName{Name: key.Name}, a.Spaces)
	case "ConfigMap":
		addCore(object, key, a.ConfigMaps)
	case "Secret":
		if _, found := object.Object["sops"]; found {
			a.Encrypted[key] = "sops"
		}

		secret := addCore(object, key, a.Secrets)
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

// addCore adds an object to a map, and returns the object. It returns nil if the object does not match its type.
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

// addAccess reads the Secrets and ConfigMaps with the credentials and the CAs of the engines.
func (m *Input) addAccess(ctx context.Context, c client.Reader) error {
	engines := make([]connection.Engine, 0, len(m.OLVMClusters)+len(m.Inventories))
	for _, cluster := range m.OLVMClusters {
		engines = append(engines, connection.ClusterEngine(cluster))
	}

	for _, pool := range m.Inventories {
		engines = append(engines, connection.InventoryEngine(pool))
	}

	for _, of := range engines {
		identity, err := m.addIdentity(ctx, c, of)
		if err != nil {
			return err
		}

		// Without a Secret, the user may have set OLVM_USERNAME.
		if key, ok := connection.CredentialsKey(of, identity); ok {
			if err := addReadable(ctx, c, key, m.Running.Secrets, &corev1.Secret{}); err != nil {
				return err
			}
		}

		if key, ok := connection.CAKey(of, identity); ok {
			if err := addReadable(ctx, c, key, m.Running.ConfigMaps, &corev1.ConfigMap{}); err != nil {
				return err
			}
		}
	}

	return nil
}

// addIdentity reads the OLVMClusterIdentity of a cluster. It also reads the namespace, because the identity selects
// namespaces by their labels. It returns nil if the identity does not exist, or if it does not permit the namespace.
// The Secret is then not read.
func (m *Input) addIdentity(
	ctx context.Context, c client.Reader, of connection.Engine,
) (*infrav1alpha1.OLVMClusterIdentity, error) {
	key := types.NamespacedName{Name: connection.GetIdentityName(of)}
	if key.Name == "" {
		return nil, nil
	}

	err := addReadable(ctx, c, key, m.Running.Identities, &infrav1alpha1.OLVMClusterIdentity{})
	identity := m.Running.Identities[key]

	if err != nil || identity == nil {
		return nil, err
	}

	space := types.NamespacedName{Name: of.Key.Namespace}
	if err := addReadable(ctx, c, space, m.Running.Spaces, &corev1.Namespace{}); err != nil {
		return nil, err
	}

	if !connection.CanUse(identity, of.Key.Namespace, m.Running.Spaces[space]) {
		return nil, nil
	}

	return identity, nil
}

// addReadable reads an object, and adds it to a map. It skips an object if it is missing, or if the user may not read
// it.
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

// AddStates reads the Terraform states of existing machines, because their plans start from these states. It reads only
// these Secrets, in addition to the Secrets with credentials.
func (m *Input) AddStates(ctx context.Context, c client.Reader) error {
	for _, machine := range m.OLVMMachines {
		if err := addReadable(ctx, c, StateKey(machine), m.Running.Secrets, &corev1.Secret{}); err != nil {
			return err
		}
	}

	return nil
}

// checkStates refuses manifests with another Terraform state of a machine than the management cluster has. The manager
// would destroy what such a state names.
func (m *Input) checkStates() error {
	var errs []error

	for _, key := range slices.SortedFunc(maps.Keys(m.OLVMMachines), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	}) {
		secret := StateKey(m.OLVMMachines[key])
		written, running := m.Written.Secrets[secret], m.Running.Secrets[secret]

		if written != nil && (running == nil || !maps.EqualFunc(written.Data, running.Data, bytes.Equal)) {
			errs = append(errs, fmt.Errorf("%s: it has the Terraform state of OLVMMachine %s, which the "+
				"manager alone writes; remove it from the manifests", "Secret "+secret.String(), key))
		}
	}

	return errors.Join(errs...)
}

// DropUnreadableStates removes the states of machines whose names Terraform's kubernetes backend does not support. It
// returns the names of these machines. Their existing objects are imported instead.
func (m *Input) DropUnreadableStates() []string {
	var out []string

	for key, machine := range m.OLVMMachines {
		if _, ok := tfstate.BackendSuffix(machine.Name); !ok && m.Running.Secrets[StateKey(machine)] != nil {
			delete(m.Running.Secrets, StateKey(machine))
			out = append(out, key.String())
		}
	}

	slices.Sort(out)

	return out
}

// UnpausedClusters returns the Clusters whose controllers still work with the states of machines.
func (m *Input) UnpausedClusters() []string {
	var out []string

	for _, cluster := range m.Clusters {
		if paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused"); !paused {
			out = append(out, cluster.GetNamespace()+"/"+cluster.GetName())
		}
	}

	slices.Sort(out)

	return out
}

// StateKey returns the key of the Secret with the Terraform state of a machine.
func StateKey(machine *infrav1.OLVMMachine) types.NamespacedName {
	return types.NamespacedName{Namespace: machine.Namespace, Name: tfstate.SecretName(machine)}
}
