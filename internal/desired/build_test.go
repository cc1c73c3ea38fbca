package desired

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// site is an engine with two hosts, two networks, two storage domains and a template of each kind.
type site struct {
	*ovirtsim.Server
	config engine.Config
	client *engine.Client
}

func newSite(t *testing.T, version string) *site {
	t.Helper()

	world := ovirtsim.DefaultInventory()
	world.Version = version
	world.Tags = []string{"prod", "k8s"}
	dc := &world.DataCenters[0]
	dc.Clusters[0].Hosts = []ovirtsim.Host{
		{Name: "host-1", Devices: []string{"pci_0", "pci_1"}, MediatedDeviceTypes: []string{"nvidia-63"}},
		{Name: "host-2"},
	}
	dc.Networks = append(dc.Networks, ovirtsim.Network{Name: "many", VNICProfiles: []string{"a", "b", "kvm-vlan"}},
		ovirtsim.Network{Name: "multi", VNICProfiles: []string{"silver", "gold"}},
		ovirtsim.Network{Name: "bare", VNICProfiles: []string{}})
	dc.Templates = append(dc.Templates,
		ovirtsim.Template{Name: "raw", Disks: []ovirtsim.TemplateDisk{
			{Size: 20 << 30, Format: "raw", StorageDomain: "olvm-data-2"}, {Size: 1 << 30},
		}},
		ovirtsim.Template{Name: "diskless"},
		ovirtsim.Template{
			Name: "with-nic", Disks: []ovirtsim.TemplateDisk{{Size: 1 << 30}},
			NICs: []inventory.TemplateNIC{{Name: "eth0", Network: "kvm-vlan"}},
		},
	)

	return siteOf(t, world)
}

// domain returns the UUID of an active storage domain.
func (s *site) domain(t *testing.T, name string) string {
	t.Helper()

	dc, err := s.client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	domain, err := s.client.FindStorageDomain(t.Context(), dc, name)
	check.Error(t, err, "")

	return domain.ID.String()
}

// siteOf returns an engine with an inventory.
func siteOf(t *testing.T, world ovirtsim.Inventory) *site {
	t.Helper()

	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: world, Timings: ovirtsim.Timings{Clone: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)

	s := &site{Server: sim, config: engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	}}
	if s.client, err = engine.New(s.config); err != nil {
		t.Fatal(err)
	}

	return s
}

// input returns the input for a machine with as few fields as possible.
func (s *site) input() Input {
	return Input{
		Spec: infrav1.OLVMMachineSpec{
			OLVMOvirtClusterName: "Default",
			VMTemplateName:       "ol9-k8s",
			OLVMNetwork:          infrav1.OLVMNetwork{NetworkName: "kvm-vlan"},
			VirtualMachine: infrav1.VirtualMachine{
				Memory:  "8GB",
				Network: infrav1.GuestNetwork{Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}}},
			},
		},
		Cluster:           infrav1.OLVMClusterSpec{OLVMDatacenterName: "Default"},
		KubernetesVersion: "v1.36.1",
		VMName:            "demo-1",
		Owner:             ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"},
		Config:            s.config,
	}
}

// build changes an input, fills in its network interfaces, and builds the machine.
func (s *site) build(t *testing.T, change func(*Input)) (*Built, error) {
	t.Helper()

	in := s.input()
	change(&in)

	if in.NICs == nil {
		var err error
		if in.NICs, err = addressing.BuildNICs(in.Spec, in.Cluster); err != nil {
			t.Fatal(err)
		}
	}

	return Build(t.Context(), s.client, in)
}

// ids has the UUIDs of the site's objects by name. The key of a profile is network/profile.
type ids struct {
	cluster                      string
	domains, templates, profiles map[string]string
}

func (s *site) ids(t *testing.T) ids {
	t.Helper()

	ctx := t.Context()
	out := ids{domains: map[string]string{}, templates: map[string]string{}, profiles: map[string]string{}}
	dc, err := s.client.FindDataCenter(ctx, "Default")
	check.Error(t, err, "")
	cluster, err := s.client.FindCluster(ctx, dc, "Default")
	check.Error(t, err, "")

	out.cluster = cluster.ID.String()

	for _, name := range []string{"olvm-data", "olvm-data-2"} {
		out.domains[name] = s.domain(t, name)
	}

	for _, name := range []string{"ol9-k8s", "ock-1.36", "raw", "diskless"} {
		template, err := s.client.FindTemplate(ctx, dc, name)
		check.Error(t, err, "")

		out.templates[name] = template.ID.String()
	}

	for network, names := range map[string][]string{"kvm-vlan": {"kvm-vlan"}, "many": {"a", "b", "kvm-vlan"}} {
		found, err := s.client.FindNetwork(ctx, dc, network)
		check.Error(t, err, "")

		for _, name := range names {
			profile, err := s.client.FindVNICProfile(ctx, found, name)
			check.Error(t, err, "")

			out.profiles[network+"/"+name] = profile.ID.String()
		}
	}

	return out
}

