package mgmtcluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// madeByKubernetes are the objects that Kubernetes creates in every namespace.
var madeByKubernetes = []string{"ConfigMap/" + rootCAName, "ServiceAccount/default"}

// ListContents returns the objects of a namespace, of any kind. It omits events, objects created by Kubernetes itself,
// and objects that cannot be deleted.
func (c *Cluster) ListContents(ctx context.Context, namespace string) ([]metav1.PartialObjectMetadata, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("failed to create a client of the management cluster: %w", err)
	}

	lists, err := discoverer.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("failed to list the contents of namespace %s: %w", namespace, err)
	}

	var out []metav1.PartialObjectMetadata

	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("the API server serves %q: %w", list.GroupVersion, err)
		}

		for i := range list.APIResources {
			resource := &list.APIResources[i]
			if resource.Kind == "Event" || !slices.Contains(resource.Verbs, "list") ||
				!slices.Contains(resource.Verbs, "delete") {
				continue
			}

			found, err := c.listKind(ctx, namespace, group.WithKind(resource.Kind))
			if err != nil {
				return nil, err
			}

			out = append(out, found...)
		}
	}

	return out, nil
}

// listKind returns the objects of one kind.
func (c *Cluster) listKind(
	ctx context.Context, namespace string, kind schema.GroupVersionKind,
) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := c.List(ctx, list, client.InNamespace(namespace)); apierrors.IsNotFound(err) {
		return nil, nil // the API server no longer serves the kind
	} else if err != nil {
		return nil, fmt.Errorf("failed to list the %ss of namespace %s: %w", kind.Kind, namespace, err)
	}

	var out []metav1.PartialObjectMetadata

	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
		if !slices.Contains(madeByKubernetes, kind.Kind+"/"+list.Items[i].Name) {
			out = append(out, list.Items[i])
		}
	}

	return out, nil
}

// IsNamespaced reports whether an owner is in a namespace.
func (c *Cluster) IsNamespaced(owner *metav1.OwnerReference) bool {
	mapping, err := c.RESTMapper().RESTMapping(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
	return err == nil && mapping.Scope.Name() == "namespace"
}

// DescribeLocation describes the cluster to users.
func (c *Cluster) DescribeLocation() string {
	if c.Kubeconfig == LocalOfUser().Kubeconfig() {
		return "the local management cluster (" + c.Server() + ")"
	}

	out := c.Server()
	if c.Context != "" {
		out += " (context " + c.Context
		if c.Kubeconfig != "" {
			out += " of " + c.Kubeconfig
		}

		out += ")"
	}

	return out
}
