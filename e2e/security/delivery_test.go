package security

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestStrangersDoNotSlowTheUserDataServer (row H3 of docs/operate/security.md) lets 8,000 strangers request user data
// at the same time, while a machine is created. No stranger makes the manager call the API server, and the manager
// saves states without waiting for strangers.
func TestStrangersDoNotSlowTheUserDataServer(t *testing.T) {
	const strangers = 8000
	var reads atomic.Int32
	gate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "-user-data") {
				reads.Add(1)
			}

			next.ServeHTTP(w, r)
		})
	}
	ports, err := localplane.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}

	at := fmt.Sprintf("127.0.0.1:%d", ports[0])
	s := testsite.New(t, suite.API.Client, testsite.Options{})
	m := suite.Program.NewManager(
		t,
		gate,
		"--namespace="+s.Namespace,
		"--bootstrap-url=https://"+at,
		"--bootstrap-listen="+at,
		"--leader-elect-namespace=capolvm-system",
	)
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	warm := s.CreateMachine("warm", nil)
	s.ExpectProvisioned(warm)

	client := &http.Client{Timeout: wait.Limit, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true, //nolint:gosec // strangers do not verify
	}}
	answers := map[int]int{}
	var mu sync.Mutex

	var flood sync.WaitGroup
	for i := range strangers {
		flood.Add(1)
		go func() {
			defer flood.Done()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				fmt.Sprintf("https://%s/v1/user-data/%s/warm-%d", at, s.Namespace, i%7), nil)
			request.RequestURI = ""
			request.Header.Set("Authorization", "Bearer guess")
			response, err := client.Do(request)
			status := 0
			if err == nil {
				status = response.StatusCode
				_ = response.Body.Close()
			}

			mu.Lock()
			defer mu.Unlock()
			answers[status]++
		}()
	}

	machine := s.CreateMachine("beside", nil)
	s.ExpectProvisioned(machine)
	flood.Wait()

	if n := reads.Load(); n != 0 {
		t.Errorf("the strangers had the manager ask the API server %d times", n)
	}

	check.Set(t, "answers[http.StatusForbidden]", answers[http.StatusForbidden])

	// Most of them get no answer, because connections and requests are limited per address.
	check.Set(t, "refused without a look", answers[http.StatusServiceUnavailable]+answers[0])

	check.Equal(t, "answers[http.StatusOK]", answers[http.StatusOK], 0)

	saves := slices.DeleteFunc(m.ScrapeMetrics(t)["capolvm_terraform_state_save_seconds"].GetMetric(),
		func(series *dto.Metric) bool { return series.GetHistogram().GetSampleCount() == 0 })
	if len(saves) != 1 || saves[0].GetHistogram().GetSampleCount() < 2 {
		t.Fatalf("the saves are %v", saves)
	}

	// No save waits for the rate limit of the manager's client, because the strangers have not used up this limit. The
	// duration of a save also depends on the host.
	histogram := saves[0].GetHistogram()
	for _, bucket := range histogram.GetBucket() {
		t.Logf("of %d saves took at most %g s: %d", histogram.GetSampleCount(), bucket.GetUpperBound(),
			bucket.GetCumulativeCount())
	}

	if ready := s.ExpectCondition(machine, infrav1.ReadyCondition, "True/Ready"); ready != "" {
		t.Errorf("the machine is ready, and says %q", ready)
	}
}
