package preview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// liveKinds are what is read of a management cluster.
var liveKinds = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind(
		"Cluster",
	),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
	clusterv1.GroupVersion.WithKind("MachineSet"),
	clusterv1.GroupVersion.WithKind("Machine"),
	{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"},
	infrav1.GroupVersion.WithKind(
		"OLVMCluster",
	),
	infrav1.GroupVersion.WithKind("OLVMMachine"),
	infrav1.GroupVersion.WithKind("OLVMMachineTemplate"),
	infrav1.GroupVersion.WithKind("OLVMInventory"),
	infrav1.GroupVersion.WithKind("OLVMInventoryVM"),
}

// AddLive adds what a management cluster has beside the manifests, which go before it: of the namespace, where one is
// given, else of the namespaces that the manifests are in, or of all where there are none.
func (m *Manifests) AddLive(ctx context.Context, c client.Reader, namespace string) error {
	namespaces := []string{namespace}
	if namespace == "" {
		namespaces = m.namespaces()
	}

	for _, kind := range liveKinds {
		for _, namespace := range namespaces {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("failed to list objects of kind %s in the management cluster: %w", kind.Kind, err)
			}

			for i := range list.Items {
				if err := m.addLive(&list.Items[i]); err != nil {
					return err
				}
			}
		}
	}

	if err := m.addElsewhere(ctx, c, namespaces); err != nil {
		return err
	}

	return m.addAccess(ctx, c)
}

// addElsewhere adds what has addresses in namespaces that were not read, if the user may list it.
func (m *Manifests) addElsewhere(ctx context.Context, c client.Reader, read []string) (err error) {
	if slices.Contains(read, "") {
		return nil
	}

	if m.elsewhere.clusters, err = listBeyond[infrav1.OLVMCluster](ctx, c, "OLVMCluster", read); err != nil {
		return err
	}

	m.elsewhere.machines, err = listBeyond[infrav1.OLVMMachine](ctx, c, "OLVMMachine", read)

	return err
}

// listBeyond lists the objects of a kind that are in none of some namespaces. A user who may not list them sees none.
func listBeyond[T any](ctx context.Context, c client.Reader, kind string, namespaces []string) ([]T, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))

	if err := c.List(ctx, list); apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to list objects of kind %s in the management cluster: %w", kind, err)
	}

	var out []T

	for i := range list.Items {
		if slices.Contains(namespaces, list.Items[i].GetNamespace()) {
			continue
		}

		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &one); err != nil {
			return nil, fmt.Errorf("failed to read %s %s: %w", kind, client.ObjectKeyFromObject(&list.Items[i]), err)
		}

		out = append(out, one)
	}

	return out, nil
}

// namespaces of the manifests; one without a name, which means all, where there are none.
func (m *Manifests) namespaces() []string {
	var out []string
	note := func(namespace string) {
		if !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}

	for _, list := range [][]*unstructured.Unstructured{m.clusters, m.owners} {
		for _, object := range list {
			note(object.GetNamespace())
		}
	}

	for key := range m.olvmClusters {
		note(key.Namespace)
	}

	for key := range m.templates {
		note(key.Namespace)
	}

	if len(out) == 0 {
		return []string{""}
	}

	slices.Sort(out)

	return out
}

// liveOf is the object that the management cluster has in the place of one; nil for none.
func (m *Manifests) liveOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	return m.live[liveKey(object)]
}

func liveKey(object *unstructured.Unstructured) string {
	return object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
}