func TestAMachineOfTheFewestFields(t *testing.T) {
	s := newSite(t, "")
	known := s.ids(t)
	built, err := s.build(t, func(*Input) {})
	check.Error(t, err, "")

	want := render.Machine{
		Engine: render.Engine{
			URL: s.URL() + "/api", CA: string(s.CA()), Username: s.Username(), Password: s.Password(),
		},
		Name:       "demo-1",
		HostName:   "demo-1",
		Comment:    ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"}.Comment(),
		ClusterID:  known.cluster,
		TemplateID: known.templates["ol9-k8s"],
		Cores:      2, Sockets: 2, Threads: 1,
		Memory: 8 << 30,
		NICs:   []render.NIC{{Name: "nic1", VNICProfileID: known.profiles["kvm-vlan/kvm-vlan"]}},
		Guests: []render.GuestNIC{{
			Name: "enp1s0", DefaultRoute: true, IPv4: render.IP{Method: render.DHCP},
		}},
	}
	check.Equal(t, "machine", built.Machine, want)
	check.Equal(t, "names", built.Names.VNICProfileName, "kvm-vlan")
	check.Equal(t, "name of the network", built.Names.NetworkName, "kvm-vlan")
	check.Equal(t, "name of the template", built.Names.VMTemplateName, "ol9-k8s")
	check.Equal(t, "name of the interface", built.Names.VNICName, "nic1")
}

