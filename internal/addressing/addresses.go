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
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// Addresses maps the names of a machine's network interfaces in the engine to their addresses.
type Addresses map[string][]netip.Addr

// ParseRecorded returns the addresses recorded on an OLVMMachine.
func ParseRecorded(m *infrav1.OLVMMachine) (Addresses, error) {
	text := m.Annotations[infrav1.AddressesAnnotation]
	if text == "" {
		return nil, nil
	}

	var out Addresses
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, newUnusableError(
			"metadata.annotations["+infrav1.AddressesAnnotation+"]",
			"%v; restore its value, such as {\"nic1\":[\"10.20.30.161\"]}, or remove it if the machine has no VM yet",
			err,
		)
	}

	for _, addresses := range out {
		for i, address := range addresses {
			addresses[i] = address.Unmap() // ::ffff:10.0.0.1 and 10.0.0.1 are the same address

			if address.Zone() != "" { // a zone may contain any text, and addresses go into files of guests
				return nil, newUnusableError("metadata.annotations["+infrav1.AddressesAnnotation+"]",
					"%q has a zone; remove the zone", address)
			}
		}
	}

	return out, nil
}

// ParseProvisioned returns the addresses chosen for a VM of an inventory.
func ParseProvisioned(vm infrav1alpha1.ProvisionedVM) Addresses {
	out := Addresses{}

	for _, nic := range vm.NICs {
		if list := addressrange.ParseAll(nic.IPAddresses); len(list) > 0 {
			out[nic.Name] = list
		}
	}

	return out
}

// Held has the addresses in use on one engine, by the names of their networks, with the holder of each. The name ""
// means an unknown network. Its addresses count on every network.
type Held map[string]map[netip.Addr]string

// AddAddress adds an address.
func (h Held) AddAddress(network string, address netip.Addr, holder string) {
	if h[network] == nil {
		h[network] = map[netip.Addr]string{}
	}

	h[network][address] = holder
}

// endpointAddress describes the address of a control plane endpoint for messages.
const endpointAddress = "the control plane endpoint"

