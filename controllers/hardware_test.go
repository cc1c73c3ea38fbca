package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// richInventory returns the default inventory with all further hardware that machines can request.
func richInventory() ovirtsim.Inventory {
	inventory := ovirtsim.DefaultInventory()
	inventory.Tags = []string{"prod", "blue"}
	host := &inventory.DataCenters[0].Clusters[0].Hosts[0]
	host.Devices, host.MediatedDeviceTypes = []string{"pci_0000_3b_00_0"}, []string{"nvidia-63"}
	dc := &inventory.DataCenters[0]
	dc.Networks = append(dc.Networks, ovirtsim.Network{Name: "one-profile", VNICProfiles: []string{"slow"}},
		ovirtsim.Network{
			Name:         "two-profiles",
			VNICProfiles: []string{"gold", "silver"},
		}, ovirtsim.Network{Name: "three-profiles", VNICProfiles: []string{"gold", "bronze", "tin"}})
	dc.Templates = append(dc.Templates, ovirtsim.Template{
		Name:       "with-nics",
		Cluster:    "Default",
		OSType:     "ol_9x64",
		Memory:     2 << 30,
		Disks:      []ovirtsim.TemplateDisk{{Size: 10 << 30}},
		Kubernetes: "v1.36.1",
		NICs:       []ovirtsim.TemplateNIC{{Name: "nic1", Network: "ovirtmgmt"}, {Name: "nic2", Network: "ovirtmgmt"}},
	})
	dc.Templates = append(dc.Templates, ovirtsim.Template{
		Name:    "ol9-v1.36.1",
		Cluster: "Default",
		OSType:  "ol_9x64",
		Memory:  2 << 30,
		Disks:   []ovirtsim.TemplateDisk{{Size: 11 << 30}},
	})

	return inventory
}

// seen is a VM in the engine, with its parts.
type seen struct {
	vm       *engine.VM
	nics     []engine.NIC
	disks    map[string]*engine.Disk // by alias; "root" is the boot disk
	consoles int
	tags     []string
}

func (s *site) inspect(name string) seen {
	s.T.Helper()
	ctx, session := s.T.Context(), s.NewSession()
	must := func(err error) {
		s.T.Helper()
		if err != nil {
			s.T.Fatal(err)
		}
	}
	vms, err := session.FindVMs(ctx, nil, name)
	must(err)
	if len(vms) != 1 {
		s.T.Fatalf("%d VMs are called %s", len(vms), name)
	}

	out := seen{disks: map[string]*engine.Disk{}}
	out.vm, err = session.FetchFullVM(ctx, vms[0].ID)
	must(err)
	out.nics, err = session.ListNICs(ctx, vms[0].ID)
	must(err)
	attached, err := session.ListDiskAttachments(ctx, vms[0].ID)
	must(err)

	for i := range attached {
		disk, err := session.FetchDisk(ctx, attached[i].DiskID())
		must(err)
		name := disk.AliasText() // the root disk has the alias of the template's disk
		if *attached[i].Bootable {
			name = "root"
		}

		out.disks[name] = disk
	}

	consoles, err := session.ListGraphicsConsoles(ctx, vms[0].ID)
	must(err)
	out.consoles = len(consoles)
	tags, err := session.ListVMTags(ctx, vms[0].ID)
	must(err)

	for _, tag := range tags {
		out.tags = append(out.tags, tag.Name)
	}

	return out
}

