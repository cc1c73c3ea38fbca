package planinput

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// LiveKinds are the kinds read from a management cluster.
var LiveKinds = []schema.GroupVersionKind{
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
	infrav1alpha1.GroupVersion.WithKind("OLVMInventory"),
	infrav1alpha1.GroupVersion.WithKind("OLVMInventoryVM"),
	infrav1alpha1.GroupVersion.WithKind(support.Kind),
}

// AddManagementCluster adds the objects of a management cluster, and its API server's check of the manifests. Unless
// the plan is offline, it also adds the Terraform states of the machines. An empty namespace stands for the namespaces
// of the manifests, or for all namespaces if there are no manifests.
func (m *Input) AddManagementCluster(ctx context.Context, live client.Client, namespace string, offline bool) error {
	if err := m.AddLive(ctx, live, namespace); err != nil {
		return err
	}

	if err := m.CheckServed(ctx, live); err != nil {
		return err
	}

	if !offline {
		if err := m.AddStates(ctx, live); err != nil {
			return err
		}
	}

	return m.checkStates()
}

// AddLive adds the objects of a management cluster. Objects in the manifests take precedence. It reads the given
// namespace, or else the namespaces of the manifests, or else all namespaces.
func (m *Input) AddLive(ctx context.Context, c client.Reader, namespace string) error {
	m.Connected = true
	namespaces := []string{namespace}

	if namespace == "" {
		namespaces = m.manifestNamespaces()
	}

	if m.ofClusterFile {
		if err := m.followGenerations(ctx, c, namespaces); err != nil {
			return err
		}
	}

	if err := m.addNamespaces(ctx, c, namespaces); err != nil {
		return err
	}

	if err := m.convertOwners(ctx, c); err != nil {
		return err
	}

	if err := m.checkControlled(ctx, c); err != nil {
		return err
	}

	if err := m.findPruned(ctx, c, namespaces); err != nil {
		return err
	}

	if err := m.addElsewhere(ctx, c, append(slices.Clone(namespaces), m.pruning.alone...)); err != nil {
		return err
	}

	if err := m.addAccess(ctx, c); err != nil {
		return err
	}

	m.findPrunedAccess()

	if err := m.addControlPlanes(ctx, c); err != nil {
		return err
	}

	if err := m.addHealthChecks(ctx, c); err != nil {
		return err
	}

	if err := m.addRemediations(ctx, c); err != nil {
		return err
	}

	return m.addClasses(ctx, c)
}

// addNamespaces reads the objects in some namespaces.
func (m *Input) addNamespaces(ctx context.Context, c client.Reader, namespaces []string) error {
	for _, kind := range LiveKinds {
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

	return nil
}

// addElsewhere adds the holders of addresses in the other namespaces, if the user may list them.
func (m *Input) addElsewhere(ctx context.Context, c client.Reader, read []string) (err error) {
	if slices.Contains(read, "") {
		return nil
	}

	kind := infrav1.GroupVersion.WithKind
	if m.Elsewhere.Clusters, err = listBeyond[infrav1.OLVMCluster](ctx, c, kind("OLVMCluster"), read); err != nil {
		return err
	}

	if m.Elsewhere.Machines, err = listBeyond[infrav1.OLVMMachine](ctx, c, kind("OLVMMachine"), read); err != nil {
		return err
	}

	m.Elsewhere.Services, err = listBeyond[infrav1alpha1.OLVMSupportServices](ctx, c,
		infrav1alpha1.GroupVersion.WithKind(support.Kind), read)

	return err
}

// listBeyond lists the objects of a kind outside the given namespaces. It returns none if the user may not list them.
func listBeyond[T any](
	ctx context.Context, c client.Reader, kind schema.GroupVersionKind, namespaces []string,
) ([]T, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)

	if err := c.List(ctx, list); apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to list objects of kind %s in the management cluster: %w", kind.Kind, err)
	}

	var out []T

	for i := range list.Items {
		if slices.Contains(namespaces, list.Items[i].GetNamespace()) {
			continue
		}

		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &one); err != nil {
			return nil, fmt.Errorf("failed to read %s %s: %w", kind.Kind,
				client.ObjectKeyFromObject(&list.Items[i]), err)
		}

		out = append(out, one)
	}

	return out, nil
}

