package clusterfile

import (
	"errors"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go4.org/netipx"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
)

// machineKind is the machines of one role in a cluster file.
type machineKind struct {
	// prefix of the paths of its keys.
	prefix  string
	machine *Machine
	count   int
	control bool
}

func (s *Source) machineKinds() []machineKind {
	o := &s.Providers.OLVM

	return []machineKind{
		{"providers.olvm.controlPlaneMachine.", &o.ControlPlaneMachine, s.ControlPlaneNodes, true},
		{"providers.olvm.workerMachine.", &o.WorkerMachine, s.WorkerNodes, false},
	}
}

// checkMachines has the rules of machines and endpoints checked where the controller has them.
func (s *Source) checkMachines() {
	cluster := s.clusterSpec()
	if err := desired.ValidateServices(cluster); err != nil && s.VirtualIP != "" {
		s.noteField("virtualIp", "", err)
	}

	vip, _ := netip.ParseAddr(s.VirtualIP) // noted by ValidateServices
	pools := 0

	for _, kind := range s.machineKinds() {
		s.checkSize(kind)
		pool := s.checkNetwork(kind, cluster, vip)
		if pool == nil {
			continue
		}

		pools++
		s.checkVirtualIP(kind, pool, vip)
		s.checkPool(kind, pool)
	}

	if pools == 2 {
		s.checkSharedPool()
	}
}

func (s *Source) checkSize(kind machineKind) {
	vm := kind.machine.VirtualMachine
	if topology := vm.CPU.Topology; topology.Cores < 0 || topology.Sockets < 0 || topology.Threads < 0 {
		s.note(false, kind.prefix+"virtualMachine.cpu.topology", "a number is less than 0")
	}

	if _, err := desired.ParseMemory(vm.Memory); err != nil {
		s.note(false, kind.prefix+"virtualMachine.memory", "%v", err)
	}
}

// checkNetwork checks the network of a kind of machines, and returns their addresses; nil where there are none.
func (s *Source) checkNetwork(kind machineKind, cluster infrav1.OLVMClusterSpec, vip netip.Addr) *ipam.Pool {
	network := kind.machine.VirtualMachine.Network
	own := s.family(network)
	subnet, err := netip.ParsePrefix(own.subnet)
	if err == nil && vip.IsValid() && kind.control && !subnet.Masked().Contains(vip) {
		s.note(true, "virtualIp", "%s is not in the subnet %s of the control plane, whose nodes hold it: "+
			"clients reach it only if a router sends that address to the network of the nodes", vip, subnet.Masked())
	}

	// A key that is missing was noted before.
	switch {
	case own.subnet == "":
		return nil
	case own.addresses == "":
		var field *ipam.FieldError
		_, err := own.read()
		if errors.As(err, &field) && field.Field != own.field+".ipAddresses" {
			s.note(false, kind.prefix+"virtualMachine.network."+field.Field, "%s", field.Problem)
		}

		return nil
	}

	if _, err := addressing.NICs(s.machineSpec(kind.machine), cluster); err != nil {
		s.noteField(kind.prefix+"virtualMachine.network", kind.prefix, err)
		return nil
	}

	pool, err := own.read(split(own.addresses)...)
	if err != nil {
		return nil // NICs said so
	}

	return pool
}

// checkVirtualIP checks that the virtual IP address is one that a node can hold.
func (s *Source) checkVirtualIP(kind machineKind, pool *ipam.Pool, vip netip.Addr) {
	subnet, err := netip.ParsePrefix(s.family(kind.machine.VirtualMachine.Network).subnet)
	if err != nil || !vip.IsValid() {
		return
	}

	switch subnet = subnet.Masked(); {
	case vip == pool.Gateway:
		s.note(false, "virtualIp", "%s is the gateway of the subnet %s", vip, subnet)
	case vip.Is4() && subnet.Bits() < 31 && (vip == subnet.Addr() || vip == netipx.PrefixLastIP(subnet)):
		s.note(false, "virtualIp", "%s is the network's or the broadcast address of the subnet %s", vip, subnet)
	}
}

// checkPool checks that there are addresses for all machines of a kind, and one more for an upgrade.
func (s *Source) checkPool(kind machineKind, pool *ipam.Pool) {
	own := s.family(kind.machine.VirtualMachine.Network)
	path := kind.prefix + "virtualMachine.network." + own.field + ".ipAddresses"

	switch pool.Size().Cmp(big.NewInt(int64(kind.count))) {
	case -1:
		s.note(false, path, "it has %s addresses for %d machines", pool.Size(), kind.count)
	case 0:
		s.note(true, path, "it has as many addresses as there are machines; an upgrade makes a machine before it "+
			"takes one away, and needs one more")
	}
}

// checkSharedPool checks that there are addresses for the machines of both kinds, where they share a subnet.
func (s *Source) checkSharedPool() {
	kinds := s.machineKinds()
	control := s.family(kinds[0].machine.VirtualMachine.Network)
	worker := s.family(kinds[1].machine.VirtualMachine.Network)
	both, err := control.read(slices.Concat(split(control.addresses), split(worker.addresses))...)
	if err != nil {
		return // they have other subnets
	}

	needed := kinds[0].count + kinds[1].count
	if both.Size().Cmp(big.NewInt(int64(needed))) < 0 {
		s.note(false, kinds[0].prefix+"virtualMachine.network."+control.field+".ipAddresses",
			"there are %s addresses for the %d machines of both kinds", both.Size(), needed)
	}
}

// noteField notes an error about a field of an object by the key that it came from.
func (s *Source) noteField(fallback, prefix string, err error) {
	var field *blocker.Error
	if !errors.As(err, &field) {
		s.note(false, fallback, "%v", err)
		return
	}

	path := fallback
	if rest, ok := strings.CutPrefix(field.Field, "spec."); ok && prefix != "" {
		path = prefix + regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(rest, "")
	}

	s.note(false, path, "%s", field.Message)
}
