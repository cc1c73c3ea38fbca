package addressing

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// Addresses of the network interfaces of a machine, by the interfaces' names in the engine.
type Addresses map[string][]netip.Addr

// Recorded are the addresses that an OLVMMachine records.
func Recorded(m *infrav1.OLVMMachine) (Addresses, error) {
	text := m.Annotations[infrav1.AddressesAnnotation]
	if text == "" {
		return nil, nil
	}

	var out Addresses
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, unusable(
			"metadata.annotations["+infrav1.AddressesAnnotation+"]",
			"%v; write back what it was, such as {\"nic1\":[\"10.20.30.161\"]}, or remove it from a "+
				"machine that has no VM yet",
			err,
		)
	}

	for _, addresses := range out {
		for i, address := range addresses {
			addresses[i] = address.Unmap() // ::ffff:10.0.0.1 is the address 10.0.0.1 of others

			if address.Zone() != "" { // it may be any text, and addresses go into files of guests
				return nil, unusable("metadata.annotations["+infrav1.AddressesAnnotation+"]",
					"%q has a zone; write it without", address)
			}
		}
	}

	return out, nil
}

// Provisioned are the addresses that were decided for a VM of a pool.
func Provisioned(vm infrav1alpha1.ProvisionedVM) Addresses {
	out := Addresses{}

	for _, nic := range vm.NICs {
		if list := ipam.ParseAll(nic.IPAddresses); len(list) > 0 {
			out[nic.Name] = list
		}
	}

	return out
}

// Held says who has which address on one engine, by the name of the network. What stands under "", where a machine
// names none, may be on any.
type Held map[string]map[netip.Addr]string

// Add an address.
func (h Held) Add(network string, address netip.Addr, holder string) {
	if h[network] == nil {
		h[network] = map[netip.Addr]string{}
	}

	h[network][address] = holder
}

// endpointAddress is how messages speak of the address of a control plane endpoint.
const endpointAddress = "the control plane endpoint"

// VirtualAddresses of a cluster: the control plane endpoint and that of ingress, as far as they are addresses.
func VirtualAddresses(spec infrav1.OLVMClusterSpec) []VirtualAddress {
	var out []VirtualAddress
	add := func(text, what, field string) {
		for _, address := range ipam.ParseAll([]string{text}) {
			out = append(out, VirtualAddress{address, what, "spec." + field})
		}
	}
	add(spec.ControlPlaneEndpoint.Host, endpointAddress, "controlPlaneEndpoint.host")
	if services := spec.ControlPlaneServices; services != nil {
		add(services.AdditionalVirtualIP, "the additional address of the control plane endpoint",
			"controlPlaneServices.additionalVirtualIP")
		add(services.IngressVirtualIP, "the ingress address", "controlPlaneServices.ingressVirtualIP")
		add(services.AdditionalIngressVirtualIP, "the additional ingress address",
			"controlPlaneServices.additionalIngressVirtualIP")
	}

	return out
}

// SupportAddresses are the virtual addresses of the load balancers of a cluster, except for its endpoint. of is nil for
// a cluster without support services.
func SupportAddresses(
	cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices,
) []VirtualAddress {
	var out []VirtualAddress
	endpoint := ipam.ParseAll([]string{cluster.ControlPlaneEndpoint.Host})

	for _, service := range support.Services(of) {
		if service.Balancer == nil {
			continue
		}

		for _, address := range ipam.ParseAll([]string{service.Balancer.VirtualIP}) {
			if !slices.Contains(endpoint, address) {
				out = append(out, VirtualAddress{
					address, "the address of load balancer " + service.Balancer.Name, service.VirtualIPField(),
				})
			}
		}
	}

	return out
}

// AddEndpoint adds the virtual addresses of a cluster and of its load balancers, for messages in a namespace. of is nil
// for a cluster without support services.
func (h Held) AddEndpoint(
	cluster *infrav1.OLVMCluster, of *infrav1alpha1.OLVMSupportServices, namespace string,
) {
	for _, virtual := range VirtualAddresses(cluster.Spec) {
		h.Add("", virtual.Address, virtual.What+" of "+named("OLVMCluster", cluster, namespace))
	}

	h.AddSupportAddresses(cluster, of, namespace, nil)
}

