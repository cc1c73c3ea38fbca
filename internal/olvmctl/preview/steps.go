package preview

import (
	"context"
	"io"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// Manifests are what was read, and what the plan of it has learned.
type Manifests struct {
	*planinput.Input
	// notes are lines that every output has.
	notes []string
	// installations are the IDs that engines said of themselves, by host.
	installations map[string]string
	// groupsThere are the affinity groups of the engines, each asked once.
	groupsThere map[groupsKey][]engine.AffinityGroup
}

// Of is the plan of what was read.
func Of(input *planinput.Input) *Manifests {
	return &Manifests{
		Input: input, installations: map[string]string{}, groupsThere: map[groupsKey][]engine.AffinityGroup{},
	}
}

// Request says how machines are planned.
type Request struct {
	// Offline asks no engine, and runs no Terraform.
	Offline     bool
	Credentials Credentials
	// Progress gets a line for each plan.
	Progress io.Writer
}

// ReportOn plans what the manifests ask for, and reports it.
func (m *Manifests) ReportOn(ctx context.Context, how Request) (planreport.Report, error) {
	machines, owners, err := m.Expand()
	if err != nil {
		return planreport.Report{}, err
	}

	var results []*planreport.Result

	var capacity []planreport.Capacity

	if how.Offline {
		results = Offline(m, machines)
	} else if results, capacity, err = PlanAll(ctx, m, machines, how.Credentials, how.Progress); err != nil {
		return planreport.Report{}, err
	}

	return m.reportOf(results, owners, capacity, how.Offline), nil
}

// reportOf reports what was planned.
func (m *Manifests) reportOf(
	results []*planreport.Result, owners []planreport.OwnerChange, capacity []planreport.Capacity, offline bool,
) planreport.Report {
	var deleted []planreport.Pruned
	for _, object := range m.Pruned() {
		deleted = append(deleted, pruned(object))
	}

	return planreport.New(planreport.Findings{
		Machines: results, Owners: owners, Capacity: capacity,
		Pruned: deleted, Deletions: m.Deletions(), CheckedBy: m.CheckedBy, Notes: m.notes,
		Connected: m.Connected, Offline: offline,
	})
}
