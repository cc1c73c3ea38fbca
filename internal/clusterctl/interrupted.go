package clusterctl

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Copied reports whether a move of a namespace that was interrupted had copied all objects. clusterctl copies all of
// them before it deletes the first one: then the target lacks none, or has one that the source has not any more.
func Copied(ctx context.Context, from, to Management, namespace string) (bool, error) {
	source, err := movedObjects(ctx, from.Client, namespace)
	if err != nil {
		return false, err
	}

	target, err := movedObjects(ctx, to.Client, namespace)
	if err != nil {
		return false, err
	}

	return target.Difference(source).Len() > 0 || target.IsSuperset(source), nil
}

// movedObjects are the objects of a namespace that clusterctl moves, as kind and name.
func movedObjects(ctx context.Context, c client.Client, namespace string) (sets.Set[string], error) {
	kinds, err := movedKinds(ctx, c)
	if err != nil {
		return nil, err
	}

	out := sets.New[string]()

	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list, client.InNamespace(namespace)); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("failed to list the %ss: %w", kind.Kind, err)
		}

		for i := range list.Items {
			if moves(kind, &list.Items[i]) {
				out.Insert(kind.Kind + "/" + list.Items[i].Name)
			}
		}
	}

	return out, nil
}

// movedKinds are those of the providers, with Secrets and ConfigMaps.
func movedKinds(ctx context.Context, c client.Client) ([]schema.GroupVersionKind, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := c.List(ctx, list, client.HasLabels{clusterctlv1.ClusterctlLabel}); err != nil {
		return nil, fmt.Errorf("failed to list the kinds of providers: %w", err)
	}

	out := []schema.GroupVersionKind{{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}}

	for i := range list.Items {
		var crd apiextensionsv1.CustomResourceDefinition
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &crd)
		if err != nil {
			return nil, fmt.Errorf("failed to read CRD %s: %w", list.Items[i].GetName(), err)
		}

		for _, version := range crd.Spec.Versions {
			if version.Storage && crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
				out = append(out, schema.GroupVersionKind{
					Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind,
				})
			}
		}
	}

	return out, nil
}

// moves reports whether an object belongs to a Cluster: by its kind, by a label, or by an owner.
func moves(kind schema.GroupVersionKind, object *metav1.PartialObjectMetadata) bool {
	_, labelled := object.Labels[clusterctlv1.ClusterctlMoveLabel]
	if labelled || kind.GroupKind() == clusterv1.GroupVersion.WithKind("Cluster").GroupKind() {
		return true
	}

	for _, owner := range object.OwnerReferences {
		if strings.Contains(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return true
		}
	}

	return false
}
