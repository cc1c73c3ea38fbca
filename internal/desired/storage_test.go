package desired

import (
	"errors"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// newStorageSite returns a site with two additional storage domains, and templates on them. One domain is in
// maintenance and has the lowest ID. The other is on Fibre Channel.
func newStorageSite(t *testing.T) *site {
	t.Helper()

	world := ovirtsim.DefaultInventory()
	dc := &world.DataCenters[0]
	dc.StorageDomains = append(dc.StorageDomains,
		ovirtsim.StorageDomain{Name: "retired", ID: "00000000-1111-4111-8111-111111111111", Maintenance: true},
		ovirtsim.StorageDomain{Name: "san", Type: "fcp"},
	)
	on := func(name string, disks ...ovirtsim.TemplateDisk) {
		for i := range disks {
			disks[i].Size = 1 << 30
		}

		dc.Templates = append(dc.Templates, ovirtsim.Template{Name: name, Disks: disks})
	}
	on("two", ovirtsim.TemplateDisk{StorageDomain: "retired", Copies: []string{"olvm-data"}},
		ovirtsim.TemplateDisk{StorageDomain: "retired", Copies: []string{"olvm-data-2"}})
	on("gone", ovirtsim.TemplateDisk{StorageDomain: "retired"})
	on("on-san", ovirtsim.TemplateDisk{StorageDomain: "san"})

	return siteOf(t, world)
}

// TestDisksGoToStorageThatIsActive has disks without a storageDomainName. Their template is on several storage domains.
func TestDisksGoToStorageThatIsActive(t *testing.T) {
	s := newStorageSite(t)

	for name, vm := range map[string]func(*infrav1.VirtualMachine){
		"a data disk": func(*infrav1.VirtualMachine) {},
		"a copy":      func(vm *infrav1.VirtualMachine) { vm.RootDisk = &infrav1.RootDisk{Clone: ptr.To(true)} },
		"a link":      func(vm *infrav1.VirtualMachine) { vm.RootDisk = &infrav1.RootDisk{Format: "cow"} },
		"a raw copy":  func(vm *infrav1.VirtualMachine) { vm.RootDisk = &infrav1.RootDisk{Format: "raw"} },
	} {
		t.Run(name, func(t *testing.T) {
			built, err := s.build(t, func(in *Input) {
				in.Spec.VMTemplateName = "two"
				in.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "d", Size: "1GB"}}
				vm(&in.Spec.VirtualMachine)
			})
			check.Error(t, err, "")
			check.Equal(t, "the data disk", built.Machine.DataDisks[0].StorageDomainID, s.domain(t, "olvm-data"))

			if disks := built.Machine.TemplateDisks; name != "a data disk" {
				check.Length(t, "template disks", disks, 2)
				check.Equal(t, "the root disk", disks[0].StorageDomainID, s.domain(t, "olvm-data"))
				check.Equal(t, "the other disk", disks[1].StorageDomainID, s.domain(t, "olvm-data-2"))
			}
		})
	}
}

func TestStorageThatIsNotActiveIsRefusedBeforeAnythingIsMade(t *testing.T) {
	s := newStorageSite(t)

	for name, test := range map[string]struct {
		change func(*Input)
		field  string
		reason string
	}{
		"a data disk": {func(in *Input) {
			in.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{
				{Name: "d", Size: "1GB", StorageDomainName: "retired"},
			}
		}, "spec.virtualMachine.dataDisks[0].storageDomainName", infrav1.StorageDomainInactiveReason},
		"the root disk": {func(in *Input) {
			in.Spec.VirtualMachine.RootDisk = &infrav1.RootDisk{StorageDomainName: "retired"}
		}, "spec.virtualMachine.rootDisk.storageDomainName", infrav1.StorageDomainInactiveReason},
		"a lease": {func(in *Input) {
			in.Spec.VirtualMachine.HighAvailability = &infrav1.HighAvailability{LeaseStorageDomainName: "retired"}
		}, "spec.virtualMachine.highAvailability.leaseStorageDomainName", infrav1.StorageDomainInactiveReason},
		"a failure domain": {func(in *Input) {
			in.Cluster.FailureDomains = []infrav1.OLVMFailureDomain{{Name: "a", StorageDomainName: "retired"}}
			in.FailureDomain = "a"
		}, "OLVMCluster spec.failureDomains[a].storageDomainName", infrav1.FailureDomainInvalidReason},
		"a template": {func(in *Input) { in.Spec.VMTemplateName = "gone" },
			"spec.vmTemplateName", infrav1.StorageDomainInactiveReason},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.build(t, test.change)

			var refused *blocker.Error
			check.Equal(t, "refused", errors.As(err, &refused), true)
			check.Equal(t, "field", refused.Field, test.field)
			check.Equal(t, "reason", refused.Reason, test.reason)
			check.Contains(t, "message", refused.Message, `storage domain "retired" has the status maintenance`)
			check.Contains(t, "message", refused.Message, map[bool]string{
				true: "Activate the storage domain in the engine", false: "activate it in the engine",
			}[name == "a template"])
		})
	}
}

