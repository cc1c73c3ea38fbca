package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// prunedObject is a live object that would be deleted; nil for what gives access to an engine.
type prunedObject struct {
	planreport.Pruned
	object *unstructured.Unstructured
}

// pruning is what a plan knows of deletions.
type pruning struct {
	// asked is whether deletions are to be looked at; nil leaves it to the labels of what runs.
	asked *bool
	// written are the live objects that the manifests have, too, and others those that they do not have.
	written, others []*unstructured.Unstructured
	// objects that would go, and the line that says whether deletions were looked at.
	objects []prunedObject
	line    string
	// alone are namespaces of which nothing matters but what goes.
	alone []string
	// tools are those of which everything that they have applied is in scope; none if all of the namespaces is.
	tools []string
	marks instanceMarks
}

// Prune has deletions looked at, or not. Without a call they are if a GitOps tool has applied what the manifests have.
func (m *Manifests) Prune(asked bool) { m.pruning.asked = &asked }

// Deletions says in a line whether deletions were looked at.
func (m *Manifests) Deletions() string {
	if !m.connected {
		return "Deletions were not looked at: that needs a management cluster (--kubeconfig)"
	}

	return m.pruning.line
}

// Pruned are the objects that would be deleted.
func (m *Manifests) Pruned() []planreport.Pruned {
	var out []planreport.Pruned
	for _, object := range m.pruning.objects {
		out = append(out, object.Pruned)
	}

	return out
}

// isApplied reports whether a person or a tool may have applied an object, and no controller has made it.
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

// findPruned decides what would be deleted of the objects that are not in the manifests.
func (m *Manifests) findPruned(ctx context.Context, c client.Reader, namespaces []string) error {
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
		p.line = "Deletions were not looked at: --prune=false"
		return nil
	case m.count == 0 && asked == nil: // the plan of the management cluster itself
		p.line = "Deletions were not looked at: there are no manifests"
		return nil
	case len(tools) == 0 && asked == nil:
		p.line = "Deletions were not looked at: no GitOps tool has applied what the manifests have; --prune looks at " +
			"all objects of their namespaces" + p.marks.note
		return nil
	case len(tools) == 0:
		p.line = "Deletions were looked at: all objects of namespace " + strings.Join(namespaces, ", ")
		if slices.Contains(namespaces, "") {
			p.line = "Deletions were looked at: all objects of all namespaces"
		}

		if m.count == 0 {
			p.line += ", because there are no manifests; -n looks at one namespace"
		}
	default:
		p.line = "Deletions were looked at: all that " + strings.Join(tools, ", ") + " has applied"
		if err := m.addOtherNamespaces(ctx, c, tools, namespaces); err != nil {
			return err
		}
	}

	for _, object := range p.others {
		tool := p.marks.gitOps(object)
		if !isApplied(object) || keeps(object) || len(tools) > 0 && !slices.Contains(tools, tool) {
			continue
		}

		p.objects = append(p.objects, prunedObject{
			Pruned: planreport.Pruned{
				Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), By: tool,
			},
			object: object,
		})
	}

	return nil
}

// addOtherNamespaces reads the namespaces in which the same tool has applied something that the manifests do not have.
func (m *Manifests) addOtherNamespaces(
	ctx context.Context, c client.Reader, tools, namespaces []string,
) error {
	if slices.Contains(namespaces, "") {
		return nil
	}

	for _, kind := range liveKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)

		err := c.List(ctx, list)
		if apierrors.IsForbidden(err) {
			m.pruning.line += ", in namespace " + strings.Join(namespaces, ", ") + " alone: you may not list all"
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

// goes says why a machine would be deleted with an object that is pruned; "" if it stays. owner is the Machine, or nil
// for the VM of a support service.
func (m *Manifests) goes(machine Machine) string {
	for _, pruned := range m.pruning.objects {
		if pruned.Namespace != machine.Namespace {
			continue
		}

		reason := pruned.Reason()

		switch pruned.Kind {
		case "Cluster":
			if pruned.Name == machine.Cluster {
				return reason
			}
		case "OLVMInventory", "OLVMInventoryVM", "Secret", "ConfigMap", "OLVMClusterIdentity":
			continue // see goingPoolVMs; nothing is made of the others
		case "Machine":
			if pruned.Name == machine.Name && machine.From == "Machine/"+machine.Name {
				return reason
			}
		case support.Kind:
			if machine.service != "" && pruned.Name == machine.Cluster {
				return reason
			}
		default:
			if slices.ContainsFunc(m.machinesMadeBy(pruned.object), func(o *unstructured.Unstructured) bool {
				return o.GetName() == machine.Name
			}) {
				return reason
			}
		}
	}

	return ""
}

// isPruned reports whether an owner of machines, or its cluster, would be deleted: it makes no machines.
func (m *Manifests) isPruned(owner *unstructured.Unstructured, cluster string) bool {
	return slices.ContainsFunc(m.pruning.objects, func(p prunedObject) bool {
		return p.Namespace == owner.GetNamespace() && (p.Kind == "Cluster" && p.Name == cluster ||
			p.Kind == owner.GetKind() && p.Name == owner.GetName())
	})
}

// markDestroyed says of machines that they are deleted, and why. It leaves out what else is in namespaces that are read
// for that alone.
func (m *Manifests) markDestroyed(machines []Machine, changes []planreport.OwnerChange) []Machine {
	why, mayGo := map[types.NamespacedName]string{}, map[types.NamespacedName]string{}

	for _, change := range changes {
		for _, name := range change.Destroyed {
			key := types.NamespacedName{Namespace: change.Namespace, Name: name}
			why[key] = change.From + " is to have fewer machines"
		}

		for _, name := range change.Candidates {
			key := types.NamespacedName{Namespace: change.Namespace, Name: name}
			mayGo[key] = fmt.Sprintf("%d of these %d machines of %s are destroyed",
				change.Deleted-int64(len(change.Destroyed)), len(change.Candidates), change.From)
		}
	}

	for i := range machines {
		machine := &machines[i]
		if !machine.live {
			continue
		}

		switch reason := m.goes(*machine); {
		case machine.Destroyed != "": // it is known already
		case reason != "":
			machine.Destroyed = reason
		case machine.deleting:
			machine.Destroyed = "it is being deleted"
		case why[machine.key()] != "":
			machine.Destroyed = why[machine.key()]
		default:
			machine.MayGo = mayGo[machine.key()]
		}

		if machine.Destroyed != "" {
			machine.Replaced = ""
		}
	}

	return slices.DeleteFunc(machines, func(machine Machine) bool {
		if !machine.live && m.goes(machine) != "" {
			return true // it is not made any more
		}

		return machine.Destroyed == "" && slices.Contains(m.pruning.alone, machine.Namespace)
	})
}
