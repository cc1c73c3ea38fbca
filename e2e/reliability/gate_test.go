package reliability

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// gate is in front of a server. It records the calls to the server, and acts at one of them.
type gate struct {
	// name returns the name of a call, such as "POST /vms". It returns "" for calls that do not matter.
	name func(*http.Request) string

	mu    sync.Mutex
	calls []call
	nth   map[string]int
	trap  *trap // the armed trap; nil after it has sprung
	last  *trap // the trap that was armed last
	// away selects the requests that get no answer at present.
	away func(*http.Request) bool
	// resting makes the gate let all calls pass without counting them.
	resting bool
	// probe is called at each call. probed holds the calls at which probe has returned true.
	probe  func() bool
	probed map[call]bool
}

// call is the n-th call with a name since the gate was set.
type call struct {
	name string
	nth  int
}

func (c call) String() string { return fmt.Sprintf("%s #%d", c.name, c.nth) }

// trap acts once, before or after a call takes effect.
type trap struct {
	at    call
	after bool
	// act acts at the call, and reports whether to cut the call. A call that is cut before its effect has no effect.
	// After the effect, only its answer is lost.
	act    func() (cut bool)
	sprung chan struct{}
}

// set clears the recorded calls and sets a trap; nil means no trap.
func (g *gate) set(t *trap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.nth, g.trap, g.last, g.probed = nil, map[string]int{}, t, t, map[call]bool{}
	if t != nil {
		t.sprung = make(chan struct{})
	}
}

// rest makes the gate let calls pass without counting them, or ends this.
func (g *gate) rest(resting bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resting = resting
}

// sprung returns a channel that closes after the last trap has acted. Without a trap, it returns nil.
func (g *gate) sprung() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return nil
	}

	return g.last.sprung
}

// cut makes matching requests get no answer until the next cut. With nil, all requests get answers again.
func (g *gate) cut(away func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

// all matches every request.
func all(*http.Request) bool { return true }

// seen returns the recorded calls since the gate was set.
func (g *gate) seen() []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]call(nil), g.calls...)
}

// note counts a request, and returns the trap that springs at it, if any.
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

// engineCall returns the name of a request to the engine, such as "POST /vms/ID/nics", "POST /sso/oauth/token" or "GET
// /vms?search".
func engineCall(r *http.Request) string {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/ovirt-engine"), "/api")
	name := r.Method + " " + uuids.ReplaceAllString(path, "ID")
	if r.URL.Query().Has("search") {
		name += "?search"
	}

	return name
}

var apiPaths = regexp.MustCompile(`^/(?:api/v1|apis/([^/]+)/[^/]+)/namespaces/[^/]+/([^/]+)(?:/[^/]+(/status)?)?$`)

// writeCall returns the name of a write to the API server, such as "PATCH olvmmachines/status". It returns "" for
// reads, events and leases.
func writeCall(r *http.Request) string {
	match := apiPaths.FindStringSubmatch(r.URL.Path)
	if r.Method == http.MethodGet || match == nil || match[2] == "events" || match[2] == "leases" {
		return ""
	}

	return r.Method + " " + match[2] + match[3]
}
