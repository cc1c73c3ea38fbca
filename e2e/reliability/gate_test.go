package reliability

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// gate sits in front of a server, records the calls to it, and acts at one of them.
type gate struct {
	// name returns the name of a call, such as "POST /vms", or "" for irrelevant calls.
	name func(*http.Request) string

	mu    sync.Mutex
	calls []call
	nth   map[string]int
	trap  *trap // armed; nil once sprung
	last  *trap // armed most recently
	// away selects the requests to leave unanswered at present.
	away func(*http.Request) bool
	// resting lets all calls pass uncounted.
	resting bool
	// probe is called at each call; probed holds the calls at which it returned true.
	probe  func() bool
	probed map[call]bool
}

// call is the nth call with a name since the gate was set.
type call struct {
	name string
	nth  int
}

func (c call) String() string { return fmt.Sprintf("%s #%d", c.name, c.nth) }

// trap acts once, before or after a call takes effect.
type trap struct {
	at    call
	after bool
	// act reports whether to cut the call. Cut before its effect, the call has none; cut after it, the answer is lost.
	act    func() (cut bool)
	sprung chan struct{}
}

// set clears the recorded calls and sets a trap, or none if t is nil.
func (g *gate) set(t *trap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.nth, g.trap, g.last, g.probed = nil, map[string]int{}, t, t, map[call]bool{}
	if t != nil {
		t.sprung = make(chan struct{})
	}
}

// rest starts or stops letting calls pass uncounted.
func (g *gate) rest(resting bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resting = resting
}

// sprung returns a channel, closed once the most recent trap has acted, or nil without a trap.
func (g *gate) sprung() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return nil
	}

	return g.last.sprung
}

// cut leaves matching requests unanswered until the next cut; nil answers all again.
func (g *gate) cut(away func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

// all matches every request.
func all(*http.Request) bool { return true }

// seen returns the calls since the gate was set.
func (g *gate) seen() []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]call(nil), g.calls...)
}

// note counts a request and returns the trap it springs, if any.
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

// writeCall names a write to the API server: "PATCH olvmmachines/status". It ignores reads, events and leases.
func writeCall(r *http.Request) string {
	match := apiPaths.FindStringSubmatch(r.URL.Path)
	if r.Method == http.MethodGet || match == nil || match[2] == "events" || match[2] == "leases" {
		return ""
	}

	return r.Method + " " + match[2] + match[3]
}
