package tfprovider_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// everything has a resource of each kind that machines and clusters use.
const everything = machine + `
resource "ovirt_tag" "t" {
  name = "blue"
}
resource "ovirt_vm_tag" "t" {
  tag_id = ovirt_tag.t.id
  vm_id  = ovirt_vm.a.id
}
resource "ovirt_affinity_group" "g" {
  name       = "apart"
  cluster_id = "$cluster"
}
resource "ovirt_vm_affinity_group" "g" {
  cluster_id        = "$cluster"
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.a.id
}
resource "ovirt_disk" "d" {
  alias             = "d"
  format            = "cow"
  size              = 1073741824
  storage_domain_id = "$storage"
}
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
  active         = true
}
resource "ovirt_disk" "e" {
  alias             = "e"
  format            = "raw"
  size              = 1073741824
  storage_domain_id = "$storage"
}
resource "ovirt_disk_attachments" "e" {
  vm_id = ovirt_vm.a.id
  attachment {
    disk_id        = ovirt_disk.e.id
    disk_interface = "virtio"
    active         = true
  }
  depends_on = [ovirt_disk_attachment.d]
}
resource "ovirt_vm_disks_resize" "a" {
  vm_id = ovirt_vm.a.id
  size  = 32212254720
}
resource "ovirt_vm_graphics_consoles" "a" {
  vm_id      = ovirt_vm.a.id
  depends_on = [ovirt_vm_disks_resize.a]
}
`

// deletions returns a function for each object of everything that an administrator can delete.
func deletions() map[string]func(t *testing.T, s *site, w *workspace) {
	return map[string]func(t *testing.T, s *site, w *workspace){
		"affinity group": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			must(
				t,
				s.client.DeleteAffinityGroup(
					t.Context(),
					engine.ID(s.ids["$cluster"]),
					engine.ID(w.text("ovirt_affinity_group.g", "id")),
				),
			)
		},
		"membership of the group": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			must(
				t,
				s.client.RemoveFromAffinityGroup(
					t.Context(),
					engine.ID(s.ids["$cluster"]),
					engine.ID(w.text("ovirt_affinity_group.g", "id")),
					engine.ID(w.text("ovirt_vm.a", "id")),
				),
			)
		},
		"tag": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			must(t, s.client.DeleteTag(t.Context(), engine.ID(w.text("ovirt_tag.t", "id"))))
		},
		"tag of the VM": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			must(
				t,
				s.client.UntagVM(
					t.Context(),
					engine.ID(w.text("ovirt_vm.a", "id")),
					engine.ID(w.text("ovirt_tag.t", "id")),
				),
			)
		},
		"network interface": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			vm, nic := w.text("ovirt_vm.a", "id"), w.text("ovirt_nic.a", "id")
			must(t, s.client.UnplugNIC(t.Context(), engine.ID(vm), engine.ID(nic)))
			must(t, s.client.DeleteNIC(t.Context(), engine.ID(vm), engine.ID(nic)))
		},
		"attachment of a disk": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			must(
				t,
				s.client.DetachDisk(
					t.Context(),
					engine.ID(w.text("ovirt_vm.a", "id")),
					engine.ID(w.text("ovirt_disk.d", "id")),
				),
			)
		},
		"attachment among several": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			must(
				t,
				s.client.DetachDisk(
					t.Context(),
					engine.ID(w.text("ovirt_vm.a", "id")),
					engine.ID(w.text("ovirt_disk.e", "id")),
				),
			)
		},
		"disk": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			id := w.text("ovirt_disk.d", "id")
			must(t, s.client.DetachDisk(t.Context(), engine.ID(w.text("ovirt_vm.a", "id")), engine.ID(id)))
			wait.Until(t, "the disk is deleted", func() bool {
				return engine.IsNotFound(s.client.DeleteDisk(t.Context(), engine.ID(id)))
			})
		},
		"VM": func(t *testing.T, s *site, w *workspace) {
			t.Helper()
			id := w.text("ovirt_vm.a", "id")
			must(t, s.client.StopVM(t.Context(), engine.ID(id), true))
			s.deleteVM(t, engine.ID(id))
		},
	}
}

// deletedTogether has groups of deletions that one test can perform in sequence. Each deletes an object that the
// previous ones have left.
var deletedTogether = [][]string{
	{
		"membership of the group", "tag of the VM", "network interface", "attachment of a disk", "attachment among several",
	},
	{"affinity group", "tag", "disk", "VM"},
}

// TestWhatAnAdministratorDeletesIsMadeAgainAndNeverHoldsADestroy deletes each kind of object behind Terraform's back:
// B2, B3, P2, P13, M6, m1, m2. The fast tests delete several objects at once.
func TestWhatAnAdministratorDeletesIsMadeAgainAndNeverHoldsADestroy(t *testing.T) {
	t.Parallel()

	all, together, count := deletions(), deletedTogether, 0

	for _, names := range deletedTogether {
		count += len(names)
	}

	check.Equal(t, "the deletions", count, len(all))

	if !testing.Short() {
		for name := range all {
			together = append(together, []string{name})
		}
	}

	for _, names := range together {
		t.Run(strings.Join(names, ", "), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, quick)
			w := newWorkspace(t, s)
			w.survives(func() {
				for _, name := range names {
					all[name](t, s, w)
				}
			})
		})
	}
}

