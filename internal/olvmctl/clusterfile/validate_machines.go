package clusterfile

import (
	"errors"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"go4.org/netipx"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
)

// machineKind has the settings of the machines of one role in a cluster file.
type machineKind struct {
	// prefix is the prefix of the paths of its keys.
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

// checkMachines checks machines and endpoints with the rules of the controller.
func (s *Source) checkMachines() {
	s.checkDomain()
	ingress := s.ingressAddress()
	cluster := s.clusterSpec()

	vip, err := netip.ParseAddr(s.VirtualIP)
	if err != nil && s.VirtualIP != "" {
		s.noteProblem(
			false,
			"virtualIp",
			"invalid IP address %q; use a free address for the control plane endpoint, such as 10.20.30.5",
			s.VirtualIP,
		)
	} else if err := desired.ValidateServices(cluster); err != nil && s.VirtualIP != "" &&
		!s.isNoted(ingressVirtualIP) {
		s.noteField("virtualIp", "", err)
	}

	var pools []*addressrange.Set

	for _, kind := range s.machineKinds() {
		s.checkSize(kind)
		s.checkDisks(kind)
		s.checkTemplate(kind)
		s.checkIngressSubnet(kind, ingress)
		pool := s.checkNetwork(kind, cluster, vip)
		if pool == nil {
			continue
		}

		pools = append(pools, pool)
		s.checkVirtualIP(kind, pool, vip, "virtualIp")
		s.checkIngress(kind, pool, ingress)
		s.checkPool(kind, pool)
	}

	if len(pools) == 2 {
		s.checkSharedPool()
		s.checkRanges(pools[0], pools[1])
	}
}

func (s *Source) checkSize(kind machineKind) {
	vm := kind.machine.VirtualMachine
	if topology := vm.CPU.Topology; topology.Cores < 0 || topology.Sockets < 0 || topology.Threads < 0 {
		s.noteProblem(false, kind.prefix+"virtualMachine.cpu.topology",
			"cores, sockets and threads must not be less than 0")
	}

	if _, err := desired.ParseMemory(vm.Memory); err != nil {
		s.noteProblem(false, kind.prefix+"virtualMachine.memory", "%v", err)
	}
}

// checkNetwork checks the network of the machines of one role. It returns the pool of their addresses, or nil if there
// is none.
func (s *Source) checkNetwork(kind machineKind, cluster infrav1.OLVMClusterSpec, vip netip.Addr) *addressrange.Set {
	network := kind.machine.VirtualMachine.Network
	own := s.addressFamily(network)
	subnet, err := netip.ParsePrefix(own.subnet)
	if err == nil && vip.IsValid() && kind.control && !subnet.Masked().Contains(vip) {
		s.noteProblem(true, "virtualIp", "%s is not in the subnet %s of the control plane, whose nodes hold the "+
			"address: clients reach it only if a router routes it to the network of the nodes", vip, subnet.Masked())
	}

	// A missing key was already reported.
	switch {
	case own.subnet == "":
		return nil
	case own.addresses == "":
		var field *addressrange.FieldError
		_, err := own.newPool()
		if errors.As(err, &field) && field.Field != own.field+".ipAddresses" {
			s.noteProblem(false, kind.prefix+"virtualMachine.network."+field.Field, "%s", field.Problem)
		}

		return nil
	}

	if _, err := addressing.BuildNICs(s.machineSpec(kind.machine), cluster); err != nil {
		s.noteField(kind.prefix+"virtualMachine.network", kind.prefix, err)
		return nil
	}

	pool, err := own.newPool(splitList(own.addresses)...)
	if err != nil {
		return nil // NICs reports it
	}

	return pool
}

// checkVirtualIP checks that a node can hold the virtual IP address in a key.
func (s *Source) checkVirtualIP(kind machineKind, pool *addressrange.Set, vip netip.Addr, key string) {
	subnet, err := netip.ParsePrefix(s.addressFamily(kind.machine.VirtualMachine.Network).subnet)
	if err != nil || !vip.IsValid() {
		return
	}

	switch subnet = subnet.Masked(); {
	case vip == pool.Gateway:
		s.noteProblem(false, key, "%s is the gateway of the subnet %s", vip, subnet)
	case vip.Is4() && subnet.Bits() < 31 && (vip == subnet.Addr() || vip == netipx.PrefixLastIP(subnet)):
		s.noteProblem(false, key, "%s is the network or broadcast address of the subnet %s", vip, subnet)
	}
}

// checkPool checks that there are enough addresses for all machines of a role, and one more for an upgrade.
func (s *Source) checkPool(kind machineKind, pool *addressrange.Set) {
	own := s.addressFamily(kind.machine.VirtualMachine.Network)
	path := kind.prefix + "virtualMachine.network." + own.field + ".ipAddresses"

	switch pool.Size().Cmp(big.NewInt(int64(kind.count))) {
	case -1:
		has := english.Plural(int(pool.Size().Int64()), "address", "addresses") // fewer addresses than machines
		s.noteProblem(false, path, "not enough addresses: %s for %d machines", has, kind.count)
	case 0:
		s.noteProblem(
			true,
			path,
			"no spare address for an upgrade, which creates a machine before it deletes one; add at least one address",
		)
	}
}

// versionInName matches a Kubernetes version in the name of a VM template, such as ock-1.33 and ol9-k8s-v1.36.1.
var versionInName = regexp.MustCompile(`(?:^|[^0-9.])v?(1\.[2-9][0-9])(?:\.[0-9]+)?(?:[^0-9]|$)`)

// checkTemplate compares the Kubernetes version with the version in the name of the VM template, because the template
// contains the kubelet.
func (s *Source) checkTemplate(kind machineKind) {
	own, of := minor.FindStringSubmatch(s.Version()), versionInName.FindStringSubmatch(kind.machine.VMTemplateName)
	if own == nil || of == nil || own[1] == of[1] {
		return
	}

	s.noteProblem(
		true,
		kind.prefix+"vmTemplateName",
		"%q looks like a template for Kubernetes %s, but kubernetesVersion is %s: machines with another kubelet do "+
			"not become nodes; change the template or the version",
		kind.machine.VMTemplateName,
		of[1],
		strings.TrimPrefix(s.Version(), "v"),
	)
}

// checkRanges warns about addresses in the ranges of both roles, because the machines of one role may use all of them.
func (s *Source) checkRanges(control, worker *addressrange.Set) {
	kinds := s.machineKinds()
	own := s.addressFamily(kinds[1].machine.VirtualMachine.Network)
	other := s.addressFamily(kinds[0].machine.VirtualMachine.Network)

	if address, both := control.FindCommon(worker); both && !s.older { // the older format has one profile for both
		s.noteProblem(true, kinds[1].prefix+"virtualMachine.network."+own.field+".ipAddresses",
			"%s is also in the ranges of the control plane (%s): machines of both roles share these addresses, and "+
				"one role can use all of them; use ranges that do not overlap", address,
			kinds[0].prefix+"virtualMachine.network."+other.field+".ipAddresses")
	}
}

// If both roles share a subnet, checkSharedPool checks that it has enough addresses for all machines.
func (s *Source) checkSharedPool() {
	kinds := s.machineKinds()
	control := s.addressFamily(kinds[0].machine.VirtualMachine.Network)
	worker := s.addressFamily(kinds[1].machine.VirtualMachine.Network)
	both, err := control.newPool(slices.Concat(splitList(control.addresses), splitList(worker.addresses))...)
	if err != nil {
		return // they have different subnets
	}

	needed := kinds[0].count + kinds[1].count
	if both.Size().Cmp(big.NewInt(int64(needed))) < 0 {
		s.noteProblem(false, kinds[0].prefix+"virtualMachine.network."+control.field+".ipAddresses",
			"not enough addresses for both roles: %s for %d machines", both.Size(), needed)
	}
}

// EngineProblem converts an error of the engine about the file to a problem. If possible, the problem names the key.
func (s *Source) EngineProblem(err error) Problem {
	var field *blocker.Error
	if errors.As(err, &field) && strings.HasPrefix(field.Field, "spec.") {
		key := regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(strings.TrimPrefix(field.Field, "spec."), "")

		kind := s.machineKinds()[1]
		if strings.Contains(err.Error(), s.Name+"-control-plane") {
			kind = s.machineKinds()[0]
		}

		for _, path := range []string{kind.prefix + key, "providers.olvm." + key} {
			if p := s.problemAt(false, path, "%s", field.Message); p.Line > 0 {
				return p
			}
		}
	}

	return Problem{File: s.documents[0].name, Path: "engine", Message: err.Error()}
}

// noteField converts an error about an object's field to a problem with the key that sets the field.
func (s *Source) noteField(fallback, prefix string, err error) {
	var field *blocker.Error
	if !errors.As(err, &field) {
		s.noteProblem(false, fallback, "%v", err)
		return
	}

	path := fallback
	if rest, ok := strings.CutPrefix(field.Field, "spec."); ok && prefix != "" {
		path = prefix + regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(rest, "")
	}

	s.noteProblem(false, path, "%s", field.Message)
}
