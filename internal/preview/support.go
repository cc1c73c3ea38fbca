package preview

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// supportMachines are the VMs of support services, of clusters in their order.
func (m *Manifests) supportMachines() ([]Machine, error) {
	var out []Machine

	for _, cluster := range m.clusters {
		if kind, _, _ := unstructured.NestedString(cluster.Object, "spec", "infrastructureRef", "kind"); kind == "" {
			continue // of a topology
		}

		infra, err := m.olvmClusterOf(cluster.GetNamespace(), cluster.GetName())
		if err != nil || infra == nil || infra.Spec.SupportServices == nil {
			continue // where a machine needs it, that one says what is missing
		}

		machines, err := m.supportMachinesOf(cluster.GetName(), infra)
		if err != nil {
			return nil, fmt.Errorf("OLVMCluster %s/%s: %w", infra.Namespace, infra.Name, err)
		}

		out = append(out, machines...)
	}

	return out, nil
}

// supportMachinesOf are the VMs of the support services of one cluster.
func (m *Manifests) supportMachinesOf(name string, infra *infrav1.OLVMCluster) ([]Machine, error) {
	if err := support.Validate(infra.Spec); err != nil {
		return nil, err
	}

	var out []Machine

	for _, service := range support.Services(infra.Spec) {
		key := types.NamespacedName{Namespace: infra.Namespace, Name: service.VM.MachineTemplateName}
		template := m.templates[key]
		if template == nil {
			return nil, fmt.Errorf("%s.machineTemplateName: OLVMMachineTemplate %s is neither in the manifests nor in "+
				"the management cluster; add it, or correct the name", service.Field, key)
		}

		for _, vm := range service.VMs(infra.Name) {
			made, err := service.NewMachine(infra, vm, template)
			if err != nil {
				return nil, err
			}

			machine := Machine{
				Cluster:       name,
				From:          "OLVMCluster/" + infra.Name + " " + service.Name,
				Namespace:     infra.Namespace,
				Name:          vm.Name,
				infraName:     vm.Name,
				service:       service.Name,
				failureDomain: vm.FailureDomain,
				format:        bootstrap.CloudConfig,
				spec:          made.Spec,
				olvmCluster:   infra,
			}

			if there := m.olvmMachines[machine.key()]; there != nil && support.ServiceOf(there) == service.Name {
				machine.uid, machine.spec, machine.live = there.UID, there.Spec, true
				machine.provisioned = ptr.Deref(there.Status.Initialization.Provisioned, false)
				machine.Replaced = service.Outdated(there, vm)
				if machine.recorded, err = addressing.Recorded(there); err != nil {
					return nil, fmt.Errorf("OLVMMachine %s: %w", vm.Name, err)
				}
			}

			out = append(out, machine)
		}
	}

	return out, nil
}
