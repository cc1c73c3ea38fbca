package ovirtsim

import (
	"context"
	"fmt"
)

// Guest is what runs inside the VMs.
type Guest interface {
	// Boot runs the guest until ctx ends, or returns why it did not come up. It calls ready once its network is
	// configured, with what the guest agent reports.
	Boot(ctx context.Context, machine GuestVM, ready func([]ReportedInterface)) error
	// Halted tells that the VM was powered off, or that it crashed.
	Halted(vmID string)
	// Removed tells that the VM does not exist any more.
	Removed(vmID string)
	// Node is the Kubernetes node that the VM became; false while it is none.
	Node(vmID string) (GuestNode, bool)
	// SetNodeReady makes the kubelet of a VM report a Ready condition: True, False or Unknown, with a reason. It is
	// how tests make a node unhealthy without touching its VM.
	SetNodeReady(vmID, status, reason string) error
	// Close stops everything.
	Close()
}

// GuestVM is what the engine gives to a guest, and no more.
type GuestVM struct {
	// ID is the VM's UUID, which the guest sees as its DMI product UUID.
	ID string
	// Name of the VM in the engine.
	Name string
	// Ignition says that the user data is for Ignition, else it is for cloud-init.
	Ignition bool
	// UserData is the custom script of the VM's initialization.
	UserData string
	// HostName of the VM's initialization.
	HostName string
	// NICs configured by the VM's initialization. An Ignition guest does not see them: the engine hands them to
	// cloud-init only.
	NICs []GuestNIC
	// KubernetesVersion is the version of kubelet and kubeadm in the image; empty means that it has none.
	KubernetesVersion string
	// IgnitionVersion is the highest Ignition specification that the image reads, such as 3.4.0; empty means 3.4.0.
	IgnitionVersion string
	// Interfaces are the VM's network devices that are plugged and linked, in the order in which the guest finds them.
	Interfaces []GuestInterface
}

// GuestNIC is one NIC configuration of a VM's initialization.
type GuestNIC struct {
	// Interface is the guest's name of it.
	Interface string
	// BootProtocol is static, dhcp or none.
	BootProtocol string
	// Address, Netmask (dotted) and Gateway for IPv4.
	Address, Netmask, Gateway string
	// IPv6BootProtocol is static, dhcp, autoconf, none or empty.
	IPv6BootProtocol string
	// IPv6Address, IPv6Prefix (its length) and IPv6Gateway for IPv6.
	IPv6Address, IPv6Prefix, IPv6Gateway string
}

// GuestInterface is a network device of a VM.
type GuestInterface struct {
	// Name that the guest gives it: enp1s0, enp2s0, ...
	Name string
	// MAC address.
	MAC string
	// Network it is connected to.
	Network string
	// DHCP is the lease that the network's DHCP server would give, as ADDRESS/BITS; empty where it has none.
	DHCP string
	// Gateway that comes with the lease.
	Gateway string
}

// ReportedInterface is a network interface as the guest agent reports it.
type ReportedInterface struct {
	// Name in the guest.
	Name string
	// MAC address.
	MAC string
	// Addresses without prefix lengths, IPv4 and IPv6.
	Addresses []string
}

// GuestNode is a Kubernetes node in a VM.
type GuestNode struct {
	// Name of the Node.
	Name string `json:"name"`
	// Endpoint of its cluster's control plane, host:port.
	Endpoint string `json:"endpoint"`
	// ControlPlane says whether it runs an API server.
	ControlPlane bool `json:"controlPlane"`
	// Ready is the status of its Ready condition.
	Ready string `json:"ready"`
}

// boot hands the VM to the guest; the registry is locked.
func (s *Server) boot(v *vm) {
	if s.options.Guest == nil {
		return
	}
	machine := GuestVM{ID: v.id, Name: v.name, Ignition: v.osType == osRHCOS}
	if init := v.initialization; init != nil {
		machine.UserData, machine.HostName = init.CustomScript, init.HostName
		if init.NICConfigurations != nil {
			for _, n := range init.NICConfigurations.Items {
				configured := GuestNIC{Interface: n.Name, BootProtocol: n.BootProtocol}
				if n.IP != nil {
					configured.Address, configured.Netmask, configured.Gateway = n.IP.Address, n.IP.Netmask, n.IP.Gateway
				}
				machine.NICs = append(machine.NICs, configured)
			}
		}
	}
	if source := byID(s.registry.templates, v.template); source != nil {
		machine.KubernetesVersion = source.kubernetes
	}
	for i, n := range s.registry.nicsOf(v.id) {
		machine.Interfaces = append(machine.Interfaces, GuestInterface{Name: fmt.Sprintf("enp%ds0", i+1), MAC: n.mac})
	}
	ctx, cancel := context.WithCancel(s.ctx)
	v.cancel = cancel
	epoch := v.epoch
	update := func(change func()) {
		s.registry.mu.Lock()
		defer s.registry.mu.Unlock()
		if s.registry.vms[v.id] == v && v.epoch == epoch {
			change()
		}
	}
	go func() {
		err := s.options.Guest.Boot(ctx, machine, func(reported []ReportedInterface) {
			update(func() {
				for _, device := range reported {
					v.addresses = append(v.addresses, device.Addresses...)
				}
			})
		})
		if err != nil && ctx.Err() == nil {
			update(func() { v.guestError = err.Error() })
		}
	}()
}

// halt ends the guest; the registry is locked.
func (s *Server) halt(v *vm) {
	v.addresses = nil
	if v.cancel != nil {
		v.cancel()
		v.cancel = nil
	}
	if s.options.Guest != nil {
		go s.options.Guest.Halted(v.id)
	}
}
