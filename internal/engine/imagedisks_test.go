package engine_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// TestDisksOfVMsAreNoImages has the engine give VMs the alias of their template's disk: M9. The disk of the template,
// the disks that depend on it, and its copies are not disks of an image.
func TestDisksOfVMsAreNoImages(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	c := client(t, config)
	dc, cluster := home(t, c)
	template, err := c.FindTemplate(t.Context(), dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	for name, clone := range map[string]bool{"thin": false, "copied": true} {
		vm := &engine.VM{Name: name, Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(template.ID)}
		if _, err := c.CreateVM(t.Context(), vm, ptr.To(clone)); err != nil {
			t.Fatal(err)
		}
	}

	const alias = "ol9-k8s_Disk1"
	if found, err := c.FindDisks(t.Context(), nil, alias); err != nil || len(found) != 3 {
		t.Fatalf("%d disks have the alias, %v", len(found), err)
	}

	if found, err := c.FindDisksNotFromTemplates(t.Context(), nil, alias); err != nil || len(found) != 0 {
		t.Errorf("%+v, %v", found, err)
	}

	domain, err := c.FindStorageDomain(t.Context(), dc, "olvm-data")
	if err != nil {
		t.Fatal(err)
	}

	image, err := c.CreateDisk(t.Context(), &engine.Disk{
		Alias: ptr.To(alias), Format: engine.FormatCow, Sparse: ptr.To(true), ProvisionedSize: 1 << 30,
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
	})
	if err != nil {
		t.Fatal(err)
	}

	found, err := c.FindDisksNotFromTemplates(t.Context(), nil, alias)
	if err != nil || len(found) != 1 || found[0].ID != image.ID {
		t.Errorf("%+v, %v", found, err)
	}
}