// TestWhatAFieldMakesOfAMachine sets one field, and checks its effect on the request to the engine.
func TestWhatAFieldMakesOfAMachine(t *testing.T) {
	s := newSite(t, "")
	known := s.ids(t)
	vm := func(change func(*infrav1.VirtualMachine)) func(*Input) {
		return func(in *Input) { change(&in.Spec.VirtualMachine) }
	}

	tests := map[string]struct {
		change func(*Input)
		// got returns the fields of the machine to compare.
		got  func(render.Machine) any
		want any
	}{
		"the graphics consoles of the template stay": {
			func(*Input) {}, func(m render.Machine) any { return m.RemoveGraphicsConsoles }, false,
		},
		"a server has none": {
			vm(func(v *infrav1.VirtualMachine) { v.Type = "server" }),
			func(m render.Machine) any { return m.RemoveGraphicsConsoles }, true,
		},
		"a server that keeps them": {
			vm(func(v *infrav1.VirtualMachine) { v.Type, v.GraphicsConsoles = "server", "Keep" }),
			func(m render.Machine) any { return m.RemoveGraphicsConsoles }, false,
		},
		"a desktop that removes them": {
			vm(func(v *infrav1.VirtualMachine) { v.Type, v.GraphicsConsoles = "desktop", "Remove" }),
			func(m render.Machine) any { return m.RemoveGraphicsConsoles }, true,
		},
		"what the rules of a high-performance VM are": {
			vm(func(v *infrav1.VirtualMachine) { v.Type = "high_performance" }),
			func(m render.Machine) any {
				return []any{m.RemoveGraphicsConsoles, m.CPUMode, *m.MemoryBallooning, *m.SerialConsole, *m.SoundCard}
			},
			[]any{true, "host_passthrough", false, true, false},
		},
		"what is written wins over them": {
			vm(func(v *infrav1.VirtualMachine) {
				v.Type, v.CPU.Mode = "high_performance", "host_model"
				v.MemoryBallooning, v.SerialConsole, v.SoundCard = ptr.To(true), ptr.To(false), ptr.To(true)
			}),
			func(m render.Machine) any {
				return []any{m.CPUMode, *m.MemoryBallooning, *m.SerialConsole, *m.SoundCard}
			},
			[]any{"host_model", true, false, true},
		},
		"an instance type in place of sizes": {
			vm(func(v *infrav1.VirtualMachine) { v.Memory, v.InstanceType = "", "Small" }),
			func(m render.Machine) any { return []any{m.InstanceTypeID != "", m.Memory, m.Cores} },
			[]any{true, int64(0), int64(0)},
		},
		"guaranteed and maximum memory": {
			vm(func(v *infrav1.VirtualMachine) { v.GuaranteedMemory, v.MaximumMemory = "8GB", "8GB" }),
			func(m render.Machine) any { return []int64{m.Memory, m.GuaranteedMemory, m.MaximumMemory} },
			[]int64{8 << 30, 8 << 30, 8 << 30},
		},
		"a watchdog resets": {
			vm(func(v *infrav1.VirtualMachine) { v.Watchdog = &infrav1.Watchdog{} }),
			func(m render.Machine) any { return m.WatchdogAction }, "reset",
		},
		"a watchdog that does something else": {
			vm(func(v *infrav1.VirtualMachine) { v.Watchdog = &infrav1.Watchdog{Action: "poweroff"} }),
			func(m render.Machine) any { return m.WatchdogAction }, "poweroff",
		},
		"custom properties and mediated devices": {
			vm(func(v *infrav1.VirtualMachine) {
				v.CustomProperties = []infrav1.CustomProperty{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}
				v.MediatedDevices = []infrav1.MediatedDevice{{Type: "nvidia-63"}, {Type: "nvidia-63"}}
			}),
			func(m render.Machine) any { return []any{m.CustomProperties, m.MediatedDevices} },
			[]any{map[string]string{"a": "1", "b": "2"}, []string{"nvidia-63", "nvidia-63"}},
		},
		"a BIOS, and no TPM, which needs another": {
			vm(func(v *infrav1.VirtualMachine) {
				v.Firmware = infrav1.Firmware{BiosType: "q35_sea_bios", TPM: ptr.To(false)}
			}),
			func(m render.Machine) any { return m.BIOSType }, "q35_sea_bios",
		},
		"a lease": {
			vm(func(v *infrav1.VirtualMachine) {
				v.HighAvailability = &infrav1.HighAvailability{
					Priority: 50, StorageErrorResume: "kill", LeaseStorageDomainName: "olvm-data-2",
				}
			}),
			func(m render.Machine) any { return *m.HighAvailability },
			render.HighAvailability{
				Priority: 50, StorageError: "kill", LeaseStorageDomainID: known.domains["olvm-data-2"],
			},
		},
		"high availability without a lease": {
			vm(func(v *infrav1.VirtualMachine) {
				v.HighAvailability = &infrav1.HighAvailability{StorageErrorResume: "auto_resume"}
			}),
			func(m render.Machine) any { return *m.HighAvailability },
			render.HighAvailability{StorageError: "auto_resume"},
		},
		"devices of the one host": {
			vm(func(v *infrav1.VirtualMachine) {
				v.Placement.HostNames = []string{"host-1"}
				v.HostDevices = []string{"pci_1", "pci_0"}
			}),
			func(m render.Machine) any { return m.HostDevices }, []string{"pci_0", "pci_1"},
		},
		"a CPU that the host has": {
			vm(func(v *infrav1.VirtualMachine) {
				v.Placement.HostNames = []string{"host-1", "host-2"}
				v.CPU.AutoPinningPolicy = "resize_and_pin"
			}),
			func(m render.Machine) any { return []any{m.OptimizeCPU, m.Cores, m.Sockets, m.Threads} },
			[]any{true, int64(0), int64(0), int64(0)},
		},
		"tags in an order of their own": {
			vm(func(v *infrav1.VirtualMachine) { v.Tags = []string{"prod", "k8s"} }),
			func(m render.Machine) any { return len(m.TagIDs) == 2 && m.TagIDs[0] < m.TagIDs[1] }, true,
		},
		"the version of Kubernetes in the name of the template": {
			func(in *Input) {
				in.Spec.VMTemplateName, in.KubernetesVersion = "ock-${KUBERNETES_VERSION}", "1.36"
			},
			func(m render.Machine) any { return m.TemplateID }, known.templates["ock-1.36"],
		},
		"Ignition gets the host name as a file": {
			func(in *Input) { in.Spec.VMTemplateName = "ock-1.36" },
			func(m render.Machine) any { return m.HostName }, "",
		},
		"a network and its profile": {
			func(in *Input) {
				in.Spec.OLVMNetwork = infrav1.OLVMNetwork{NetworkName: "many", VNICProfileName: "kvm-vlan"}
			},
			func(m render.Machine) any { return m.NICs[0].VNICProfileID }, known.profiles["many/kvm-vlan"],
		},
		"a profile alone, of one network": {
			func(in *Input) { in.Spec.OLVMNetwork = infrav1.OLVMNetwork{VNICProfileName: "b"} },
			func(m render.Machine) any { return m.NICs[0].VNICProfileID }, known.profiles["many/b"],
		},
		"a second interface": {
			func(in *Input) {
				in.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{{OLVMNetwork: infrav1.OLVMNetwork{
					VNICProfileName: "a", VNICName: "eth1", MACAddress: "00:1a:4a:16:01:51", InterfaceType: "E1000",
				}}}
			},
			func(m render.Machine) any { return m.NICs[1] },
			render.NIC{
				Name: "eth1", VNICProfileID: known.profiles["many/a"], MAC: "00:1a:4a:16:01:51", Interface: "e1000",
			},
		},
		"an interface that the template has": {
			func(in *Input) {
				in.Spec.VMTemplateName, in.Spec.OLVMNetwork.VNICName = "with-nic", "eth0"
			},
			func(m render.Machine) any { return m.NICs[0].Name }, "eth0",
		},
		"data disks beside that of the template": {
			vm(func(v *infrav1.VirtualMachine) { v.DataDisks = []infrav1.DataDisk{{Name: "a", Size: "10GB"}} }),
			func(m render.Machine) any { return m.DataDisks },
			[]render.DataDisk{{
				Name: "a", Size: 10 << 30, Format: "cow", Sparse: true, Interface: "virtio_scsi",
				StorageDomainID: known.domains["olvm-data"],
			}},
		},
		"data disks elsewhere, and of another kind": {
			vm(func(v *infrav1.VirtualMachine) {
				v.DataDisks = []infrav1.DataDisk{
					{
						Name: "a", Size: "10GB", Format: "raw", InterfaceType: "virtio",
						StorageDomainName: "olvm-data-2",
					},
					{Name: "b", Size: "1GB", Format: "raw", Sparse: ptr.To(true)},
				}
			}),
			func(m render.Machine) any { return m.DataDisks },
			[]render.DataDisk{
				{
					Name: "a", Size: 10 << 30, Format: "raw", Interface: "virtio",
					StorageDomainID: known.domains["olvm-data-2"],
				},
				{
					Name: "b", Size: 1 << 30, Format: "raw", Sparse: true, Interface: "virtio_scsi",
					StorageDomainID: known.domains["olvm-data"],
				},
			},
		},
		"a template's disk that is as large": {
			vm(func(v *infrav1.VirtualMachine) { v.RootDisk = &infrav1.RootDisk{Size: "20GB"} }),
			func(m render.Machine) any { return []any{m.RootDiskSize, m.Clone == nil, len(m.TemplateDisks)} },
			[]any{int64(20 << 30), true, 0},
		},
		"a template's disk where it is": {
			vm(func(v *infrav1.VirtualMachine) { v.RootDisk = &infrav1.RootDisk{StorageDomainName: "olvm-data"} }),
			func(m render.Machine) any { return []any{m.Clone == nil, m.TemplateDisks[0].StorageDomainID} },
			[]any{true, known.domains["olvm-data"]},
		},
		"a template's disk elsewhere is a copy, and so are the others": {
			func(in *Input) {
				in.Spec.VMTemplateName = "raw"
				in.Spec.VirtualMachine.RootDisk = &infrav1.RootDisk{StorageDomainName: "olvm-data"}
			},
			func(m render.Machine) any {
				var disks []string
				for _, d := range m.TemplateDisks {
					disks = append(disks, strings.Join([]string{d.StorageDomainID, d.Format, d.Provisioning}, " "))
				}

				return []any{*m.Clone, disks}
			},
			[]any{true, []string{
				known.domains["olvm-data"] + " raw non-sparse", known.domains["olvm-data"] + " cow sparse",
			}},
		},
		"the storage domain of a failure domain": {
			func(in *Input) {
				in.FailureDomain = "fd"
				in.Cluster.FailureDomains = []infrav1.OLVMFailureDomain{{
					Name: "fd", OLVMOvirtClusterName: "Default", StorageDomainName: "olvm-data-2",
				}}
				in.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "a", Size: "1GB"}}
			},
			func(m render.Machine) any { return m.DataDisks[0].StorageDomainID }, known.domains["olvm-data-2"],
		},
		"a VM of a pool has another mark, and its guest is told of its network alone": {
			func(in *Input) { in.Pooled = true },
			func(m render.Machine) any { return []any{m.Pooled, m.Comment, m.HostName, m.UserData} },
			[]any{
				true, ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"}.InventoryComment(), "", "",
			},
		},
		"the longest name": {
			func(in *Input) { in.VMName = strings.Repeat("ü", engine.MaxVMName) },
			func(m render.Machine) any { return len([]rune(m.Name)) }, engine.MaxVMName,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			built, err := s.build(t, test.change)
			check.Error(t, err, "")
			check.Equal(t, "machine", test.got(built.Machine), test.want)
		})
	}
}