func (m *Manifests) addLive(object *unstructured.Unstructured) error {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	m.live[liveKey(object)] = object

	if object.GetKind() == "OLVMCluster" {
		live := &infrav1.OLVMCluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, live); err != nil {
			return fmt.Errorf("failed to read OLVMCluster %s: %w", key, err)
		}

		m.liveClusters[key] = live
	}

	known := func(list []*unstructured.Unstructured) bool {
		return slices.ContainsFunc(list, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == object.GetKind() && o.GetName() == key.Name && o.GetNamespace() == key.Namespace
		})
	}
	switch {
	case known(m.clusters), known(m.owners),
		m.inventories[key] != nil && object.GetKind() == "OLVMInventory",
		m.olvmClusters[key] != nil && object.GetKind() == "OLVMCluster",
		m.olvmMachines[key] != nil && object.GetKind() == "OLVMMachine":
		return nil // the manifest's
	case m.templates[key] != nil && object.GetKind() == "OLVMMachineTemplate":
		// Compared as they are written: defaults of the API server are no differences.
		into := map[types.NamespacedName]*infrav1.OLVMMachineTemplate{}
		if err := decode(object, key, into); err != nil {
			return err
		}

		if path := differs(asMap(m.templates[key].Spec), asMap(into[key].Spec), "spec"); path != "" {
			return fmt.Errorf(
				"OLVMMachineTemplate %s: %s is another one than in the management cluster, and templates cannot be "+
					"changed; give it a new name, and refer to that",
				key,
				path,
			)
		}

		return nil
	}

	return m.add(object)
}

// addAccess reads the Secrets and ConfigMaps with the credentials and CAs of the engines.
func (m *Manifests) addAccess(ctx context.Context, c client.Reader) error {
	engines := slices.Collect(maps.Values(m.olvmClusters))
	for _, pool := range m.inventories {
		engines = append(engines, connection.OfInventory(pool))
	}

	for _, cluster := range engines {
		identity, err := m.addIdentity(ctx, c, cluster)
		if err != nil {
			return err
		}

		// else OLVM_USERNAME may be set
		if key, ok := connection.CredentialsKey(cluster, identity); ok {
			if err := m.addSecret(ctx, c, key); err != nil {
				return err
			}
		}

		key, ok := connection.CAKey(cluster, identity)
		if !ok || m.configMaps[key] != nil {
			continue
		}

		if err := addReadable(ctx, c, key, m.configMaps, &corev1.ConfigMap{}); err != nil {
			return err
		}
	}

	return nil
}

// addIdentity reads the OLVMClusterIdentity of a cluster, and the namespace by whose labels it may choose it; nil where
// there is none. Those of manifests do not count beside them: who writes manifests must not decide who may use a Secret
// of the management cluster.
func (m *Manifests) addIdentity(
	ctx context.Context, c client.Reader, cluster *infrav1.OLVMCluster,
) (*infrav1.OLVMClusterIdentity, error) {
	key := types.NamespacedName{Name: connection.IdentityOf(cluster)}
	if key.Name == "" {
		return nil, nil
	}

	live := map[types.NamespacedName]*infrav1.OLVMClusterIdentity{}
	if err := addReadable(ctx, c, key, live, &infrav1.OLVMClusterIdentity{}); err != nil || live[key] == nil {
		return nil, err
	}

	m.identities[key] = live[key]
	key.Name = cluster.Namespace
	delete(m.spaces, key)

	return m.identityOf(cluster), addReadable(ctx, c, key, m.spaces, &corev1.Namespace{})
}

// identityOf is the OLVMClusterIdentity of a cluster; nil where it has none, or it is not known.
func (m *Manifests) identityOf(cluster *infrav1.OLVMCluster) *infrav1.OLVMClusterIdentity {
	return m.identities[types.NamespacedName{Name: connection.IdentityOf(cluster)}]
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
		if err := m.addSecret(ctx, c, stateKey(machine)); err != nil {
			return err
		}
	}

	return nil
}

// stateKey is the name of the Secret with the Terraform state of a machine.
func stateKey(machine *infrav1.OLVMMachine) types.NamespacedName {
	return types.NamespacedName{Namespace: machine.Namespace, Name: tfstate.SecretName(machine)}
}

// addSecret reads a Secret that the manifests do not have.
func (m *Manifests) addSecret(ctx context.Context, c client.Reader, key types.NamespacedName) error {
	if m.secrets[key] != nil {
		return nil
	}

	return addReadable(ctx, c, key, m.secrets, &corev1.Secret{})
}

