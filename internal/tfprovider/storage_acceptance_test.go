package tfprovider_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

const gib = 1 << 30

const disk = `
resource "ovirt_disk" "d" {
  alias             = "data <1> & more"
  format            = "raw"
  size              = 1073741824
  sparse            = true
  storage_domain_id = "$storage"
}
`

const plainVM = `
resource "ovirt_vm" "a" {
  name        = "a"
  cluster_id  = "$cluster"
  template_id = "$template"
}
`

func (s *site) disk(t *testing.T, id engine.ID) *engine.Disk {
	t.Helper()
	found, err := s.client.FetchDisk(t.Context(), id)
	must(t, err)

	return found
}

// TestADiskWithoutSparseIsAsItsStorageNeedsIt omits the allocation: M8. Block storage rejects sparse raw disks.
func TestADiskWithoutSparseIsAsItsStorageNeedsIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	var config strings.Builder

	wants := map[string]bool{"raw_storage": true, "cow_storage": true, "raw_block": false, "cow_block": true}
	for name := range wants {
		format, domain, _ := strings.Cut(name, "_")
		fmt.Fprintf(
			&config,
			"resource \"ovirt_disk\" %q {\n  format = %q\n  size = 1073741824\n  storage_domain_id = \"$%s\"\n}\n",
			name, format, domain,
		)
	}

	w := newWorkspace(t, s).config(config.String())
	w.apply()
	w.settled()

	for name, want := range wants {
		if d := s.disk(t, engine.ID(w.text("ovirt_disk."+name, "id"))); d.Sparse == nil || *d.Sparse != want {
			t.Errorf("%s: the engine has %+v", name, d)
		}
	}
}

func TestADiskFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(disk)
	w.apply()
	w.settled()
	id := w.text("ovirt_disk.d", "id")
	d := s.disk(t, engine.ID(id))
	check.Equal(t, "d.AliasText()", d.AliasText(), "data <1> & more")
	check.Equal(t, "d.ProvisionedSize", d.ProvisionedSize, gib)
	check.Equal(t, "d.Status", d.Status, engine.DiskOK)

	t.Run("an import that matches plans nothing", func(t *testing.T) {
		w.forget()
		w.importID("ovirt_disk.d", id)
		w.settled()
	})
	t.Run("another alias is sent", func(t *testing.T) {
		w.config(strings.Replace(disk, "more", "less", 1))
		w.wants("ovirt_disk.d", "update")
		w.apply()
		if d := s.disk(t, engine.ID(id)); d.AliasText() != "data <1> & less" {
			t.Errorf("the alias is %q", d.AliasText())
		}
	})
	t.Run("more size grows it in place", func(t *testing.T) {
		w.config(strings.Replace(disk, "1073741824", "2147483648", 1))
		w.wants("ovirt_disk.d", "update")
		w.apply()
		w.settled()
		if d := s.disk(t, engine.ID(id)); d.ProvisionedSize != 2*gib {
			t.Errorf("the engine has %d bytes", d.ProvisionedSize)
		}
	})
	t.Run("less size is an error that names the attribute", func(t *testing.T) {
		w.config(disk)
		if message := w.fail(); !strings.Contains(message, "size cannot shrink") {
			t.Errorf("the message is %q", message)
		}
	})
	t.Run("another format needs another disk", func(t *testing.T) {
		w.config(strings.Replace(strings.Replace(disk, "1073741824", "2147483648", 1), `"raw"`, `"cow"`, 1))
		w.wants("ovirt_disk.d", "delete+create")
	})
	t.Run("one that was deleted outside is planned anew", func(t *testing.T) {
		must(t, s.client.RemoveDisk(t.Context(), engine.ID(id), nil))
		w.config(disk)
		w.wants("ovirt_disk.d", "create")
		w.apply()
	})
	w.destroy()
	if n := s.sim.Summarize().Disks; n != 0 {
		t.Errorf("%d disks are left", n)
	}
}

