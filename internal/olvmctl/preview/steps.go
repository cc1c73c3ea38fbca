package preview

import (
	"context"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"
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
func (m *Manifests) ReportOn(ctx context.Context, how Request) (Report, error) {
	machines, owners, err := m.Expand()
	if err != nil {
		return Report{}, err
	}

	var results []*Result

	var capacity []Capacity

	if how.Offline {
		results = Offline(m, machines)
	} else if results, capacity, err = PlanAll(ctx, m, machines, how.Credentials, how.Progress); err != nil {
		return Report{}, err
	}

	report := NewReport(results, owners, capacity, how.Offline)
	report.About(m)

	return report, nil
}
