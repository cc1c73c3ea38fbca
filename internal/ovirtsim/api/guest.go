package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// These constants are the problems of guests, by their names in faults.
const (
	GuestNeverBoots      = "never-boots"
	GuestLostBoot        = "lost-boot"
	GuestNoAgent         = "no-agent"
	GuestIgnoresShutdown = "ignores-shutdown"
	GuestCrashes         = "crashes"
)

// These errors are results of Boot for guests that end by themselves.
var (
	ErrPoweredOff = errors.New("the guest has powered itself off")
	ErrCrashed    = errors.New("the guest has crashed")
)

// Guest runs inside the VMs.
type Guest interface {
	// Boot runs the guest until ctx ends. It calls ready with the guest agent's report after the network is configured,
	// and after each change. If the guest ends earlier, Boot returns ErrPoweredOff, ErrCrashed, or the reason why the
	// guest did not come up.
	Boot(ctx context.Context, machine GuestVM, ready func(store.AgentReport)) error
	// Shutdown asks the guest of a VM to power itself off, and reports whether it does so by itself. If it does not,
	// the engine considers the guest off after a while. The engine calls Shutdown under its lock.
	Shutdown(vmID string) bool
	// HandleHalt is called after the VM was powered off, or has crashed.
	HandleHalt(vmID string)
	// HandleRemoval is called after the VM was deleted.
	HandleRemoval(vmID string)
	// SetDisks is called after a change of the plugged disks of a running VM.
	SetDisks(vmID string, disks []GuestDisk)
	// HandleDiskRemoval is called after a disk was deleted.
	HandleDiskRemoval(diskID string)
	// Node returns the VM's Kubernetes node, and false if there is none.
	Node(vmID string) (GuestNode, bool)
	// SetNodeReady makes the kubelet of a VM report a Ready condition: True, False or Unknown, with a reason. It lets
	// tests make a node unhealthy without touching its VM.
	SetNodeReady(vmID, status, reason string) error
	// Close stops everything.
	Close()
}

// GuestDisk is a disk of a guest, except the boot disk.
type GuestDisk struct {
	ID string
	// Interface is virtio, virtio_scsi or another interface, from the attachment.
	Interface string
	// Size is the size in bytes.
	Size     int64
	ReadOnly bool
}

// GuestVM holds the engine's data for a guest.
type GuestVM struct {
	// ID is the VM's UUID. The guest sees it as its DMI product UUID.
	ID string
	// Name is the name of the VM in the engine.
	Name string
	// RootDisk is the UUID of the boot disk. It identifies the guest's state, because the state is on this disk.
	RootDisk string
	// Disks are the other plugged disks.
	Disks []GuestDisk
	// Ignition reports whether the user data is for Ignition instead of cloud-init.
	Ignition bool
	// DriveID is the instance ID on the drive with the initialization. It stays the same until the VM is down; "" means
	// no drive.
	DriveID string
	// UserData is the custom script on the drive of this run, or "".
	UserData string
	// HostName is the host name on this drive.
	HostName string
	// NICs are the NIC configurations on this drive. An Ignition guest does not see them, because the engine passes
	// them only to cloud-init.
	NICs []GuestNIC
	// DNSServers and SearchDomains are on this drive. The engine passes them only to cloud-init, too.
	DNSServers, SearchDomains []string
	// KubernetesVersion is the version of kubelet and kubeadm in the image; "" means none.
	KubernetesVersion string
	// IgnitionVersion is the highest Ignition specification supported by the image, such as 3.4.0; "" means 3.4.0.
	IgnitionVersion string
	// Image is the vendor of the image, such as ock; "" means an image with every program.
	Image string
	// Interfaces are the VM's plugged and linked network devices, in the guest's order.
	Interfaces []GuestInterface
}

