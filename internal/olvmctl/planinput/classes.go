package planinput

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClassPart is a ClusterClass in the manifests, or one of its templates, used by a running Cluster.
type ClassPart struct {
	Written *unstructured.Unstructured
	// Live is nil if it could not be read, for the reason in Unread.
	Live   *unstructured.Unstructured
	Unread string
	// Cluster is made of it; empty if the user may not see whether any is.
	Cluster string
}

// ClassParts returns the parts of ClusterClasses whose changes may affect running Clusters.
func (m *Input) ClassParts() []ClassPart { return m.classes }

// addClasses finds the parts of ClusterClasses used by running Clusters.
func (m *Input) addClasses(ctx context.Context, c client.Reader) error {
	if len(m.classParts) == 0 {
		return nil
	}

	clusters, sawAll, err := m.listTopologies(ctx, c)
	if err != nil {
		return err
	}

	for i := range clusters {
		class := classOf(&clusters[i])

		live, _, err := readPart(ctx, c, class)
		if apierrors.IsNotFound(err) {
			live = class // there are no other references
		} else if err != nil {
			return err
		}

		for _, part := range m.classParts {
			if !m.isPartOf(part, class, live) {
				continue
			}

			running, unread, err := readPart(ctx, c, part)
			if apierrors.IsNotFound(err) {
				continue // the part is new, so it has no effect unless the class changes
			} else if err != nil {
				return err
			}

			m.classes = append(m.classes, ClassPart{
				Written: part, Live: running, Unread: unread,
				Cluster: client.ObjectKeyFromObject(&clusters[i]).String(),
			})
		}
	}

	if !sawAll {
		return m.addUnseen(ctx, c)
	}

	return nil
}

// addUnseen adds the parts possibly used by Clusters hidden from the user.
func (m *Input) addUnseen(ctx context.Context, c client.Reader) error {
	for _, part := range m.classParts {
		isKnown := slices.ContainsFunc(m.classes, func(known ClassPart) bool { return known.Written == part })
		if isKnown {
			continue
		}

		if isOfAny, err := m.isOfAnyClass(ctx, c, part); err != nil {
			return err
		} else if !isOfAny {
			continue
		}

		running, unread, err := readPart(ctx, c, part)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}

		m.classes = append(m.classes, ClassPart{Written: part, Live: running, Unread: unread})
	}

	return nil
}

// isOfAnyClass reports whether a part is a ClusterClass, or may be a template of one.
func (m *Input) isOfAnyClass(ctx context.Context, c client.Reader, part *unstructured.Unstructured) (bool, error) {
	classes, isSeen, err := listIfAllowed(ctx, c, "ClusterClass", part.GetNamespace())
	if err != nil || !isSeen || isClusterClass(part.GroupVersionKind()) {
		return true, err
	}

	return slices.ContainsFunc(classes, func(class unstructured.Unstructured) bool {
		return m.isPartOf(part, &class, &class)
	}) || slices.ContainsFunc(m.classParts, func(o *unstructured.Unstructured) bool {
		return isClusterClass(o.GroupVersionKind()) && o.GetNamespace() == part.GetNamespace() &&
			refersTo(o.Object, part)
	}), nil
}

// listIfAllowed lists Cluster API objects in one namespace, or in all namespaces. isSeen is false if the user may not
// list them.
func listIfAllowed(
	ctx context.Context, c client.Reader, kind, namespace string,
) (out []unstructured.Unstructured, isSeen bool, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind))

	err = c.List(ctx, list, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("failed to list objects of kind %s in the management cluster: %w", kind, err)
	}

	return list.Items, true, nil
}

// listTopologies returns the running Clusters with a topology, in all namespaces if the user may list them. Otherwise
// sawAll is false. It then returns the Clusters already read, and the Clusters in the namespaces of the manifests'
// classes.
func (m *Input) listTopologies(
	ctx context.Context, c client.Reader,
) (clusters []unstructured.Unstructured, sawAll bool, err error) {
	clusters, sawAll, err = listIfAllowed(ctx, c, "Cluster", "")
	if err != nil {
		return nil, false, err
	}

	if !sawAll {
		if clusters, err = m.listTopologiesBeside(ctx, c); err != nil {
			return nil, false, err
		}
	}

	return slices.DeleteFunc(clusters, func(cluster unstructured.Unstructured) bool {
		return classOf(&cluster).GetName() == ""
	}), sawAll, nil
}

