package placement

import (
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newEngine starts an engine and returns a session of its administrator.
func newEngine(t *testing.T, inventory ovirtsim.Inventory) *engine.Client {
	t.Helper()

	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	client, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	return client
}

func TestHostsOfAnotherDataCenterAreInNoFailureDomain(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters = append(inventory.DataCenters, ovirtsim.DataCenter{
		Name: "Lab",
		Clusters: []ovirtsim.Cluster{{
			Name: "Lab", Hosts: []ovirtsim.Host{{Name: "lab-1", AffinityLabels: []string{"rack"}}},
		}},
	})
	client := newEngine(t, inventory)

	for name, hosts := range map[string]infrav1.FailureDomainHosts{
		"by name":  {Names: []string{"lab-1"}},
		"by label": {AffinityLabel: "rack"},
	} {
		domains := func(dataCenter string) (usable int, wrong []error) {
			found, wrong, err := CheckFailureDomains(t.Context(), client, infrav1.OLVMClusterSpec{
				OLVMDatacenterName: dataCenter,
				FailureDomains:     []infrav1.OLVMFailureDomain{{Name: "a", Hosts: hosts}},
			})
			check.Error(t, err, "")

			return len(found), wrong
		}

		usable, wrong := domains("Default")
		check.Equal(t, name+": usable elsewhere", usable, 0)
		check.Length(t, name+": wrong elsewhere", wrong, 1)
		check.Contains(t, name+": wrong elsewhere", wrong[0].Error(), `data center "Default"`)
		check.Lacks(t, name+": wrong elsewhere", wrong[0].Error(), "has lab-1")

		usable, wrong = domains("Lab")
		check.Equal(t, name+": usable", usable, 1)
		check.Length(t, name+": wrong", wrong, 0)
	}
}