// manifestNamespaces returns the namespaces of the manifests. Without manifests, it returns "", which means all
// namespaces.
func (m *Input) manifestNamespaces() []string {
	var out []string
	note := func(namespace string) {
		if !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}

	for _, list := range [][]*unstructured.Unstructured{m.Clusters, m.Owners} {
		for _, object := range list {
			note(object.GetNamespace())
		}
	}

	for _, object := range m.passedOver {
		kind := object.GroupVersionKind()
		if kind.Group == controlPlaneGroup || isHealthCheck(kind) {
			note(object.GetNamespace())
		}
	}

	for key := range m.OLVMClusters {
		note(key.Namespace)
	}

	for key := range m.Templates {
		note(key.Namespace)
	}

	for key := range m.Services {
		note(key.Namespace)
	}

	if len(out) == 0 {
		return []string{""}
	}

	slices.Sort(out)

	return out
}

// LiveOf returns an object as stored in the management cluster, or nil if it does not exist there.
func (m *Input) LiveOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	return m.live[liveKey(object)]
}

// LiveAsWritten is like LiveOf, but in the apiVersion of the given object. It returns nil if the API server does not
// have the object in this version.
func (m *Input) LiveAsWritten(object *unstructured.Unstructured) *unstructured.Unstructured {
	return m.LiveIn(object, object.GetAPIVersion())
}

// LiveIn is LiveOf in an apiVersion; nil if it was not read in that.
func (m *Input) LiveIn(object *unstructured.Unstructured, apiVersion string) *unstructured.Unstructured {
	live := m.LiveOf(object)
	if live == nil || live.GetAPIVersion() == apiVersion {
		return live
	}

	return m.converted[liveKey(object)+"/"+apiVersion]
}

// convertOwners reads the owners of machines once more in other apiVersions: that of their manifest, and those of the
// manifests applied before. Fields have other names and forms there.
func (m *Input) convertOwners(ctx context.Context, c client.Reader) error {
	for _, owner := range m.Owners {
		live := m.LiveOf(owner)
		if live == nil {
			continue
		}

		for _, version := range versionsOf(owner, live) {
			asked := live.DeepCopy()
			asked.SetAPIVersion(version)

			converted, _, err := readPart(ctx, c, asked)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}

			m.converted[liveKey(owner)+"/"+version] = converted
		}
	}

	return nil
}

// versionsOf returns the apiVersions of an object's manifests other than that of the live object: the manifest's, and
// those of manifests applied before.
func versionsOf(written, live *unstructured.Unstructured) []string {
	out := []string{written.GetAPIVersion()}

	for _, by := range live.GetManagedFields() {
		if by.Operation == metav1.ManagedFieldsOperationApply && by.Subresource == "" {
			out = append(out, by.APIVersion)
		}
	}

	slices.Sort(out)

	return slices.DeleteFunc(slices.Compact(out), func(version string) bool {
		asked, err := schema.ParseGroupVersion(version)

		return err != nil || asked.Group != live.GroupVersionKind().Group || version == live.GetAPIVersion()
	})
}

func liveKey(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind().GroupKind()

	return kind.String() + "/" + object.GetNamespace() + "/" + object.GetName()
}

