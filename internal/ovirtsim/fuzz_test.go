package ovirtsim_test

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// FuzzInventory verifies that the engine can serve every inventory that it accepts.
func FuzzInventory(f *testing.F) {
	f.Add([]byte("dataCenters: [{name: a, clusters: [], networks: [], storageDomains: []}]"))
	f.Add(
		[]byte(
			"dataCenters: [{name: a, storageDomains: [{name: d}], networks: [{name: n, vnicProfiles: [n]}], " +
				"clusters: [{name: c, hosts: [{name: h}]}], templates: [{name: t, disks: [{size: 1Gi}], nics: " +
				"[{name: x, network: n}]}], vms: [{name: v, cluster: c, template: t, up: true}]}]",
		),
	)
	f.Fuzz(func(t *testing.T, content []byte) {
		inventory, err := ovirtsim.ParseInventory(content)
		if err != nil {
			return
		}

		sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory})
		if err != nil {
			t.Fatalf("accepted, but: %v", err)
		}

		sim.Close()
	})
}