// CollectVirtualAddresses returns the addresses of the control plane endpoint and of ingress. It ignores host names.
func CollectVirtualAddresses(spec infrav1.OLVMClusterSpec) []VirtualAddress {
	var out []VirtualAddress
	add := func(text, what, field string) {
		for _, address := range addressrange.ParseAll([]string{text}) {
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

// CollectSupportAddresses returns the virtual addresses of a cluster's load balancers, except the endpoint. of is nil
// for a cluster without support services.
func CollectSupportAddresses(
	cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices,
) []VirtualAddress {
	var out []VirtualAddress
	endpoint := addressrange.ParseAll([]string{cluster.ControlPlaneEndpoint.Host})

	for _, service := range support.CollectServices(of) {
		if service.Balancer == nil {
			continue
		}

		for _, address := range addressrange.ParseAll([]string{service.Balancer.VirtualIP}) {
			if !slices.Contains(endpoint, address) {
				out = append(out, VirtualAddress{
					address, "the address of load balancer " + service.Balancer.Name, service.VirtualIPField(),
				})
			}
		}
	}

	return out
}

// AddEndpoint adds the virtual addresses of a cluster and its load balancers. The holders are described for readers of
// a namespace. of is nil for a cluster without support services.
func (h Held) AddEndpoint(
	cluster *infrav1.OLVMCluster, of *infrav1alpha1.OLVMSupportServices, namespace string,
) {
	for _, virtual := range CollectVirtualAddresses(cluster.Spec) {
		h.AddAddress("", virtual.Address, virtual.What+" of "+describeObject("OLVMCluster", cluster, namespace))
	}

	h.AddSupportAddresses(cluster, of, namespace, nil)
}

// AddSupportAddresses adds the addresses of a cluster's load balancers on each of the networks. Without networks, they
// count on every network.
func (h Held) AddSupportAddresses(
	cluster *infrav1.OLVMCluster, of *infrav1alpha1.OLVMSupportServices, namespace string, networks []string,
) {
	if len(networks) == 0 {
		networks = []string{""}
	}

	for _, virtual := range CollectSupportAddresses(cluster.Spec, of) {
		for _, network := range networks {
			h.AddAddress(
				network, virtual.Address, virtual.What+" of "+describeObject("OLVMSupportServices", of, namespace),
			)
		}
	}
}

// DescribeHolder describes a machine that holds an address, for messages to readers of a namespace.
func DescribeHolder(m *infrav1.OLVMMachine, namespace string) string {
	return describeObject("OLVMMachine", m, namespace)
}

// describeObject returns the name of an object for readers of its own namespace. It hides the name from others.
func describeObject(kind string, object metav1.Object, namespace string) string {
	if object.GetNamespace() != namespace {
		return "an " + kind + " of another namespace"
	}

	return fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName())
}

// maxHeld limits the recorded addresses of one machine: eight interfaces, each with two static addresses and two from
// pools.
const maxHeld = 32

// AddMachine adds the addresses of a machine with their networks.
func (h Held) AddMachine(spec infrav1.OLVMMachineSpec, recorded Addresses, holder string) {
	networks := map[string]string{}
	for _, n := range CollectNetworks(spec) {
		networks[n.VNICName] = n.NetworkName
	}

	left := maxHeld

	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		list := recorded[name]
		list = list[:min(left, len(list))]

		left -= len(list)
		for _, address := range list {
			h.AddAddress(networks[name], address, holder) // on all networks if the interface is gone
		}
	}
}

// AddRunning adds the recorded addresses of a machine with their networks, and the addresses that its VM is known to
// use.
func (h Held) AddRunning(m *infrav1.OLVMMachine, holder string) {
	recorded, err := ParseRecorded(m)
	if err != nil {
		recorded = nil // the machine's condition reports this, and one bad record must not stop all others
	}

	h.AddMachine(m.Spec, recorded, holder)

	if !CanHaveVM(m) {
		return
	}

	known := slices.Concat(slices.Collect(maps.Values(recorded))...)
	_, ips := CollectNamesAndAddresses(m)

	for _, ip := range ips { // also count if the record has changed
		if address, ok := netip.AddrFromSlice(ip); ok && !slices.Contains(known, address.Unmap()) {
			h.AddAddress("", address.Unmap(), holder)
		}
	}
}

// AddProvisioned adds the addresses of an inventory's VM with their networks.
func (h Held) AddProvisioned(vm infrav1alpha1.ProvisionedVM, holder string) {
	for _, nic := range vm.NICs {
		for _, address := range addressrange.ParseAll(nic.IPAddresses) {
			h.AddAddress(nic.NetworkName, address, holder)
		}
	}
}

// HoldersOn returns the holders of addresses on one network, or on all networks if network is "".
func (h Held) HoldersOn(network string) map[netip.Addr]string {
	out := map[netip.Addr]string{}

	for name, addresses := range h {
		if network == "" || name == "" || name == network {
			maps.Copy(out, addresses)
		}
	}

	return out
}

// Allocation is the input for the choice of one machine's static addresses.
type Allocation struct {
	NICs []NIC
	// Recorded are the addresses recorded on the machine.
	Recorded Addresses
	// Claimed maps the names of interfaces to addresses from IPAM providers.
	Claimed map[string][]addressrange.Address
	// InUse reports whether a guest may already use the recorded addresses. In this case, they are never released.
	InUse bool
	// Made reports whether the guest keeps its first addresses. A source added later then has no effect on it.
	Made bool
}

// ResolveAddresses returns the addresses of each interface in the form that guests configure. It returns false if a
// source has no recorded address yet, or if a recorded address has no source.
func (a Allocation) ResolveAddresses() (map[string][]addressrange.Address, bool) {
	out := map[string][]addressrange.Address{}

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
			address := a.keepRecorded(nic.VNICName, pool, used)
			if !address.IsValid() {
				if a.Made {
					continue
				}

				return nil, false
			}

			used = append(used, address)
			out[nic.VNICName] = append(out[nic.VNICName], pool.ToAddress(address))
		}

		left -= len(used)
	}

	return out, left == 0 || a.InUse
}