// TestAMachineThatIsRefused covers mistakes that a user must correct. It checks the reason of the condition, the field,
// and the remedy.
func TestAMachineThatIsRefused(t *testing.T) {
	s := newSite(t, "")
	vm := func(change func(*infrav1.VirtualMachine)) func(*Input) {
		return func(in *Input) { change(&in.Spec.VirtualMachine) }
	}
	rootDisk := func(template string, want infrav1.RootDisk) func(*Input) {
		return func(in *Input) { in.Spec.VMTemplateName, in.Spec.VirtualMachine.RootDisk = template, &want }
	}
	dataDisk := func(want infrav1.DataDisk) func(*Input) {
		return vm(func(v *infrav1.VirtualMachine) { v.DataDisks = []infrav1.DataDisk{{Name: "a", Size: "1GB"}, want} })
	}

	const (
		path    = "spec.virtualMachine."
		invalid = infrav1.InvalidHardwareReason
	)

	tests := map[string]struct {
		change                 func(*Input)
		reason, field, message string
	}{
		"a name that is too long": {
			func(in *Input) { in.VMName = strings.Repeat("ü", engine.MaxVMName+1) },
			invalid, "metadata.name", fmt.Sprintf("with %d characters", engine.MaxVMName+1),
		},
		"consoles of a high-performance VM": {
			vm(func(v *infrav1.VirtualMachine) { v.Type, v.GraphicsConsoles = "high_performance", "Keep" }),
			invalid, path + "graphicsConsoles", "set it to Remove, or omit it",
		},
		"a TPM without UEFI": {
			vm(func(v *infrav1.VirtualMachine) {
				v.Firmware = infrav1.Firmware{BiosType: "q35_sea_bios", TPM: ptr.To(true)}
			}),
			invalid, path + "firmware.tpm", "a TPM needs UEFI, but biosType is q35_sea_bios",
		},
		"huge pages as a custom property": {
			vm(func(v *infrav1.VirtualMachine) {
				v.CustomProperties = []infrav1.CustomProperty{{Name: "a"}, {Name: "hugepages"}}
			}),
			invalid, path + "customProperties[1].name", "use spec.virtualMachine.hugePages",
		},
		"mediated devices as a custom property": {
			vm(func(v *infrav1.VirtualMachine) { v.CustomProperties = []infrav1.CustomProperty{{Name: "mdev_type"}} }),
			invalid, path + "customProperties[0].name", "use spec.virtualMachine.mediatedDevices",
		},
		"an operating system that the engine does not know": {
			vm(func(v *infrav1.VirtualMachine) { v.OSType = "beos" }),
			infrav1.OperatingSystemNotFoundReason, path + "osType", "beos",
		},
		"no memory": {
			vm(func(v *infrav1.VirtualMachine) { v.Memory = "" }),
			infrav1.InvalidMemoryReason, path + "memory", `"" is not a size`,
		},
		"maximum memory that is no size": {
			vm(func(v *infrav1.VirtualMachine) { v.MaximumMemory = "much" }),
			infrav1.InvalidMemoryReason, path + "maximumMemory", `"much" is not a size`,
		},
		"more guaranteed than there is": {
			vm(func(v *infrav1.VirtualMachine) { v.GuaranteedMemory = "8193MB" }),
			invalid, path + "guaranteedMemory", "8193MB is more than memory, which is 8GB; lower it",
		},
		"a maximum that is less than there is": {
			vm(func(v *infrav1.VirtualMachine) { v.MaximumMemory = "8191MB" }),
			invalid, path + "maximumMemory", "8191MB is less than memory, which is 8GB; raise it",
		},
		"an instance type and a topology": {
			vm(func(v *infrav1.VirtualMachine) { v.InstanceType, v.CPU.Topology.Threads = "Small", 1 }),
			invalid, path + "cpu.topology", `the instance type "Small" defines the CPU; remove one of the two`,
		},
		"an instance type and maximum memory": {
			vm(func(v *infrav1.VirtualMachine) { v.InstanceType, v.MaximumMemory = "Small", "8GB" }),
			invalid, path + "maximumMemory", `the instance type "Small" defines the memory; remove one of the two`,
		},
		"an instance type that the engine does not have": {
			vm(func(v *infrav1.VirtualMachine) { v.InstanceType = "Huge" }),
			infrav1.InstanceTypeNotFoundReason, path + "instanceType", "Huge",
		},
		"a data center that the engine does not have": {
			func(in *Input) { in.Cluster.OLVMDatacenterName = "else" },
			infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName", "else",
		},
		"a cluster that the engine does not have": {
			func(in *Input) { in.Spec.OLVMOvirtClusterName = "else" },
			infrav1.OvirtClusterNotFoundReason, "spec.olvmOvirtClusterName", "else",
		},
		"devices of any host": {
			vm(func(v *infrav1.VirtualMachine) { v.HostDevices = []string{"pci_0"} }),
			invalid, path + "hostDevices", "the VM may run on any; name one host",
		},
		"devices of one of two hosts": {
			vm(func(v *infrav1.VirtualMachine) {
				v.HostDevices, v.Placement.HostNames = []string{"pci_0"}, []string{"host-1", "host-2"}
			}),
			invalid, path + "hostDevices", "the VM may run on any of 2; name one host",
		},
		"a device that the host does not have": {
			vm(func(v *infrav1.VirtualMachine) {
				v.HostDevices, v.Placement.HostNames = []string{"pci_9"}, []string{"host-1"}
			}),
			invalid, path + "hostDevices", `the host has no device "pci_9"; it has`,
		},
		"a lease and a VM that is not killed": {
			vm(func(v *infrav1.VirtualMachine) {
				v.HighAvailability = &infrav1.HighAvailability{
					StorageErrorResume: "leave_paused", LeaseStorageDomainName: "olvm-data",
				}
			}),
			invalid, path + "highAvailability.storageErrorResume", "write kill, or remove leaseStorageDomainName",
		},
		"a lease on a storage domain that is not there": {
			vm(func(v *infrav1.VirtualMachine) {
				v.HighAvailability = &infrav1.HighAvailability{LeaseStorageDomainName: "else"}
			}),
			infrav1.StorageDomainNotFoundReason, path + "highAvailability.leaseStorageDomainName", "else",
		},
		"a pinned CPU and a topology": {
			vm(func(v *infrav1.VirtualMachine) {
				v.CPU.AutoPinningPolicy, v.CPU.Topology.Sockets = "resize_and_pin", 1
			}),
			invalid, path + "cpu.topology", "resize_and_pin takes it from the host; remove one of the two",
		},
		"a pinned CPU and an instance type": {
			vm(func(v *infrav1.VirtualMachine) { v.CPU.AutoPinningPolicy, v.InstanceType = "resize_and_pin", "Small" }),
			invalid, path + "cpu.autoPinningPolicy", `the instance type "Small" defines the CPU`,
		},
		"a pinned CPU on any host": {
			vm(func(v *infrav1.VirtualMachine) { v.CPU.AutoPinningPolicy = "resize_and_pin" }),
			invalid, path + "cpu.autoPinningPolicy", "pinning needs hosts",
		},
		"a template that needs a version": {
			func(in *Input) { in.Spec.VMTemplateName, in.KubernetesVersion = "ock-${KUBERNETES_VERSION}", "" },
			infrav1.VMTemplateNotFoundReason, "spec.vmTemplateName", "set the Machine's spec.version",
		},
		"a template that is not there": {
			func(in *Input) { in.Spec.VMTemplateName = "ock-${KUBERNETES_VERSION}" },
			infrav1.VMTemplateNotFoundReason, "spec.vmTemplateName", "ock-v1.36.1",
		},
		"a network that is not there": {
			func(in *Input) { in.Spec.OLVMNetwork.NetworkName = "else" },
			infrav1.NetworkNotFoundReason, "spec.olvmNetwork.networkName", "else",
		},
		"a profile that the network does not have": {
			func(in *Input) {
				in.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{{OLVMNetwork: infrav1.OLVMNetwork{
					NetworkName: "many", VNICProfileName: "else",
				}}}
			},
			infrav1.VNICProfileNotFoundReason, "spec.additionalNetworks[0].vnicProfileName", "else",
		},
		"a network with several profiles, none of its name": {
			func(in *Input) { in.Spec.OLVMNetwork = infrav1.OLVMNetwork{NetworkName: "multi"} },
			infrav1.VNICProfileNotFoundReason, "spec.olvmNetwork.vnicProfileName",
			`network "multi" has several vNIC profiles and none is named like it; name one of gold, silver`,
		},
		"another network with several profiles": {
			func(in *Input) {
				in.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
					{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "multi"}},
				}
			},
			infrav1.VNICProfileNotFoundReason, "spec.additionalNetworks[0].vnicProfileName", "name one of gold, silver",
		},
		"a network without profiles": {
			func(in *Input) { in.Spec.OLVMNetwork = infrav1.OLVMNetwork{NetworkName: "bare"} },
			infrav1.VNICProfileNotFoundReason, "spec.olvmNetwork.vnicProfileName",
			`network "bare" has no vNIC profile; create one in the engine`,
		},
		"a profile of two networks": {
			func(in *Input) { in.Spec.OLVMNetwork = infrav1.OLVMNetwork{VNICProfileName: "kvm-vlan"} },
			infrav1.VNICProfileNotFoundReason, "spec.olvmNetwork.vnicProfileName",
			`has 2 vNIC profiles "kvm-vlan", on the networks [`,
		},
		"a profile of no network": {
			func(in *Input) { in.Spec.OLVMNetwork = infrav1.OLVMNetwork{VNICProfileName: "else"} },
			infrav1.VNICProfileNotFoundReason, "spec.olvmNetwork.vnicProfileName", `has 0 vNIC profiles "else"`,
		},
		"an interface of the template that the machine does not name": {
			func(in *Input) { in.Spec.VMTemplateName = "with-nic" },
			invalid, "spec.additionalNetworks", `template "with-nic" has a network interface "eth0"`,
		},
		"a tag that is not there": {
			vm(func(v *infrav1.VirtualMachine) { v.Tags = []string{"prod", "else"} }),
			infrav1.TagNotFoundReason, path + "tags[1]", "else",
		},
		"a root disk of a template without one": {
			rootDisk("diskless", infrav1.RootDisk{Size: "20GB"}),
			invalid, path + "rootDisk", `template "diskless" has no bootable disk`,
		},
		"a root disk that is smaller than the template's": {
			rootDisk("ol9-k8s", infrav1.RootDisk{Size: "20479MB"}),
			invalid, path + "rootDisk.size", "20479MB is less than the size of the template's disk",
		},
		"a root disk whose size is none": {
			rootDisk("ol9-k8s", infrav1.RootDisk{Size: "large"}),
			invalid, path + "rootDisk.size", `"large" is not a size`,
		},
		"a preallocated disk of a cow template": {
			rootDisk("ol9-k8s", infrav1.RootDisk{Sparse: ptr.To(false)}),
			invalid, path + "rootDisk.sparse", "use format raw for a preallocated disk",
		},
		"a linked disk of another format": {
			rootDisk("ol9-k8s", infrav1.RootDisk{Format: "raw", Clone: ptr.To(false)}),
			invalid, path + "rootDisk.clone", "format raw needs a copy; set it to true, or omit it",
		},
		"a linked disk elsewhere": {
			rootDisk("ol9-k8s", infrav1.RootDisk{StorageDomainName: "olvm-data-2", Clone: ptr.To(false)}),
			invalid, path + "rootDisk.clone", "another storage domain than the template's needs a copy",
		},
		"a root disk on a storage domain that is not there": {
			rootDisk("ol9-k8s", infrav1.RootDisk{StorageDomainName: "else"}),
			infrav1.StorageDomainNotFoundReason, path + "rootDisk.storageDomainName", "else",
		},
		"a data disk whose size is none": {
			dataDisk(infrav1.DataDisk{Name: "b", Size: "large"}),
			invalid, path + "dataDisks[1].size", `"large" is not a size`,
		},
		"a data disk that cannot be": {
			dataDisk(infrav1.DataDisk{Name: "b", Size: "1GB", Sparse: ptr.To(false)}),
			invalid, path + "dataDisks[1].sparse", "use format raw for a preallocated disk",
		},
		"a data disk on a storage domain that is not there": {
			dataDisk(infrav1.DataDisk{Name: "b", Size: "1GB", StorageDomainName: "else"}),
			infrav1.StorageDomainNotFoundReason, path + "dataDisks[1].storageDomainName", "else",
		},
		"a data disk beside no other": {
			func(in *Input) {
				in.Spec.VMTemplateName = "diskless"
				in.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "a", Size: "1GB"}}
			},
			invalid, path + "dataDisks[0].storageDomainName",
			"the template has no disk to copy the storage domain from",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			built, err := s.build(t, test.change)
			if built != nil {
				t.Errorf("it was built: %+v", built.Machine)
			}

			checkBlocked(t, err, test.reason, test.field, test.message)
		})
	}
}

