package preview

import (
	"context"
	"io"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// Manifests are the input of a plan, and its intermediate results.
type Manifests struct {
	*planinput.Input
	// notes are lines shown in every output.
	notes []string
	// installations has the installation IDs of the engines, by host.
	installations map[string]string
	// groupsThere caches the affinity groups of the engines, so each engine is asked only once.
	groupsThere map[groupsKey][]engine.AffinityGroup
}

// NewManifests returns the manifests of an input, before any planning.
func NewManifests(input *planinput.Input) *Manifests {
	return &Manifests{
		Input: input, installations: map[string]string{}, groupsThere: map[groupsKey][]engine.AffinityGroup{},
	}
}

// Request configures the planning of machines.
type Request struct {
	// Offline makes no requests to engines, and runs no Terraform.
	Offline     bool
	Credentials Credentials
	// Progress receives a line for each plan.
	Progress io.Writer
}

// ReportOn plans the machines requested by the manifests, and returns the report of the plan.
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
