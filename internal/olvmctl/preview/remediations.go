package preview

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// checkRemediations refuses new and changed OLVMRemediations. Cluster API makes them, and their effect depends on the
// health of machines.
func (m *Manifests) checkRemediations() error {
	var errs []error

	for _, part := range m.Remediations() {
		if part.Written.GetKind() != "OLVMRemediation" {
			continue
		}

		if found := changeOfSpec(part, writtenSpec); found != "" {
			errs = append(errs, fmt.Errorf("%s: %s: if a MachineHealthCheck finds Machine %s/%s unhealthy, its VM is "+
				"powered off and on by this object, and by no other; Cluster API makes OLVMRemediations: remove it",
				ownerName(part.Written), found, part.Written.GetNamespace(), part.Written.GetName()))
		}
	}

	return errors.Join(errs...)
}

// writtenSpec is the specification of an object as it is.
func writtenSpec(object *unstructured.Unstructured) any { return object.Object["spec"] }

// noteRemediations adds notes about templates of OLVMRemediations. They decide whether an unhealthy machine is rebooted
// before it is replaced.
func (m *Manifests) noteRemediations() {
	for _, part := range m.Remediations() {
		if part.Written.GetKind() != "OLVMRemediationTemplate" || !m.Connected {
			continue
		}

		if found := changeOfSpec(part, writtenSpec); found != "" {
			m.addNote(fmt.Sprintf("%s: %s: where a MachineHealthCheck refers to it, VMs of unhealthy machines are "+
				"powered off and on, and machines that stay unhealthy are replaced, which cannot be seen in "+
				"the manifests",
				ownerName(part.Written), found))
		}
	}
}

// checkMachinePools refuses MachinePools with machines of this provider, because it makes none for them.
func (m *Manifests) checkMachinePools() error {
	var errs []error

	for _, pool := range m.MachinePools() {
		path := []string{"spec", "template", "spec", "infrastructureRef"}

		ref := planinput.ReferenceAt(pool, path...)
		if ref.Group == api.Group && strings.HasPrefix(ref.Kind, "OLVM") { // other providers share the group
			errs = append(errs, fmt.Errorf("%s: spec.template.spec.infrastructureRef: %s: this provider has no "+
				"machine pools, and makes no machines for it; write a MachineDeployment", ownerName(pool), ref.Kind))
		}
	}

	return errors.Join(errs...)
}

// noteMachinePools adds notes about MachinePools of other providers in Clusters of this one.
func (m *Manifests) noteMachinePools() {
	for _, pool := range m.MachinePools() {
		name, _, _ := unstructured.NestedString(pool.Object, "spec", "clusterName")
		ref := planinput.ReferenceAt(pool, "spec", "template", "spec", "infrastructureRef")

		for _, cluster := range m.Clusters {
			if cluster.GetName() == name && cluster.GetNamespace() == pool.GetNamespace() &&
				planinput.ReferenceAt(cluster, "spec", "infrastructureRef").IsOf("OLVMCluster") {
				m.addNote(fmt.Sprintf("%s: its machines are of another provider (%s), and not in this plan",
					ownerName(pool), schema.GroupKind{Group: ref.Group, Kind: ref.Kind}))
			}
		}
	}
}

// noteMarked adds a note about each Machine that the manifests mark for a later deletion. change has the machines that
// the plan deletes or may delete.
func (m *Manifests) noteMarked(owner *unstructured.Unstructured, change *planreport.OwnerChange) {
	going := slices.Concat(change.Destroyed, change.Replaced, change.Candidates)

	for _, machine := range m.machinesMadeBy(owner) {
		live := m.LiveOf(machine)
		if live == nil || live == machine || !isMarked(machine) || isMarked(live) ||
			slices.Contains(going, machine.GetName()) {
			continue
		}

		m.addNote(fmt.Sprintf("%s: %s: it is destroyed first when %s has fewer machines", ownerName(machine),
			clusterv1.DeleteMachineAnnotation, ownerName(owner)))
	}
}

// isMarked reports whether a Machine has the annotation by which its owner deletes it first.
func isMarked(machine *unstructured.Unstructured) bool {
	_, marked := machine.GetAnnotations()[clusterv1.DeleteMachineAnnotation]

	return marked
}
