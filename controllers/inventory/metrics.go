package inventory

import (
	"github.com/prometheus/client_golang/prometheus"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// vms counts the VMs of inventories. Administrators create few inventories, so their names may be labels.
var vms = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "capolvm_inventory_vms",
	Help: "VMs of an OLVMInventory by phase: Available, Claimed, Recycling, Ineligible.",
}, []string{"namespace", "inventory", "phase"})

// unscheduled counts the VMs wanted by groups of machines, but missing from their inventory.
var unscheduled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "capolvm_inventory_vms_wanted",
	Help: "VMs of an OLVMInventory that groups of machines request and the pool lacks.",
}, []string{"namespace", "inventory"})

// Collectors returns the metrics of this package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{vms, unscheduled} }

// countVMs updates the metrics of an inventory from its status.
func countVMs(pool *infrav1alpha1.OLVMInventory) {
	for phase, number := range map[string]int32{
		infrav1alpha1.InventoryVMAvailable:  pool.Status.Available,
		infrav1alpha1.InventoryVMClaimed:    pool.Status.Claimed,
		infrav1alpha1.InventoryVMRecycling:  pool.Status.Recycling,
		infrav1alpha1.InventoryVMIneligible: pool.Status.Ineligible,
	} {
		vms.WithLabelValues(pool.Namespace, pool.Name, phase).Set(float64(number))
	}

	wanted := 0
	for _, group := range pool.Status.Unschedulable {
		wanted += int(group.Wanted)
	}

	unscheduled.WithLabelValues(pool.Namespace, pool.Name).Set(float64(wanted))
}

// dropMetrics drops the metrics of a deleted inventory.
func dropMetrics(namespace, name string) {
	of := prometheus.Labels{"namespace": namespace, "inventory": name}
	vms.DeletePartialMatch(of)
	unscheduled.DeletePartialMatch(of)
}
