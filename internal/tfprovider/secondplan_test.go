package tfprovider_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// choices are the fields of a machine, with the values to try for each. The first value is the field's default.
var choices = map[string][]func(*infrav1.OLVMMachineSpec){
	"size": {
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Memory = "2GB" },
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Memory = "1500MB" },
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Memory = "3GB"
			s.VirtualMachine.GuaranteedMemory = "1GB"
			s.VirtualMachine.MaximumMemory = "5GB"
		},
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Memory = "4GB"
			s.VirtualMachine.CPU.Topology = infrav1.CPUTopology{Cores: 1, Sockets: 3, Threads: 2}
		},
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.InstanceType = "Medium" },
	},
	"memoryBallooning": flags(func(vm *infrav1.VirtualMachine, value *bool) { vm.MemoryBallooning = value }),
	"serialConsole":    flags(func(vm *infrav1.VirtualMachine, value *bool) { vm.SerialConsole = value }),
	"soundCard":        flags(func(vm *infrav1.VirtualMachine, value *bool) { vm.SoundCard = value }),
	"hugePages":        {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.HugePages = 2048 }},
	"highAvailability": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.HighAvailability = &infrav1.HighAvailability{}
	}, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.HighAvailability = &infrav1.HighAvailability{Priority: 100, StorageErrorResume: "leave_paused"}
	}, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.HighAvailability = &infrav1.HighAvailability{LeaseStorageDomainName: "olvm-data-2"}
	}},
	"watchdog": {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Watchdog = &infrav1.Watchdog{} }},
	"firmware": {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Firmware.BiosType = "i440fx_sea_bios" },
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Firmware = infrav1.Firmware{BiosType: "q35_secure_boot", TPM: ptr.To(true)}
			s.VirtualMachine.OSType = "rhel_9x64" // others cannot have a TPM
		}},
	"customProperties": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.CustomProperties = []infrav1.CustomProperty{
			{Name: "viodiskcache", Value: "writeback"}, {Name: "sap_agent", Value: "true"},
		}
	}},
	"mediatedDevices": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.MediatedDevices = []infrav1.MediatedDevice{{Type: "nvidia-63"}, {Type: "nvidia-63"}}
	}},
	"cpu.mode": {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.CPU.Mode = "host_passthrough" },
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.CPU.Mode = "host_model" },
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.CPU.Mode = "custom" }},
	"type": {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Type = "server" },
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Type = "desktop" },
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Type = "high_performance" }},
	"osType":                   {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.OSType = "rhel_9x64" }},
	"graphicsConsoles":         {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.GraphicsConsoles = "Remove" }},
	"removeTemplateInterfaces": {nothing, func(s *infrav1.OLVMMachineSpec) { s.RemoveTemplateInterfaces = ptr.To(true) }},
	"description": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.Description = "made \"by\" <us> && ${you}"
	},
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Description = "Ä line\nand one more" }},
	"tags": {nothing, func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Tags = []string{"prod", "blue"} }},
	"rootDisk": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.RootDisk = &infrav1.RootDisk{
			Size: "30GB",
		}
	},
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.RootDisk = &infrav1.RootDisk{Format: "raw"} },
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.RootDisk = &infrav1.RootDisk{StorageDomainName: "olvm-data-2", Size: "25GB"}
		},
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.RootDisk = &infrav1.RootDisk{Format: "cow"} },
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.RootDisk = &infrav1.RootDisk{Format: "raw", Sparse: ptr.To(true)}
		},
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.RootDisk = &infrav1.RootDisk{Clone: ptr.To(true)} },
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.RootDisk = &infrav1.RootDisk{StorageDomainName: "olvm-data"}
		},
		func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.RootDisk = &infrav1.RootDisk{Sparse: ptr.To(true)} }},
	"dataDisks": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.DataDisks = []infrav1.DataDisk{
			{Name: "etcd", Size: "1GB", Format: "raw", InterfaceType: "virtio"},
			{Name: "images", Size: "2GB"},
		}
	}, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.DataDisks = []infrav1.DataDisk{
			{Name: "thin", Size: "1GB", Format: "raw", Sparse: ptr.To(true), StorageDomainName: "olvm-data-2"},
		}
	}},
	"template": {nothing, func(s *infrav1.OLVMMachineSpec) { s.VMTemplateName = "two-disks" },
		func(s *infrav1.OLVMMachineSpec) { s.VMTemplateName = "raw-disk" }},
	"guest": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{DHCP: true}
		s.VirtualMachine.Network.DNSServers = []string{"10.0.0.53"}
		s.VirtualMachine.Network.SearchDomains = []string{"example.com"}
	}},
	"networks": {nothing, func(s *infrav1.OLVMMachineSpec) {
		mac := fmt.Sprintf("56:6F:1A:AA:%02X:%02X", rand.IntN(256),
			rand.IntN(256)) //nolint:gosec // no two VMs may have the same address
		s.OLVMNetwork.MACAddress, s.OLVMNetwork.InterfaceType = mac, "e1000e"
	}, func(s *infrav1.OLVMMachineSpec) {
		s.AdditionalNetworks = []infrav1.AdditionalNetwork{
			{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICName: "storage"}},
		}
	}},
	"placement": {nothing, func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.Placement.HostNames = []string{"host-2"}
	},
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Placement.HostNames = []string{"host-1"}
			s.VirtualMachine.HostDevices = []string{"pci_0000_3b_00_0"}
		},
		func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Placement.HostNames = []string{"host-1", "host-2"}
			s.VirtualMachine.CPU.AutoPinningPolicy = "resize_and_pin"
		}},
}

