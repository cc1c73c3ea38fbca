package control

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Fault is a rule by which requests or guests fail. A field with its zero value matches everything or does nothing.
type Fault struct {
	// ID is the ID of the rule, assigned by the simulator.
	ID int `json:"id,omitempty"`

	// Method is the HTTP method of the affected requests.
	Method string `json:"method,omitempty"`
	// Path is a regular expression for the path below /ovirt-engine.
	Path string `json:"path,omitempty"`
	// Nth lets the first Nth-1 matching requests pass; 0 and 1 let none pass.
	Nth int `json:"nth,omitempty"`
	// Probability is the probability that the fault hits a matching request, from 0 to 1; 0 means always.
	Probability float64 `json:"probability,omitempty"`
	// Count is the maximum number of requests that the fault hits; 0 means no limit.
	Count int `json:"count,omitempty"`

	// DelayMillis is a delay in milliseconds before any other effect.
	DelayMillis int `json:"delayMillis,omitempty"`
	// Status is the HTTP status of the answer. The body is the HTML of the web server in front of the engine.
	Status int `json:"status,omitempty"`
	// Body and MediaType turn the answer into that of another proxy, ingress or backend. A MediaType alone means an
	// empty body.
	Body      string `json:"body,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	// Reason and Detail turn the answer into an error of the engine itself, without HTML.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Action is an additional effect: hang (no answer until the client gives up), hold (nothing until the faults are
	// cleared, then everything continues), cut-before (the connection is closed without an effect), cut-after (the same
	// with the effect), expire-token (401, and the session is gone), malformed (an incomplete answer).
	Action string `json:"action,omitempty"`

	// Guest is the failure of VMs with a name matching VM: never-boots (stays in powering_up), lost-boot (goes down
	// again instead of up), no-agent (reports no addresses), ignores-shutdown, crashes (goes down soon after up).
	Guest string `json:"guest,omitempty"`
	// VM is a regular expression on the VM's name, for guest faults.
	VM string `json:"vm,omitempty"`

	// Seen counts the matching requests, and Hits counts those that failed.
	Seen int `json:"seen,omitempty"`
	Hits int `json:"hits,omitempty"`

	path, vm *regexp.Regexp
	// cleared closes when the rule is removed.
	cleared chan struct{}
}

// These constants are the actions and the guest faults.
const (
	actionHang        = "hang"
	actionHold        = "hold"
	actionCutBefore   = "cut-before"
	actionCutAfter    = "cut-after"
	actionExpireToken = "expire-token"
	actionMalformed   = "malformed"
)

var (
	faultActions = []string{
		"", actionHang, actionHold, actionCutBefore, actionCutAfter, actionExpireToken, actionMalformed,
	}
	guestFaults = []string{
		"",
		api.GuestNeverBoots,
		api.GuestLostBoot,
		api.GuestNoAgent,
		api.GuestIgnoresShutdown,
		api.GuestCrashes,
	}
)

// compileRule validates a rule, and compiles its regular expressions.
func (f *Fault) compileRule() error {
	f.cleared = make(chan struct{})
	var err error
	if f.path, err = regexp.Compile(f.Path); err != nil {
		return fmt.Errorf("path is not a regular expression: %w", err)
	}

	if f.vm, err = regexp.Compile(f.VM); err != nil {
		return fmt.Errorf("vm is not a regular expression: %w", err)
	}

	switch {
	case !slices.Contains(faultActions, f.Action):
		return fmt.Errorf("action %q is none of %s", f.Action, strings.Join(faultActions[1:], ", "))
	case !slices.Contains(guestFaults, f.Guest):
		return fmt.Errorf("guest %q is none of %s", f.Guest, strings.Join(guestFaults[1:], ", "))
	case f.Probability < 0 || f.Probability > 1:
		return errors.New("probability must be between 0 and 1")
	case f.Nth < 0 || f.Count < 0 || f.DelayMillis < 0:
		return errors.New("nth, count and delayMillis must not be negative")
	case f.Status != 0 && (f.Status < 100 || f.Status > 599):
		return fmt.Errorf("status %d is not an HTTP status", f.Status)
	case f.Guest == "" && f.Action == "" && f.Status == 0 && f.DelayMillis == 0:
		return errors.New("the fault does nothing: set status, delayMillis, action or guest")
	case (f.Body != "" || f.MediaType != "") && (f.Status == 0 || f.Reason != "" || f.Detail != ""):
		return errors.New("body and mediaType need status, and exclude reason and detail")
	case f.Status != 0 && f.Action != "":
		return errors.New("status cannot be combined with action")
	case f.Guest != "" && (f.Action != "" || f.Status != 0):
		return errors.New("guest cannot be combined with action or status")
	}

	return nil
}

// countMatch counts a match, and reports whether the rule applies to it. The caller must hold mu.
func (s *Control) countMatch(f *Fault) bool {
	f.Seen++
	if f.Seen < f.Nth || f.Count > 0 && f.Hits >= f.Count {
		return false
	}

	if f.Probability > 0 && s.random.Float64() >= f.Probability {
		return false
	}

	f.Hits++

	return true
}

// Inject adds a fault. It takes precedence over earlier faults. ClearFaults removes all faults.
func (s *Control) Inject(fault Fault) error {
	if err := fault.compileRule(); err != nil {
		return err
	}

	defer s.NotifyObservers()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultIDs++
	fault.ID, fault.Seen, fault.Hits = s.faultIDs, 0, 0
	s.faults = append([]*Fault{&fault}, s.faults...)

	return nil
}

// ListFaults returns the active rules with their counts, the newest rule first.
func (s *Control) ListFaults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()

	out := make([]Fault, 0, len(s.faults))
	for _, f := range s.faults {
		out = append(out, *f)
	}

	return out
}

// CountHits returns the number of requests hit by an active fault, including delayed requests.
func (s *Control) CountHits() int {
	hits := 0
	for _, f := range s.ListFaults() {
		hits += f.Hits
	}

	return hits
}

// ClearFaults removes all faults.
func (s *Control) ClearFaults() {
	defer s.NotifyObservers()
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.faults {
		close(f.cleared)
	}

	s.faults = nil
}

// faultFor returns the first rule that applies to a request, or nil.
func (s *Control) faultFor(r *http.Request) *Fault {
	path := strings.TrimPrefix(r.URL.Path, wire.EnginePath)
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.faults {
		if f.Guest == "" && (f.Method == "" || f.Method == r.Method) && f.path.MatchString(path) && s.countMatch(f) {
			applied := *f
			return &applied
		}
	}

	return nil
}

// GuestFault reports whether a rule of the given kind applies to a VM.
func (s *Control) GuestFault(kind, vmName string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.faults {
		if f.Guest == kind && f.vm.MatchString(vmName) && s.countMatch(f) {
			return true
		}
	}

	return false
}

// cutConnection closes the connection of a request without an answer.
func cutConnection() { panic(http.ErrAbortHandler) }

// applyBefore applies those effects of a fault that precede the request, and reports whether it answered the request.
func (s *Control) applyBefore(f *Fault, w http.ResponseWriter, r *http.Request) (answered bool) {
	select {
	case <-time.After(time.Duration(f.DelayMillis) * time.Millisecond):
	case <-s.engine.Done(): // not until the request ends: an engine finishes a request even if its client gives up
	}

	switch {
	case f.Action == actionHang:
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that the client left only after it has read the body
		select {
		case <-r.Context().Done():
		case <-s.engine.Done():
		}

		cutConnection()
	case f.Action == actionHold:
		select {
		case <-f.cleared:
		case <-s.engine.Done():
		}
	case f.Action == actionCutBefore:
		cutConnection()
	case f.Action == actionExpireToken:
		s.engine.CloseSession(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	case f.Status != 0 && (f.Reason != "" || f.Detail != ""):
		w.Header().Set(api.CorrelationHeader, api.CorrelationID(r))
		wire.WriteDocument(w, r, f.Status, wire.FaultDocument(cmp.Or(f.Reason, wire.OperationFailed), f.Detail))
		return true
	case f.Status != 0 && (f.Body != "" || f.MediaType != ""):
		w.Header().Set("Content-Type", cmp.Or(f.MediaType, "text/plain"))
		if f.Status >= 300 && f.Status <= 399 {
			w.Header().Set("Location", "https://elsewhere.example"+r.URL.Path)
		}

		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)

		return true
	case f.Status != 0:
		// Clients see a failing engine through the web server in front of it, which answers in HTML.
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(f.Status)
		_, _ = fmt.Fprintf(w, "<html><head><title>%[1]d</title></head><body><h1>%[1]d %[2]s</h1></body></html>",
			f.Status, http.StatusText(f.Status))

		return true
	}

	return false
}

// held keeps an answer back, because a fault drops or breaks it after the request has had its effect.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header { return h.header }

func (h *held) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *held) Write(body []byte) (int, error) { return h.body.Write(body) }

// isAfterEffect reports whether the fault applies after the effect of the request.
func (f *Fault) isAfterEffect() bool {
	return f != nil && (f.Action == actionCutAfter || f.Action == actionMalformed)
}

// sendHeldAnswer sends the held answer, modified by the fault.
func (f *Fault) sendHeldAnswer(h *held, w http.ResponseWriter) {
	if f.Action == actionCutAfter {
		cutConnection()
	}

	for name, values := range h.header {
		w.Header()[name] = values
	}

	w.WriteHeader(cmp.Or(h.status, http.StatusOK))
	_, _ = w.Write(h.body.Bytes()[:h.body.Len()*2/3])
}

// newRandom returns the random numbers for probabilities. A seed other than 0 makes a run repeatable.
func newRandom(seed uint64) *rand.Rand {
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // faults, not secrets
	}

	return rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // as above
}
