package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// counted is a proxy that counts the requests to the engine.
type counted struct {
	*httptest.Server
	mu     sync.Mutex
	counts map[string]int
	caFile string
}

func (s *site) count() *counted {
	s.t.Helper()

	target, err := url.Parse(s.sim.URL())
	check.Error(s.t, err, "")

	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(s.sim.CA())
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}},
	}
	out := &counted{counts: map[string]int{}}
	out.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out.mu.Lock()
		out.counts[r.Method+" "+r.URL.Path]++
		out.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	s.t.Cleanup(out.Close)

	out.caFile = filepath.Join(s.t.TempDir(), "proxy.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: out.Certificate().Raw})
	check.Error(s.t, os.WriteFile(out.caFile, block, 0o600), "")
	s.t.Setenv("OLVM_URL", out.URL+target.Path)
	s.manifests = strings.ReplaceAll(s.manifests, s.sim.URL(), out.URL+target.Path)

	return out
}

// take returns the counts, and resets them.
func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()

	counts := c.counts
	c.counts = map[string]int{}

	return counts
}

// TestAPlanAsksTheEngineOnceForAllMachines plans 2 workers, 40 workers, and 40 workers in two clusters. Each cluster
// has a control plane. The plan uses one session with the engine. Apart from one request for the VM of each name, the
// number of requests does not depend on the number of machines.
func TestAPlanAsksTheEngineOnceForAllMachines(t *testing.T) {
	s := newSite(t)
	proxy := s.count()

	for name, test := range map[string]struct {
		manifests          string
		machines, clusters int
	}{
		"2":  {s.manifests, 3, 1},
		"40": {strings.Replace(s.manifests, "replicas: 2", "replicas: 40", 1), 41, 1},
		"two clusters": {strings.Replace(s.manifests, "replicas: 2", "replicas: 20", 1) + "\n---\n" +
			strings.NewReplacer("replicas: 2", "replicas: 20", "demo", "other", "127.20.30.", "127.20.31.").Replace(s.manifests), 42, 2},
	} {
		code, _, problems := s.run(test.manifests, "plan", "-f", "-", "--ca-file", proxy.caFile)
		check.Equal(t, name+": exit code, after "+problems, code, 2)

		counts := proxy.take()
		check.Equal(t, name+": sessions", counts["POST /ovirt-engine/sso/oauth/token"], 1)

		for request, count := range counts {
			most := 2 * test.clusters
			if request == "GET /ovirt-engine/api/vms" {
				most = test.machines
			}

			check.Equal(t, fmt.Sprintf("%s: %s was asked %d times, and at most %d are needed", name, request, count, most),
				count <= most, true)
		}
	}
}