func nothing(*infrav1.OLVMMachineSpec) {}

// flags are the three values of a setting: omitted, on, and off.
func flags(set func(vm *infrav1.VirtualMachine, value *bool)) []func(*infrav1.OLVMMachineSpec) {
	return []func(*infrav1.OLVMMachineSpec){
		nothing,
		func(s *infrav1.OLVMMachineSpec) { set(&s.VirtualMachine, ptr.To(true)) },
		func(s *infrav1.OLVMMachineSpec) { set(&s.VirtualMachine, ptr.To(false)) },
	}
}

// pick is a machine, given as the index of each field's value.
type pick map[string]int

func (p pick) spec() infrav1.OLVMMachineSpec {
	spec := infrav1.OLVMMachineSpec{
		VMTemplateName:       "ol9-k8s",
		OLVMOvirtClusterName: "Default",
		OLVMNetwork:          infrav1.OLVMNetwork{NetworkName: "kvm-vlan", VNICProfileName: "kvm-vlan"},
	}

	spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{DHCP: true}
	for _, field := range slices.Sorted(maps.Keys(choices)) {
		choices[field][p[field]](&spec)
	}

	if vm := &spec.VirtualMachine; vm.InstanceType != "" || vm.CPU.Topology != (infrav1.CPUTopology{}) {
		vm.CPU.AutoPinningPolicy = "" // at most one of three fields may size the CPU
	}

	return spec
}

func (p pick) String() string {
	var out []string

	for _, field := range slices.Sorted(maps.Keys(p)) {
		if p[field] != 0 {
			out = append(out, fmt.Sprintf("%s=%d", field, p[field]))
		}
	}

	return strings.Join(out, " ")
}

// everyChoice returns machines in which one field differs from the default. It adds machines of two other templates.
// One template has a second disk, because a request that names the first disk must name the second, too. The other has
// a raw disk, because only a copied disk can be raw.
func everyChoice() []pick {
	out := []pick{{}}
	for value := range choices["rootDisk"] {
		out = append(out, pick{"template": 1, "rootDisk": value}, pick{"template": 2, "rootDisk": value})
	}

	for _, field := range slices.Sorted(maps.Keys(choices)) {
		for value := 1; value < len(choices[field]); value++ {
			out = append(out, pick{field: value})
		}
	}

	return out
}

// fewChoices returns the fewest machines that together have every value of every field. The order of values is random
// for each field.
func fewChoices() []pick {
	var out []pick

	for _, values := range choices {
		for len(out) < len(values) {
			out = append(out, pick{})
		}
	}

	random := rand.New(rand.NewPCG(0, 0)) //nolint:gosec // not for secrets

	for _, field := range slices.Sorted(maps.Keys(choices)) {
		values := random.Perm(len(choices[field]))
		for i, machine := range out {
			machine[field] = values[i%len(values)]
		}
	}

	return out
}

func randomChoice(random *rand.Rand) pick {
	out := pick{}
	for _, field := range slices.Sorted(maps.Keys(choices)) {
		out[field] = random.IntN(len(choices[field]))
	}

	return out
}

// TestASecondPlanIsEmpty creates machines of all kinds with the real executor. Without a change, a second plan is
// empty, even if the VM was stopped, because Terraform does not watch whether it runs.
func TestASecondPlanIsEmpty(t *testing.T) {
	t.Parallel()

	picks := fewChoices()
	if !testing.Short() {
		picks = append(picks, everyChoice()...)
		seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
		t.Logf("the seed is %d", seed)

		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
		for range 12 {
			picks = append(picks, randomChoice(random))
		}
	}

	f := newFactory(t)
	for i, pick := range picks {
		t.Run(pick.String(), func(t *testing.T) {
			t.Parallel()
			f.check(t, fmt.Sprintf("vm%d", i), pick.spec())
		})
	}
}

