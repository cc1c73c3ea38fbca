package main

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newSiteOfTwo returns a site whose engine has a second data center, Lab. Lab has objects with the same names as the
// first data center. It also has a template "solo" and a VM of its own.
func newSiteOfTwo(t *testing.T) *site {
	t.Helper()
	t.Setenv("OCNE_DEFAULTS", "")

	inventory := ovirtsim.DefaultInventory()
	lab := ovirtsim.DefaultInventory().DataCenters[0]
	lab.Name = "Lab"
	lab.Clusters[0].Hosts = []ovirtsim.Host{{Name: "lab-1"}}
	lab.Templates = append(lab.Templates, ovirtsim.Template{Name: "solo", Cluster: "Default"})
	inventory.DataCenters = append(inventory.DataCenters, lab)

	return newSiteWith(t, ovirtsim.Options{Inventory: inventory, Timings: ovirtsim.DefaultTimings().Faster(20)})
}

// makeDisk creates a disk in a data center, with content unlike our images.
func (s *site) makeDisk(dataCenter, alias string) {
	s.t.Helper()

	client, err := engine.New(engine.Config{
		URL: s.sim.URL(), Username: s.sim.Username(), Password: s.sim.Password(), CA: s.sim.CA(),
	})
	check.Error(s.t, err, "")

	dc, err := client.FindDataCenter(s.t.Context(), dataCenter)
	check.Error(s.t, err, "")

	domain, err := client.FindStorageDomain(s.t.Context(), dc, "olvm-data")
	check.Error(s.t, err, "")

	_, err = client.CreateDisk(s.t.Context(), &engine.Disk{
		Alias: &alias, Format: engine.FormatCow, ProvisionedSize: 1 << 30,
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
	})
	check.Error(s.t, err, "")
}

func TestATemplateNameThatOnlyAnotherDataCenterHasIsFree(t *testing.T) {
	s := newSiteOfTwo(t)
	path, _ := rawImage(t)
	s.makeDisk("Lab", "solo") // an alias used in the other data center is free here

	at := []string{"--server", s.sim.URL(), "--ca-file", s.caFile}
	template := append([]string{
		"image", "template", "--file", path, "--name", "solo", "--cluster", "Default", "--storage-domain", "olvm-data",
		"--data-center",
	}, "Default")

	code, id, problems := s.run("", append(template, at...)...)
	check.Equal(t, "exit code, after "+problems, code, 0)
	check.Equal(t, "left", s.leftovers(), "disk solo")

	// In its own data center the name is now taken, and the error names this data center.
	code, _, problems = s.run("", append(template, at...)...)
	check.Equal(t, "exit code of a second one", code, 1)
	check.Contains(t, "a second one", problems,
		`template "solo" already exists in data center "Default" (`+strings.TrimSpace(id)+")")

	_, out, _ := s.run("", append([]string{"image", "list"}, at...)...)
	check.Contains(t, "all data centers", out, "solo       1         Ignition     rhcos_x64   Default")
	check.Contains(t, "all data centers", out, "solo       1         cloud-init   other       Lab")

	_, out, _ = s.run("", append([]string{"image", "list", "--data-center", "Lab"}, at...)...)
	check.Contains(t, "one data center", out, "Lab")
	check.Lacks(t, "one data center", out, "Default")
}

func TestADiskOfAnotherDataCenterIsNotTheOneThatIsNamed(t *testing.T) {
	s := newSiteOfTwo(t)
	s.makeDisk("Lab", "node")

	at := []string{"--server", s.sim.URL(), "--ca-file", s.caFile}
	template := []string{"image", "template", "--disk", "node", "--name", "mine", "--cluster", "Default"}

	code, _, problems := s.run("", append(template, at...)...)
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "problems", problems, `data center "Default" has 0 disks named "node"`)

	s.makeDisk("Default", "node")

	code, _, problems = s.run("", append(template, at...)...)
	check.Equal(t, "exit code, after "+problems, code, 0)
}

func TestAnImageIsNotSentToStorageInMaintenance(t *testing.T) {
	t.Setenv("OCNE_DEFAULTS", "")

	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].StorageDomains[0].Maintenance = true
	s := newSiteWith(t, ovirtsim.Options{Inventory: inventory})
	path, _ := rawImage(t)

	code, _, problems := s.run("", s.uploadOf(path)...)
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "problems", problems, `--storage-domain: storage domain "olvm-data" has the status maintenance`)
	check.Equal(t, "left", s.leftovers(), "")

	// Plans and doctor report it before VMs are created, because the templates exist.
	_, plan, problems := s.run(s.manifests, "plan", "-f", "-", "--ca-file", s.caFile)
	_, report, _ := examined(t, "", "", func(inventory *ovirtsim.Inventory) {
		inventory.DataCenters[0].StorageDomains[0].Maintenance = true
	})

	for command, out := range map[string]string{"plan": plan + problems, "doctor": report} {
		check.Contains(t, command, out, `spec.vmTemplateName: disk "`)
		check.Contains(t, command, out,
			`cannot be copied to a VM: storage domain "olvm-data" has the status maintenance`)
	}
}
