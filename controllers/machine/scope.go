package machine

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// machineScope holds the facts of one pass. Each phase fills its own field.
type machineScope struct {
	pass *pass.Pass

	cluster     *clusterv1.Cluster
	machine     *clusterv1.Machine
	olvmCluster *infrav1.OLVMCluster // nil if it does not exist
	olvmMachine *infrav1.OLVMMachine
	services    *infrav1alpha1.OLVMSupportServices // of the Cluster; nil for none

	workspace *workspace.Workspace
	// observed is the state and the result of the last run, as reconcileState found them. action is the decision of
	// reconcileRun or reconcileDestroy.
	observed workspace.Observation
	action   workspace.Action
	// bootstrap is the source of the user data; nil once no longer needed. waiting explains why it cannot be used yet.
	// reconcileBootstrapData and reconcileConfiguration set both.
	bootstrap *desired.Bootstrap
	// offered reports that the VM fetches its user data through a pointer.
	offered bool
	waiting *blocker.Error
	// engine is set by reconcileEngine.
	engine engineFacts
	// claim is set by reconcileClaim.
	claim claimFacts
	// network is set by reconcileAddresses.
	network networkFacts
	// vm is set by reconcileVM, or by reconcileOwnership during deletion. Each phase with requests about the VM may set
	// its err.
	vm vmFacts
	// guest is set by reconcileGuest.
	guest guestFacts
	// userData is set by reconcileUserData.
	userData userDataFacts
	// desired is set by reconcileConfiguration.
	desired desiredFacts
	// excluded explains why no VM is created: another Cluster holds the OLVMCluster. It is nil if the machine's own
	// Cluster holds it, or if the machine has a VM. findOwners sets it.
	excluded *blocker.Error
	// olvmClusters names several candidates for the OLVMCluster of a machine without a Cluster.
	olvmClusters []string
	// blocked explains why a deletion must stop; nil if it may proceed. reconcileDelete and reconcileOwnership set it.
	blocked *blocker.Error
}

// engineFacts hold the access to the engine.
type engineFacts struct {
	// installation is the engine's own ID. It is "" if the engine was not asked or does not report one.
	installation string
	// session is nil if the engine cannot be used. err then holds the cause.
	session *engine.Client
	config  engine.Config
	err     error
}

// networkFacts hold the network interfaces, and their static addresses by the interfaces' names in the engine.
type networkFacts struct {
	nics      []addressing.NIC
	addresses map[string][]ipam.Address
	// err explains why addresses are missing.
	err error
}

// vmFacts hold the engine's data of the VM.
type vmFacts struct {
	// seen is nil if the engine has no VM, was not asked, or has someone else's VM. missing reports a definite answer:
	// there is no VM.
	seen    *engine.VM
	missing bool
	// failed reports a VM that is down, with a proof of the engine that it failed.
	failed bool
	// foreign explains why the controller does not touch the VM; nil if the VM is the machine's.
	foreign *blocker.Error
	// host is the name of the VM's host, or "" if it has none or the name is unknown.
	host string
	// waits are the settings waiting for the next start.
	waits []string
	// err is the error of the engine.
	err error
}

// guestFacts hold the guest agent's report.
type guestFacts struct {
	interfaces []engine.GuestInterface
	// asked reports that the addresses were needed and the engine answered.
	asked bool
}

// userDataFacts report what happened to a node's user data.
type userDataFacts struct {
	// kept reports that it stays in place, removed that this pass removed it. err is the error of a failed removal.
	kept, removed bool
	err           error
}

// desiredFacts hold the desired configuration of the machine.
type desiredFacts struct {
	// built is nil if the machine cannot be rendered; err holds the cause. err is nil, too, if another input is
	// missing.
	built *desired.Built
	err   error
	// digest identifies the configuration.
	digest string
	// leftGroup reports that the VM is missing from one of its affinity groups.
	leftGroup bool
}

// isSupportMachine reports whether the machine runs a support service. The cluster's infrastructure may need it.
func (s *machineScope) isSupportMachine() bool {
	return support.NewStandInMachine(s.olvmMachine) != nil
}

// vmIDs returns the VM IDs in the object, its state and its claim. There is more than one only if someone edited a
// record.
func (s *machineScope) vmIDs() []engine.ID {
	ids := []engine.ID{parseProviderID(s.olvmMachine.Spec.ProviderID), engine.ID(s.observed.State.VMID())}
	if s.claim.object != nil && s.claim.err == nil {
		ids = append(ids, engine.ID(s.claim.object.Spec.VMID))
	}

	return uniqueIDs(ids)
}

// uniqueIDs returns the non-empty IDs without duplicates, in order.
func uniqueIDs(ids []engine.ID) []engine.ID {
	var out []engine.ID

	for _, id := range ids {
		if id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}

	return out
}

// vmID returns the machine's VM from the object, or from the state just before the object records it. A machine with a
// claim has its VM as soon as the engine confirms the claim.
func (s *machineScope) vmID() engine.ID {
	if id := parseProviderID(s.olvmMachine.Spec.ProviderID); id != "" {
		return id
	}

	if id := s.observed.State.VMID(); id != "" || s.claim.object == nil || s.claim.err != nil {
		return engine.ID(id)
	}

	return engine.ID(s.claim.object.Spec.VMID)
}
