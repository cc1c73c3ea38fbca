package tfprovider_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file tests interrupted creates, and changes while a VM is not ready.

// driveWith returns a VM with an image in its drive.
func driveWith(image engine.ID) string {
	return plainVM + "resource \"ovirt_vm_cdrom\" \"c\" {\n  vm_id = ovirt_vm.a.id\n  disk_id = \"" +
		image.String() + "\"\n}\n"
}

// startPlainVM creates a VM and starts it.
func startPlainVM(t *testing.T, s *site, w *workspace) engine.ID {
	t.Helper()
	w.config(plainVM).apply()
	vm := s.vm(t, "a").ID
	wait.For(t, "the VM starts", func() error { return s.client.StartVM(t.Context(), vm, false) })

	return vm
}

func TestAnImageThatIsInTheDriveAfterAnErrorIsInTheState(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	image := s.isoDisk(t, "first")
	w := newWorkspace(t, s)
	vm := startPlainVM(t, s, w)
	wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })

	// The engine accepts the change for the next start, but rejects the change of the running VM.
	must(t, s.sim.Inject(ovirtsim.Fault{
		Method: http.MethodPut, Path: "/cdroms/", Nth: 2, Count: 1, Status: http.StatusBadRequest,
		Reason: "Operation Failed", Detail: "[Cannot Change CD VM.]",
	}))
	check.Contains(t, "the message", w.config(driveWith(image)).fail(), "Cannot Change CD VM")
	check.Equal(t, "the image in the state", w.text("ovirt_vm_cdrom.c", "disk_id"), image.String())

	w.wants("ovirt_vm_cdrom.c", "delete+create")
	w.apply()
	w.settled()

	drive, err := s.client.FetchCDROM(t.Context(), vm)
	must(t, err)
	check.Equal(t, "the image", drive.ImageID(), image)
}

func TestAnImageThatWasNotPutIntoTheDriveIsNotInTheState(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(driveWith(s.isoDisk(t, "first")))
	must(t, s.sim.Inject(ovirtsim.Fault{
		Method: http.MethodPut, Path: "/cdroms/", Count: 1, Status: http.StatusBadRequest,
		Reason: "Operation Failed", Detail: "[Cannot Change CD VM.]",
	}))
	check.Contains(t, "the message", w.fail(), "Cannot Change CD VM")
	w.wants("ovirt_vm_cdrom.c", "create")
	w.apply()
	w.settled()
}

func TestAnInterfaceThatCannotBeUnlinkedIsInTheState(t *testing.T) {
	t.Parallel()

	for name, fault := range map[string]ovirtsim.Fault{
		"the change is refused":    {Method: http.MethodPut, Path: "/nics/", Nth: 1},
		"the last read is refused": {Method: http.MethodGet, Path: "/nics/[^/]+$", Nth: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, quick)
			w := newWorkspace(t, s).config(plainVM)
			w.apply()

			fault.Count, fault.Status = 1, http.StatusBadRequest
			fault.Reason, fault.Detail = "Operation Failed", "[Not now.]"

			// The engine creates a linked interface, regardless of the request.
			proxy := between(t, s, nil, func(r *http.Response) error {
				if r.Request.Method == http.MethodPost && strings.HasSuffix(r.Request.URL.Path, "/nics") {
					return rewrite(r, "<linked>false</linked>", "<linked>true</linked>")
				}

				return nil
			})
			must(t, s.sim.Inject(fault))
			w.through(proxy).config(plainVM + nicWith("linked = false"))
			check.Contains(t, "the message", w.fail(), "Not now")

			nics := s.nics(t, w.text("ovirt_vm.a", "id"))
			check.Length(t, "the interfaces", nics, 1)
			check.Equal(t, "the interface in the state", w.text("ovirt_nic.a", "id"), nics[0].ID.String())

			w.wants("ovirt_nic.a", "delete+create")
			w.apply()
			w.settled()
			check.Length(t, "the interfaces", s.nics(t, w.text("ovirt_vm.a", "id")), 1)
		})
	}
}

func TestAVMThatStartsGetsItsImageOnceItIsUp(t *testing.T) {
	t.Parallel()
	slow := quick
	slow.PowerUp = 4 * time.Second
	s := newSite(t, slow)
	image := s.isoDisk(t, "first")
	w := newWorkspace(t, s)
	startPlainVM(t, s, w)

	var atOnce, early atomic.Int32

	proxy := between(t, s, func(r *http.Request) {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/cdroms/") {
			return
		}

		if r.URL.Query().Get("current") == "true" {
			atOnce.Add(1)
		}

		if s.vm(t, "a").Status != engine.VMUp {
			early.Add(1)
		}
	}, nil)
	w.through(proxy).config(driveWith(image)).apply()
	check.Equal(t, "changes at once", atOnce.Load(), int32(1))
	check.Equal(t, "changes of a VM that starts", early.Load(), int32(0))
	w.settled()
}

func TestUserDataThatIsUnknownWhenItMovesOutOfTheStateReplacesNothing(t *testing.T) {
	t.Parallel()
	writeOnlyAttributes.require(t)
	s := newSite(t, quick)
	w := newWorkspace(t, s).
		config(strings.TrimSuffix(plainVM, "}\n") + "  initialization_custom_script = \"#cloud-config canary\"\n}\n")
	w.apply()
	id := s.vm(t, "a").ID

	// The ID of a tag is unknown until the tag exists.
	unknown := strings.Replace(secretVM("x", "1"), `"x"`,
		`ovirt_tag.t.id == "" ? "" : "#cloud-config canary"`, 1) +
		"resource \"ovirt_tag\" \"t\" { name = \"blue\" }\n"
	check.Contains(t, "the message", w.config(unknown).fail(), "initialization_custom_script_wo is not known yet")

	w.config(secretVM("#cloud-config canary", "1")).apply()
	w.config(unknown).apply()
	w.settled()
	check.Equal(t, "the VM", s.vm(t, "a").ID, id)
}