// listTopologiesBeside returns the running Clusters in the namespaces already read, and in the namespaces with parts of
// classes.
func (m *Input) listTopologiesBeside(ctx context.Context, c client.Reader) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured

	listed := map[string]bool{}

	for _, part := range m.classParts {
		namespace := part.GetNamespace()
		if listed[namespace] {
			continue
		}

		clusters, isSeen, err := listIfAllowed(ctx, c, "Cluster", namespace)
		if err != nil {
			return nil, err
		}

		listed[namespace] = isSeen
		out = append(out, clusters...)
	}

	for _, cluster := range m.Clusters {
		if live := m.LiveOf(cluster); live != nil && !listed[live.GetNamespace()] {
			out = append(out, *live)
		}
	}

	return out, nil
}

// classOf returns a reference to the ClusterClass of a Cluster. The reference has no name if the Cluster has no class.
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

// readPart returns the management cluster's version of an object; nil with a reason if the user may not read it, or if
// the cluster lacks its apiVersion.
func readPart(
	ctx context.Context, c client.Reader, part *unstructured.Unstructured,
) (live *unstructured.Unstructured, unread string, err error) {
	kind := part.GroupVersionKind()
	live = &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)

	err = c.Get(ctx, client.ObjectKeyFromObject(part), live)

	switch {
	case apierrors.IsForbidden(err):
		resource, _ := meta.UnsafeGuessKindToResource(kind)

		return nil, fmt.Sprintf("you may not read it in the management cluster (get %s)", resource.GroupResource()), nil
	case meta.IsNoMatchError(err):
		return nil, fmt.Sprintf("the management cluster does not serve %s", part.GetAPIVersion()), nil
	case err != nil:
		return nil, "", fmt.Errorf("failed to get %s %s: %w", part.GetKind(), client.ObjectKeyFromObject(part), err)
	}

	return live, "", nil
}

// isPartOf reports whether an object is the given ClusterClass, or may be one of its templates. live is the stored
// class, or nil if it is unreadable.
func (m *Input) isPartOf(part, class, live *unstructured.Unstructured) bool {
	isClass := func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().GroupKind() == class.GroupVersionKind().GroupKind() &&
			o.GetName() == class.GetName() && o.GetNamespace() == class.GetNamespace()
	}

	switch {
	case isClusterClass(part.GroupVersionKind()):
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

// refersTo reports whether a value refers to an object, at any depth.
func refersTo(value any, object *unstructured.Unstructured) bool {
	switch value := value.(type) {
	case map[string]any:
		if value["kind"] == object.GetKind() && value["name"] == object.GetName() && mayBeOf(value, object) {
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

// mayBeOf reports whether a reference names the API group of an object, or no group. Manifests in v1beta1 have an
// apiVersion, and the API server ignores an apiGroup beside it.
func mayBeOf(reference map[string]any, object *unstructured.Unstructured) bool {
	group, hasGroup := reference["apiGroup"].(string)
	version, hasVersion := reference["apiVersion"].(string)
	wanted := object.GroupVersionKind().Group

	return !hasGroup && !hasVersion || hasGroup && group == wanted ||
		hasVersion && schema.FromAPIVersionAndKind(version, "").Group == wanted
}

func isClusterClass(kind schema.GroupVersionKind) bool {
	return kind.Group == clusterv1.GroupVersion.Group && kind.Kind == "ClusterClass"
}

// isClassPart reports whether running Clusters may use objects of a kind, and these objects can be changed in place.
// checkTemplate checks templates of other kinds.
func isClassPart(kind schema.GroupVersionKind) bool {
	return isClusterClass(kind) || strings.HasSuffix(kind.Kind, "Template") && kind.Kind != "OLVMMachineTemplate"
}
