package preview

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
)

// Taken looks for guests of other VMs that report an address of a cluster: its endpoint, or one that its machines may get. Guests
// without an agent report none. The machines of the cluster itself may have them.
func Taken(ctx context.Context, m *Manifests, machines []Machine, credentials Credentials, sessions *engine.Sessions) []error {
	var errs []error
	var asked []string
	for _, machine := range machines {
		if slices.Contains(asked, machine.From) {
			continue // it has the same ranges
		}
		asked = append(asked, machine.From)
		found, err := m.taken(ctx, machine, credentials, sessions)
		if err != nil {
			return append(errs, fmt.Errorf("machine %s/%s (%s): %w", machine.Namespace, machine.Name, machine.From, Explain(err)))
		}
		for _, one := range found {
			if !slices.ContainsFunc(errs, func(err error) bool { return err.Error() == one.Error() }) {
				errs = append(errs, one)
			}
		}
	}
	return errs
}

func (m *Manifests) taken(ctx context.Context, machine Machine, credentials Credentials, sessions *engine.Sessions) ([]error, error) {
	config, err := m.engineConfig(machine.olvmCluster, credentials)
	if err != nil {
		return nil, err
	}
	session, err := sessions.Get(config)
	if err != nil {
		return nil, err
	}
	nics, err := resolve.NICs(machine.spec, machine.olvmCluster.Spec)
	if err != nil {
		return nil, err
	}
	reported, err := session.AllGuestInterfaces(ctx)
	if err != nil {
		return nil, err
	}
	vms, err := session.VMs(ctx)
	if err != nil {
		return nil, err
	}
	var found []error
	for i := range vms {
		if machine.isOf(&vms[i]) {
			continue
		}
		for _, guest := range reported[vms[i].ID] {
			for _, address := range slices.Concat(guest.IPv4, guest.IPv6) {
				for _, of := range wanting(machine, nics, address) {
					found = append(found, fmt.Errorf("%s: %s is an address of VM %s, as its guest says; choose another, or stop that VM", of, address, vms[i].Name))
				}
			}
		}
	}
	return found, nil
}

// isOf says whether a VM is one of the cluster for which a machine is asked.
func (m *Machine) isOf(vm *engine.VM) bool {
	comment := ""
	if vm.Comment != nil {
		comment = *vm.Comment
	}
	owner, ok := resolve.OwnerOf(comment)
	return ok && owner.Namespace == m.Namespace && strings.HasPrefix(owner.Name, m.olvmCluster.Name+"-")
}

// wanting are the fields that ask for an address.
func wanting(machine Machine, nics []resolve.NIC, address netip.Addr) []string {
	var out []string
	for _, virtual := range resolve.VirtualAddresses(machine.olvmCluster.Spec) {
		if virtual.Address == address {
			out = append(out, fmt.Sprintf("%s of OLVMCluster %s", virtual.What, machine.olvmCluster.Name))
		}
	}
	for _, nic := range nics {
		if nic.Guest == nil {
			continue
		}
		for _, pool := range nic.Guest.Pools {
			if pool.Is4() == address.Is4() && pool.Contains(address) {
				out = append(out, fmt.Sprintf("%s of %s", nic.Guest.Field, machine.From))
			}
		}
	}
	return out
}