// TestRawDisksOnBlockStorageArePreallocated covers disks that an engine refuses only after it has created the VM.
func TestRawDisksOnBlockStorageArePreallocated(t *testing.T) {
	s := newStorageSite(t)
	yes, no := ptr.To(true), ptr.To(false)

	for name, test := range map[string]struct {
		data infrav1.DataDisk
		root *infrav1.RootDisk
		// template is on file storage unless it is "on-san".
		template string
		refused  string
	}{
		"a data disk, not told": {data: infrav1.DataDisk{StorageDomainName: "san"}},
		"a data disk, told":     {data: infrav1.DataDisk{StorageDomainName: "san", Sparse: no}},
		"a sparse data disk": {
			data: infrav1.DataDisk{StorageDomainName: "san", Sparse: yes}, refused: "dataDisks[0].sparse",
		},
		"a sparse data disk, at home": {
			data: infrav1.DataDisk{Sparse: yes}, template: "on-san", refused: "dataDisks[0].sparse",
		},
		"a copy, not told": {root: &infrav1.RootDisk{StorageDomainName: "san", Format: "raw"}},
		"a copy, at home":  {root: &infrav1.RootDisk{Format: "raw"}, template: "on-san"},
		"a sparse copy": {
			root:    &infrav1.RootDisk{StorageDomainName: "san", Format: "raw", Sparse: yes},
			refused: "rootDisk.sparse",
		},
		"a sparse copy, at home": {
			root: &infrav1.RootDisk{Format: "raw", Sparse: yes}, template: "on-san", refused: "rootDisk.sparse",
		},
	} {
		t.Run(name, func(t *testing.T) {
			built, err := s.build(t, func(in *Input) {
				if test.template != "" {
					in.Spec.VMTemplateName = test.template
				}

				if in.Spec.VirtualMachine.RootDisk = test.root; test.root == nil {
					test.data.Name, test.data.Size, test.data.Format = "d", "1GB", "raw"
					in.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{test.data}
				}
			})

			var refused *blocker.Error
			if errors.As(err, &refused) {
				check.Equal(t, "field", refused.Field, "spec.virtualMachine."+test.refused)
				check.Contains(t, "message", refused.Message, `"san" is block storage (fcp)`)

				return
			}

			check.Error(t, err, "")
			check.Equal(t, "field", "", test.refused)

			if test.root == nil {
				check.Equal(t, "sparse", built.Machine.DataDisks[0].Sparse, false)
			} else {
				check.Equal(t, "allocation", built.Machine.TemplateDisks[0].Provisioning, "non-sparse")
			}
		})
	}
}

// TestACopyOnBlockStorageFollowsItsStorage copies a template's raw sparse disk from file to block storage.
func TestACopyOnBlockStorageFollowsItsStorage(t *testing.T) {
	s := newStorageSite(t)
	dc, err := s.client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")

	for domain, want := range map[string]string{"san": "non-sparse", "olvm-data-2": "sparse"} {
		hardware := &engine.Hardware{RootDisk: &engine.Disk{
			ID: "d", Format: engine.FormatRaw, Sparse: ptr.To(true),
			StorageDomain: engine.NewRef(engine.ID(s.domain(t, "olvm-data"))),
		}}

		var out render.Machine
		err := resolveRootDisk(t.Context(), s.client, dc, hardware, infrav1.RootDisk{StorageDomainName: domain}, &out)
		check.Error(t, err, "")
		check.Equal(t, domain+": allocation", out.TemplateDisks[0].Provisioning, want)
	}
}
