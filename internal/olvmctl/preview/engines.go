package preview

import (
	"context"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
)

// Use is an engine of the manifests.
type Use struct {
	// Engine is the engine as the cluster or inventory of a machine refers to it.
	Engine connection.Engine
	// Host and port of the engine.
	Host string
	// Session is nil if the engine is unavailable. Err is the reason.
	Session *engine.Client
	Config  engine.Config
	Err     error
}

// OpenUses returns the engines of the machines, each once.
func (m *Manifests) OpenUses(machines []Machine, credentials Credentials, sessions *engine.Sessions) []Use {
	var out []Use

	for _, machine := range machines {
		host := machine.engine().ID().Host
		if slices.ContainsFunc(out, func(u Use) bool { return u.Host == host }) {
			continue
		}

		out = append(out, m.OpenUse(&machine, credentials, sessions))
	}

	return out
}

// OpenUse returns the engine of a machine.
func (m *Manifests) OpenUse(machine *Machine, credentials Credentials, sessions *engine.Sessions) Use {
	of := machine.engine()
	use := Use{Engine: of, Host: of.ID().Host}
	use.Session, use.Config, use.Err = m.openSession(of, credentials, sessions)

	return use
}

// engine returns the engine of the machine's VM, as configured in the manifests.
func (machine *Machine) engine() connection.Engine {
	if machine.pool != nil {
		return connection.InventoryEngine(machine.pool)
	}

	return connection.ClusterEngine(machine.olvmCluster)
}

// clusterSpec returns the spec of the machine's OLVMCluster. VMs of an inventory have none, and only need its data
// center.
func (machine *Machine) clusterSpec() infrav1.OLVMClusterSpec {
	if machine.pool != nil {
		return inventory.BuildClusterSpec(machine.pool)
	}

	return machine.olvmCluster.Spec
}

// olvmClusterName returns the name of the machine's OLVMCluster, or "" for a VM of an inventory.
func (machine *Machine) olvmClusterName() string {
	if machine.olvmCluster == nil {
		return ""
	}

	return machine.olvmCluster.Name
}

// Spec returns the machine's spec in the manifests.
func (machine *Machine) Spec() infrav1.OLVMMachineSpec { return machine.spec }

// TemplateReports reports whether any VM of a template has a guest agent that reports its addresses to the engine.
// known is false if none of these VMs is running.
func TemplateReports(ctx context.Context, use Use, templateID engine.ID) (reports, known bool, err error) {
	guests, err := listGuests(ctx, use.Session)
	if err != nil {
		return false, false, err
	}

	for i := range guests {
		vm := &guests[i].vm
		if engine.RefID(vm.Template) != templateID || vm.Status != engine.VMUp {
			continue
		}

		known = true
		if len(guests[i].addresses) > 0 {
			return true, true, nil
		}
	}

	return false, known, nil
}
