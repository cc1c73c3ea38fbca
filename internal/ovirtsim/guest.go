package ovirtsim

import "context"

// Guest is what runs inside the VMs.
type Guest interface {
	// Boot runs the guest until ctx ends, or returns why it did not come up. It calls ready once its network is
	// configured, with the addresses that the guest agent reports.
	Boot(ctx context.Context, machine GuestVM, ready func(addresses []string)) error
	// Halted tells that the VM was powered off.
	Halted(vmID string)
	// Removed tells that the VM does not exist any more.
	Removed(vmID string)
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
	// NICs configured by the VM's initialization.
	NICs []GuestNIC
	// KubernetesVersion is the version of kubelet and kubeadm in the image; empty means that it has none.
	KubernetesVersion string
	// MACs of the VM's network interfaces.
	MACs []string
}

// GuestNIC is one NIC configuration of a VM's initialization.
type GuestNIC struct {
	// Interface is the guest's name of it.
	Interface string
	// BootProtocol is static, dhcp or none.
	BootProtocol string
	// Address, Netmask (dotted) and Gateway for IPv4.
	Address, Netmask, Gateway string
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
	for _, n := range s.registry.nicsOf(v.id) {
		machine.MACs = append(machine.MACs, n.mac)
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
		err := s.options.Guest.Boot(ctx, machine, func(addresses []string) {
			update(func() { v.addresses = addresses })
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