// OwnerChange is what would become of the machines of a control plane or a MachineDeployment.
type OwnerChange struct {
	// From is Kind/name.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	From      string `json:"from"`
	// Machines that there are, and Replicas that are asked for.
	Machines int64 `json:"machines"`
	Replicas int64 `json:"replicas"`
	// Replaced are the machines that a rollout replaces; Reasons say why.
	Replaced []string `json:"replaced,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	// Deleted is how many machines a smaller number of replicas deletes.
	Deleted int64 `json:"deleted,omitempty"`
}

// String is a line for people.
func (c OwnerChange) String() string {
	var words []string
	if len(c.Replaced) > 0 {
		words = append(
			words,
			fmt.Sprintf("rolls out %d of %d machines (%s)", len(c.Replaced), c.Machines, strings.Join(c.Reasons, "; ")),
		)
	}

	if c.Machines != c.Replicas {
		to := english.Plural(int(c.Replicas), "machine", "")
		words = append(words, fmt.Sprintf("scales from %d to %s", c.Machines, to))
	}

	return fmt.Sprintf("%s/%s of cluster %s %s", c.Namespace, c.From, c.Cluster, strings.Join(words, ", and "))
}

// outdated says why machines of an owner would be replaced, by their names. Only machines that the management cluster
// has can be: Cluster API compares the same.
func (m *Manifests) outdated(owner *unstructured.Unstructured) map[string]string {
	live := m.liveOf(owner)
	if live == nil {
		return nil
	}

	_, template := machineRefs(owner)
	version := versionOf(owner)
	common := ""

	paths := [][]string{
		{"spec", "kubeadmConfigSpec"},
		{"spec", "template", "spec", "bootstrap", "configRef", "name"},
		{"spec", "template", "spec", "failureDomain"},
	}
	for _, path := range paths {
		asked, found, _ := unstructured.NestedFieldNoCopy(owner.Object, path...)
		there, _, _ := unstructured.NestedFieldNoCopy(live.Object, path...)
		if found && owner.GetAPIVersion() == live.GetAPIVersion() && common == "" {
			common = differs(asked, there, strings.Join(path, "."))
		}
	}

	out := map[string]string{}

	for _, machine := range m.machinesMadeBy(owner) {
		reason := ""
		if has := versionOf(machine); version != "" && has != "" && has != version {
			reason = fmt.Sprintf("version %s becomes %s", has, version)
		}

		_, ref := machineRefs(machine)
		infra := m.olvmMachines[types.NamespacedName{Namespace: machine.GetNamespace(), Name: ref.name}]
		if infra != nil && reason == "" {
			from := infra.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
			if from != "" && template.name != "" && from != template.name {
				reason = fmt.Sprintf("template %s becomes %s", from, template.name)
			}
		}

		if reason == "" && common != "" {
			reason = common + " changes"
		}

		if reason != "" {
			out[machine.GetName()] = reason
		}
	}

	return out
}

func versionOf(owner *unstructured.Unstructured) string {
	for _, path := range [][]string{{"spec", "template", "spec", "version"}, {"spec", "version"}} {
		if version, _, _ := unstructured.NestedString(owner.Object, path...); version != "" {
			return version
		}
	}

	return ""
}

// differs is the first path at which what is asked for is not what is there; empty where all of it is. What is there
// beyond it are defaults.
func differs(asked, there any, path string) string {
	switch asked := asked.(type) {
	case map[string]any:
		live, _ := there.(map[string]any)

		var keys []string
		for key := range asked {
			keys = append(keys, key)
		}

		slices.Sort(keys)

		for _, key := range keys {
			if found := differs(asked[key], live[key], path+"."+key); found != "" {
				return found
			}
		}

		return ""
	case []any:
		live, _ := there.([]any)
		if len(asked) != len(live) {
			return path
		}

		for i := range asked {
			if found := differs(asked[i], live[i], fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}

		return ""
	case nil:
		return ""
	}

	if fmt.Sprint(asked) != fmt.Sprint(there) && (there != nil || fmt.Sprint(asked) != "") {
		return path
	}

	return ""
}
