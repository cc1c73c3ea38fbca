package preview

import (
	"context"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// Compare reads a management cluster: what it has beside the manifests, what its API server says of them, and the
// Terraform states of its machines, unless the plan is offline. An empty namespace is those of the manifests, or all.
func (m *Manifests) Compare(ctx context.Context, live client.Client, namespace string, offline bool) error {
	if err := m.AddLive(ctx, live, namespace); err != nil {
		return err
	}

	if err := m.CheckServed(ctx, live); err != nil || offline {
		return err
	}

	return m.AddStates(ctx, live)
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
	return planreport.New(planreport.Findings{
		Machines: results, Owners: owners, Capacity: capacity,
		Pruned: m.Pruned(), Deletions: m.Deletions(), CheckedBy: m.checkedBy, Notes: m.notes,
		Connected: m.connected, Offline: offline,
	})
}
