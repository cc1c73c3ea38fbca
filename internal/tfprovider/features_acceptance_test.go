package tfprovider_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file tests features that the released provider does not have.

// stateText returns the content of the state file, and of its backup if there is one.
func (w *workspace) stateText() string {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	must(w.t, err)
	backup, _ := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate.backup"))

	return string(content) + string(backup)
}

// secretVM returns a VM whose user data are in no state.
func secretVM(script, version string) string {
	return strings.TrimSuffix(plainVM, "}\n") + "  initialization_custom_script_wo         = \"" + script + "\"\n" +
		"  initialization_custom_script_wo_version = " + version + "\n}\n"
}

func TestWriteOnlyUserDataIsInNoPlanAndNoState(t *testing.T) {
	t.Parallel()
	writeOnlyAttributes.require(t)
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(secretVM("#cloud-config canary-1", "1"))
	w.succeed("plan", "-out=plan.tfplan", "-no-color", "-input=false")
	planned, _, _ := strings.Cut(w.succeed("show", "-json", "plan.tfplan"), `"configuration":`)
	check.Lacks(t, "the plan", planned, "canary") // otherwise the plan shows the configuration in plain text
	w.apply()
	w.settled()
	check.Lacks(t, "the state", w.stateText(), "canary")
	check.Equal(t, "the user data", s.vm(t, "a").Initialization.CustomScript, "#cloud-config canary-1")

	// Only the version signals a change of the user data.
	w.config(secretVM("#cloud-config canary-2", "1")).settled()
	w.config(secretVM("#cloud-config canary-2", "2")).wants("ovirt_vm.a", "delete+create")
	w.apply()
	check.Equal(t, "the user data", s.vm(t, "a").Initialization.CustomScript, "#cloud-config canary-2")

	w.config(plainVM).wants("ovirt_vm.a", "update") // a guest has read it, so removing it replaces nothing
	w.apply()
	w.settled()
}

func TestUserDataMovesOutOfTheStateWithoutAnotherVM(t *testing.T) {
	t.Parallel()
	writeOnlyAttributes.require(t)
	s := newSite(t, quick)
	shown := strings.TrimSuffix(plainVM, "}\n") + "  initialization_custom_script = \"#cloud-config canary\"\n}\n"
	w := newWorkspace(t, s).config(shown)
	w.apply()
	id := s.vm(t, "a").ID

	w.config(secretVM("#cloud-config other", "1")).wants("ovirt_vm.a", "delete+create")
	w.config(secretVM("#cloud-config canary", "1")).wants("ovirt_vm.a", "update")
	w.apply()
	w.settled()
	check.Equal(t, "the VM", s.vm(t, "a").ID, id)
	check.Equal(t, "the user data in the state", w.text("ovirt_vm.a", "initialization_custom_script"), "")

	// An import reads the user data, and the next apply drops it from the state.
	w.succeed("state", "rm", "ovirt_vm.a")
	w.importID("ovirt_vm.a", id.String())
	w.wants("ovirt_vm.a", "update")
	w.apply()
	w.settled()
	check.Equal(t, "the VM", s.vm(t, "a").ID, id)
}

func TestWriteOnlyUserDataNeedsItsVersionAndNoOther(t *testing.T) {
	t.Parallel()
	writeOnlyAttributes.require(t)
	s := newSite(t, quick)
	w := newWorkspace(t, s)
	alone := strings.Replace(secretVM("x", "1"), "  initialization_custom_script_wo_version = 1\n", "", 1)
	check.Contains(t, "without a version", w.config(alone).fail(), "initialization_custom_script_wo_version")
	both := strings.TrimSuffix(secretVM("x", "1"), "}\n") + "  initialization_custom_script = \"y\"\n}\n"
	check.Contains(t, "with both", w.config(both).fail(), "initialization_custom_script")
}

func TestAnAdoptedVMGetsWriteOnlyUserData(t *testing.T) {
	t.Parallel()
	writeOnlyAttributes.require(t)
	s := newSite(t, quick)
	adopted := plainVM + `
resource "ovirt_adopted_vm" "a" {
  vm_id                                   = ovirt_vm.a.id
  initialization_custom_script_wo         = "#cloud-config canary"
  initialization_custom_script_wo_version = 1
}
`
	w := newWorkspace(t, s).config(adopted)
	w.apply()
	w.settled()
	check.Lacks(t, "the state", w.stateText(), "canary")
	check.Equal(t, "the user data", s.vm(t, "a").Initialization.CustomScript, "#cloud-config canary")
	w.config(strings.Replace(adopted, "_version = 1", "_version = 2", 1)).wants("ovirt_adopted_vm.a", "delete+create")
}