func TestADiskAndItsResizeLiveInPeace(t *testing.T) { // R12
	t.Parallel()
	s := newSite(t, quick)
	resize := func(size int64) string {
		return disk + fmt.Sprintf(
			"resource \"ovirt_disk_resize\" \"d\" {\n  disk_id = ovirt_disk.d.id\n  size = %d\n}\n",
			size,
		)
	}
	w := newWorkspace(t, s).config(resize(2 * gib))
	w.apply()
	w.settled()
	id := w.text("ovirt_disk.d", "id")
	w.config(resize(3 * gib))
	w.wants("ovirt_disk_resize.d", "update")
	w.apply()
	w.settled()
	if d := s.disk(t, engine.ID(id)); d.ProvisionedSize != 3*gib {
		t.Errorf("the engine has %d bytes", d.ProvisionedSize)
	}

	w.config(resize(2 * gib))
	if message := w.fail(); !strings.Contains(message, "size cannot shrink") {
		t.Errorf("the message is %q", message)
	}

	// An imported disk keeps its size, and then gets the configured size once.
	w.config(resize(3 * gib))
	w.forget()
	w.importID("ovirt_disk.d", id)
	w.importID("ovirt_disk_resize.d", id)
	w.wants("ovirt_disk.d", "update")
	w.apply()
	w.settled()
	if d := s.disk(t, engine.ID(id)); d.ProvisionedSize != 3*gib {
		t.Errorf("after the import the engine has %d bytes", d.ProvisionedSize)
	}

	w.config(strings.Replace(resize(3*gib), "1073741824", "1073741823", 1))
	if message := w.fail(); !strings.Contains(message, "size cannot shrink") {
		t.Errorf("after the import the message is %q", message)
	}

	w.config(resize(3 * gib))
	w.destroy()
}

func TestAnImportedResizeOfADiskThatIsLargerTakesOverItsSize(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	large := strings.Replace(disk, "1073741824", "3221225472", 1)
	w := newWorkspace(t, s).config(large)
	w.apply()
	id := w.text("ovirt_disk.d", "id")
	w.config(large + "resource \"ovirt_disk_resize\" \"d\" {\n  disk_id = ovirt_disk.d.id\n  size = 2147483648\n}\n")
	w.importID("ovirt_disk_resize.d", id)
	w.apply()
	w.settled()
	w.destroy()
}

func TestAResizeIsGoneWithItsDisk(t *testing.T) { // R11
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(disk)
	w.apply()
	id := w.text("ovirt_disk.d", "id")
	w.config(
		fmt.Sprintf(
			"removed {\n  from = ovirt_disk.d\n  lifecycle {\n    destroy = false\n  }\n}\nresource "+
				"\"ovirt_disk_resize\" \"d\" {\n  disk_id = %q\n  size = 2147483648\n}\n",
			id,
		),
	)
	w.apply()
	must(t, s.client.RemoveDisk(t.Context(), engine.ID(id), nil))
	w.wants("ovirt_disk_resize.d", "create")
	w.destroy()
}

func TestTheDisksFromWhichAVMBootsAreResizedAndNoOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := disk + plainVM + `
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
  active         = true
}
resource "ovirt_vm_disks_resize" "a" {
  vm_id      = ovirt_vm.a.id
  size       = 32212254720
  depends_on = [ovirt_disk_attachment.d]
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled()
	attachments, err := s.client.ListDiskAttachments(t.Context(), engine.ID(w.text("ovirt_vm.a", "id")))
	must(t, err)
	if len(attachments) != 2 {
		t.Fatalf("the VM has %d disks", len(attachments))
	}

	for i := range attachments {
		want := int64(30 * gib)
		if attachments[i].DiskID().String() == w.text("ovirt_disk.d", "id") {
			want = gib
		}

		if d := s.disk(t, attachments[i].DiskID()); d.ProvisionedSize != want {
			t.Errorf("disk %s has %d bytes, want %d", d.AliasText(), d.ProvisionedSize, want)
		}
	}

	vm := w.text("ovirt_vm.a", "id")
	w.forget()
	w.config(plainVM + "resource \"ovirt_vm_disks_resize\" \"a\" {\n vm_id = ovirt_vm.a.id\n size = 32212254720\n}\n")
	w.importID("ovirt_vm.a", vm)
	w.importID("ovirt_vm_disks_resize.a", vm)
	w.settled()
	w.destroy()
}

func TestADiskAttachmentFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := disk + plainVM + `
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
  active         = true
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled()
	vm, id := w.text("ovirt_vm.a", "id"), w.text("ovirt_disk_attachment.d", "id")
	diskID := w.text("ovirt_disk.d", "id")
	w.forget()
	w.importID("ovirt_vm.a", vm)
	w.importID("ovirt_disk.d", diskID)
	w.importID("ovirt_disk_attachment.d", vm+"/"+id)
	w.settled()
	w.config(strings.Replace(config, `"virtio_scsi"`, `"virtio"`, 1))
	w.wants("ovirt_disk_attachment.d", "update")
	w.apply()
	w.settled()
	must(t, s.client.DetachDisk(t.Context(), engine.ID(vm), engine.ID(id)))
	w.wants("ovirt_disk_attachment.d", "create")
	w.apply()
	w.config(disk + plainVM)
	w.apply()
	if d := s.disk(t, engine.ID(diskID)); d.Status != engine.DiskOK {
		t.Errorf("the detached disk is %s", d.Status)
	}

	w.destroy()
}

