package preview

import (
	"context"
	"io"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// Manifests are the input, and the findings of its plan.
type Manifests struct {
	*planinput.Input
	// notes are lines of every output.
	notes []string
	// installations has the engines' own IDs, by host.
	installations map[string]string
	// groupsThere has the affinity groups of the engines, so each engine is asked once.
	groupsThere map[groupsKey][]engine.AffinityGroup
}

// NewManifests returns an empty plan of the input.
func NewManifests(input *planinput.Input) *Manifests {
	return &Manifests{
		Input: input, installations: map[string]string{}, groupsThere: map[groupsKey][]engine.AffinityGroup{},
	}
}

// Request configures the planning of machines.
type Request struct {
	// Offline asks no engine, and runs no Terraform.
	Offline     bool
	Credentials Credentials
	// Progress gets a line for each plan.
	Progress io.Writer
}

// ReportOn plans the requests of the manifests, and reports the plan.
func (m *Manifests) ReportOn(ctx context.Context, how Request) (planreport.Report, error) {
	machines, owners, err := m.Expand()
	if err != nil {
		return planreport.Report{}, err
	}

	var results []*planreport.Result

	var capacity []planreport.Capacity

	if how.Offline {
		results = DescribeOffline(m, machines)
	} else if results, capacity, err = PlanAll(ctx, m, machines, how.Credentials, how.Progress); err != nil {
		return planreport.Report{}, err
	}

	return m.reportOf(results, owners, capacity, how.Offline), nil
}

// reportOf builds the report of the plan.
func (m *Manifests) reportOf(
	results []*planreport.Result, owners []planreport.OwnerChange, capacity []planreport.Capacity, offline bool,
) planreport.Report {
	var deleted []planreport.Pruned
	for _, object := range m.Pruned() {
		deleted = append(deleted, prunedForReport(object))
	}

	return planreport.New(planreport.Findings{
		Machines: results, Owners: owners, Capacity: capacity,
		Pruned: deleted, Deletions: m.Deletions(), CheckedBy: m.CheckedBy, Notes: m.notes,
		Connected: m.Connected, Offline: offline,
	})
}
