package engine_test

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAllTaggedVMsHaveTheirNetworks has several VMs on one network. The engine includes the name of the network only
// once in its answer.
func TestAllTaggedVMsHaveTheirNetworks(t *testing.T) {
	sim := newEngine(t)
	client := clientOf(t, sim)
	dc, err := client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	network, err := client.FindNetwork(t.Context(), dc, "kvm-vlan")
	check.Error(t, err, "")
	profile, err := client.FindVNICProfile(t.Context(), network, "kvm-vlan")
	check.Error(t, err, "")

	// If asked too early, an engine finds nothing for the same search for a day.
	early, err := client.ListTaggedVMs(t.Context(), "pool")
	check.Error(t, err, "")
	check.Length(t, "VMs before the tag exists", early, 0)

	for _, vm := range taggedVMs(t, client, dc, 3) {
		for _, name := range []string{"nic1", "nic2"} {
			_, err := client.CreateNIC(t.Context(), vm, &engine.NIC{Name: name, VNICProfile: engine.NewRef(profile.ID)})
			check.Error(t, err, "")
		}
	}

	found, err := client.ListTaggedVMs(t.Context(), "pool")
	check.Error(t, err, "")
	check.Length(t, "VMs with the tag", found, 3)

	for _, vm := range found {
		check.Length(t, "NICs", vm.NICs, 2)

		for _, nic := range vm.NICs {
			check.Equal(t, "network of "+vm.Name+" "+nic.Name, nic.ConnectedNetwork(), "kvm-vlan")
		}
	}

	searched, err := client.SearchVMs(t.Context(), "tag=pool or name=nothing")
	check.Error(t, err, "")
	check.Equal(t, "VMs that a search finds", len(searched), 3)
	sorted, err := client.SearchVMs(t.Context(), "tag=pool sortby name desc")
	check.Error(t, err, "")
	check.Equal(t, "VMs that a sorted search finds", len(sorted), 3)
}

// taggedVMs makes VMs with the tag pool.
func taggedVMs(t *testing.T, client *engine.Client, dc *engine.DataCenter, count int) []engine.ID {
	t.Helper()
	cluster, err := client.FindCluster(t.Context(), dc, "Default")
	check.Error(t, err, "")
	tag, err := client.CreateTag(t.Context(), &engine.Tag{Name: "pool"})
	check.Error(t, err, "")

	var out []engine.ID

	for i := range count {
		vm, err := client.CreateVM(t.Context(), &engine.VM{
			Name: string(rune('a' + i)), Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(
				engine.BlankTemplateID,
			),
		}, nil)
		check.Error(t, err, "")
		check.Error(t, client.TagVM(t.Context(), vm.ID, tag.ID), "")

		out = append(out, vm.ID)
	}

	return out
}

func clientOf(t *testing.T, sim *ovirtsim.Server) *engine.Client {
	t.Helper()
	client, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	return client
}