// nicWith returns a network interface with an additional line.
func nicWith(line string) string { return strings.TrimSuffix(plainNIC, "}\n") + "  " + line + "\n}\n" }

func TestANetworkInterfaceIsUnlinkedAndUnplugged(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + nicWith("linked = false"))
	w.apply()
	w.settled()
	vm := w.text("ovirt_vm.a", "id")
	wait.For(t, "the VM starts", func() error { return s.client.StartVM(t.Context(), engine.ID(vm), false) })
	wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })

	for _, step := range []struct {
		line            string
		linked, plugged bool
	}{
		{"plugged = false", false, false},
		{"linked = true", true, false}, // the interface keeps a setting removed from the configuration
		{"plugged = true", true, true},
	} {
		w.config(plainVM+nicWith(step.line)).wants("ovirt_nic.a", "update")
		w.apply()
		w.settled()
		nic := s.nics(t, vm)[0]
		check.Equal(t, step.line+": linked", *nic.Linked, step.linked)
		check.Equal(t, step.line+": plugged", *nic.Plugged, step.plugged)
	}

	// A manual change is drift if it contradicts the configuration.
	must(t, s.client.UnplugNIC(t.Context(), engine.ID(vm), s.nics(t, vm)[0].ID))
	w.wants("ovirt_nic.a", "update")
	w.apply()
	check.Equal(t, "plugged", *s.nics(t, vm)[0].Plugged, true)

	// An unplugged interface gets another address without being plugged.
	w.config(plainVM + nicWith("plugged = false\n  mac = \"56:6f:1a:aa:00:21\"")).apply()
	check.Equal(t, "plugged", *s.nics(t, vm)[0].Plugged, false)
	w.settled()
}

// TestAStateOfBeforeShowsNoDrift has a state from before ovirt_nic had the attributes linked and plugged. The manager
// treats any value that a read adds to a state as a manual change.
func TestAStateOfBeforeShowsNoDrift(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + plainNIC)
	w.apply()

	path := filepath.Join(w.dir, "terraform.tfstate")
	content, err := os.ReadFile(path)
	must(t, err)
	before := strings.NewReplacer(`"linked": true,`, "", `"plugged": true,`, "").Replace(string(content))
	check.Equal(t, "the state has changed", len(before) < len(content), true)
	must(t, os.WriteFile(path, []byte(before), 0o600))

	w.succeed("plan", "-out=plan.tfplan", "-no-color", "-input=false")
	var plan struct {
		Drift []struct{ Address string } `json:"resource_drift"`
	}
	must(t, json.Unmarshal([]byte(w.succeed("show", "-json", "plan.tfplan")), &plan))

	for _, change := range plan.Drift {
		check.Equal(t, "what was changed outside", change.Address, "ovirt_vm.a") // only its status
	}

	w.settled()

	w.config(plainVM+nicWith("linked = false")).wants("ovirt_nic.a", "update")
	w.apply()
	w.settled()
	check.Equal(t, "linked", *s.nics(t, w.text("ovirt_vm.a", "id"))[0].Linked, false)
}

const snapshot = `
resource "ovirt_vm_snapshot" "s" {
  vm_id       = ovirt_vm.a.id
  description = "before"
}
`

func TestASnapshotIsMadeOnceAndRemoved(t *testing.T) {
	t.Parallel()

	for name, fault := range map[string]*ovirtsim.Fault{
		"all is well":               nil,
		"the answer is lost":        {Method: "POST", Path: "/snapshots$", Action: "cut-after", Count: 1},
		"the removal has no answer": {Method: "DELETE", Path: "/snapshots/", Action: "cut-after", Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, quick)
			w := newWorkspace(t, s).config(plainVM)
			w.apply()
			wait.Until(t, "the disks are copied", func() bool { return s.vm(t, "a").Status == engine.VMDown })
			if fault != nil {
				must(t, s.sim.Inject(*fault))
			}

			w.config(plainVM + snapshot).apply()
			w.settled()
			vm := s.vm(t, "a").ID
			all, err := s.client.ListSnapshots(t.Context(), vm)
			must(t, err)
			check.Length(t, "the snapshots", all, 1)
			check.Equal(t, "its status", all[0].Status, engine.SnapshotOK)

			w.succeed("state", "rm", "ovirt_vm_snapshot.s")
			w.importID("ovirt_vm_snapshot.s", vm.String()+"/"+all[0].ID.String())
			w.settled()

			w.config(plainVM).apply()
			all, err = s.client.ListSnapshots(t.Context(), vm)
			must(t, err)
			check.Length(t, "the snapshots", all, 0)
		})
	}
}

