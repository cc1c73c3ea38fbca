package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// Overview describes an OLVMInventory in a list.
type Overview struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Total, Available, Claimed, Recycling and Ineligible count the VMs.
	Total      int32 `json:"total"`
	Available  int32 `json:"available"`
	Claimed    int32 `json:"claimed"`
	Recycling  int32 `json:"recycling"`
	Ineligible int32 `json:"ineligible"`
	// Problem explains why the inventory is not ready. It is "" if the inventory is ready.
	Problem string `json:"problem,omitempty"`
	// VMs are the VMs of the inventory, sorted by name.
	VMs []OverviewVM `json:"vms"`
}

// OverviewVM describes an OLVMInventoryVM in a list.
type OverviewVM struct {
	Name  string `json:"name"`
	VMID  string `json:"vmID"`
	Phase string `json:"phase"`
	// Reason and Message explain the phase. They are "" if the phase needs no explanation.
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	VMStatus string `json:"vmStatus,omitempty"`
	HostName string `json:"hostName,omitempty"`
	// Cluster and Machine have the claim. They are "" without a claim.
	Cluster  string                           `json:"cluster,omitempty"`
	Machine  string                           `json:"machine,omitempty"`
	Networks []infrav1alpha1.InventoryNetwork `json:"networks,omitempty"`
	Labels   map[string]string                `json:"labels,omitempty"`
}

// List returns the inventories of a namespace, or of all namespaces if namespace is "", sorted by namespace and name. A
// name that is not empty selects one inventory. List returns an error if that inventory does not exist.
func List(ctx context.Context, reader client.Reader, namespace, name string) ([]Overview, error) {
	var pools infrav1alpha1.OLVMInventoryList
	if err := reader.List(ctx, &pools, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the OLVMInventories: %w", err)
	}

	var vms infrav1alpha1.OLVMInventoryVMList
	if err := reader.List(ctx, &vms, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the OLVMInventoryVMs: %w", err)
	}

	out := []Overview{}
	var names []string

	for i := range pools.Items {
		pool := &pools.Items[i]
		names = append(names, pool.Name)
		if name == "" || pool.Name == name {
			out = append(out, newOverview(pool, vms.Items))
		}
	}

	if name != "" && len(out) == 0 {
		return nil, fmt.Errorf("there is no OLVMInventory %s in namespace %s; existing ones: %q", name, namespace,
			names)
	}

	slices.SortFunc(out, func(a, b Overview) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})

	return out, nil
}

func newOverview(pool *infrav1alpha1.OLVMInventory, vms []infrav1alpha1.OLVMInventoryVM) Overview {
	out := Overview{
		Namespace:  pool.Namespace,
		Name:       pool.Name,
		Total:      pool.Status.Total,
		Available:  pool.Status.Available,
		Claimed:    pool.Status.Claimed,
		Recycling:  pool.Status.Recycling,
		Ineligible: pool.Status.Ineligible,
		VMs:        []OverviewVM{},
	}
	for _, c := range pool.Status.Conditions {
		if c.Type == infrav1.ReadyCondition && c.Status != "True" {
			out.Problem = strings.TrimSpace(c.Reason + " " + c.Message)
		}
	}

	for i := range vms {
		vm := &vms[i]
		if vm.Namespace != pool.Namespace || vm.Spec.InventoryName != pool.Name {
			continue
		}

		next := OverviewVM{
			Name:     vm.Name,
			VMID:     vm.Spec.VMID,
			Phase:    vm.Status.Phase,
			Reason:   vm.Status.Reason,
			Message:  vm.Status.Message,
			VMStatus: vm.Status.VMStatus,
			HostName: vm.Status.HostName,
			Networks: vm.Status.Networks,
			Labels:   vm.Labels,
		}
		if claim := vm.Spec.ClaimRef; claim != nil {
			next.Cluster, next.Machine = claim.ClusterName, claim.MachineName
		}

		out.VMs = append(out.VMs, next)
	}

	slices.SortFunc(out.VMs, func(a, b OverviewVM) int { return strings.Compare(a.Name, b.Name) })

	return out
}

// AddressList returns the addresses of all networks, separated by commas.
func (v OverviewVM) AddressList() string {
	var out []string
	for _, network := range v.Networks {
		out = append(out, network.IPAddresses...)
	}

	return strings.Join(out, ", ")
}

// PhaseProblem returns the reason and the message of the phase.
func (v OverviewVM) PhaseProblem() string { return strings.Trim(v.Reason+": "+v.Message, ": ") }
