package desired

import (
	"context"
	"maps"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestParseMemory(t *testing.T) {
	const gib = 1 << 30
	for text, want := range map[string]int64{
		"7GB":        7 * gib,
		"16GiB":      16 * gib,
		"16G":        16 * gib,
		"16Gi":       16 * gib,
		"512Mi":      gib / 2,
		"262144Ki":   gib / 4,
		"1Ti":        1024 * gib,
		"16gi":       16 * gib,
		"1.5gb":      3 * gib / 2,
		"7680MB":     7680 << 20,
		"8 GB":       8 * gib,
		"1TB":        1024 * gib,
		"4294967296": 4 * gib,
		"256MB":      gib / 4,
		"262144 KB":  gib / 4,
		"12TB":       12 * 1024 * gib,
	} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}

	for _, text := range []string{
		"7 GBB", "", "GB", "-1GB", "1PB", "255MB", "12289GB", "262145KB", "268435457", "1.0001GB", "7,5GB", "0x10GB", "268435456i",
		"268435456iB", "16Gib i", "256.0000001MB",
	} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestOwnerMarkersAreReadBack(t *testing.T) {
	owner := ownermark.Owner{Namespace: "default", Name: "demo-x7k2p", UID: "5f0c"}
	if got, ok := ownermark.ParseOwner(owner.Comment()); !ok || got != owner {
		t.Errorf("%q was read as %+v, %t", owner.Comment(), got, ok)
	}

	for _, comment := range []string{"", "my VM", "capolvm owner=default uid=1", "see capolvm owner=a/b uid=c please"} {
		if got, ok := ownermark.ParseOwner(comment); ok {
			t.Errorf("%q was taken for a marker of %+v", comment, got)
		}
	}
}

func TestWhatALostRunMadeIsFound(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{Timings: ovirtsim.Timings{Clone: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	client, err := engine.New(engine.Config{
		URL:      sim.URL(),
		Username: sim.Username(),
		Password: sim.Password(),
		CA:       sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	dc, err := client.FindDataCenter(ctx, "Default")
	must(err)
	cluster, err := client.FindCluster(ctx, dc, "Default")
	must(err)
	template, err := client.FindTemplate(ctx, dc, "ol9-k8s")
	must(err)
	domain, err := client.FindStorageDomain(ctx, dc, "olvm-data")
	must(err)
	network, err := client.FindNetwork(ctx, dc, "kvm-vlan")
	must(err)
	profile, err := client.FindVNICProfile(ctx, network, "kvm-vlan")
	must(err)
	comment := ownermark.Owner{Namespace: "a", Name: "b", UID: "c"}.Comment()
	vm, err := client.CreateVM(ctx, &engine.VM{
		Name:     "one",
		Comment:  &comment,
		Cluster:  engine.NewRef(cluster.ID),
		Template: engine.NewRef(template.ID),
	}, nil)
	must(err)
	disk := func(alias, owner string) string {
		made, err := client.CreateDiskOnce(ctx, owner, &engine.Disk{
			Alias:           &alias,
			Format:          engine.FormatCow,
			ProvisionedSize: 1 << 30,
			StorageDomains:  &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
		}, nil, func(string) {})
		must(err)
		must(client.WaitDisk(ctx, made.ID, func(string) {}))

		return made.ID.String()
	}
	attached, loose := disk("one_attached", ""), disk("one_loose", comment)
	disk("one_kept", "")
	disk("one_kept", ownermark.Owner{Namespace: "a", Name: "b", UID: "of an earlier machine"}.Comment())
	no := false
	must(engine.Wait(ctx, "the disk to be attached", func(ctx context.Context) (bool, string, error) {
		_, err := client.AttachDisk(ctx, vm.ID, &engine.DiskAttachment{
			Interface: "virtio_scsi",
			Bootable:  &no,
			Disk:      &engine.Disk{ID: engine.ID(attached)},
		})

		return err == nil, "", err
	}, func(string) {}))
	nic, err := client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "nic2", VNICProfile: engine.NewRef(profile.ID)})
	must(err)
	_, err = client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "by-hand", VNICProfile: engine.NewRef(profile.ID)})
	must(err)
	found, err := FindExisting(ctx, client, "Default", "one", infrav1.OLVMMachineSpec{
		AdditionalNetworks: []infrav1.AdditionalNetwork{{}},
		VirtualMachine: infrav1.VirtualMachine{
			DataDisks: []infrav1.DataDisk{{Name: "attached"}, {Name: "loose"}, {Name: "kept"}, {Name: "missing"}},
		},
	})
	must(err)
	want := map[render.Address]string{
		render.VMAddress:                             vm.ID.String(),
		render.NICAddress(1):                         vm.ID.String() + "/" + nic.ID.String(),
		render.DataDiskAddress("attached"):           attached,
		render.DataDiskAttachmentAddress("attached"): vm.ID.String() + "/" + attached,
		render.DataDiskAddress("loose"):              loose,
	}
	if !maps.Equal(found.imports, want) || found.Owner.Name != "b" {
		t.Errorf("found %+v, want %+v", found.imports, want)
	}
}