func TestASnapshotThatSomebodyRemovedIsPlannedAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + snapshot)
	w.apply()
	must(t, s.client.RemoveSnapshots(t.Context(), s.vm(t, "a").ID, func(string) {}))
	w.wants("ovirt_vm_snapshot.s", "create")
	w.apply()
	w.config(plainVM+strings.Replace(snapshot, "before", "after", 1)).wants("ovirt_vm_snapshot.s", "delete+create")
	w.destroy() // the engine deletes a VM together with its snapshots
	check.Equal(t, "VMs were deleted", s.count("DELETE", "") > 0, true)
}

func TestTheActiveSnapshotIsNotImported(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM)
	w.apply()
	vm := s.vm(t, "a").ID
	w.config(plainVM + snapshot)
	output, exit := w.run("import", "-no-color", "-input=false", "ovirt_vm_snapshot.s",
		vm.String()+"/"+s.activeSnapshot(t, vm))
	check.Equal(t, "the exit code", exit, 1)
	check.Contains(t, "the message", output, "no snapshot that a user made")
}

// request sends an XML request that the engine's client has no method for.
func (s *site) request(t *testing.T, method, path, body string) string {
	t.Helper()
	token, err := s.client.ShareToken(t.Context(), "")
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, s.client.APIURL()+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/xml")
	request.Header.Set("Accept", "application/xml")

	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(s.sim.CA())
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
	}}
	answer, err := client.Do(request)
	must(t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	must(t, err)
	check.Equal(t, method+" "+path+" is refused", answer.StatusCode >= http.StatusBadRequest, false)

	return string(content)
}

var firstID = regexp.MustCompile(` id="([0-9a-f-]{36})"`)

// activeSnapshot returns the ID of the active snapshot of a VM. The VM must have no other snapshot.
func (s *site) activeSnapshot(t *testing.T, vm engine.ID) string {
	t.Helper()
	return firstID.FindStringSubmatch(s.request(t, "GET", "/vms/"+vm.String()+"/snapshots", ""))[1]
}

// isoDisk creates a disk with an ISO image.
func (s *site) isoDisk(t *testing.T, alias string) engine.ID {
	t.Helper()
	made := s.request(t, "POST", "/disks", "<disk><alias>"+alias+"</alias><content_type>iso</content_type>"+
		"<format>raw</format><provisioned_size>1048576</provisioned_size><storage_domains><storage_domain id=\""+
		s.ids["$storage"]+"\"/></storage_domains></disk>")
	id := engine.ID(firstID.FindStringSubmatch(made)[1])
	must(t, s.client.WaitDisk(t.Context(), id, func(string) {}))

	return id
}

func TestAnImageIsInTheDriveOfAVM(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	first, second := s.isoDisk(t, "first"), s.isoDisk(t, "second")
	drive := func(image engine.ID) string {
		return plainVM + "resource \"ovirt_vm_cdrom\" \"c\" {\n  vm_id = ovirt_vm.a.id\n  disk_id = \"" +
			image.String() + "\"\n}\n"
	}
	w := newWorkspace(t, s).config(drive(first))
	w.apply()
	w.settled()
	vm := s.vm(t, "a").ID
	image := func() engine.ID {
		seen, err := s.client.FetchCDROM(t.Context(), vm)
		must(t, err)

		return seen.ImageID()
	}
	check.Equal(t, "the image", image(), first)

	wait.For(t, "the VM starts", func() error { return s.client.StartVM(t.Context(), vm, false) })
	wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })
	w.config(drive(second)).wants("ovirt_vm_cdrom.c", "update")
	w.apply()
	w.settled()
	check.Equal(t, "the image", image(), second)

	w.succeed("state", "rm", "ovirt_vm_cdrom.c")
	check.Contains(t, "an image that is there", w.fail(), "import it with the ID "+vm.String())
	w.importID("ovirt_vm_cdrom.c", vm.String())
	w.settled()

	w.config(plainVM).apply()
	check.Equal(t, "the image", image(), "")
	w.config(drive("00000000-0000-0000-0000-0000000000aa"))
	check.Contains(t, "an unknown image", w.fail(), "Invalid ISO image path")
}

