package reliability

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// gate sits in front of a server, notes the calls to it, and acts at one of them.
type gate struct {
	// name of a call, such as "POST /vms"; empty where it is of no interest.
	name func(*http.Request) string

	mu    sync.Mutex
	calls []call
	nth   map[string]int
	trap  *trap // that is set
	last  *trap // that was set last
	// away says which requests get no answer now.
	away func(*http.Request) bool
	// resting lets all calls pass, and counts none.
	resting bool
	// probe is asked at each call; those where it said yes are in probed.
	probe  func() bool
	probed map[call]bool
}

// call is the nth one of that name since the gate was set.
type call struct {
	name string
	nth  int
}

func (c call) String() string { return fmt.Sprintf("%s #%d", c.name, c.nth) }

// trap acts once, before a call has its effect or after.
type trap struct {
	at    call
	after bool
	// act reports whether the call is to be cut: before its effect it has none then, after it the answer is lost.
	act    func() (cut bool)
	sprung chan struct{}
}

// set forgets the calls, and sets a trap; nil sets none.
func (g *gate) set(t *trap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.nth, g.trap, g.last, g.probed = nil, map[string]int{}, t, t, map[call]bool{}
	if t != nil {
		t.sprung = make(chan struct{})
	}
}

// rest lets calls pass without counting them, or ends that.
func (g *gate) rest(resting bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resting = resting
}

// sprung is closed when the trap that was set last has acted; nil if none was set.
func (g *gate) sprung() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return nil
	}

	return g.last.sprung
}

// cut leaves those requests without an answer until it is called again; nil ends it.
func (g *gate) cut(away func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

// all requests.
func all(*http.Request) bool { return true }

// seen are the calls since the gate was set.
func (g *gate) seen() []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]call(nil), g.calls...)
}

// note counts a request, and returns the trap that it springs.
func (g *gate) note(r *http.Request) *trap {
	name := g.name(r)
	if name == "" {
		return nil
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resting {
		return nil
	}

	if g.nth == nil {
		g.nth, g.probed = map[string]int{}, map[call]bool{}
	}

	g.nth[name]++
	this := call{name: name, nth: g.nth[name]}
	g.calls = append(g.calls, this)
	if g.probe != nil {
		g.probed[this] = g.probe()
	}

	if g.trap == nil || g.trap.at != this {
		return nil
	}

	sprung := g.trap
	g.trap = nil

	return sprung
}

// wrap puts the gate in front of a handler.
func (g *gate) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		away := g.away
		g.mu.Unlock()
		if away != nil && away(r) {
			panic(http.ErrAbortHandler)
		}

		t := g.note(r)
		if t == nil {
			next.ServeHTTP(w, r)
			return
		}

		defer close(t.sprung)
		if !t.after {
			if t.act() {
				panic(http.ErrAbortHandler)
			}

			next.ServeHTTP(w, r)

			return
		}

		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if t.act() {
			panic(http.ErrAbortHandler)
		}

		for key, values := range answer.Header() {
			w.Header()[key] = values
		}

		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// engineCall names a request to the engine: "POST /vms/ID/nics", "POST /sso/oauth/token", "GET /vms?search".
func engineCall(r *http.Request) string {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/ovirt-engine"), "/api")
	name := r.Method + " " + uuids.ReplaceAllString(path, "ID")
	if r.URL.Query().Has("search") {
		name += "?search"
	}

	return name
}

var apiPaths = regexp.MustCompile(`^/(?:api/v1|apis/([^/]+)/[^/]+)/namespaces/[^/]+/([^/]+)(?:/[^/]+(/status)?)?$`)

// writeCall names a write to the API server: "PATCH olvmmachines/status". Reads, events and leases are of no interest.
func writeCall(r *http.Request) string {
	match := apiPaths.FindStringSubmatch(r.URL.Path)
	if r.Method == http.MethodGet || match == nil || match[2] == "events" || match[2] == "leases" {
		return ""
	}

	return r.Method + " " + match[2] + match[3]
}
