package control

import (
	"net/http"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// ServeHTTP puts the control API, faults and the record of requests in front of the engine.
func (s *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	for strings.Contains(path, "//") { // clients append "/vms" to a URL ending in a slash
		path = strings.ReplaceAll(path, "//", "/")
	}

	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}

	r.URL.Path, r.URL.RawPath = path, ""
	if strings.HasPrefix(path, Path) {
		s.mux.ServeHTTP(w, r)
		return
	}

	recorder := &wire.StatusRecorder{ResponseWriter: w}
	r = api.WithArrival(r)
	entry := s.recordRequest(r)
	defer func() { s.recordAnswer(entry, recorder) }()
	fault := s.faultFor(r)
	if fault != nil {
		s.noteFault(entry, fault)
		if s.applyBefore(fault, recorder, r) {
			return
		}
	}

	if !fault.isAfterEffect() {
		s.engine.ServeHTTP(recorder, r)
		return
	}

	back := &held{header: http.Header{}}
	s.engine.ServeHTTP(back, r)
	fault.sendHeldAnswer(back, recorder)
}