func TestMachinesGetTheHardwareTheyAskFor(t *testing.T) {
	const gib = int64(1) << 30
	hardware := func(change func(*infrav1.VirtualMachine)) func(*infrav1.OLVMMachineSpec) {
		return func(s *infrav1.OLVMMachineSpec) { change(&s.VirtualMachine) }
	}

	tests := map[string]struct {
		ask  func(*infrav1.OLVMMachineSpec)
		want func(s *site, got seen) bool
	}{
		"defaults": {func(*infrav1.OLVMMachineSpec) {}, func(_ *site, got seen) bool {
			return *got.vm.Memory == 4*gib && *got.vm.CPU.Topology == engine.Topology{
				Cores:   2,
				Sockets: 2,
				Threads: 1,
			} && got.consoles == 1 && len(got.nics) == 1 && len(got.disks) == 1
		}},
		"CPU topology and mode": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.CPU = infrav1.CPU{
				Mode:     "host_passthrough",
				Topology: infrav1.CPUTopology{Cores: 4, Sockets: 1, Threads: 2},
			}
		}), func(_ *site, got seen) bool {
			return got.vm.CPU.Mode == "host_passthrough" && *got.vm.CPU.Topology == engine.Topology{
				Cores:   4,
				Sockets: 1,
				Threads: 2,
			}
		}},
		"memory with all its limits": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Memory = "6GB"
			vm.GuaranteedMemory = "2GB"
			vm.MaximumMemory = "12GB"
			vm.MemoryBallooning = ptr.To(false)
			vm.HugePages = 2048
		}), func(_ *site, got seen) bool {
			p := got.vm.MemoryPolicy
			return *got.vm.Memory == 6*gib && *p.Guaranteed == 2*gib && *p.Max == 12*gib && !*p.Ballooning &&
				got.vm.Properties.Items[0].Value == "2048"
		}},
		"a CPU sized by the host and pinned to it": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.CPU.AutoPinningPolicy, vm.Placement.HostNames = "resize_and_pin", []string{"host-1", "host-2"}
		}), func(_ *site, got seen) bool {
			return got.vm.AutoPinning == "adjust" && len(got.vm.PlacementPolicy.Hosts.Hosts) == 2
		}},
		"an instance type": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Memory = ""
			vm.InstanceType = "Large"
		}), func(_ *site, got seen) bool {
			return *got.vm.Memory == 8*gib && got.vm.CPU.Topology.Sockets*got.vm.CPU.Topology.Cores == 2 &&
				engine.RefID(got.vm.InstanceType) != ""
		}},
		"a high-performance VM": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Type = "high_performance"
			vm.GuaranteedMemory = "4GB"
		}), func(_ *site, got seen) bool {
			return got.vm.Type == "high_performance" && got.vm.CPU.Mode == "host_passthrough" &&
				got.vm.Console.Enabled && !*got.vm.Soundcard && !*got.vm.MemoryPolicy.Ballooning &&
				*got.vm.MemoryPolicy.Guaranteed == 4*gib && got.consoles == 0
		}},
		"a highly available VM with firmware, a watchdog and devices": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.HighAvailability = &infrav1.HighAvailability{Priority: 50, LeaseStorageDomainName: "olvm-data-2"}
			vm.Firmware = infrav1.Firmware{BiosType: "q35_secure_boot", TPM: ptr.To(true)}
			vm.OSType = "rhel_9x64"
			vm.Watchdog = &infrav1.Watchdog{}
			vm.HostDevices = []string{"pci_0000_3b_00_0"}
			vm.Placement.HostNames = []string{"host-1"}
			vm.MediatedDevices = []infrav1.MediatedDevice{{Type: "nvidia-63"}}
			vm.CustomProperties = []infrav1.CustomProperty{{Name: "viodiskcache", Value: "writeback"}}
		}), func(s *site, got seen) bool {
			ctx, session := s.T.Context(), s.NewSession()
			watchdogs, err := session.ListWatchdogs(ctx, got.vm.ID)
			check.Error(s.T, err, "")
			devices, err := session.ListVMHostDevices(ctx, got.vm.ID)
			check.Error(s.T, err, "")
			mediated, err := session.ListMediatedDevices(ctx, got.vm.ID)
			check.Error(s.T, err, "")

			return *got.vm.HighAvailability.Enabled && *got.vm.HighAvailability.Priority == 50 &&
				got.vm.Lease.StorageDomain != nil && got.vm.StorageError == "kill" &&
				got.vm.BIOS.Type == "q35_secure_boot" && *got.vm.TPM &&
				len(watchdogs) == 1 && watchdogs[0].Action == "reset" &&
				slices.Equal(devices, []string{"pci_0000_3b_00_0"}) &&
				len(mediated) == 1 && mediated[0].Type() == "nvidia-63" &&
				slices.Contains(got.vm.Properties.Items, engine.Property{Name: "viodiskcache", Value: "writeback"})
		}},
		"a desktop with sound and serial console, without graphics": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Type = "desktop"
			vm.OSType = "rhel_9x64"
			vm.SoundCard = ptr.To(true)
			vm.SerialConsole = ptr.To(true)
			vm.GraphicsConsoles = "Remove"
		}), func(_ *site, got seen) bool {
			return got.vm.Type == "desktop" && got.vm.OS.Type == "rhel_9x64" && *got.vm.Soundcard &&
				got.vm.Console.Enabled && got.consoles == 0
		}},
		"a server has no graphics": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Type = "server"
		}), func(_ *site, got seen) bool {
			return got.vm.Type == "server" && got.consoles == 0
		}},
		"a server that keeps its graphics": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Type = "server"
			vm.GraphicsConsoles = "Keep"
		}), func(_ *site, got seen) bool {
			return got.vm.Type == "server" && got.consoles == 1
		}},
		"description and tags": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.Description, vm.Tags = `made "by" <us> && you`, []string{"prod", "blue"}
		}), func(_ *site, got seen) bool {
			return got.vm.DescriptionText() == `made "by" <us> && you` &&
				slices.Equal(got.tags, []string{"blue", "prod"})
		}},
		"a larger root disk": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.RootDisk = &infrav1.RootDisk{
				Size: "30GB",
			}
		}), func(_ *site, got seen) bool {
			return got.disks["root"].ProvisionedSize == 30*gib && got.vm.Template.ID != engine.BlankTemplateID
		}},
		"a root disk that is a raw copy elsewhere": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.RootDisk = &infrav1.RootDisk{Format: "raw", Sparse: ptr.To(false), StorageDomainName: "olvm-data-2"}
		}), func(s *site, got seen) bool {
			dc, _ := s.NewSession().FindDataCenter(s.T.Context(), "Default")
			domain, err := s.NewSession().FindStorageDomain(s.T.Context(), dc, "olvm-data-2")
			root := got.disks["root"]

			return err == nil && root.Format == "raw" && !*root.Sparse && root.StorageDomainIDs()[0] == domain.ID &&
				got.vm.Template.ID == engine.BlankTemplateID
		}},
		"data disks": {hardware(func(vm *infrav1.VirtualMachine) {
			vm.RootDisk = &infrav1.RootDisk{Size: "25GB"}
			vm.DataDisks = []infrav1.DataDisk{
				{Name: "etcd", Size: "10GB", Format: "raw", StorageDomainName: "olvm-data-2", InterfaceType: "virtio"},
				{Name: "images", Size: "50GB"},
			}
		}), func(_ *site, got seen) bool {
			etcd, images := got.disks["one_etcd"], got.disks["one_images"]

			return len(got.disks) == 3 && etcd.ProvisionedSize == 10*gib && etcd.Format == "raw" && !*etcd.Sparse &&
				images.ProvisionedSize == 50*gib && images.Format == "cow" &&
				got.disks["root"].ProvisionedSize == 25*gib
		}},
		"a template by the version of Kubernetes": {func(s *infrav1.OLVMMachineSpec) {
			s.VMTemplateName = "ol9-${KUBERNETES_VERSION}"
		}, func(_ *site, got seen) bool {
			return got.disks["root"].ProvisionedSize == 11*gib
		}},
		"several NICs of several kinds": {func(s *infrav1.OLVMMachineSpec) {
			s.OLVMNetwork.MACAddress, s.OLVMNetwork.InterfaceType = "56:6F:1A:AA:00:01", "e1000e"
			s.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICProfileName: "ovirtmgmt"}},
				{
					OLVMNetwork: infrav1.OLVMNetwork{
						NetworkName:     "kvm-vlan",
						VNICProfileName: "kvm-vlan",
						VNICName:        "storage",
					},
				},
			}
		}, func(_ *site, got seen) bool {
			return len(got.nics) == 3 && got.nics[0].Name == "nic1" && got.nics[0].MAC.Address == "56:6f:1a:aa:00:01" &&
				got.nics[0].Interface == "e1000e" && got.nics[1].Name == "nic2" &&
				got.nics[1].Interface == "virtio" && got.nics[2].Name == "storage"
		}},
		"networks by their names or their profiles": {func(s *infrav1.OLVMMachineSpec) {
			s.OLVMNetwork = infrav1.OLVMNetwork{VNICProfileName: "kvm-vlan"}
			s.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt"}},
				{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "one-profile"}},
			}
		}, func(s *site, got seen) bool {
			s.T.Helper()

			dc, err := s.NewSession().FindDataCenter(s.T.Context(), "Default")
			for i, want := range []string{"kvm-vlan", "ovirtmgmt", "slow"} {
				profiles, _, e := s.NewSession().ListVNICProfiles(s.T.Context(), dc, want)
				if err != nil || e != nil || len(got.nics) != 3 || len(profiles) != 1 ||
					engine.RefID(got.nics[i].VNICProfile) != profiles[0].ID {
					return false
				}
			}

			return true
		}},
		"a template with NICs, which become those of the machine": {func(s *infrav1.OLVMMachineSpec) {
			s.VMTemplateName = "with-nics"
			s.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICProfileName: "ovirtmgmt"}},
			}
		}, func(s *site, got seen) bool {
			dc, _ := s.NewSession().FindDataCenter(s.T.Context(), "Default")
			network, _ := s.NewSession().FindNetwork(s.T.Context(), dc, "kvm-vlan")
			profile, err := s.NewSession().FindVNICProfile(s.T.Context(), network, "kvm-vlan")

			return err == nil && len(got.nics) == 2 && engine.RefID(got.nics[0].VNICProfile) == profile.ID &&
				engine.RefID(got.nics[1].VNICProfile) != profile.ID
		}},
		"a template with a NIC that nobody names, which is removed": {func(s *infrav1.OLVMMachineSpec) {
			s.VMTemplateName, s.RemoveTemplateInterfaces = "with-nics", ptr.To(true)
		}, func(_ *site, got seen) bool { return len(got.nics) == 1 && got.nics[0].Name == "nic1" }},
	}
	// Short mode runs only these cases. They cover each way in which a setting reaches a VM: sizes, devices, disks,
	// NICs, and settings of a template.
	fast := []string{
		"memory with all its limits",
		"a highly available VM with firmware, a watchdog and devices",
		"data disks",
		"several NICs of several kinds",
		"a template with NICs, which become those of the machine",
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(fast, name) {
				testenv.SkipInShort(t, "TestASecondPlanIsEmpty of internal/tfprovider makes VMs with these values")
			}

			s := newSiteIn(t, richInventory(), nil)
			m := s.CreateMachine("one", test.ask)
			s.ExpectProvisioned(m)
			got := s.inspect("one")
			if !test.want(s, got) {
				t.Errorf("the VM is %+v, CPU %+v, memory policy %+v, NICs %+v, disks %+v, %d consoles, tags %v", got.vm,
					got.vm.CPU, got.vm.MemoryPolicy, got.nics, got.disks, got.consoles, got.tags)
			}

			starts := 0

			for _, r := range s.Sim.ListRequests() {
				if strings.HasSuffix(r.Path, "/start") {
					starts++
				}

				if starts > 0 && r.Method != "GET" && !strings.HasSuffix(r.Path,
					"/start") && strings.HasPrefix(r.Path, "/api/") {
					t.Errorf("%s %s came after the VM was started", r.Method, r.Path)
				}
			}

			s.Delete(m)
			s.ExpectGone(m)
			s.ExpectEmptyEngine()
		})
	}
}

