package preview

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// FindTakenAddresses finds guests of other VMs that report an address wanted by a cluster: its endpoint, or an address
// of its machines' ranges. Guests without an agent report no addresses. The machines of the cluster itself may have
// these addresses.
func FindTakenAddresses(
	ctx context.Context, m *Manifests, machines []Machine, credentials Credentials, sessions *engine.Sessions,
) []error {
	var errs []error
	var asked []string
	guests := map[*engine.Client][]guest{}

	for _, machine := range machines {
		if slices.Contains(asked, machine.From) {
			continue // it has the same ranges
		}

		asked = append(asked, machine.From)
		found, err := m.takenAddressErrors(ctx, machine, credentials, sessions, guests)
		if err != nil {
			return append(errs, machine.explainEngine(err, credentials.Places))
		}

		for _, one := range found {
			if !slices.ContainsFunc(errs, func(err error) bool { return err.Error() == one.Error() }) {
				errs = append(errs, one)
			}
		}
	}

	return errs
}

// guest is a VM with the addresses reported by its guest agent.
type guest struct {
	vm        engine.VM
	addresses []netip.Addr
}

// listGuests returns all guests of an engine. Guests without an agent have no addresses.
func listGuests(ctx context.Context, session *engine.Client) ([]guest, error) {
	reported, err := session.ListAllGuestInterfaces(ctx)
	if err != nil {
		return nil, err
	}

	vms, err := session.ListVMs(ctx)
	if err != nil {
		return nil, err
	}

	var out []guest

	for i := range vms {
		one := guest{vm: vms[i]}
		for _, n := range reported[vms[i].ID] {
			one.addresses = slices.Concat(one.addresses, n.IPv4, n.IPv6)
		}

		out = append(out, one)
	}

	return out, nil
}

// takenAddressErrors returns the errors of one machine. guests caches the answers of the engines.
func (m *Manifests) takenAddressErrors(
	ctx context.Context,
	machine Machine,
	credentials Credentials,
	sessions *engine.Sessions,
	guests map[*engine.Client][]guest,
) ([]error, error) {
	config, err := m.engineConfig(machine.engine(), credentials)
	if err != nil {
		return nil, err
	}

	session, err := sessions.Get(config)
	if err != nil {
		return nil, err
	}

	nics, err := addressing.BuildNICs(machine.spec, machine.clusterSpec())
	if err != nil {
		return nil, err
	}

	if _, known := guests[session]; !known {
		if guests[session], err = listGuests(ctx, session); err != nil {
			return nil, err
		}
	}

	var found []error

	for i := range guests[session] {
		other := &guests[session][i]
		if machine.isOf(&other.vm) {
			continue
		}

		for _, address := range other.addresses {
			for _, of := range fieldsWanting(machine, nics, address) {
				found = append(
					found,
					fmt.Errorf(
						"%s: %s is in use by VM %s, as reported by its guest; use another address, or stop this VM", of,
						address, other.vm.Name,
					),
				)
			}
		}
	}

	return found, nil
}

// isOf reports whether a VM belongs to the machine's cluster.
func (m *Machine) isOf(vm *engine.VM) bool {
	owner, ok := ownermark.ParseOwner(vm.CommentText())
	if !ok || owner.Namespace != m.Namespace {
		return false
	}

	return slices.ContainsFunc([]string{m.olvmClusterName(), m.Cluster}, func(cluster string) bool {
		return cluster != "" && strings.HasPrefix(owner.Name, cluster+"-")
	})
}

// fieldsWanting returns the fields of a machine that request an address.
func fieldsWanting(machine Machine, nics []addressing.NIC, address netip.Addr) []string {
	var out []string

	for _, virtual := range addressing.CollectVirtualAddresses(machine.clusterSpec()) {
		if virtual.Address == address {
			out = append(out, fmt.Sprintf("%s of OLVMCluster %s", virtual.What, machine.olvmClusterName()))
		}
	}

	for _, virtual := range addressing.CollectSupportAddresses(machine.clusterSpec(), machine.services) {
		if virtual.Address == address {
			out = append(out, fmt.Sprintf("%s of %s %s", virtual.What, support.Kind, machine.services.Name))
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