// TestOneOfTwoMistakesIsReportedAtEachPass has a machine with two fields that its instance type excludes.
func TestOneOfTwoMistakesIsReportedAtEachPass(t *testing.T) {
	for range 50 { // often enough to notice a random choice
		err := resolveInstanceType(t.Context(), nil, infrav1.VirtualMachine{
			InstanceType: "Small", GuaranteedMemory: "1GB", MaximumMemory: "8GB",
		}, &render.Machine{})
		checkBlocked(t, err, infrav1.InvalidHardwareReason, "spec.virtualMachine.guaranteedMemory", "remove one of")
	}
}

func checkBlocked(t *testing.T, err error, reason, field, message string) {
	t.Helper()

	var blocked *blocker.Error
	if !errors.As(err, &blocked) {
		t.Fatalf("got %v", err)
	}

	check.Equal(t, "reason", blocked.Reason, reason)
	check.Equal(t, "field", blocked.Field, field)
	check.Contains(t, "message", blocked.Message, message)
}

func TestDevicesAreListedInMessages(t *testing.T) {
	names := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = "d"
		}

		return out
	}
	twenty := strings.Repeat("d, ", 19) + "d"
	check.Equal(t, "none", joinShortened(nil), "none")
	check.Equal(t, "two", joinShortened(names(2)), "d, d")
	check.Equal(t, "as many as are listed", joinShortened(names(20)), twenty)
	check.Equal(t, "more", joinShortened(names(22)), twenty+" and 2 more")
}