// TestWhatWaitsForARestartIsTold changes a running machine. A condition reports the settings that wait for the next
// start, and later plans do not contain them.
func TestWhatWaitsForARestartIsTold(t *testing.T) {
	skipProved(t, "TestWhatWaitsForARestartIsTold of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	id := s.Sim.ListVMs()[0].ID

	_, err := s.NewSession().UpdateVM(t.Context(), engine.ID(id), &engine.VM{
		Console:      &engine.Console{Enabled: true},
		MemoryPolicy: &engine.MemoryPolicy{Ballooning: ptr.To(false)},
	})
	if err != nil {
		t.Fatal(err)
	}

	s.Eventually("the machine tells it", func() error {
		if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		c := conditions.Get(m, infrav1.VirtualMachineRunningCondition)
		if c.Status != metav1.ConditionTrue || c.Message != "waits for a restart: memory ballooning, serial console" {
			return fmt.Errorf("%s, %q", c.Status, c.Message)
		}

		return nil
	})
}

func TestANameThatIsTooLongForAVMIsNamed(t *testing.T) {
	skipProved(t, "TestANameThatIsTooLongForAVMIsNamed of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine(strings.Repeat("a", engine.MaxVMName+1), nil)
	s.ExpectNamed(
		m, infrav1.InfrastructureAppliedCondition, infrav1.InvalidHardwareReason,
		[]string{"metadata.name", "65 characters", "allows 64", "shorten the name"},
	)
	if s.Sim.Summarize().VMs != 0 {
		t.Error("a VM was made")
	}
}

func TestHardwareThatContradictsItselfIsNamed(t *testing.T) {
	skipProved(t, "TestHardwareThatCannotBeIsNamed of controllers/machine")

	tests := map[string]struct {
		ask     func(*infrav1.OLVMMachineSpec)
		reason  string
		message []string
	}{
		"auto-pinning to no host in particular": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.CPU.AutoPinningPolicy = "resize_and_pin"
		},
			infrav1.InvalidHardwareReason, []string{"cpu.autoPinningPolicy", "placement.hostNames"}},
		"an unknown operating system": {func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.OSType = "ol_9x64" },
			infrav1.OperatingSystemNotFoundReason, []string{"osType", `"ol_9x64"`, "rhel_9x64"}},
		"an unknown instance type": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Memory, s.VirtualMachine.InstanceType = "", "Gigantic"
		},
			infrav1.InstanceTypeNotFoundReason, []string{"instanceType", "Gigantic", "it has Large, Medium"}},
		"a lease on an unknown storage domain": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.HighAvailability = &infrav1.HighAvailability{LeaseStorageDomainName: "tape"}
		}, infrav1.StorageDomainNotFoundReason, []string{"leaseStorageDomainName", `"tape"`}},
		"a TPM that the operating system cannot have": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Firmware.TPM = ptr.To(true)
			s.VirtualMachine.OSType = "other_linux"
		}, infrav1.InvalidHardwareReason, []string{"firmware.tpm", `"other_linux"`, "rhel_9x64"}},
		"a host device without a host": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.HostDevices = []string{"pci_0000_3b_00_0"}
		}, infrav1.InvalidHardwareReason, []string{"hostDevices", "placement.hostNames"}},
		"a device that the host does not have": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.HostDevices = []string{"pci_0000_ff_00_0"}
			s.VirtualMachine.Placement.HostNames = []string{"host-1"}
		}, infrav1.InvalidHardwareReason, []string{`no device "pci_0000_ff_00_0"`, "it has pci_0000_3b_00_0"}},
		"a root disk that would shrink": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.RootDisk = &infrav1.RootDisk{
				Size: "10GB",
			}
		},
			infrav1.InvalidHardwareReason, []string{"rootDisk.size", "10GB", "cannot shrink"}},
		"an unknown storage domain": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "a", Size: "1GB", StorageDomainName: "tape"}}
		}, infrav1.StorageDomainNotFoundReason,
			[]string{"dataDisks[0].storageDomainName", `"tape"`, "olvm-data, olvm-data-2"}},
		"an unknown version of the template": {func(s *infrav1.OLVMMachineSpec) {
			s.VMTemplateVersion = 3
		}, infrav1.VMTemplateNotFoundReason, []string{"vmTemplate", `"3"`, "it has 1"}},
		"an unknown tag": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Tags = []string{"red"}
		}, infrav1.TagNotFoundReason, []string{"tags[0]", `"red"`, "blue, prod"}},
		"a network with several profiles": {
			func(s *infrav1.OLVMMachineSpec) {
				s.OLVMNetwork = infrav1.OLVMNetwork{
					NetworkName: "two-profiles",
				}
			},
			infrav1.VNICProfileNotFoundReason,
			[]string{"spec.olvmNetwork.vnicProfileName", `"two-profiles"`, "it has gold, silver"},
		},
		"a profile on several networks": {
			func(s *infrav1.OLVMMachineSpec) {
				s.OLVMNetwork = infrav1.OLVMNetwork{
					VNICProfileName: "gold",
				}
			},
			infrav1.VNICProfileNotFoundReason,
			[]string{"spec.olvmNetwork.vnicProfileName", `2 vNIC profiles "gold"`, "two-profiles", "add networkName"},
		},
		"a NIC of the template that nobody names": {func(s *infrav1.OLVMMachineSpec) {
			s.VMTemplateName = "with-nics"
		}, infrav1.InvalidHardwareReason, []string{"additionalNetworks", `"nic2"`, "with-nics", "removeTemplateInterfaces"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSiteIn(t, richInventory(), nil)
			s.ExpectNamed(
				s.CreateMachine("one", test.ask), infrav1.InfrastructureAppliedCondition, test.reason, test.message,
			)
		})
	}
}

