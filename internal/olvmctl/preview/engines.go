package preview

import (
	"context"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Use is a cluster of the manifests and its engine.
type Use struct {
	Cluster *infrav1.OLVMCluster
	// Host and port of the engine.
	Host string
	// Session is nil if the engine cannot be used; Err says why.
	Session *engine.Client
	Config  engine.Config
	Err     error
}

// Uses returns the engines of the machines, each with one of its clusters.
func (m *Manifests) Uses(machines []Machine, credentials Credentials, sessions *engine.Sessions) []Use {
	var out []Use

	for _, machine := range machines {
		host := machine.engine().ID().Host
		if slices.ContainsFunc(out, func(u Use) bool { return u.Host == host }) {
			continue
		}

		out = append(out, m.UseOf(&machine, credentials, sessions))
	}

	return out
}

// UseOf returns the cluster of a machine and its engine.
func (m *Manifests) UseOf(machine *Machine, credentials Credentials, sessions *engine.Sessions) Use {
	use := Use{Cluster: machine.olvmCluster, Host: machine.engine().ID().Host}
	use.Session, use.Config, use.Err = m.session(machine.engine(), credentials, sessions)

	return use
}

// engine returns the engine of the machine's VM, as named by the manifests.
func (machine *Machine) engine() connection.Engine {
	if machine.pool != nil {
		return connection.InventoryEngine(machine.pool)
	}

	return connection.ClusterEngine(machine.olvmCluster)
}

// Spec returns the machine's spec in the manifests.
func (machine *Machine) Spec() infrav1.OLVMMachineSpec { return machine.spec }

// TemplateReports reports whether any VM of a template has a guest agent telling its addresses to the engine. known is
// false if none of these VMs runs.
func TemplateReports(ctx context.Context, use Use, templateID engine.ID) (reports, known bool, err error) {
	guests, err := guestsOf(ctx, use.Session)
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