func TestAffinityLabelsOfVMsAndHosts(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	hosts, err := s.client.ListHosts(t.Context())
	must(t, err)
	config := plainVM + `
resource "ovirt_affinity_label" "l" { name = "licensed" }
resource "ovirt_vm_affinity_label" "v" {
  label_id = ovirt_affinity_label.l.id
  vm_id    = ovirt_vm.a.id
}
resource "ovirt_host_affinity_label" "h" {
  label_id = ovirt_affinity_label.l.id
  host_id  = "` + hosts[0].ID.String() + `"
}
`
	w := newWorkspace(t, s).config(config)
	must(t, s.sim.Inject(ovirtsim.Fault{
		Method: http.MethodPost, Path: "/affinitylabels$", Action: "cut-after", Count: 2,
	}))
	w.apply()
	w.settled()
	label, vm := w.text("ovirt_affinity_label.l", "id"), w.text("ovirt_vm.a", "id")

	renamed := strings.Replace(config, `{ name = "licensed" }`,
		"{\n  name = \"oracle\"\n  implicit_affinity_group = true\n}", 1)
	w.config(renamed).wants("ovirt_affinity_label.l", "update")
	w.apply()
	w.settled()
	seen, err := s.client.FetchAffinityLabel(t.Context(), engine.ID(label))
	must(t, err)
	check.Equal(t, "its name", seen.Name, "oracle")
	check.Equal(t, "implicit", *seen.Implicit, true)

	for address, id := range map[string]string{
		"ovirt_affinity_label.l":      label,
		"ovirt_vm_affinity_label.v":   label + "/" + vm,
		"ovirt_host_affinity_label.h": label + "/" + hosts[0].ID.String(),
	} {
		w.succeed("state", "rm", address)
		w.importID(address, id)
	}

	w.settled()

	must(t, s.client.RemoveAffinityLabel(t.Context(), engine.LabelledVM, engine.ID(vm), engine.ID(label)))
	w.wants("ovirt_vm_affinity_label.v", "create")
	w.apply()

	other := newWorkspace(t, s).config("resource \"ovirt_affinity_label\" \"l\" { name = \"oracle\" }\n")
	check.Contains(t, "the name of somebody else's", other.fail(), "import that")
	w.destroy()
	left, err := s.client.ListAffinityLabelsNamed(t.Context(), "oracle")
	must(t, err)
	check.Length(t, "the labels", left, 0)
}

func TestFunctionsForSizes(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(strings.TrimSuffix(plainVM, "}\n") + `
  memory = provider::ovirt::bytes("2 GiB")
}
output "size" { value = provider::ovirt::size(ovirt_vm.a.memory) }
`)
	w.apply()
	w.settled()
	check.Equal(t, "the memory", *s.vm(t, "a").Memory, int64(2<<30))
	check.Contains(t, "the size", w.succeed("output", "-no-color"), `"2GiB"`)
	w.config("output \"o\" { value = provider::ovirt::bytes(\"2 gigs\") }\n")
	check.Contains(t, "the message", w.fail(), "is no size")
}

func TestATokenAndAConsoleAreInNoState(t *testing.T) {
	t.Parallel()
	writeOnlyAttributes.require(t)
	s := newSite(t, quick)
	config := machine + `
ephemeral "ovirt_token" "t" {}
ephemeral "ovirt_vm_console" "c" { vm_id = ovirt_vm_start.a.id }
resource "ovirt_vm" "b" {
  name        = "b"
  cluster_id  = "$cluster"
  template_id = "$template"
  initialization_custom_script_wo = join("\n", [
    ephemeral.ovirt_token.t.token, ephemeral.ovirt_vm_console.c.viewer_file,
  ])
  initialization_custom_script_wo_version = 1
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()

	token, file, _ := strings.Cut(s.vm(t, "b").Initialization.CustomScript, "\n")
	check.Equal(t, "there is a token", len(token) > 20, true)
	check.Contains(t, "the connection file", file, "[virt-viewer]")
	check.Lacks(t, "the state", w.stateText(), token)
	check.Lacks(t, "the state", w.stateText(), "virt-viewer")
}

func TestADiskOfAnImageBecomesADisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s)
	w.config(`
resource "ovirt_disk_from_image" "i" {
  alias             = "image"
  format            = "raw"
  sparse            = true
  source_file       = "` + image(t, 9<<20, 0) + `"
  storage_domain_id = "$storage"
}
`).apply()
	id := w.text("ovirt_disk_from_image.i", "id")
	w.config(`
moved {
  from = ovirt_disk_from_image.i
  to   = ovirt_disk.d
}
resource "ovirt_disk" "d" {
  alias             = "image"
  format            = "raw"
  sparse            = true
  size              = 9437184
  storage_domain_id = "$storage"
}
`).apply()
	w.settled()
	check.Equal(t, "the disk", w.text("ovirt_disk.d", "id"), id)
}