func TestAutoPinningOfAnEngineThatCannotIsNamedAndNotTriedAgain(t *testing.T) {
	skipProved(t, "TestAnEngineThatIsTooOldPinsNoCPU of internal/desired")

	inventory := ovirtsim.DefaultInventory()
	inventory.Version = "4.4.4"
	s := newSiteIn(t, inventory, nil)
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.CPU.AutoPinningPolicy = "resize_and_pin"
		spec.VirtualMachine.Placement.HostNames = []string{"host-1"}
	})
	message := s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.InvalidHardwareReason)
	if !strings.Contains(message, "4.4.4") || !strings.Contains(message, "set it to none") {
		t.Error(message)
	}

	if s.Sim.Summarize().VMs != 0 || m.Status.Terraform != nil && m.Status.Terraform.Runs > 0 {
		t.Errorf("the engine has %+v, %+v", s.Sim.Summarize(), m.Status.Terraform)
	}

	change(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.CPU.AutoPinningPolicy = "none" })
	s.ExpectProvisioned(m)
}

func TestDisksThatOthersAttachedOutliveTheMachine(t *testing.T) {
	s := newSiteIn(t, richInventory(), nil)
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "etcd", Size: "10GB"}}
	})
	s.ExpectProvisioned(m)
	ctx, session := t.Context(), s.NewSession()
	dc, err := session.FindDataCenter(ctx, "Default")
	if err != nil {
		t.Fatal(err)
	}

	domain, err := session.FindStorageDomain(ctx, dc, "olvm-data")
	if err != nil {
		t.Fatal(err)
	}

	claim, err := session.CreateDiskOnce(ctx, "", &engine.Disk{
		Alias:           ptr.To("pvc-1"),
		Format:          engine.FormatCow,
		ProvisionedSize: 1 << 30,
		StorageDomains:  &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
	}, nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}

	if err := session.WaitDisk(ctx, claim.ID, func(string) {}); err != nil {
		t.Fatal(err)
	}

	_, err = session.AttachDisk(ctx, engine.ID(s.Sim.ListVMs()[0].ID), &engine.DiskAttachment{
		Interface: "virtio_scsi",
		Bootable:  ptr.To(false),
		Active:    ptr.To(true),
		Disk:      &engine.Disk{ID: claim.ID},
	})
	if err != nil {
		t.Fatal(err)
	}

	s.Delete(m)
	s.ExpectGone(m)
	left := s.Sim.ListDisks()
	check.Length(t, "left", left, 1)
	check.Equal(t, "left[0].Name", left[0].Name, "pvc-1")
	check.Equal(t, "left[0].Status", left[0].Status, "ok")
}