// survives fails the test unless Terraform recreates everything after a deletion, and can destroy everything.
func (w *workspace) survives(remove func()) {
	w.t.Helper()
	w.config(everything).apply()
	w.settled()

	remove()
	w.apply()
	w.settled()

	remove()
	changed := strings.Replace(everything, `"owner <of> a`, `"another owner <of> a`, 1)
	w.config(changed).apply()
	w.settled()

	remove()
	w.succeed("destroy", "-auto-approve", "-no-color", "-input=false", "-refresh=false")
	w.isEmpty()

	w.apply()
	remove()
	w.destroy()
	w.isEmpty()
}

// isEmpty fails the test if the engine still has objects of the configuration.
func (w *workspace) isEmpty() {
	w.t.Helper()
	if left := w.site.sim.Summarize(); left.VMs+left.Disks+left.NICs != 0 {
		w.t.Errorf("left in the engine: %+v", left)
	}
}

// startedVM is a running VM. Before its removal, Terraform powers it off.
const startedVM = plainVM + `
resource "ovirt_vm_start" "a" {
  vm_id         = ovirt_vm.a.id
  stop_behavior = "stop"
}
`

// TestAVMIsStoppedOnce has an engine that shows a VM as up for three more looks after its stop: P1. The host would
// reject a second stop, so the provider must not request one.
func TestAVMIsStoppedOnce(t *testing.T) {
	t.Parallel()
	s := newHeldSite(t, func(s *site) bool {
		stopped, looks := false, 0

		for _, r := range s.sim.ListRequests() {
			stopped = stopped || strings.HasSuffix(r.Path, "/stop")
			if stopped && r.Method == http.MethodGet && strings.HasPrefix(r.Path, "/api/vms/") {
				looks++
			}
		}

		return stopped && looks < 3
	})
	w := newWorkspace(t, s).config(startedVM)
	w.apply()
	w.destroy()
	if stops := s.count("POST", "/stop"); stops != 1 {
		t.Errorf("the VM was stopped %d times", stops)
	}

	if n := s.sim.Summarize().VMs; n != 0 {
		t.Errorf("%d VMs are left", n)
	}
}

// TestAVMThatGoesWhileItIsStoppedOrStarted deletes a VM by hand between the provider's look and its request: m1.
func TestAVMThatGoesWhileItIsStoppedOrStarted(t *testing.T) {
	t.Parallel()

	// deleting returns a workspace. A user deletes its VM by hand just before the action on it.
	deleting := func(t *testing.T, action string) *workspace {
		t.Helper()
		s := newSite(t, quick)
		var once sync.Once
		proxy := between(t, s, func(r *http.Request) {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/"+action) {
				return
			}

			once.Do(func() {
				vm := s.vm(t, "a")
				if vm.Status == engine.VMUp {
					must(t, s.client.StopVM(t.Context(), vm.ID, true))
				}

				s.deleteVM(t, vm.ID)
			})
		}, nil)

		return newWorkspace(t, s).through(proxy).config(startedVM)
	}

	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, "stop")
		w.apply()
		w.destroy()
	})
	t.Run("started", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, "start")
		if message := w.fail(); !strings.Contains(message, "does not exist") && !strings.Contains(message, "404") {
			t.Errorf("the message is %s", message)
		}

		w.apply()
		w.settled()
		w.destroy()
	})
}

// TestAVMThatTheEngineCannotCompleteIsToldInTheEnginesWords has an engine that gives up a VM while it copies the disks
// and a resource of each kind waits for them.
func TestAVMThatTheEngineCannotCompleteIsToldInTheEnginesWords(t *testing.T) {
	t.Parallel()

	for name, dependent := range map[string]string{
		"its disks grow":        `resource "ovirt_vm_disks_resize" "a" { size = 32212254720 `,
		"it is started":         `resource "ovirt_vm_start" "a" { `,
		"it gets a disk":        `resource "ovirt_disk_attachment" "a" { disk_interface = "virtio" disk_id = "$storage" `,
		"it loses its consoles": `resource "ovirt_vm_graphics_consoles" "a" { `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHeldSite(t, func(*site) bool { return true }) // copies its disks forever

			go func() {
				for t.Context().Err() == nil && s.sim.FailCreation("a") != nil {
					time.Sleep(time.Millisecond)
				}
			}()

			dependent = strings.NewReplacer("{ ", "{\n", ` disk_id`, "\ndisk_id").Replace(dependent)
			failure := newWorkspace(t, s).config(`
resource "ovirt_vm" "a" {
  name        = "a"
  cluster_id  = "$cluster"
  template_id = "$template"
  clone       = true
}
` + dependent + `
  vm_id = ovirt_vm.a.id
}
`).fail()
			check.Contains(t, "the failure", failure, "the engine says: Failed to complete VM a creation. (event code 60)")
		})
	}
}