// AddSupportAddresses adds those of the load balancers of a cluster, each on the networks of the cluster, or on any if
// they are not known.
func (h Held) AddSupportAddresses(
	cluster *infrav1.OLVMCluster, of *infrav1alpha1.OLVMSupportServices, namespace string, networks []string,
) {
	if len(networks) == 0 {
		networks = []string{""}
	}

	for _, virtual := range SupportAddresses(cluster.Spec, of) {
		for _, network := range networks {
			h.Add(network, virtual.Address, virtual.What+" of "+named("OLVMSupportServices", of, namespace))
		}
	}
}

// Holder is how messages in a namespace speak of a machine that has an address.
func Holder(m *infrav1.OLVMMachine, namespace string) string {
	return named("OLVMMachine", m, namespace)
}

// named gives the name of an object to those who can see it, and to no others.
func named(kind string, object metav1.Object, namespace string) string {
	if object.GetNamespace() != namespace {
		return "an " + kind + " of another namespace"
	}

	return fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName())
}

// maxHeld is how many addresses one machine can have recorded: eight interfaces with two static ones and two from
// pools.
const maxHeld = 32

// AddMachine adds the addresses of a machine with their networks.
func (h Held) AddMachine(spec infrav1.OLVMMachineSpec, recorded Addresses, holder string) {
	networks := map[string]string{}
	for _, n := range Networks(spec) {
		networks[n.VNICName] = n.NetworkName
	}

	left := maxHeld

	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		list := recorded[name]
		list = list[:min(left, len(list))]

		left -= len(list)
		for _, address := range list {
			h.Add(networks[name], address, holder) // on all networks where the interface is none any more
		}
	}
}

// AddRunning adds the recorded addresses of a machine with their networks, and those that its VM is known to have.
func (h Held) AddRunning(m *infrav1.OLVMMachine, holder string) {
	recorded, err := Recorded(m)
	if err != nil {
		recorded = nil // its own condition says so; one bad record must not stop all others
	}

	h.AddMachine(m.Spec, recorded, holder)

	if !MayHaveVM(m) {
		return
	}

	known := slices.Concat(slices.Collect(maps.Values(recorded))...)
	_, ips := NamesAndAddresses(m)

	for _, ip := range ips { // whatever became of its record
		if address, ok := netip.AddrFromSlice(ip); ok && !slices.Contains(known, address.Unmap()) {
			h.Add("", address.Unmap(), holder)
		}
	}
}

// AddProvisioned adds the addresses of a VM of a pool with their networks.
func (h Held) AddProvisioned(vm infrav1alpha1.ProvisionedVM, holder string) {
	for _, nic := range vm.NICs {
		for _, address := range ipam.ParseAll(nic.IPAddresses) {
			h.Add(nic.NetworkName, address, holder)
		}
	}
}

// On returns who has which address on one network, or on any for "".
func (h Held) On(network string) map[netip.Addr]string {
	out := map[netip.Addr]string{}

	for name, addresses := range h {
		if network == "" || name == "" || name == network {
			maps.Copy(out, addresses)
		}
	}

	return out
}

// Allocation is what decides the static addresses of one machine.
type Allocation struct {
	NICs []NIC
	// Recorded addresses of the machine.
	Recorded Addresses
	// Claimed are those that IPAM providers gave, by the interfaces' names.
	Claimed map[string][]ipam.Address
	// InUse reports that a guest may have the recorded addresses already: they are never taken back.
	InUse bool
	// Made reports that the guest has what it was made with: a source that was added since gives it nothing.
	Made bool
}

// Given are the addresses by their sources, as guests configure them; false where some are not recorded yet, or some
// are recorded that have no source.
func (a Allocation) Given() (map[string][]ipam.Address, bool) {
	out := map[string][]ipam.Address{}

	left := 0
	for name := range a.Recorded {
		left += len(a.Recorded[name])
	}

	for _, nic := range a.NICs {
		if nic.Guest == nil {
			continue
		}

		var used []netip.Addr

		for _, address := range a.Claimed[nic.VNICName] {
			if !slices.Contains(a.Recorded[nic.VNICName], address.Addr()) {
				if a.Made {
					continue
				}

				return nil, false
			}

			used = append(used, address.Addr())
			out[nic.VNICName] = append(out[nic.VNICName], address)
		}

		for _, pool := range nic.Guest.Pools {
			address := a.keep(nic.VNICName, pool, used)
			if !address.IsValid() {
				if a.Made {
					continue
				}

				return nil, false
			}

			used = append(used, address)
			out[nic.VNICName] = append(out[nic.VNICName], pool.Address(address))
		}

		left -= len(used)
	}

	return out, left == 0 || a.InUse
}

