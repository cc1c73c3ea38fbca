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

// Fault is a rule by which requests, or guests, go wrong. A zero field matches everything, or does nothing.
type Fault struct {
	// ID of the rule, given by the simulator.
	ID int `json:"id,omitempty"`

	// Method to match.
	Method string `json:"method,omitempty"`
	// Path is a regular expression on the path below /ovirt-engine.
	Path string `json:"path,omitempty"`
	// Nth lets the first Nth-1 matching requests pass; 0 and 1 begin with the first.
	Nth int `json:"nth,omitempty"`
	// Probability with which a matching request is hit, 0 to 1; 0 means always.
	Probability float64 `json:"probability,omitempty"`
	// Count is how many requests are hit; 0 means all.
	Count int `json:"count,omitempty"`

	// DelayMillis is how long to wait before anything else.
	DelayMillis int `json:"delayMillis,omitempty"`
	// Status is the HTTP status to answer with, in the HTML of the web server before the engine.
	Status int `json:"status,omitempty"`
	// Body and MediaType make the answer that of another proxy, ingress or backend. A MediaType alone is an empty body.
	Body      string `json:"body,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	// Reason and Detail make the answer a fault of the engine itself instead of HTML.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Action is what happens else: hang (no answer until the client gives up), hold (nothing until the faults are
	// cleared, then all goes on), cut-before (the connection is closed, nothing has happened), cut-after (it has),
	// expire-token (401, and the session is gone), malformed (an answer that breaks off).
	Action string `json:"action,omitempty"`

	// Guest is what goes wrong in VMs whose name matches VM: never-boots (stays in powering_up), lost-boot (goes down
	// again instead of up), no-agent (reports no addresses), ignores-shutdown, crashes (goes down soon after up).
	Guest string `json:"guest,omitempty"`
	// VM is a regular expression on the VM's name, for guest faults.
	VM string `json:"vm,omitempty"`

	// Seen counts the requests that matched, Hits those that were hit.
	Seen int `json:"seen,omitempty"`
	Hits int `json:"hits,omitempty"`

	path, vm *regexp.Regexp
	// cleared is closed when the rule is removed.
	cleared chan struct{}
}

// The actions and guest faults.
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

// compile checks a rule.
func (f *Fault) compile() error {
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

// hit counts a match and reports whether the rule applies to it; mu is held.
func (s *Control) hit(f *Fault) bool {
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

// Inject adds a fault; later ones win. ClearFaults removes all.
func (s *Control) Inject(fault Fault) error {
	if err := fault.compile(); err != nil {
		return err
	}

	defer s.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultIDs++
	fault.ID, fault.Seen, fault.Hits = s.faultIDs, 0, 0
	s.faults = append([]*Fault{&fault}, s.faults...)

	return nil
}

// Faults lists the rules that are set, the newest first, with their counts.
func (s *Control) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()

	out := make([]Fault, 0, len(s.faults))
	for _, f := range s.faults {
		out = append(out, *f)
	}

	return out
}

// Hits counts the requests that met a fault of those that are set now, also while they are delayed.
func (s *Control) Hits() int {
	hits := 0
	for _, f := range s.Faults() {
		hits += f.Hits
	}

	return hits
}

// ClearFaults removes all faults.
func (s *Control) ClearFaults() {
	defer s.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.faults {
		close(f.cleared)
	}

	s.faults = nil
}

// faultFor is the first rule that applies to a request; nil where none does.
func (s *Control) faultFor(r *http.Request) *Fault {
	path := strings.TrimPrefix(r.URL.Path, wire.EnginePath)
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.faults {
		if f.Guest == "" && (f.Method == "" || f.Method == r.Method) && f.path.MatchString(path) && s.hit(f) {
			applied := *f
			return &applied
		}
	}

	return nil
}

// GuestFault reports whether a rule of that kind applies to a VM.
func (s *Control) GuestFault(kind, vmName string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.faults {
		if f.Guest == kind && f.vm.MatchString(vmName) && s.hit(f) {
			return true
		}
	}

	return false
}

// cut closes the connection of a request without an answer.
func cut() { panic(http.ErrAbortHandler) }

// before applies what a fault does ahead of the request, and reports whether that was the answer.
func (s *Control) before(f *Fault, w http.ResponseWriter, r *http.Request) (answered bool) {
	select {
	case <-time.After(time.Duration(f.DelayMillis) * time.Millisecond):
	case <-s.engine.Done(): // not the request's: an engine finishes what a client gave up on
	}

	switch {
	case f.Action == actionHang:
		_, _ = io.Copy(io.Discard, r.Body) // the client's leaving is seen only behind the body
		select {
		case <-r.Context().Done():
		case <-s.engine.Done():
		}

		cut()
	case f.Action == actionHold:
		select {
		case <-f.cleared:
		case <-s.engine.Done():
		}
	case f.Action == actionCutBefore:
		cut()
	case f.Action == actionExpireToken:
		s.engine.CloseSession(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	case f.Status != 0 && (f.Reason != "" || f.Detail != ""):
		w.Header().Set(api.CorrelationHeader, api.CorrelationID(r))
		wire.Reply(w, r, f.Status, wire.FaultDocument(cmp.Or(f.Reason, wire.OperationFailed), f.Detail))
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
		// A failing engine is seen through the web server before it, which speaks HTML.
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(f.Status)
		_, _ = fmt.Fprintf(w, "<html><head><title>%[1]d</title></head><body><h1>%[1]d %[2]s</h1></body></html>",
			f.Status, http.StatusText(f.Status))

		return true
	}

	return false
}

// held keeps an answer back, for a fault that takes it away or breaks it once the request has had its effect.
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

// late reports whether the fault comes after the effect.
func (f *Fault) late() bool {
	return f != nil && (f.Action == actionCutAfter || f.Action == actionMalformed)
}

// after gives the answer that was held back as the fault wants it.
func (f *Fault) after(h *held, w http.ResponseWriter) {
	if f.Action == actionCutAfter {
		cut()
	}

	for name, values := range h.header {
		w.Header()[name] = values
	}

	w.WriteHeader(cmp.Or(h.status, http.StatusOK))
	_, _ = w.Write(h.body.Bytes()[:h.body.Len()*2/3])
}

// newRandom makes the source of probabilities; a seed makes a run repeatable.
func newRandom(seed uint64) *rand.Rand {
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // faults, not secrets
	}

	return rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // as above
}
