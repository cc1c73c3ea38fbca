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

// machineScope holds the facts of one pass, a field for each phase that gathers them.
type machineScope struct {
	pass *pass.Pass

	cluster     *clusterv1.Cluster
	machine     *clusterv1.Machine
	olvmCluster *infrav1.OLVMCluster // nil where it does not exist
	olvmMachine *infrav1.OLVMMachine
	services    *infrav1alpha1.OLVMSupportServices // of the Cluster; nil for none

	// workspace has the state, how the last run ended, and the action that was decided on.
	workspace *workspace.Workspace
	// bootstrap is what the user data is made of; nil where it is not needed any more. waiting is why it cannot be used
	// yet. Set by reconcileBootstrapData and reconcileConfiguration.
	bootstrap *desired.Bootstrap
	// offered reports that the user data is fetched by a pointer.
	offered bool
	waiting *blocker.Error
	// engine is set by reconcileEngine.
	engine engineFacts
	// claim is set by reconcileClaim.
	claim claimFacts
	// network is set by reconcileAddresses.
	network networkFacts
	// vm is set by reconcileVM, and by reconcileOwnership where the machine is deleted. Its err is set by each phase
	// that asks the engine about the VM.
	vm vmFacts
	// guest is set by reconcileGuest.
	guest guestFacts
	// userData is set by reconcileUserData.
	userData userDataFacts
	// desired is set by reconcileConfiguration.
	desired desiredFacts
	// excluded is why no VM is made: another Cluster has the OLVMCluster. It is nil if the machine's own has it, or if
	// the machine has a VM. Set by findOwners.
	excluded *blocker.Error
	// olvmClusters are the names of several OLVMClusters that could be the machine's, where its Cluster is gone.
	olvmClusters []string
	// blocked is why a deletion must not go on; nil where it may. Set by reconcileDelete and reconcileOwnership.
	blocked *blocker.Error
}

// engineFacts are how the engine is reached.
type engineFacts struct {
	// installation is the engine's ID of itself; "" if the engine was not asked or does not say it.
	installation string
	// session is nil where the engine cannot be used, and err says why.
	session *engine.Client
	config  engine.Config
	err     error
}

// networkFacts are the network interfaces, and their static addresses by the names of the interfaces in the engine.
type networkFacts struct {
	nics      []addressing.NIC
	addresses map[string][]ipam.Address
	// err is why the addresses are not all there.
	err error
}

// vmFacts are what the engine has of the VM.
type vmFacts struct {
	// seen is nil if the engine has no VM, was not asked, or has one that is not the machine's; missing reports that it
	// answered and has none.
	seen    *engine.VM
	missing bool
	// failed reports that it is down, and that the engine proves a failure.
	failed bool
	// foreign is why the VM is left alone; nil if it is the machine's.
	foreign *blocker.Error
	// host is the name of the host that it runs on; empty where it runs on none, or the name is not known.
	host string
	// waits are the settings that wait for the next start.
	waits []string
	// err is why the engine did not answer.
	err error
}

// guestFacts are what the guest agent reports.
type guestFacts struct {
	interfaces []engine.GuestInterface
	// asked reports that the addresses were needed, and that the engine answered.
	asked bool
}

// userDataFacts are what became of the user data of a node.
type userDataFacts struct {
	// kept reports that it is left where it is; removed, that this pass has taken it away, and err why it could not.
	kept, removed bool
	err           error
}

// desiredFacts are what the machine should be in the engine.
type desiredFacts struct {
	// built is nil where the machine cannot be rendered, and err says why; err is nil, too, where something else is
	// missing.
	built *desired.Built
	err   error
	// digest identifies the configuration.
	digest string
	// leftGroup reports that the VM is not in one of its affinity groups.
	leftGroup bool
}

// supports reports whether the machine is of a support service. The infrastructure of the cluster may need it.
func (s *machineScope) supports() bool { return support.MachineOf(s.olvmMachine) != nil }

// vmIDs are the IDs of all VMs that the object, its state and its claim name; more than one only if somebody has edited
// one of them.
func (s *machineScope) vmIDs() []engine.ID {
	ids := []engine.ID{providerIDToVM(s.olvmMachine.Spec.ProviderID), engine.ID(s.workspace.State.VMID())}
	if s.claim.object != nil && s.claim.err == nil {
		ids = append(ids, engine.ID(s.claim.object.Spec.VMID))
	}

	return unique(ids)
}

// unique returns the IDs without empty ones, each once, in their order.
func unique(ids []engine.ID) []engine.ID {
	var out []engine.ID

	for _, id := range ids {
		if id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}

	return out
}

// vmID of the machine: recorded on the object, or known from the state a moment earlier. A machine that takes its VM
// from an inventory has it as soon as the engine has confirmed the claim.
func (s *machineScope) vmID() engine.ID {
	if id := providerIDToVM(s.olvmMachine.Spec.ProviderID); id != "" {
		return id
	}

	if id := s.workspace.State.VMID(); id != "" || s.claim.object == nil || s.claim.err != nil {
		return engine.ID(id)
	}

	return engine.ID(s.claim.object.Spec.VMID)
}
