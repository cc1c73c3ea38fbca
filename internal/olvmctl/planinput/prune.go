package planinput

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

	switch asked := p.asked; {
	case asked != nil && !*asked:
		p.line = "Not checked for deletions: --prune=false"
		return nil
	case m.count == 0 && asked == nil: // the plan compares the management cluster with itself
		p.line = "Not checked for deletions: there are no manifests"
		return nil
	case len(tools) == 0 && asked == nil:
		p.line = "Not checked for deletions: no GitOps tool has applied the manifests; to check all objects in " +
			"their namespaces, use --prune" + p.marks.note
		return nil
	case len(tools) == 0:
		p.line = "Checked for deletions: all objects in namespace " + strings.Join(namespaces, ", ")
		if slices.Contains(namespaces, "") {
			p.line = "Checked for deletions: all objects in all namespaces"
		}

		if m.count == 0 {
			p.line += ", because there are no manifests; to check one namespace, use -n"
		}
	default:
		p.line = "Checked for deletions: all objects applied by " + strings.Join(tools, ", ")
		if err := m.addOtherNamespaces(ctx, c, tools, namespaces); err != nil {
			return err
		}
	}

	p.looked = true

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

// addOtherNamespaces reads the namespaces where the same tools have applied objects, but the manifests have none.
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
