package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// supportMachines returns the VMs of the support services, in the order of the clusters.
func (m *Manifests) supportMachines() ([]Machine, error) {
	var out []Machine

	for _, key := range slices.SortedFunc(maps.Keys(m.Services), byKey) {
		of := m.Services[key]
		if m.LiveServices[key] == nil && !m.hasCluster(key) { // an existing one reports it in its status
			return nil, fmt.Errorf("%s %s: spec.clusterName: Cluster %s not found in the manifests or in the "+
				"management cluster; add it, or correct the name", support.Kind, key, of.Spec.ClusterName)
		}
	}

	for _, cluster := range m.Clusters {
		of := m.Services[types.NamespacedName{Namespace: cluster.GetNamespace(), Name: cluster.GetName()}]
		ref := planinput.ReferenceAt(cluster, "spec", "infrastructureRef")
		if of == nil || ref.Kind == "" {
			continue // no support services, or a cluster with a topology
		}

		infra, err := m.olvmClusterOf(cluster.GetNamespace(), cluster.GetName())
		if err == nil && infra == nil {
			err = fmt.Errorf("spec.clusterName: the infrastructure of Cluster %s is of kind %s, not an OLVMCluster of "+
				"this provider", of.Spec.ClusterName, schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
		}

		var machines []Machine
		if err == nil {
			machines, err = m.supportMachinesOf(of, infra)
		}

		if err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", support.Kind, of.Namespace, of.Name, err)
		}

		out = append(out, machines...)
	}

	return out, nil
}

func byKey(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// hasCluster reports whether a Cluster with this name exists.
func (m *Manifests) hasCluster(key types.NamespacedName) bool {
	for _, cluster := range m.Clusters {
		if cluster.GetNamespace() == key.Namespace && cluster.GetName() == key.Name {
			return true
		}
	}

	return false
}

// supportMachinesOf returns the VMs of the support services of one cluster.
func (m *Manifests) supportMachinesOf(
	of *infrav1alpha1.OLVMSupportServices, infra *infrav1.OLVMCluster,
) ([]Machine, error) {
	if err := support.Validate(infra.Spec, of); err != nil {
		return nil, err
	}

	var out []Machine

	for _, service := range support.CollectServices(of) {
		key := types.NamespacedName{Namespace: of.Namespace, Name: service.VM.MachineTemplateName}
		template := m.Templates[key]
		if template == nil {
			return nil, fmt.Errorf("%s.machineTemplateName: OLVMMachineTemplate %s not found in the manifests or "+
				"in the management cluster; add it, or correct the name", service.Field, key)
		}

		for _, vm := range service.VMs(of.Spec.ClusterName) {
			made, err := service.NewMachine(of, vm, template)
			if err != nil {
				return nil, err
			}

			machine := Machine{
				Cluster:       of.Spec.ClusterName,
				From:          support.Kind + "/" + of.Name + " " + service.Name,
				Namespace:     of.Namespace,
				Name:          vm.Name,
				infraName:     vm.Name,
				template:      key.Name,
				service:       service.Name,
				services:      of,
				failureDomain: vm.FailureDomain,
				format:        bootstrap.CloudConfig,
				spec:          made.Spec,
				olvmCluster:   infra,
			}

			if there := m.OLVMMachines[machine.key()]; there != nil && support.GetServiceName(there) == service.Name {
				machine.uid, machine.spec, machine.live = there.UID, there.Spec, true
				machine.provisioned = ptr.Deref(there.Status.Initialization.Provisioned, false)
				machine.Replaced = service.ExplainOutdated(there, vm)
				if machine.recorded, err = addressing.ParseRecorded(there); err != nil {
					return nil, fmt.Errorf("OLVMMachine %s: %w", vm.Name, err)
				}
			}

			out = append(out, machine)
		}
	}

	return out, nil
}