// GuestNIC is one NIC configuration of a VM's initialization.
type GuestNIC struct {
	// Interface is the guest's name of the device.
	Interface string
	// BootProtocol is static, dhcp or none.
	BootProtocol string
	// Address, Netmask (dotted) and Gateway are for IPv4.
	Address, Netmask, Gateway string
	// IPv6BootProtocol is static, dhcp, none or "".
	IPv6BootProtocol string
	// IPv6Address, IPv6Prefix (the length of the prefix) and IPv6Gateway are for IPv6.
	IPv6Address, IPv6Prefix, IPv6Gateway string
}

// GuestInterface is a network device of a VM.
type GuestInterface struct {
	// Name is the name in the guest: enp1s0, enp2s0, ...
	Name string
	// MAC is the MAC address.
	MAC string
	// Network is the network of the device.
	Network string
	// DHCP is the address in the available DHCP lease, as ADDRESS/BITS; "" means no DHCP server.
	DHCP string
	// Gateway is the gateway in the lease.
	Gateway string
	// SLAAC is the IPv6 prefix advertised by the network's router, or "".
	SLAAC string
	// Proxy is the proxy between the network and registries; "" means direct access.
	Proxy string
	// Router holds the addresses of the network's router, in the form ADDRESS/BITS.
	Router []string
}

// GuestNode is a Kubernetes node in a VM.
type GuestNode struct {
	// Name is the name of the Node.
	Name string `json:"name"`
	// Endpoint is the control plane's endpoint of the node's cluster, as host:port.
	Endpoint string `json:"endpoint"`
	// ControlPlane reports whether the node runs an API server.
	ControlPlane bool `json:"controlPlane"`
	// Ready is the status of the node's Ready condition.
	Ready string `json:"ready"`
}

// bootGuest starts the guest of the VM. The caller must hold the lock.
func (s *Engine) bootGuest(v *store.VM) {
	if s.settings.Guest == nil {
		return
	}

	machine := s.guestVM(v)
	v.Boots++
	s.store.VMs.Put(v.ID, v)
	ctx, cancel := context.WithCancel(s.ctx)
	v.Cancel = cancel
	quiet := s.settings.GuestFault(GuestNoAgent, v.Name)
	update := func(change func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.store.VMs.Get(v.ID) == v && ctx.Err() == nil {
			change()
			_ = s.store.Flush()
			s.settings.Changed()
		}
	}
	s.callGuest(func() {
		go s.runGuest(ctx, v, machine, quiet, update)
	})
}

func (s *Engine) runGuest(ctx context.Context, v *store.VM, machine GuestVM, quiet bool, update func(func())) {
	err := s.settings.Guest.Boot(ctx, machine, func(report store.AgentReport) {
		if !quiet {
			update(func() { v.Report = report })
		}
	})

	switch {
	case errors.Is(err, ErrPoweredOff), errors.Is(err, ErrCrashed):
		update(func() { s.handleGuestEnd(v, err) })
	case err != nil:
		update(func() {
			v.GuestError = err.Error()
			s.store.VMs.Put(v.ID, v)
		})
	}

	s.settings.Changed()
}

// handleGuestEnd handles the end of a guest that ends by itself. The caller must hold the lock. A guest that crashes
// during its shutdown counts as off.
func (s *Engine) handleGuestEnd(v *store.VM, how error) {
	if errors.Is(how, ErrCrashed) && v.Status != store.StatusPoweringDown {
		s.CrashVM(v)
	}

	if v.Cancel != nil { // nothing else has ended it yet
		s.haltGuest(v)
		s.markDown(v)
	}
}

// callGuest queues a call to a guest. The engine makes these calls in the order of events, without holding the lock.
func (s *Engine) callGuest(what func()) {
	if s.settings.Guest == nil {
		return
	}

	select {
	case s.guestCalls <- what:
	case <-s.ctx.Done():
	}
}

// runGuestCalls makes the queued calls one after another.
func (s *Engine) runGuestCalls() {
	for {
		select {
		case what := <-s.guestCalls:
			what()
		case <-s.ctx.Done():
			return
		}
	}
}

