package clusterctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// maxOwners is the maximum number of owners followed above an object, because owners can form a loop.
const maxOwners = 10

// IsCopyComplete reports whether an interrupted move of a namespace has copied all objects. clusterctl copies all
// objects before it deletes the first one. The copy is therefore complete if the target lacks no object, or if it has
// an object already missing at the source. Only objects of the moving Clusters prove the latter, because the namespace
// of the target may have other clusters.
func IsCopyComplete(ctx context.Context, from, to Management, namespace string, clusters []string) (bool, error) {
	source, err := listMovedObjects(ctx, from.Client, namespace)
	if err != nil {
		return false, err
	}

	all, err := listObjects(ctx, to.Client, namespace)
	if err != nil {
		return false, err
	}

	target, copies := sets.New[string](), sets.New[string]()
	byName := map[string]*metav1.PartialObjectMetadata{}

	for i := range all {
		byName[nameOf(&all[i])] = &all[i]
	}

	for name, object := range byName {
		if !isMoved(object) {
			continue
		}

		target.Insert(name)

		if belongsToClusters(object, byName, clusters, maxOwners) {
			copies.Insert(name)
		}
	}

	return copies.Difference(source).Len() > 0 || target.IsSuperset(source), nil
}

// belongsToClusters reports whether an object is one of the Clusters, or belongs to one of them.
func belongsToClusters(
	object *metav1.PartialObjectMetadata, all map[string]*metav1.PartialObjectMetadata, clusters []string, depth int,
) bool {
	if isCluster(object) {
		return slices.Contains(clusters, object.Name)
	}

	if of, ok := object.Labels[clusterv1.ClusterNameLabel]; ok {
		return slices.Contains(clusters, of)
	}

	for _, ref := range object.OwnerReferences {
		owner := all[ref.Kind+"/"+ref.Name]
		if owner != nil && depth > 0 && belongsToClusters(owner, all, clusters, depth-1) {
			return true
		}
	}

	return false
}

// ListOverwritten returns the objects of the target that a move of a namespace would overwrite, as kind and name.
func ListOverwritten(ctx context.Context, from, to Management, namespace string) ([]string, error) {
	source, err := listMovedObjects(ctx, from.Client, namespace)
	if err != nil {
		return nil, err
	}

	target, err := listObjects(ctx, to.Client, namespace)
	if err != nil {
		return nil, err
	}

	out := sets.New[string]()

	for i := range target {
		if name := nameOf(&target[i]); source.Has(name) {
			out.Insert(name)
		}
	}

	return sets.List(out), nil
}

// DiscardCopies deletes the copies left by an interrupted move in a namespace. They are the objects that the other end
// has, too. Their Clusters are paused, so no controller reacts to the deletion. It deletes the Clusters last, because a
// Cluster shows that more objects are left.
func DiscardCopies(ctx context.Context, in, other Management, namespace string) error {
	kept, err := listMovedObjects(ctx, other.Client, namespace)
	if err != nil {
		return err
	}

	all, err := listObjects(ctx, in.Client, namespace)
	if err != nil {
		return err
	}

	slices.SortStableFunc(all, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Compare(lastOf(&a), lastOf(&b))
	})

	for i := range all {
		if !kept.Has(nameOf(&all[i])) || !isMoved(&all[i]) {
			continue
		}

		if err := discardObject(ctx, in.Client, &all[i]); err != nil {
			return err
		}
	}

	return nil
}

// lastOf returns 1 for a Cluster, and 0 for other objects.
func lastOf(object *metav1.PartialObjectMetadata) int {
	if isCluster(object) {
		return 1
	}

	return 0
}

// discardObject deletes one object like clusterctl after copying it: without its controller's cleanup. Each write names
// the UID, because it may arrive late: another command may have made a new object of this name by then.
func discardObject(ctx context.Context, c client.Client, object *metav1.PartialObjectMetadata) error {
	uid := object.UID
	mark := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:""}}}`, uid, clusterctlv1.DeleteForMoveAnnotation)
	free := fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, uid)

	err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, mark))
	if err == nil {
		err = c.Delete(ctx, object, client.Preconditions{UID: &uid})
	}

	if err == nil && len(object.Finalizers) > 0 {
		err = c.Patch(ctx, object, client.RawPatch(types.MergePatchType, free))
	}

	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to remove %s, which was moved: %w", nameOf(object), err)
	}

	return nil
}

// listMovedObjects returns the objects of a namespace that clusterctl moves, as kind and name.
func listMovedObjects(ctx context.Context, c client.Client, namespace string) (sets.Set[string], error) {
	all, err := listObjects(ctx, c, namespace)
	out := sets.New[string]()

	for i := range all {
		if isMoved(&all[i]) {
			out.Insert(nameOf(&all[i]))
		}
	}

	return out, err
}

// nameOf returns the kind and the name of an object.
func nameOf(object *metav1.PartialObjectMetadata) string { return object.Kind + "/" + object.Name }

// listObjects returns the objects of a namespace whose kinds clusterctl moves.
func listObjects(ctx context.Context, c client.Client, namespace string) ([]metav1.PartialObjectMetadata, error) {
	kinds, err := findMovedKinds(ctx, c)
	if err != nil {
		return nil, err
	}

	var out []metav1.PartialObjectMetadata

	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list, client.InNamespace(namespace)); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("failed to list the %ss: %w", kind.Kind, err)
		}

		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			out = append(out, list.Items[i])
		}
	}

	return out, nil
}

// findMovedKinds returns the kinds of the providers, and also Secret and ConfigMap. It uses discovery, because the CRDs
// themselves have several megabytes.
func findMovedKinds(ctx context.Context, c client.Client) ([]schema.GroupVersionKind, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := c.List(ctx, list, client.HasLabels{clusterctlv1.ClusterctlLabel}); err != nil {
		return nil, fmt.Errorf("failed to list the kinds of providers: %w", err)
	}

	out := []schema.GroupVersionKind{{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}}

	for i := range list.Items {
		resource, group, _ := strings.Cut(list.Items[i].Name, ".")

		kind, err := c.RESTMapper().KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
		if meta.IsNoMatchError(err) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("failed to find the kind of CRD %s: %w", list.Items[i].Name, err)
		}

		namespaced, err := apiutil.IsGVKNamespaced(kind, c.RESTMapper())
		if err != nil {
			return nil, fmt.Errorf("failed to find the scope of CRD %s: %w", list.Items[i].Name, err)
		}

		if namespaced {
			out = append(out, kind)
		}
	}

	return out, nil
}

func isCluster(object *metav1.PartialObjectMetadata) bool {
	return object.GroupVersionKind().GroupKind() == clusterv1.GroupVersion.WithKind("Cluster").GroupKind()
}

// isMoved reports whether an object belongs to a Cluster: by its kind, by a label, or by an owner.
func isMoved(object *metav1.PartialObjectMetadata) bool {
	_, labelled := object.Labels[clusterctlv1.ClusterctlMoveLabel]
	if labelled || isCluster(object) {
		return true
	}

	for _, owner := range object.OwnerReferences {
		if strings.Contains(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return true
		}
	}

	return false
}
