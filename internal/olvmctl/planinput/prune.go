package planinput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// Pruned is an object that the management cluster has but the manifests lack. An apply with pruning would delete it.
type Pruned struct {
	Kind, Namespace, Name string
	// By is the GitOps tool of the object, or "" if unknown.
	By string
	// Object is nil for a Secret, a ConfigMap or an OLVMClusterIdentity.
	Object *unstructured.Unstructured
}

// pruning describes the deletions in a plan.
type pruning struct {
	// asked is the user's choice whether to look for deletions. If nil, the plan looks for them if a GitOps tool has
	// applied the objects in the manifests.
	asked *bool
	// written are the live objects also contained in the manifests, and others are the remaining live objects.
	written, others []*unstructured.Unstructured
	// objects are the objects to delete. line is the report's line about the search for deletions.
	objects []Pruned
	line    string
	// looked reports whether the plan has looked for deletions.
	looked bool
	// alone are the namespaces without objects in the manifests, read only to find deletions.
	alone []string
	// tools are the GitOps tools in use. All objects of these tools are in scope. If there are none, all objects in the
	// namespaces are in scope.
	tools []string
	marks instanceMarks
}

// SetPruning turns the search for deletions on or off. By default, it is on if a GitOps tool has applied the objects in
// the manifests.
func (m *Input) SetPruning(asked bool) { m.pruning.asked = &asked }

// Deletions returns a line about whether the plan has looked for deletions.
func (m *Input) Deletions() string {
	if !m.Connected {
		return "Not checked for deletions: this requires a management cluster (--kubeconfig)"
	}

	return m.pruning.line
}

// Pruned returns the objects to delete.
func (m *Input) Pruned() []Pruned { return m.pruning.objects }

// IsReadForDeletions reports whether the plan has read a namespace only to find deletions.
func (m *Input) IsReadForDeletions(namespace string) bool {
	return slices.Contains(m.pruning.alone, namespace)
}

// isApplied reports whether a user or a tool may have applied an object. Otherwise a controller has created it.
func isApplied(object *unstructured.Unstructured) bool {
	marks := []string{clusterv1.ClusterTopologyOwnedLabel}
	labels, annotations := object.GetLabels(), object.GetAnnotations()

	switch object.GetKind() {
	case "Machine", "MachineSet", "OLVMMachine", "OLVMInventoryVM":
		if len(object.GetOwnerReferences()) > 0 {
			return false
		}

		marks = append(marks, clusterv1.MachineDeploymentNameLabel, clusterv1.MachineSetNameLabel,
			clusterv1.MachineControlPlaneNameLabel, clusterv1.TemplateClonedFromNameAnnotation)
	}

	return object.GetDeletionTimestamp() == nil && !slices.ContainsFunc(marks, func(mark string) bool {
		_, labelled := labels[mark]
		_, annotated := annotations[mark]

		return labelled || annotated
	})
}

// findPruned finds the objects to delete among those that the manifests lack.
func (m *Input) findPruned(ctx context.Context, c client.Reader, namespaces []string) error {
	p := &m.pruning

	if err := m.readInstanceMarks(ctx, c); err != nil {
		return err
	}

	var tools []string

	for _, object := range p.written {
		if tool := p.marks.gitOps(object); tool != "" && !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}

	slices.Sort(tools)
	p.tools = tools

	if p.line, p.looked = m.describePruning(namespaces); !p.looked {
		return nil
	}

	if len(tools) > 0 {
		if err := m.addOtherNamespaces(ctx, c, tools, namespaces); err != nil {
			return err
		}
	}

	if err := m.checkPrunedKinds(ctx, c); err != nil {
		return err
	}

	if err := m.findPrunedNamespaces(ctx, c, namespaces); err != nil {
		return err
	}

	for _, object := range p.others {
		tool := p.marks.gitOps(object)
		if !isApplied(object) || forbidsPruning(object) || len(tools) > 0 && !slices.Contains(tools, tool) {
			continue
		}

		p.objects = append(p.objects, Pruned{
			Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), By: tool, Object: object,
		})
	}

	return nil
}