func TestAnEngineThatIsTooOldPinsNoCPU(t *testing.T) {
	for version, refused := range map[string]bool{"4.4.4": true, "4.4.5": false} {
		t.Run(version, func(t *testing.T) {
			_, err := newSite(t, version).build(t, func(in *Input) {
				in.Spec.VirtualMachine.CPU.AutoPinningPolicy = "resize_and_pin"
				in.Spec.VirtualMachine.Placement.HostNames = []string{"host-1"}
			})
			if !refused {
				check.Error(t, err, "")
				return
			}

			checkBlocked(t, err, infrav1.InvalidHardwareReason, "spec.virtualMachine.cpu.autoPinningPolicy",
				"but this needs 4.4.5 or later; set it to none")
		})
	}
}

func TestTheGroupsOfAMachineAreAskedFor(t *testing.T) {
	s := newSite(t, "")
	var asked []placement.Member
	find := func(_ context.Context, self placement.Member) (map[string]string, error) {
		asked = append(asked, self)
		return map[string]string{"group": "id"}, nil
	}

	built, err := s.build(t, func(in *Input) { in.FindGroups = find })
	check.Error(t, err, "")
	check.Length(t, "questions of a machine without a role", asked, 0)
	check.Equal(t, "groups of a machine without a role", built.Machine.AffinityGroups, nil)

	built, err = s.build(t, func(in *Input) {
		in.FindGroups, in.Role = find, infrav1.ControlPlaneRole
		in.Spec.VirtualMachine.Placement.HostNames = []string{"host-1"}
	})
	check.Error(t, err, "")
	check.Length(t, "questions of a control plane", asked, 1)
	check.Equal(t, "name", asked[0].Name, "demo-1")
	check.Equal(t, "cluster", asked[0].ClusterID.String(), built.Machine.ClusterID)
	check.Length(t, "hosts", asked[0].HostIDs, 1)
	check.Equal(t, "the group of its role", asked[0].Groups, []string{"control-plane"})
	check.Equal(t, "groups", built.Machine.AffinityGroups, map[string]string{"group": "id"})
}