// guestVM returns the environment of a VM's guest: its devices, and the user data from the engine.
func (s *Engine) guestVM(v *store.VM) GuestVM {
	machine := GuestVM{
		ID:                v.ID,
		Name:              v.Name,
		Ignition:          v.OSType == store.OSRHCOS,
		KubernetesVersion: v.Kubernetes,
		IgnitionVersion:   v.Ignition,
		Image:             v.Image,
	}
	if init := v.Drive; init != nil {
		if v.DriveID == "" {
			v.DriveID = uuid.NewString()
		}

		machine.DriveID = v.DriveID
		machine.UserData, machine.HostName = init.Value("custom_script"), init.Value("host_name")
		machine.DNSServers = strings.Fields(init.Value("dns_servers"))

		machine.SearchDomains = strings.Fields(init.Value("dns_search"))
		for _, n := range init.List("nic_configurations", "nic_configuration") {
			machine.NICs = append(machine.NICs, GuestNIC{
				Interface: n.Value("name"), BootProtocol: n.Value("boot_protocol"),
				Address: n.Value("ip", "address"), Netmask: n.Value("ip", "netmask"), Gateway: n.Value("ip", "gateway"),
				IPv6BootProtocol: n.Value("ipv6_boot_protocol"),
				IPv6Address:      n.Value("ipv6", "address"),
				IPv6Prefix:       n.Value("ipv6", "netmask"),
				IPv6Gateway:      n.Value("ipv6", "gateway"),
			})
		}
	}

	for _, a := range s.store.AttachmentsOf(v.ID) {
		if a.Bootable {
			machine.RootDisk = a.Disk
		}
	}

	machine.Disks = s.guestDisks(v)

	devices := s.store.NICsOf(v.ID)
	slices.SortFunc(devices, func(a, b *store.NIC) int { return cmp.Compare(a.Order, b.Order) })

	for _, n := range devices {
		if !n.Unplugged {
			name := fmt.Sprintf("enp%ds0", len(machine.Interfaces)+1)
			machine.Interfaces = append(machine.Interfaces, s.guestInterface(name, n))
		}
	}

	return machine
}

// guestInterface returns a network device with the services of its network.
func (s *Engine) guestInterface(name string, n *store.NIC) GuestInterface {
	device := GuestInterface{Name: name, MAC: n.MAC}
	profile := s.store.VNICProfiles.Get(n.Profile)
	if profile == nil || n.Unlinked {
		return device
	}

	if net := s.store.Networks.Get(profile.Network); net != nil {
		device.Network, device.DHCP, device.SLAAC = net.Name, s.store.LeaseAddress(net, n.MAC), net.SLAAC
		device.Router, device.Proxy = net.Router, net.Proxy
		if net.DHCP != nil {
			device.Gateway = net.DHCP.Gateway
		}
	}

	return device
}

// haltGuest ends the guest. The caller must hold the lock.
func (s *Engine) haltGuest(v *store.VM) {
	v.Report = store.AgentReport{}
	if v.Cancel != nil {
		v.Cancel()
		v.Cancel = nil
	}

	id := v.ID
	s.callGuest(func() { s.settings.Guest.HandleHalt(id) })
}

// guestDisks returns the plugged disks of a VM, except the boot disk.
func (s *Engine) guestDisks(v *store.VM) []GuestDisk {
	var out []GuestDisk

	for _, a := range s.store.AttachmentsOf(v.ID) {
		d := s.store.Disks.Get(a.Disk)
		if d == nil || a.Bootable || !a.Active {
			continue
		}

		out = append(out, GuestDisk{ID: d.ID, Interface: a.Interface, Size: d.Provisioned, ReadOnly: a.ReadOnly})
	}

	return out
}

// passDisksToGuest passes the disks of a running VM to its guest. The caller must hold the lock.
func (s *Engine) passDisksToGuest(v *store.VM) {
	if v == nil || v.Cancel == nil {
		return
	}

	id, disks := v.ID, s.guestDisks(v)
	s.callGuest(func() { s.settings.Guest.SetDisks(id, disks) })
}
