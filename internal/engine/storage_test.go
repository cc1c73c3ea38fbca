package engine_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAStorageDomainOfAnotherKindTakesNoDisks refers to an ISO domain by its ID, as a configuration may.
func TestAStorageDomainOfAnotherKindTakesNoDisks(t *testing.T) {
	var rewrites atomic.Bool

	_, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !rewrites.Load() || !strings.HasSuffix(r.URL.Path, "/storagedomains") {
				next.ServeHTTP(w, r)
				return
			}

			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.Header().Del("Content-Length")
			w.WriteHeader(answer.Code)
			_, _ = w.Write(
				bytes.ReplaceAll(answer.Body.Bytes(), []byte("<type>data</type>"), []byte("<type>iso</type>")),
			)
		})
	}})
	before := client(t, config)
	dc, _ := home(t, before)
	domains, err := before.ListStorageDomains(t.Context(), dc)
	check.Error(t, err, "")
	rewrites.Store(true)

	c := client(t, config)

	_, _, err = c.ChooseDiskPlace(t.Context(), nil, engine.DiskPlace{DomainID: domains[0].ID, Format: engine.FormatCow})
	check.Error(t, err, "is of the kind iso, which holds no disks; use one of the kind data")

	_, _, err = c.ChooseDiskPlace(t.Context(), nil, engine.DiskPlace{DomainID: "00000000-0000-4000-8000-0000000000ff"})
	check.Error(t, err, "") // the engine decides
}
