package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// keptBySnapshots are resources the engine does not destroy while a snapshot of their VM has them. The values are from
// the engine's message.
var keptBySnapshots = map[string]string{
	"ovirt_disk_attachment":  "snapshot",
	"ovirt_disk_attachments": "snapshot",
}

// TestASnapshotInTheWayOfADestruction makes a snapshot of a VM by hand, and destroys each resource of the VM. A
// destruction rejected by the engine fails with the engine's message, and succeeds after the snapshot is gone.
func TestASnapshotInTheWayOfADestruction(t *testing.T) {
	t.Parallel()

	for typeName, c := range lostCases() {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			d := newDirect(t, newSite(t, quick))
			of := c.prepare(d)
			m := d.make(typeName, of)

			vm := vmOf(of)
			if typeName == "ovirt_vm" {
				vm = engine.ID(m.text("id"))
			}

			if vm == "" {
				return // without a VM, there is no snapshot
			}

			d.snapshot(vm)
			d.begin()
			wrong := strings.Join(m.destroy(), "\n")

			if words := keptBySnapshots[typeName]; words != "" {
				check.Contains(t, "the problem", wrong, words)
				must(t, d.site.client.RemoveSnapshots(t.Context(), vm, func(string) {}))
				wrong = strings.Join(m.destroy(), "\n")
			}

			check.Equal(t, "the problems", wrong, "")

			if c.count != nil && typeName != "ovirt_vm_snapshot" {
				check.Equal(t, "the objects", c.count(d, of), 0)
			}
		})
	}
}

// snapshot makes a snapshot of a VM by hand, and waits for it.
func (d *direct) snapshot(vm engine.ID) {
	d.t.Helper()
	wait.For(d.t, "a snapshot is begun", func() error {
		_, err := d.site.client.CreateSnapshot(d.t.Context(), vm, "by hand", false)
		return err
	})
	wait.Until(d.t, "the snapshot is made", func() bool {
		all, err := d.site.client.ListSnapshots(d.t.Context(), vm)
		must(d.t, err)

		return all[len(all)-1].Status == engine.SnapshotOK
	})
}
