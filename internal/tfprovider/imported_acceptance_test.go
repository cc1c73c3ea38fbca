package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file tests applies after an import of all disks of a VM.

// attachmentsOf returns a resource with these disks of a VM.
func attachmentsOf(disks ...string) string {
	out := "resource \"ovirt_disk_attachments\" \"a\" {\n  vm_id = ovirt_vm.a.id\n"
	for _, id := range disks {
		out += "  attachment {\n    disk_id        = " + id + "\n    disk_interface = \"virtio_scsi\"\n" +
			"    active         = true\n  }\n"
	}

	return disk + strings.ReplaceAll(disk, `"d"`, `"e"`) + plainVM + out + "}\n"
}

func TestABlockThatIsRemovedLongAfterAnImportDetachesItsDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	both := attachmentsOf("ovirt_disk.d.id", "ovirt_disk.e.id")
	w := newWorkspace(t, s).config(both)
	w.apply()
	vm := w.text("ovirt_vm.a", "id")
	attached := func() []engine.DiskAttachment {
		t.Helper()
		all, err := s.client.ListDiskAttachments(t.Context(), engine.ID(vm))
		must(t, err)

		return all
	}

	var boot string

	for _, seen := range attached() {
		if *seen.Bootable {
			boot = seen.DiskID().String()
		}
	}

	matching := strings.Replace(both, "    active         = true\n  }\n}\n", "    active         = true\n  }\n"+
		"  attachment {\n    disk_id        = \""+boot+"\"\n    disk_interface = \"virtio_scsi\"\n"+
		"    active         = true\n    bootable       = true\n  }\n}\n", 1)
	w.config(matching).succeed("state", "rm", "ovirt_disk_attachments.a")
	w.importID("ovirt_disk_attachments.a", vm)
	w.settled() // so there is no update
	w.apply()

	w.config(strings.Replace(matching, "  attachment {\n    disk_id        = ovirt_disk.e.id\n"+
		"    disk_interface = \"virtio_scsi\"\n    active         = true\n  }\n", "", 1)).apply()
	check.Length(t, "the disks", attached(), 2)
	w.settled()
}

func TestAnImportKeepsTheBootDiskThatHasNoBlock(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(attachmentsOf("ovirt_disk.d.id", "ovirt_disk.e.id"))
	w.apply()
	vm := w.text("ovirt_vm.a", "id")
	w.succeed("state", "rm", "ovirt_disk_attachments.a")
	w.importID("ovirt_disk_attachments.a", vm)
	check.Contains(t, "the output", strings.ReplaceAll(w.apply(), "\n", " "), "boot disk stays attached")
	w.settled()
	all, err := s.client.ListDiskAttachments(t.Context(), engine.ID(vm))
	must(t, err)
	check.Length(t, "the disks", all, 3)

	// The resource no longer manages it.
	w.config(strings.Replace(attachmentsOf("ovirt_disk.d.id", "ovirt_disk.e.id"), "  vm_id = ovirt_vm.a.id\n",
		"  vm_id = ovirt_vm.a.id\n  detach_unmanaged = true\n", 1)).apply()
	w.settled()
	all, err = s.client.ListDiskAttachments(t.Context(), engine.ID(vm))
	must(t, err)
	check.Length(t, "the disks", all, 2)
}

func TestASnapshotWithMemoryIsImportedWithoutMemoryInTheConfiguration(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s)
	vm := startPlainVM(t, s, w)
	wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })
	w.config(plainVM + strings.Replace(snapshot, "}\n", "  memory = true\n}\n", 1)).apply()
	id := w.text("ovirt_vm_snapshot.s", "id")

	w.config(plainVM+snapshot).succeed("state", "rm", "ovirt_vm_snapshot.s")
	w.importID("ovirt_vm_snapshot.s", vm.String()+"/"+id)
	w.settled()
	check.Equal(t, "its memory", w.value("ovirt_vm_snapshot.s", "memory"), any(true))

	w.config(plainVM+strings.Replace(snapshot, "}\n", "  memory = false\n}\n", 1)).
		wants("ovirt_vm_snapshot.s", "delete+create")
}
