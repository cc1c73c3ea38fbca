package planinput

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClassPart is a ClusterClass of the manifests, or one of its templates, in use by a running Cluster.
type ClassPart struct {
	Written *unstructured.Unstructured
	// Live is nil if the user may not read it.
	Live *unstructured.Unstructured
	// Cluster uses it.
	Cluster string
}

// classKinds are the kinds used by a topology and changeable in place.
var classKinds = []string{"ClusterClass", "KubeadmConfigTemplate", "KubeadmControlPlaneTemplate", "OLVMClusterTemplate"}

// ClassParts returns the parts of ClusterClasses through which manifests may change running Clusters.
func (m *Input) ClassParts() []ClassPart { return m.classes }

// addClasses finds the parts of ClusterClasses used by running Clusters.
func (m *Input) addClasses(ctx context.Context, c client.Reader) error {
	if len(m.classParts) == 0 {
		return nil
	}

	clusters, err := m.topologies(ctx, c)
	if err != nil {
		return err
	}

	for i := range clusters {
		class := classOf(&clusters[i])

		live, err := readPart(ctx, c, class)
		if apierrors.IsNotFound(err) {
			live = class // there are no references
		} else if err != nil {
			return err
		}

		for _, part := range m.classParts {
			if !m.isPartOf(part, class, live) {
				continue
			}

			running, err := readPart(ctx, c, part)
			if apierrors.IsNotFound(err) {
				continue // it is new, so it has no effect unless the class changes
			} else if err != nil {
				return err
			}

			m.classes = append(m.classes, ClassPart{
				Written: part, Live: running, Cluster: client.ObjectKeyFromObject(&clusters[i]).String(),
			})
		}
	}

	return nil
}

// topologies returns the running Clusters with a topology. It covers all namespaces if the user may list them.
func (m *Input) topologies(ctx context.Context, c client.Reader) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))

	err := c.List(ctx, list)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("failed to list objects of kind Cluster in the management cluster: %w", err)
	}

	if err != nil {
		for _, cluster := range m.Clusters {
			if live := m.LiveOf(cluster); live != nil {
				list.Items = append(list.Items, *live)
			}
		}
	}

	return slices.DeleteFunc(list.Items, func(cluster unstructured.Unstructured) bool {
		return classOf(&cluster).GetName() == ""
	}), nil
}

// classOf returns a reference to the ClusterClass of a Cluster; without a name for none.
func classOf(cluster *unstructured.Unstructured) *unstructured.Unstructured {
	topology, _, _ := unstructured.NestedMap(cluster.Object, "spec", "topology")
	name, _, _ := unstructured.NestedString(topology, "classRef", "name")
	namespace, _, _ := unstructured.NestedString(topology, "classRef", "namespace")

	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterClass"))
	out.SetName(name)
	out.SetNamespace(cmp.Or(namespace, cluster.GetNamespace()))

	return out
}

// readPart returns the management cluster's version of an object; nil if the user may not read it.
func readPart(
	ctx context.Context, c client.Reader, part *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(part.GroupVersionKind())

	err := c.Get(ctx, client.ObjectKeyFromObject(part), out)
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get %s %s: %w", part.GetKind(), client.ObjectKeyFromObject(part), err)
	}

	return out, nil
}

// isPartOf reports whether an object is a ClusterClass, or may be a template of it. live is nil if unreadable.
func (m *Input) isPartOf(part, class, live *unstructured.Unstructured) bool {
	isClass := func(o *unstructured.Unstructured) bool {
		return o.GetKind() == class.GetKind() && o.GetName() == class.GetName() &&
			o.GetNamespace() == class.GetNamespace()
	}

	switch {
	case part.GetKind() == "ClusterClass":
		return isClass(part)
	case part.GetNamespace() != class.GetNamespace():
		return false
	case live == nil || refersTo(live.Object, part):
		return true
	}

	return slices.ContainsFunc(m.classParts, func(o *unstructured.Unstructured) bool {
		return isClass(o) && refersTo(o.Object, part)
	})
}

// refersTo reports whether a value contains a reference to an object at any depth.
func refersTo(value any, object *unstructured.Unstructured) bool {
	switch value := value.(type) {
	case map[string]any:
		if value["kind"] == object.GetKind() && value["name"] == object.GetName() {
			return true
		}

		for _, field := range value {
			if refersTo(field, object) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return refersTo(item, object) })
	}

	return false
}

// isClassPart reports whether running Clusters may use objects of a kind.
func isClassPart(kind schema.GroupVersionKind) bool { return slices.Contains(classKinds, kind.Kind) }
