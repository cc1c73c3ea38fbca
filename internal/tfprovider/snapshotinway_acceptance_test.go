package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// keptBySnapshots lists the resources that the engine does not destroy while they belong to a snapshot of their VM. The
// values come from the engine's message.
var keptBySnapshots = map[string]string{
	"ovirt_disk_attachment":  "snapshot",
	"ovirt_disk_attachments": "snapshot",
}

// TestASnapshotInTheWayOfADestruction creates a snapshot of a VM by hand, and destroys each resource of the VM. If the
// engine rejects a destruction, the error has the engine's message. The destruction succeeds after the snapshot is
// gone.
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
				return // there is no snapshot without a VM
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

// snapshot creates a snapshot of a VM by hand, and waits until it is complete.
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