// keepRecorded returns the recorded address from a pool, or the zero address. An address in use stays, even if the
// ranges have changed. others are the addresses of the interface from other sources.
func (a Allocation) keepRecorded(nic string, pool *addressrange.Set, others []netip.Addr) netip.Addr {
	for _, address := range a.Recorded[nic] {
		if address.Is4() == pool.Is4() && !slices.Contains(others, address) && (pool.Contains(address) || a.InUse) {
			return address
		}
	}

	return netip.Addr{}
}

// FindConflict describes another object that holds a recorded address, or returns "".
func (a Allocation) FindConflict(held Held) string {
	for _, nic := range a.NICs {
		others := held.HoldersOn(nic.NetworkName)
		for _, address := range a.Recorded[nic.VNICName] {
			if holder := others[address]; holder != "" {
				return fmt.Sprintf("%s also has %s", holder, address)
			}
		}
	}

	return ""
}

// Allocate returns the addresses to record: the claimed ones, the recorded ones, and otherwise the lowest free ones. It
// adds them to held.
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

// thisMachine is the holder of addresses that are being allocated.
const thisMachine = "this machine"

// addClaimed adds the addresses from IPAM providers. It fails if another object holds one of them, or if the guest
// already has a different address.
func (a Allocation) addClaimed(held Held, out Addresses) error {
	for _, nic := range a.NICs {
		for _, address := range a.Claimed[nic.VNICName] {
			conflict := &blocker.Error{
				Reason: infrav1.IPAddressConflictReason,
				Field:  nic.Guest.Field + ".addressesFromPools",
			}
			if had := a.Recorded[nic.VNICName]; a.InUse && len(had) > 0 && !slices.Contains(had, address.Addr()) {
				conflict.Message = fmt.Sprintf(
					"the IPAM provider assigned %s, but the guest may have %v from an earlier IPAddressClaim; delete "+
						"this Machine, so that its owner replaces it",
					address.Addr(),
					had,
				)

				return conflict
			}

			if holder := held.HoldersOn(nic.NetworkName)[address.Addr()]; holder != "" {
				conflict.Message = fmt.Sprintf(
					"the IPAM provider assigned %s, but %s has this address; remove it from the pool, and delete "+
						"this Machine",
					address.Addr(), holder,
				)

				return conflict
			}

			out[nic.VNICName] = append(out[nic.VNICName], address.Addr())
			held.AddAddress(nic.NetworkName, address.Addr(), thisMachine)
		}
	}

	return nil
}

// addFree keeps the recorded addresses. For the other sources, it chooses free addresses from the ranges.
func (a Allocation) addFree(held Held, out Addresses) error {
	for _, nic := range a.NICs {
		if nic.Guest == nil {
			continue
		}

		for _, pool := range nic.Guest.Pools {
			address := a.keepRecorded(nic.VNICName, pool, out[nic.VNICName])
			if !address.IsValid() {
				var err error
				if address, err = pool.LowestFree(
					slices.Collect(maps.Keys(held.HoldersOn(nic.NetworkName))),
				); err != nil {
					return &blocker.Error{
						Reason: infrav1.AddressRangeExhaustedReason,
						Field:  nic.Guest.Field,
						Message: fmt.Sprintf(
							"all %s addresses of a range are in use; add addresses, delete machines or lower the "+
								"replicas",
							pool.Size(),
						),
					}
				}
			}

			out[nic.VNICName] = append(out[nic.VNICName], address)
			held.AddAddress(nic.NetworkName, address, thisMachine)
		}
	}

	return nil
}
