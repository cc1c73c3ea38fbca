package preview

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// prunedForReport converts a deleted object to its form in a report.
func prunedForReport(p planinput.Pruned) planreport.Pruned {
	out := planreport.Pruned{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, By: p.By}
	if p.Kind == "Namespace" {
		out.Namespace = ""
	}

	return out
}

// reasonOf returns the reason why the dependents of a pruned object are deleted.
func reasonOf(p planinput.Pruned) string { return prunedForReport(p).Reason() }

// deletionReason returns the reason why a machine is deleted with a pruned object, or "" if the machine stays.
func (m *Manifests) deletionReason(machine Machine) string {
	for _, object := range m.Pruned() {
		if object.Namespace != machine.Namespace {
			continue
		}

		reason := reasonOf(object)

		switch object.Kind {
		case "Namespace":
			return reason
		case "Cluster":
			if object.Name == machine.Cluster {
				return reason
			}
		case "OLVMInventory", "OLVMInventoryVM", "Secret", "ConfigMap", "OLVMClusterIdentity":
			continue // goingPoolVMs handles these; the others create nothing
		case "Machine":
			if object.Name == machine.Name && machine.From == "Machine/"+machine.Name {
				return reason
			}
		case support.Kind:
			if machine.service != "" && object.Name == machine.Cluster {
				return reason
			}
		default:
			if slices.ContainsFunc(m.machinesMadeBy(object.Object), func(o *unstructured.Unstructured) bool {
				return o.GetName() == machine.Name
			}) {
				return reason
			}
		}
	}

	return ""
}

// isPruned reports whether an owner of machines, or its cluster, will be deleted. Such an owner creates no machines.
func (m *Manifests) isPruned(owner *unstructured.Unstructured, cluster string) bool {
	return slices.ContainsFunc(m.Pruned(), func(p planinput.Pruned) bool {
		return p.Namespace == owner.GetNamespace() && (p.Kind == "Namespace" ||
			p.Kind == "Cluster" && p.Name == cluster ||
			p.Kind == owner.GetKind() && p.Name == owner.GetName())
	})
}

// markDestroyed adds the reasons to the machines that are deleted. It removes all other machines of namespaces that are
// read only to find deletions.
func (m *Manifests) markDestroyed(machines []Machine, changes []planreport.OwnerChange) []Machine {
	why, mayGo := map[types.NamespacedName]string{}, map[types.NamespacedName]string{}

	for _, change := range changes {
		for _, name := range change.Destroyed {
			key := types.NamespacedName{Namespace: change.Namespace, Name: name}
			why[key] = change.From + " scales down"
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

		switch reason := m.deletionReason(*machine); {
		case machine.Destroyed != "": // already known
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
		if !machine.live && m.deletionReason(machine) != "" {
			return true // it is not created any more
		}

		return machine.Destroyed == "" && m.IsReadForDeletions(machine.Namespace)
	})
}