func TestAGuestIsAskedToShutDownAndNotForEver(t *testing.T) {
	for name, deaf := range map[string]bool{"a guest that listens": false, "a guest that does not": true} {
		t.Run(name, func(t *testing.T) {
			s := newSiteIn(t, richInventory(), nil)
			if deaf {
				if err := s.Sim.Inject(ovirtsim.Fault{Guest: "ignores-shutdown"}); err != nil {
					t.Fatal(err)
				}
			}

			m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
				spec.VirtualMachine.Shutdown = infrav1.Shutdown{Mode: "Graceful", TimeoutSeconds: 3600}
			})
			s.ExpectProvisioned(m)
			s.Delete(m)
			if deaf {
				s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.WaitingForGuestShutdownReason)
				change(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Shutdown.TimeoutSeconds = 1 })
			}

			s.ExpectGone(m)
			var shutdowns, stops int

			for _, r := range s.Sim.ListRequests() {
				if strings.HasSuffix(r.Path, "/shutdown") {
					shutdowns++
				}

				if strings.HasSuffix(r.Path, "/stop") {
					stops++
				}
			}

			if shutdowns == 0 || stops > 0 != deaf {
				t.Errorf("%d requests to shut down, %d to cut the power", shutdowns, stops)
			}
		})
	}
}

func TestDataDisksOfAFailedRunAreNotMadeTwice(t *testing.T) {
	s := newSiteIn(t, richInventory(), nil)
	err := s.Sim.Inject(ovirtsim.Fault{
		Method: "POST",
		Path:   "/start$",
		Status: 500,
		Reason: "Operation Failed",
		Detail: "[No.]",
	})
	if err != nil {
		t.Fatal(err)
	}

	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "etcd", Size: "10GB"}, {Name: "images", Size: "10GB"}}
	})
	s.Eventually("the disks are made", func() error {
		if n := s.Sim.Summarize().Disks; n != 3 {
			return fmt.Errorf("%d disks", n)
		}

		return nil
	})
	s.Sim.ClearFaults()
	s.ExpectProvisioned(m)
	if got := s.inspect("one"); len(got.disks) != 3 || s.Sim.Summarize().Disks != 3 {
		t.Errorf("the engine has %+v", s.Sim.ListDisks())
	}
}
