package simplane

import (
	"context"
	"errors"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// brokenGuest is a guest that fails to boot.
type brokenGuest struct{ ovirtsim.Guest }

func (brokenGuest) Boot(context.Context, ovirtsim.GuestVM, func(ovirtsim.AgentReport)) error {
	return errors.New("kube-apiserver: address already in use")
}
func (brokenGuest) Node(string) (ovirtsim.GuestNode, bool) { return ovirtsim.GuestNode{}, false }
func (brokenGuest) HandleHalt(string)                      {}
func (brokenGuest) Close()                                 {}

// TestAGuestThatFailsIsNamedWithItsError boots a guest while its control plane endpoint is already in use.
func TestAGuestThatFailsIsNamedWithItsError(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].VMs = []ovirtsim.VM{
		{Name: "demo-1", Cluster: "Default", Template: "Blank", Up: true},
		{Name: "demo-2", Cluster: "Default", Template: "Blank"},
	}

	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory, Guest: brokenGuest{}})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	p := &Plane{Engine: ovirtsim.Connection{ControlURL: sim.ControlURL()}, EngineCA: sim.CA()}

	var got []string
	for len(got) == 0 && t.Context().Err() == nil { // the guest boots concurrently
		got, err = p.QueryGuestErrors(t.Context())
		check.Error(t, err, "")
	}

	check.Equal(t, "guest errors", got, []string{
		"the guest of VM demo-1 did not come up: kube-apiserver: address already in use",
	})
}