// factory creates the machines of an engine.
type factory struct {
	client   *engine.Client
	config   engine.Config
	executor *terraform.Executor
}

func newFactory(t *testing.T) *factory {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	inventory.Tags = []string{"blue", "prod"}
	dc := &inventory.DataCenters[0]
	dc.Templates = append(dc.Templates, ovirtsim.Template{
		Name:    "two-disks",
		Cluster: "Default",
		OSType:  "rhel_9x64",
		Memory:  2 << 30,
		Disks:   []ovirtsim.TemplateDisk{{Size: 10 << 30}, {Size: 1 << 30, Format: "raw"}}})

	dc.Templates = append(dc.Templates, ovirtsim.Template{
		Name:    "raw-disk",
		Cluster: "Default",
		OSType:  "rhel_9x64",
		Memory:  2 << 30,
		Disks:   []ovirtsim.TemplateDisk{{Size: 10 << 30, Format: "raw"}}})
	for i := range dc.Clusters[0].Hosts {
		dc.Clusters[0].Hosts[i].Memory = 1 << 40
		dc.Clusters[0].Hosts[i].Devices = []string{"pci_0000_3b_00_0"}
		dc.Clusters[0].Hosts[i].MediatedDeviceTypes = []string{"nvidia-63"}
	}

	timings := ovirtsim.Timings{
		Clone:     20 * time.Millisecond,
		Launch:    20 * time.Millisecond,
		PowerUp:   50 * time.Millisecond,
		PowerDown: 20 * time.Millisecond,
	}
	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory, Timings: timings})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)

	f := &factory{
		config: engine.Config{URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA()},
	}
	sessions := &engine.Sessions{}
	if f.client, err = sessions.Get(f.config); err != nil {
		t.Fatal(err)
	}

	f.executor = terraform.NewExecutor(testenv.FindExecutable(t), providerprocess.InProcess{
		Options: tfprovider.Options{Sessions: sessions},
	}, t.TempDir())

	return f
}

// check creates a machine. It plans again while the machine runs, and after it was stopped.
func (f *factory) check(t *testing.T, name string, spec infrav1.OLVMMachineSpec) {
	t.Helper()
	cluster := infrav1.OLVMClusterSpec{OLVMDatacenterName: "Default"}
	nics, err := addressing.BuildNICs(spec, cluster)
	if err != nil {
		t.Fatal(err)
	}

	built, err := desired.Build(t.Context(), f.client, desired.Input{
		Spec:    spec,
		Cluster: cluster,
		VMName:  name,
		Owner:   ownermark.Owner{Namespace: "default", Name: name, UID: "u"},
		Config:  f.config,
		NICs:    nics,
	})
	if err != nil {
		t.Fatal(err)
	}

	built.Machine.UserData = "#cloud-config\n"
	configuration, err := built.RenderConfiguration(t.Context(), f.client, nil)
	if err != nil {
		t.Fatal(err)
	}

	var state []byte
	request := terraform.Request{
		Configuration: configuration,
		Dir:           filepath.Join(t.TempDir(), "work"),
		Secrets:       []string{f.config.Password},
		SaveState: func(_ context.Context, saved []byte, _ bool) error {
			state = slices.Clone(saved)
			return nil
		},
	}
	if _, err := f.executor.Apply(t.Context(), request); err != nil {
		t.Fatal(err)
	}

	request.State = state
	if changes := f.changes(t, request); len(changes) > 0 {
		t.Errorf("while the VM runs: %v", changes)
	}

	f.stop(t, name)
	if changes := f.changes(t, request); len(changes) > 0 {
		t.Errorf("after the VM was stopped: %v", changes)
	}
}

// stop stops a VM like an administrator.
func (f *factory) stop(t *testing.T, name string) {
	t.Helper()
	vms, err := f.client.FindVMs(t.Context(), nil, name)
	if err != nil || len(vms) != 1 {
		t.Fatalf("%v, %d VMs", err, len(vms))
	}

	if err := f.client.StopVM(t.Context(), vms[0].ID, true); err != nil {
		t.Fatal(err)
	}

	err = engine.Wait(t.Context(), "the VM to stop", func(ctx context.Context) (bool, string, error) {
		vm, err := f.client.FetchVM(ctx, vms[0].ID)
		return err == nil && vm.Status == engine.VMDown, "", err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func (f *factory) changes(t *testing.T, request terraform.Request) []terraform.Change {
	t.Helper()
	plan, err := f.executor.Plan(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}

	if len(plan.Changes) > 0 {
		t.Log(plan.Text)
	}

	drift, err := f.executor.Check(t.Context(), request)
	if err != nil || len(drift) > 0 {
		t.Errorf("a check for drift finds %v, %v", drift, err)
	}

	return plan.Changes
}
