package engine_test

import (
	"errors"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhichVMsAreOff has the statuses of VMs that need no stop: D20. If an engine has lost track of a VM, it reports
// unassigned or no status, and removes the VM without a stop.
func TestWhichVMsAreOff(t *testing.T) {
	off := map[engine.VMStatus]bool{engine.VMDown: true, "unassigned": true, "": true}
	for _, status := range []engine.VMStatus{
		"", "down", "image_illegal", "image_locked", "migrating", "not_responding", "paused", "powering_down",
		"powering_up",
		"reboot_in_progress", "restoring_state", "saving_state", "suspended", "unassigned", "unknown", "up",
		"wait_for_launch",
	} {
		if status.IsOff() != off[status] {
			t.Errorf("status %q: off is %t", status, status.IsOff())
		}
	}
}

// TestListsOfAVMThatIsGone has the engine answer with empty lists: m2, P13. A caller that lists the disks of a VM must
// not mistake this for a VM without disks.
func TestListsOfAVMThatIsGone(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	c := client(t, config)
	const gone = "6a0d7b86-6c0a-4b9e-8a52-5d3f1b1c0001"
	if attached, err := c.ListDiskAttachments(t.Context(), gone); !engine.IsNotFound(err) {
		t.Errorf("a VM that is gone: %v, %v", attached, err)
	}

	_, cluster := home(t, c)
	vm, err := c.CreateVM(t.Context(), &engine.VM{
		Name:     "bare",
		Cluster:  engine.NewRef(cluster.ID),
		Template: engine.NewRef(engine.BlankTemplateID),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}

	if attached, err := c.ListDiskAttachments(t.Context(), vm.ID); err != nil || len(attached) != 0 {
		t.Errorf("a VM without disks: %v, %v", attached, err)
	}
}

// TestAGroupOfAnyClusterHasItsName creates a group in one cluster and looks for it from another: B4, D2. Names of
// groups are unique in the whole engine.
func TestAGroupOfAnyClusterHasItsName(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	dc := &inventory.DataCenters[0]
	dc.Clusters = append(dc.Clusters, ovirtsim.Cluster{Name: "second"})
	_, config := start(t, ovirtsim.Options{Inventory: inventory})
	c := client(t, config)
	center, first := home(t, c)
	second, err := c.FindCluster(t.Context(), center, "second")
	if err != nil {
		t.Fatal(err)
	}

	made, err := c.CreateAffinityGroup(t.Context(), second.ID, &engine.AffinityGroup{Name: "apart"})
	if err != nil {
		t.Fatal(err)
	}

	found, err := c.ListAffinityGroupsNamed(t.Context(), "apart")
	check.Error(t, err, "")
	check.Length(t, "found", found, 1)
	check.Equal(t, "found[0].ID", found[0].ID, made.ID)

	var fault *engine.Fault
	_, err = c.CreateAffinityGroup(t.Context(), first.ID, &engine.AffinityGroup{Name: "apart"})
	if !errors.As(err, &fault) || fault.StatusCode != 400 {
		t.Errorf("a second one: %v", err)
	}
}
