package machine

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
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
	services    *infrav1alpha1.OLVMSupportServices // of the Cluster, or nil

	workspace *workspace.Workspace
	// observed is the state and the result of the last run, as reconcileState found them. action is the decision of
	// reconcileRun or reconcileDestroy.
	observed workspace.Observation
	action   workspace.Action
	// bootstrap is the source of the user data. It is nil if no user data is needed, or if it is not available.
	// reconcileBootstrapData sets it.
	bootstrap *desired.Bootstrap
	// offered reports that the VM fetches its user data through a pointer.
	offered bool
	// userDataBlocker explains why user data is not available, or cannot be used. reconcileBootstrapData and
	// reconcileConfiguration set it.
	userDataBlocker *blocker.Error
	// engine is set by reconcileEngine.
	engine engineFacts
	// claim is set by reconcileClaim.
	claim claimFacts
	// network is set by reconcileAddresses.
	network networkFacts
	// vm is set by reconcileVM, or by checkOwnershipForDelete during deletion. Each phase with requests about the VM
	// may set its err.
	vm vmFacts
	// guest is set by reconcileGuest.
	guest guestFacts
	// userData is set by reconcileUserData.
	userData userDataFacts
	// desired is set by reconcileConfiguration.
	desired desiredFacts
	// excluded reports that the OLVMCluster belongs to another Cluster, so no VM is created. It is nil if the
	// OLVMCluster belongs to the machine's own Cluster, or if the machine has a VM. findOwners sets it.
	excluded *blocker.Error
	// olvmClusters names several candidates for the OLVMCluster of a machine without a Cluster.
	olvmClusters []string
	// blocked explains why a deletion must wait. It is nil if the deletion may proceed. reconcileDelete and
	// checkOwnershipForDelete set it.
	blocked *blocker.Error
}

// engineFacts hold the session with the engine.
type engineFacts struct {
	// installation is the engine's own ID. It is "" if the engine was not asked, or does not report an ID.
	installation string
	// session is nil if the engine cannot be used. err is then the cause.
	session *engine.Client
	config  engine.Config
	err     error
}

// networkFacts hold the network interfaces, and their static addresses by the interfaces' names in the engine.
type networkFacts struct {
	nics      []addressing.NIC
	addresses map[string][]addressrange.Address
	// err explains why addresses are missing.
	err error
}

// vmFacts hold the engine's data about the VM.
type vmFacts struct {
	// current is nil if the engine does not have the VM or was not asked, or if the VM belongs to someone else. missing
	// reports that the engine has answered that it does not have the VM.
	current *engine.VM
	missing bool
	// failed reports that the VM is down, and that the engine proves a failure.
	failed bool
	// foreign explains why the controller does not change the VM. It is nil if the VM belongs to the machine.
	foreign *blocker.Error
	// host is the name of the VM's host, or "" if it has none or the name is unknown.
	host string
	// pendingSettings are the settings pending until the VM's next start.
	pendingSettings []string
	// err is the error of the engine.
	err error
}

// guestFacts hold the guest agent's report.
type guestFacts struct {
	interfaces []engine.GuestInterface
	// asked reports that the addresses were needed and the engine answered.
	asked bool
}

// userDataFacts hold the facts about the removal of a node's user data.
type userDataFacts struct {
	// kept reports that the manager keeps user data in place. removed reports that this pass has removed it. err is the
	// error of a failed removal.
	kept, removed bool
	err           error
}

// desiredFacts hold the desired configuration of the machine.
type desiredFacts struct {
	// built is nil if the configuration cannot be built. err is then the cause, or nil if an input is missing.
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

// vmIDs returns the VM IDs in the object, its state and its claim. They differ only if someone has edited one of these
// records.
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

// vmID returns the ID of the machine's VM, or "". Its sources are the object, the state until the object has the ID,
// and a claim confirmed by the engine.
func (s *machineScope) vmID() engine.ID {
	if id := parseProviderID(s.olvmMachine.Spec.ProviderID); id != "" {
		return id
	}

	if id := s.observed.State.VMID(); id != "" || s.claim.object == nil || s.claim.err != nil {
		return engine.ID(id)
	}

	return engine.ID(s.claim.object.Spec.VMID)
}