func (m *Input) addLive(object *unstructured.Unstructured) error {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	m.live[liveKey(object)] = object

	if err := m.checkRecorded(object); err != nil {
		return err
	}

	if err := m.addRecord(object, key); err != nil {
		return err
	}

	known := func(list []*unstructured.Unstructured) bool {
		return slices.ContainsFunc(list, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == object.GetKind() && o.GetName() == key.Name && o.GetNamespace() == key.Namespace
		})
	}

	m.keepRecord(object, key)

	switch {
	case known(m.Clusters), known(m.Owners),
		m.Services[key] != nil && object.GetKind() == support.Kind,
		m.Inventories[key] != nil && object.GetKind() == "OLVMInventory",
		m.OLVMClusters[key] != nil && object.GetKind() == "OLVMCluster",
		m.OLVMMachines[key] != nil && object.GetKind() == "OLVMMachine":
		m.pruning.written = append(m.pruning.written, object)
		return nil // the manifest takes precedence
	case m.Templates[key] != nil && object.GetKind() == "OLVMMachineTemplate":
		m.pruning.written = append(m.pruning.written, object)

		return m.checkTemplate(object, key)
	}

	m.pruning.others = append(m.pruning.others, object)
	count := m.count
	err := m.addManifest(object)
	m.count = count // only the manifests count

	return err
}

// keepRecord copies the controllers' records about a running machine to its manifest: its owner, age and state. The
// author of a manifest must not change these records, because this could hide the destruction of a machine.
func (m *Input) keepRecord(live *unstructured.Unstructured, key types.NamespacedName) {
	for i, written := range m.Owners {
		isIt := written.GetKind() == live.GetKind() && written.GetName() == key.Name &&
			written.GetNamespace() == key.Namespace

		if isIt && slices.Contains([]string{"Machine", "MachineSet"}, live.GetKind()) {
			recorded := written.DeepCopy() // the API server is asked about the manifest as it is written
			recorded.Object["metadata"] = recordedMetadata(written, live)
			recorded.Object["status"] = live.Object["status"]
			m.Owners[i] = recorded
		}
	}

	written := m.OLVMMachines[key]
	if live.GetKind() != "OLVMMachine" || written == nil {
		return
	}

	var recorded infrav1.OLVMMachine
	if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &recorded) == nil {
		written.ObjectMeta, written.Status = recorded.ObjectMeta, recorded.Status
	}
}

// recordedMetadata returns the metadata of a live object with the labels and annotations in the manifest. checkRecords
// refuses those that are records of controllers.
func recordedMetadata(written, live *unstructured.Unstructured) map[string]any {
	out := live.DeepCopy()
	labels, annotations := map[string]string{}, map[string]string{}

	maps.Copy(labels, live.GetLabels())
	maps.Copy(labels, written.GetLabels())
	maps.Copy(annotations, live.GetAnnotations())
	maps.Copy(annotations, written.GetAnnotations())
	out.SetLabels(labels)
	out.SetAnnotations(annotations)
	metadata, _, _ := unstructured.NestedMap(out.Object, "metadata")

	return metadata
}

// checkTemplate rejects a template in the manifests if it differs from the stored one.
func (m *Input) checkTemplate(live *unstructured.Unstructured, key types.NamespacedName) error {
	into := map[types.NamespacedName]*infrav1.OLVMMachineTemplate{}
	if err := decodeStrict(live, key, into); err != nil {
		return err
	}

	asked, err := defaultedSpec(AsMap(m.Templates[key].Spec))
	if err != nil {
		return err
	}

	has, err := defaultedSpec(AsMap(into[key].Spec))
	if err != nil {
		return err
	}

	if path := FirstDifferenceOfSpecs(asked, has); path != "" {
		return fmt.Errorf("OLVMMachineTemplate %s: %s differs from the management cluster, but templates are "+
			"immutable; give it a new name, and refer to the new name", key, path)
	}

	return nil
}

// addRecord keeps a live object if its status or age decides who holds an address.
func (m *Input) addRecord(object *unstructured.Unstructured, key types.NamespacedName) error {
	var into any

	switch object.GetKind() {
	case "OLVMCluster":
		live := &infrav1.OLVMCluster{}
		into, m.LiveClusters[key] = live, live
	case support.Kind:
		live := &infrav1alpha1.OLVMSupportServices{}
		into, m.LiveServices[key] = live, live
	default:
		return nil
	}

	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("failed to read %s %s: %w", object.GetKind(), key, err)
	}

	return nil
}
