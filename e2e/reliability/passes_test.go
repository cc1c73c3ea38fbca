package reliability

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// letPass triggers several passes of the manager over an object. The manager must serve the object's namespace. If an
// action is still missing afterwards, it will never come.
func (m *manager) letPass(t *testing.T, api client.Client, o client.Object) {
	t.Helper()
	kind, err := apiutil.GVKForObject(o, api.Scheme())
	check.Error(t, err, "")

	controller := strings.ToLower(kind.Kind)
	for i := range 3 { // the first pass may have started earlier
		before := m.passes(t, controller)
		touch := fmt.Sprintf(`{"metadata":{"annotations":{"test/touched":"%d"}}}`, i)
		err := api.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(touch)))
		check.Error(t, err, "")
		wait.Until(t, "the manager makes a pass over "+o.GetName(), func() bool {
			return m.passes(t, controller) > before
		})
	}
}

// passes returns the number of finished passes in one of the manager's controllers.
func (m *manager) passes(t *testing.T, controller string) float64 {
	t.Helper()

	return testsite.SumSeries(
		m.ScrapeMetrics(t)["controller_runtime_reconcile_total"], fmt.Sprintf("controller=%q", controller),
	)
}

// jobs returns the number of Terraform runs in a manager that are queued or running.
func (m *manager) jobs(t *testing.T) float64 {
	t.Helper()

	return testsite.SumSeries(m.ScrapeMetrics(t)["capolvm_terraform_jobs"])
}

// ended returns the number of finished runs of a manager.
func (m *manager) ended(t *testing.T) float64 {
	t.Helper()

	return testsite.SumSeries(m.ScrapeMetrics(t)["capolvm_terraform_runs_total"])
}

// letThosePass triggers passes over a machine in each plane that contains it.
func letThosePass(t *testing.T, m *infrav1.OLVMMachine, planes ...*plane) {
	t.Helper()

	for _, p := range planes {
		there := &infrav1.OLVMMachine{}
		if err := p.api.Client.Get(t.Context(), client.ObjectKeyFromObject(m), there); err == nil {
			p.letPass(t, p.api.Client, there)
		}
	}
}
