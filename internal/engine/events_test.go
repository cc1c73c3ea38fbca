package engine_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEventsOfAVM finds those of one VM, newest first, and no more than were asked for.
func TestEventsOfAVM(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	c, ctx := client(t, config), t.Context()

	dc, err := c.DataCenter(ctx, "Default")
	check.Error(t, err, "")
	disk, err := c.StorageDomain(ctx, dc, "olvm-data")
	check.Error(t, err, "")

	for _, alias := range []string{"one", "two"} {
		_, err := c.CreateDisk(ctx, &engine.Disk{
			Alias: ptr.To(alias), Format: "cow", Sparse: ptr.To(true), ProvisionedSize: 1 << 20,
			StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: disk.ID}}},
		})
		check.Error(t, err, "")
	}

	all, err := c.Events(ctx, "", 100)
	check.Error(t, err, "")
	check.Equal(t, "the newest is first", all[0].Time >= all[len(all)-1].Time, true)

	newest, err := c.Events(ctx, "", 1)
	check.Error(t, err, "")
	check.Equal(t, "events", len(newest), 1)
	check.Equal(t, "the newest", newest[0], all[0])

	found, err := c.Events(ctx, "severity=normal", 100)
	check.Error(t, err, "")
	check.Equal(t, "of a severity", len(found) > 0, true)

	none, err := c.Events(ctx, "event_vm=prod-md-0-abcde", 100)
	check.Error(t, err, "")
	check.Equal(t, "of a VM that never was", len(none), 0)
}