// describePruning returns a line about the search for deletions, and whether to look for them.
func (m *Input) describePruning(namespaces []string) (line string, looks bool) {
	p := &m.pruning

	switch asked := p.asked; {
	case asked != nil && !*asked:
		return "Not checked for deletions: --prune=false", false
	case m.count == 0 && asked == nil: // the plan compares the management cluster with itself
		return "Not checked for deletions: there are no manifests", false
	case len(p.tools) == 0 && asked == nil:
		return "Not checked for deletions: no GitOps tool has applied the manifests; to check all objects in " +
			"their namespaces, use --prune" + p.marks.note, false
	case len(p.tools) > 0:
		return "Checked for deletions: all objects applied by " + strings.Join(p.tools, ", "), true
	}

	line = "Checked for deletions: all objects in namespace " + strings.Join(namespaces, ", ")
	if slices.Contains(namespaces, "") {
		line = "Checked for deletions: all objects in all namespaces"
	}

	if m.count == 0 {
		line += ", because there are no manifests; to check one namespace, use -n"
	}

	return line, true
}

// checkPrunedKinds rejects manifests that lack the CRD of a kind, if a GitOps tool deletes it with all its objects. It
// skips CRDs that the user may not read.
func (m *Input) checkPrunedKinds(ctx context.Context, c client.Reader) error {
	if len(m.pruning.tools) == 0 {
		return nil
	}

	var errs []error

	for _, kind := range LiveKinds {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		if kind.Kind == support.Kind {
			resource.Resource = strings.ToLower(kind.Kind)
		}

		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		crd.SetName(resource.GroupResource().String())

		live, _, err := readPart(ctx, c, crd)
		if apierrors.IsNotFound(err) || err == nil && live == nil {
			continue
		} else if err != nil {
			return err
		}

		isWritten := slices.ContainsFunc(m.passedOver, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == crd.GetKind() && o.GetName() == crd.GetName()
		})
		if tool := m.pruning.marks.gitOps(live); !isWritten && !forbidsPruning(live) &&
			slices.Contains(m.pruning.tools, tool) {
			errs = append(errs, fmt.Errorf("CustomResourceDefinition %s is not in the manifests any more, and %s "+
				"prunes it with all its objects and their machines; add it, or plan without deletions (--prune=false)",
				crd.GetName(), tool))
		}
	}

	return errors.Join(errs...)
}

// findPrunedNamespaces finds the Namespaces that a GitOps tool deletes, with all objects in them. The manifests may
// keep these objects, and lack the Namespace alone. It skips Namespaces that the user may not read.
func (m *Input) findPrunedNamespaces(ctx context.Context, c client.Reader, namespaces []string) error {
	p := &m.pruning

	for _, name := range slices.Concat(namespaces, p.alone) {
		key := types.NamespacedName{Name: name}
		if name == "" || len(p.tools) == 0 || m.Written.Spaces[key] != nil {
			continue
		}

		found := map[types.NamespacedName]*corev1.Namespace{}
		if err := addReadable(ctx, c, key, found, &corev1.Namespace{}); err != nil {
			return err
		}

		space := found[key]
		if space == nil || space.DeletionTimestamp != nil || forbidsPruning(space) {
			continue
		}

		if tool := p.marks.gitOps(space); slices.Contains(p.tools, tool) {
			p.objects = append(p.objects, Pruned{Kind: "Namespace", Namespace: name, Name: name, By: tool})
		}
	}

	return nil
}

// addOtherNamespaces reads other namespaces that have objects of the same tool, and none in the manifests.
func (m *Input) addOtherNamespaces(
	ctx context.Context, c client.Reader, tools, namespaces []string,
) error {
	if slices.Contains(namespaces, "") {
		return nil
	}

	for _, kind := range LiveKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)

		err := c.List(ctx, list)
		if apierrors.IsForbidden(err) {
			m.pruning.line += ", only in namespace " + strings.Join(namespaces, ", ") + ", because you may not list all"
			return nil
		}

		if err != nil {
			return fmt.Errorf("failed to list objects of kind %s in the management cluster: %w", kind.Kind, err)
		}

		for i := range list.Items {
			object := &list.Items[i]
			if slices.Contains(tools, m.pruning.marks.gitOps(object)) &&
				!slices.Contains(namespaces, object.GetNamespace()) &&
				!slices.Contains(m.pruning.alone, object.GetNamespace()) {
				m.pruning.alone = append(m.pruning.alone, object.GetNamespace())
			}
		}
	}

	return m.addNamespaces(ctx, c, m.pruning.alone)
}
