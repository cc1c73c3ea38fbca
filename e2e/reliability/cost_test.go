package reliability

import (
	"errors"
	"fmt"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// TestACreateIsFewPassesAndCalls counts the passes and API calls for the creation of machines. It is not a benchmark;
// see e2e/bench. The limits allow for long runs on a busy host, but reveal passes that trigger further passes. A
// manager of one namespace writes addresses at once, and then checks again whether others use them. This costs five
// more calls.
func TestACreateIsFewPassesAndCalls(t *testing.T) {
	t.Parallel()
	const machines, mostPasses, mostCalls = 5, 9, 27
	b := newBench(t, withoutGroups)
	b.site.ExpectCondition(b.site.OLVM, infrav1.ReadyCondition, "True/Ready")
	passesBefore, callsBefore := passesAndCalls(t, b)

	for i := range machines {
		b.site.CreateMachine(fmt.Sprintf("m%d", i), nil)
	}

	for i := range machines {
		b.site.ExpectProvisioned(&infrav1.OLVMMachine{ObjectMeta: b.site.NewMeta(fmt.Sprintf("m%d", i))})
	}

	b.site.Eventually("all runs end", func() error {
		if testsite.SumSeries(b.ScrapeMetrics(t)["capolvm_terraform_jobs"]) > 0 {
			return errors.New("some go on")
		}

		return nil
	})

	passes, calls := passesAndCalls(t, b)
	passes, calls = (passes-passesBefore)/machines, (calls-callsBefore)/machines
	t.Logf("a create is %.1f passes and %.1f calls", passes, calls)
	if passes > mostPasses || calls > mostCalls {
		t.Errorf("a create is %.1f passes and %.1f calls, at most %d and %d", passes, calls, mostPasses, mostCalls)
	}
}

// passesAndCalls returns the number of passes over OLVMMachines, and of calls to the API server, so far.
func passesAndCalls(t *testing.T, b *bench) (passes, calls float64) {
	t.Helper()
	families := b.ScrapeMetrics(t)

	return testsite.SumSeries(families["controller_runtime_reconcile_total"], `controller="olvmmachine"`),
		testsite.SumSeries(families["rest_client_requests_total"])
}
