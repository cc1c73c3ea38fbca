package supportservices

import (
	"context"
	"fmt"
	"net/netip"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// listNodes returns the machines of the cluster with a known address, except machines in deletion.
func (r *Reconciler) listNodes(
	ctx context.Context, s *scope, machines []infrav1.OLVMMachine,
) ([]support.Node, error) {
	var owners clusterv1.MachineList
	err := r.Client.List(ctx, &owners, client.InNamespace(s.object.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: s.object.Spec.ClusterName,
	}, client.UnsafeDisableDeepCopy) // the objects are only read
	if err != nil {
		return nil, fmt.Errorf("failed to list the Machines of Cluster %s: %w", s.object.Spec.ClusterName, err)
	}

	var out []support.Node

	for i := range owners.Items {
		owner := &owners.Items[i]
		m := findMachine(machines, owner.Spec.InfrastructureRef.Name)
		if m == nil || !m.DeletionTimestamp.IsZero() || !owner.DeletionTimestamp.IsZero() {
			continue
		}

		if address := getAddress(m); address.IsValid() {
			out = append(out, support.Node{
				Name:         owner.Name,
				Address:      address,
				ControlPlane: util.IsControlPlaneMachine(owner),
			})
		}
	}

	return out, nil
}

// getAddress returns the first address of a machine, or an invalid one if none is known yet.
func getAddress(m *infrav1.OLVMMachine) netip.Addr {
	for _, address := range m.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err == nil && parsed.Zone() == "" && address.Type == clusterv1.MachineInternalIP { // a zone may be any text
			return parsed
		}
	}

	return findRecordedAddress(m, func(netip.Addr) bool { return true })
}

// findRecordedAddress returns the first static address of a machine's first interface that wanted accepts, or an
// invalid one.
func findRecordedAddress(m *infrav1.OLVMMachine, wanted func(netip.Addr) bool) netip.Addr {
	recorded, err := addressing.ParseRecorded(m)
	if err != nil {
		return netip.Addr{} // the machine's own condition reports it
	}

	for _, address := range recorded[addressing.CollectNetworks(m.Spec)[0].VNICName] {
		if wanted(address) {
			return address
		}
	}

	return netip.Addr{}
}

// collectOwnAddresses returns the addresses of a VM. An unspecified address stands for a dynamic address.
func collectOwnAddresses(s *scope, m *infrav1.OLVMMachine) ([]netip.Addr, error) {
	nics, err := addressing.BuildNICs(m.Spec, s.olvmCluster.Spec)
	if err != nil {
		return nil, err
	}

	recorded, err := addressing.ParseRecorded(m)
	if err != nil {
		return nil, err
	}

	var out []netip.Addr

	for _, nic := range nics {
		if nic.Guest == nil {
			continue
		}

		out = append(out, recorded[nic.VNICName]...)
		if nic.Guest.IsDynamic(true) {
			out = append(out, netip.IPv4Unspecified())
		}

		if nic.Guest.IsDynamic(false) {
			out = append(out, netip.IPv6Unspecified())
		}
	}

	return out, nil
}

// publishConfiguration makes the configuration of a VM available to it, and records the VM's report. It wakes a machine
// without a VM, because its user data may be ready now.
func (r *Reconciler) publishConfiguration(
	ctx context.Context, s *scope, service *serviceFacts, vm *vmOfService, nodes []support.Node,
) error {
	if vm.machine == nil || vm.foreign || !vm.machine.DeletionTimestamp.IsZero() {
		return nil
	}

	files, err := r.buildConfiguration(ctx, s, service, vm, nodes)
	if err != nil || files == nil {
		return err
	}

	archive, err := support.PackArchive(files)
	if err != nil {
		return err
	}

	if vm.report, err = r.Delivery.PublishConfiguration(ctx, vm.machine, archive, support.RenderUserData); err != nil {
		return err
	}

	if !addressing.CanHaveVM(vm.machine) {
		r.Runs.WakeObject(workspace.NewMachineKey(vm.machine))
	}

	if vm.report.Stranded {
		vm.outdated = "it fetches its configuration from an outdated URL of the manager"
	}

	return nil
}

// buildConfiguration returns the configuration of a VM, or nil if an input is still unknown.
func (r *Reconciler) buildConfiguration(
	ctx context.Context, s *scope, service *serviceFacts, vm *vmOfService, nodes []support.Node,
) ([]bootstrap.File, error) {
	switch {
	case service.JumpHost != nil:
		return r.readJumpHostFiles(ctx, s, service, nodes)
	case service.OIDC != nil:
		return r.ensureOIDCFiles(ctx, s, service, vm)
	}

	balancer, err := service.NewBalancer(s.olvmCluster.Spec, nodes)
	if err != nil {
		return nil, err
	}

	balancer.Name = vm.Name
	if balancer.Own, err = collectOwnAddresses(s, vm.machine); err != nil {
		return nil, err
	}

	if balancer.VirtualIP.IsValid() {
		waiting, err := fillVirtualIP(s, service, vm.machine, &balancer)
		if err != nil || waiting {
			return nil, err
		}
	}

	return balancer.BuildFiles(), nil
}

// fillVirtualIP sets the fields for keepalived. It reports whether an address or the virtual router ID is still
// missing.
func fillVirtualIP(
	s *scope, service *serviceFacts, machine *infrav1.OLVMMachine, balancer *support.Balancer,
) (waiting bool, err error) {
	c := s.olvmCluster
	ids, err := desired.ParseRouterIDs(c)
	if err != nil {
		return false, err
	}

	nics, err := addressing.BuildNICs(machine.Spec, c.Spec)
	if err != nil {
		return false, err
	}

	template := fmt.Sprintf("the first network interface of OLVMMachineTemplate %s", service.VM.MachineTemplateName)
	if nics[0].Guest == nil || nics[0].Guest.IsDynamic(balancer.VirtualIP.Is4()) {
		return false, service.NewInvalidError("virtualIP",
			"%s has no static address of the same family as %s, so keepalived cannot hold that address; add a range",
			template, balancer.VirtualIP)
	}

	balancer.RouterID, balancer.Interface = ids[desired.BalancerRouter(service.Balancer.Name)], nics[0].Guest.Interface
	sameFamily := func(a netip.Addr) bool { return a.Is4() == balancer.VirtualIP.Is4() }

	for _, vm := range service.vms {
		if vm.machine == nil {
			return true, nil
		}

		address := findRecordedAddress(vm.machine, sameFamily)

		switch {
		case vm.machine.Name == machine.Name:
			balancer.Self = address
		case address.IsValid():
			balancer.Peers = append(balancer.Peers, address)
		}
	}

	return !balancer.Self.IsValid() || balancer.RouterID == 0, nil
}