func TestDiskAttachmentsKeepWhatIsManaged(t *testing.T) { // R12
	t.Parallel()
	config := func(more, flags string) string {
		return disk + strings.ReplaceAll(disk, `"d"`, `"e"`) + plainVM + `
resource "ovirt_disk_attachments" "a" {
  vm_id = ovirt_vm.a.id
  ` + flags + `
  attachment {
    disk_id        = ovirt_disk.d.id
    disk_interface = "virtio_scsi"
    active         = true
  }
  ` + more + `
}
`
	}
	second := "attachment {\n    disk_id        = ovirt_disk.e.id\n    disk_interface = \"virtio\"\n  }"
	attached := func(t *testing.T, s *site, w *workspace) int {
		t.Helper()
		attachments, err := s.client.ListDiskAttachments(t.Context(), engine.ID(w.text("ovirt_vm.a", "id")))
		must(t, err)

		return len(attachments)
	}
	t.Run("the template's disk stays unless it is said", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(config(second, ""))
		w.apply()
		w.settled()
		if n := attached(t, s, w); n != 3 {
			t.Errorf("the VM has %d disks", n)
		}

		w.config(config("", "")) // the disk of a removed block is detached, but not deleted
		w.apply()
		w.settled()
		if n := attached(t, s, w); n != 2 {
			t.Errorf("the VM has %d disks", n)
		}

		s.disk(t, engine.ID(w.text("ovirt_disk.e", "id")))
		w.destroy()
	})
	t.Run("detach_unmanaged detaches the template's disk", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(config(second, "detach_unmanaged = true"))
		w.apply()
		w.settled()
		if n := attached(t, s, w); n != 2 {
			t.Errorf("the VM has %d disks", n)
		}

		if n := s.sim.Summarize().Disks; n != 3 {
			t.Errorf("the engine has %d disks, want all three", n)
		}
	})
	t.Run("remove_unmanaged deletes the template's disk and no managed one", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(config(second, "remove_unmanaged = true"))
		w.apply()
		w.settled()
		w.config(config("", "remove_unmanaged = true"))
		w.apply()
		w.settled()
		if n := attached(t, s, w); n != 1 {
			t.Errorf("the VM has %d disks", n)
		}

		if n := s.sim.Summarize().Disks; n != 2 {
			t.Errorf("the engine has %d disks, want both managed ones", n)
		}
	})
	t.Run("a change outside is seen, and an import that matches plans nothing", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(config("", "detach_unmanaged = true"))
		w.apply()
		vm, d, e := w.text("ovirt_vm.a", "id"), w.text("ovirt_disk.d", "id"), w.text("ovirt_disk.e", "id")
		must(t, s.client.DetachDisk(t.Context(), engine.ID(vm), engine.ID(d)))
		w.wants("ovirt_disk_attachments.a", "update")
		w.apply()
		w.config(config("", ""))
		w.forget()
		w.importID("ovirt_vm.a", vm)
		w.importID("ovirt_disk.d", d)
		w.importID("ovirt_disk.e", e)
		w.importID("ovirt_disk_attachments.a", vm)
		w.settled()
	})
}

func TestATemplateFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := plainVM + `
resource "ovirt_template" "t" {
  name        = "golden"
  description = "made <by> a test"
  vm_id       = ovirt_vm.a.id
}
data "ovirt_template_disk_attachments" "t" {
  template_id = ovirt_template.t.id
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled() // R12: the provider sends the description
	id := w.text("ovirt_template.t", "id")
	seen, err := s.client.FetchTemplate(t.Context(), engine.ID(id))
	must(t, err)
	if seen.Status != engine.TemplateOK || seen.Description != "made <by> a test" {
		t.Errorf("the engine has %+v", seen)
	}

	if found, _ := w.value("data.ovirt_template_disk_attachments.t", "disk_attachments").([]any); len(found) != 1 {
		t.Errorf("the template has the disks %v", found)
	}

	w.config(strings.Replace(config, "made", "changed", 1))
	w.wants("ovirt_template.t", "update")
	w.apply()
	w.settled()

	other := newWorkspace(t, s).config(strings.Replace(config, `name        = "a"`, `name        = "b"`, 1))
	if message := other.fail(); !strings.Contains(message, id) { // R4
		t.Errorf("the message is %q", message)
	}

	other.destroy()

	must(t, s.client.DeleteTemplate(t.Context(), engine.ID(id)))
	wait.Until(t, "the template is gone", func() bool {
		_, err := s.client.FetchTemplate(t.Context(), engine.ID(id))
		return engine.IsNotFound(err)
	})
	w.config(plainVM + strings.Split(config[len(plainVM):], "data ")[0])
	w.wants("ovirt_template.t", "create")
	w.apply()
	w.destroy()
}

// image writes a file of this length. If virtual is set, the file has a qcow2 header with this virtual size in bytes.
func image(t *testing.T, bytes_ int, virtual uint64) string {
	t.Helper()
	content := bytes.Repeat([]byte("image <&> "), bytes_/10+1)[:bytes_]
	if virtual > 0 {
		header := []any{
			[4]byte{'Q', 'F', 'I', 0xfb},
			uint32(3),
			uint64(0),
			uint32(0),
			uint32(16),
			virtual,
			uint32(0),
			[36]byte{},
			uint64(0),
		}

		var out bytes.Buffer
		for _, field := range header {
			must(t, binary.Write(&out, binary.BigEndian, field))
		}

		copy(content, out.Bytes())
	}

	file := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(file, content, 0o600))

	return file
}

func TestADiskFromAnImage(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := func(file, format string) string {
		return fmt.Sprintf(
			"resource \"ovirt_disk_from_image\" \"i\" {\n  alias = \"image\"\n  format = %q\n  sparse = true\n  "+
				"source_file = %q\n  storage_domain_id = \"$storage\"\n}\n",
			format,
			file,
		)
	}
	qcow := image(t, 20<<20, gib)
	w := newWorkspace(t, s).config(config(qcow, "cow"))
	w.apply()
	w.settled() // R12: the provider sends sparse
	d := s.disk(t, engine.ID(w.text("ovirt_disk_from_image.i", "id")))
	if d.ProvisionedSize != gib || d.Status != engine.DiskOK {
		t.Errorf("the engine has %+v", d)
	}

	w.destroy()

	t.Run("a raw image has the size of its file", func(t *testing.T) {
		w := newWorkspace(t, s).config(config(image(t, 9<<20, 0), "raw"))
		w.apply()
		w.settled()
		if size := w.value("ovirt_disk_from_image.i", "size"); size != float64(9<<20) {
			t.Errorf("the size is %v", size)
		}

		w.destroy()
	})
	t.Run("a connection that breaks is made again", func(t *testing.T) {
		must(t, s.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "image", Status: 503, Count: 2}))
		defer s.sim.ClearFaults()
		w := newWorkspace(t, s).config(config(qcow, "cow"))
		w.apply()
		w.destroy()
	})
	t.Run("a failed upload leaves nothing", func(t *testing.T) {
		must(t, s.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "image", Status: 403}))
		defer s.sim.ClearFaults()
		newWorkspace(t, s).config(config(qcow, "cow")).fail()
		if n := s.sim.Summarize().Disks; n != 0 {
			t.Errorf("%d disks are left", n)
		}
	})
	t.Run("a qcow2 image cannot become a raw disk", func(t *testing.T) {
		if message := newWorkspace(t, s).config(config(qcow, "raw")).fail(); !strings.Contains(message, "qemu-img") {
			t.Errorf("the message is %q", message)
		}
	})
}

func TestADiskWhoseCreationGotNoAnswerIsFoundAndNotMadeTwice(t *testing.T) { // R17
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s)
	w.through(lossy(t, s, "/disks")).config(disk).apply()
	if n := s.sim.Summarize().Disks; n != 1 {
		t.Errorf("the engine has %d disks", n)
	}

	w.settled()
}