// keep is the recorded address that a pool gave; the zero one where there is none. An address in use stays, also where
// the ranges have changed. Others are what the interface has from other sources.
func (a Allocation) keep(nic string, pool *ipam.Pool, others []netip.Addr) netip.Addr {
	for _, address := range a.Recorded[nic] {
		if address.Is4() == pool.Is4() && !slices.Contains(others, address) && (pool.Contains(address) || a.InUse) {
			return address
		}
	}

	return netip.Addr{}
}

// Conflict names the other owner of a recorded address; "" where there is none.
func (a Allocation) Conflict(held Held) string {
	for _, nic := range a.NICs {
		others := held.On(nic.NetworkName)
		for _, address := range a.Recorded[nic.VNICName] {
			if holder := others[address]; holder != "" {
				return fmt.Sprintf("%s has %s too", holder, address)
			}
		}
	}

	return ""
}

// Allocate returns what is to be recorded: what was claimed, what is recorded already, and the lowest free addresses
// for the rest, which are added to held.
func (a Allocation) Allocate(held Held) (Addresses, error) {
	out := Addresses{}
	if err := a.addClaimed(held, out); err != nil {
		return nil, err
	}

	if err := a.addFree(held, out); err != nil {
		return nil, err
	}

	if a.InUse {
		for name, list := range a.Recorded {
			for _, address := range list {
				if !slices.Contains(out[name], address) {
					out[name] = append(out[name], address)
				}
			}
		}
	}

	return out, nil
}

// thisMachine holds what is being allocated.
const thisMachine = "this machine"

// addClaimed takes what IPAM providers gave, unless another has it, or the guest has something else already.
func (a Allocation) addClaimed(held Held, out Addresses) error {
	for _, nic := range a.NICs {
		for _, address := range a.Claimed[nic.VNICName] {
			conflict := &blocker.Error{
				Reason: infrav1.IPAddressConflictReason,
				Field:  nic.Guest.Field + ".addressesFromPools",
			}
			if had := a.Recorded[nic.VNICName]; a.InUse && len(had) > 0 && !slices.Contains(had, address.Addr()) {
				conflict.Message = fmt.Sprintf(
					"the IPAM provider gave %s, and the guest may have %v of an earlier IPAddressClaim; delete this "+
						"Machine, so that it is replaced",
					address.Addr(),
					had,
				)

				return conflict
			}

			if holder := held.On(nic.NetworkName)[address.Addr()]; holder != "" {
				conflict.Message = fmt.Sprintf(
					"the IPAM provider gave %s, which %s has; take it out of the pool and delete this Machine",
					address.Addr(), holder,
				)

				return conflict
			}

			out[nic.VNICName] = append(out[nic.VNICName], address.Addr())
			held.Add(nic.NetworkName, address.Addr(), thisMachine)
		}
	}

	return nil
}

// addFree keeps what is recorded, and takes free addresses of the ranges for the rest.
func (a Allocation) addFree(held Held, out Addresses) error {
	for _, nic := range a.NICs {
		if nic.Guest == nil {
			continue
		}

		for _, pool := range nic.Guest.Pools {
			address := a.keep(nic.VNICName, pool, out[nic.VNICName])
			if !address.IsValid() {
				var err error
				if address, err = pool.Free(slices.Collect(maps.Keys(held.On(nic.NetworkName)))); err != nil {
					return &blocker.Error{
						Reason: infrav1.AddressRangeExhaustedReason,
						Field:  nic.Guest.Field,
						Message: fmt.Sprintf(
							"all %s addresses of a range are taken; add addresses, delete "+
								"machines or lower the replicas",
							pool.Size(),
						),
					}
				}
			}

			out[nic.VNICName] = append(out[nic.VNICName], address)
			held.Add(nic.NetworkName, address, thisMachine)
		}
	}

	return nil
}
