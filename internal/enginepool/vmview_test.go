package enginepool

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// watchedSite is an engine with VMs. It records the requests that it gets.
type watchedSite struct {
	t       *testing.T
	sim     *ovirtsim.Server
	session *engine.Client
	ids     []engine.ID

	mu       sync.Mutex
	requests []string
	// refused is a part of the paths that the engine answers with 404.
	refused string
}

func newWatchedSite(t *testing.T, vms int) *watchedSite {
	t.Helper()
	s := &watchedSite{t: t}
	// The clock stands still, because any activity of the engine would cause an event.
	sim, err := ovirtsim.New(ovirtsim.Options{Clock: ovirtsim.NewManualClock(), Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.note(r) {
				next.ServeHTTP(w, r)
			} else {
				http.NotFound(w, r)
			}
		})
	}})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)
	s.sim = sim
	s.session, err = engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	dc, err := s.session.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	cluster, err := s.session.FindCluster(t.Context(), dc, "Default")
	check.Error(t, err, "")

	for i := range vms {
		owner := ownermark.Owner{Namespace: "default", Name: fmt.Sprintf("vm-%d", i), UID: uuid.NewString()}
		comment := owner.Comment()
		vm, err := s.session.CreateVM(t.Context(), &engine.VM{
			Name: owner.Name, Comment: &comment, Cluster: engine.NewRef(cluster.ID),
			Template: engine.NewRef(engine.BlankTemplateID),
		}, nil)
		check.Error(t, err, "")
		s.ids = append(s.ids, vm.ID)
	}

	return s
}

// note records requests for VMs and events, and reports whether the engine should answer.
func (s *watchedSite) note(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, path, _ := strings.Cut(r.URL.Path, "/api")
	search := r.URL.Query().Get("search")

	switch {
	case s.refused != "" && strings.HasSuffix(path, s.refused):
		return false
	case r.Method != http.MethodGet || path != "/vms" && path != "/events":
	case path == "/events" && r.URL.Query().Has("from"):
		s.requests = append(s.requests, "events")
	case path == "/events":
	case search != "":
		s.requests = append(s.requests, fmt.Sprintf("%d by ID", strings.Count(search, "id=")))
	default:
		s.requests = append(s.requests, "all")
	}

	return true
}

// asked returns the requests since its last call.
func (s *watchedSite) asked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.requests, ", ")
	s.requests = nil

	return out
}

func (s *watchedSite) comment(at int, text string) {
	s.t.Helper()
	_, err := s.session.UpdateVM(s.t.Context(), s.ids[at], &engine.VM{Comment: &text})
	check.Error(s.t, err, "")
}

// frozen returns a clock that stands still, so only the method age makes a view older, even if the test is slow.
func frozen() func() time.Time {
	now := time.Now()

	return func() time.Time { return now }
}

// age makes a view look older.
func (v *vmView) age(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()

	v.known, v.listed = v.known.Add(-by), v.listed.Add(-by)
	for _, seen := range v.vms {
		seen.at = seen.at.Add(-by)
	}
}

// TestOnlyWhatHasChangedIsRead follows the VMs of an engine by its events, because an answer with all VMs is large.
func TestOnlyWhatHasChangedIsRead(t *testing.T) {
	s, v := newWatchedSite(t, 4), &vmView{now: frozen()}
	s.asked()
	get := func(at int, maxAge time.Duration) *engine.VM {
		t.Helper()
		vm, err := v.getVM(t.Context(), s.session, s.ids[at], maxAge)
		check.Error(t, err, "")

		return vm
	}

	for i := range 3 { // nobody asks for the last one
		check.Equal(t, "the name", get(i, steadyPeriod).Name, fmt.Sprintf("vm-%d", i))
	}

	check.Equal(t, "at first", s.asked(), "all")
	get(0, fastPeriod)
	check.Equal(t, "what was read a moment ago", s.asked(), "")

	v.age(time.Minute)
	get(1, steadyPeriod)
	check.Equal(t, "a minute later", s.asked(), "events")
	get(2, steadyPeriod)
	check.Equal(t, "others of the same moment", s.asked(), "")

	s.comment(1, "ours")
	s.comment(3, "others'")
	v.age(time.Minute)
	check.Equal(t, "the comment", *get(1, steadyPeriod).Comment, "ours")
	// Someone may still ask for the remaining VM.
	check.Equal(t, "with changes", s.asked(), "events, 2 by ID")

	// An engine logs an event before it stores the change.
	v.age(time.Minute)
	get(1, steadyPeriod)
	check.Equal(t, "in the round after changes", s.asked(), "events, 2 by ID")
	v.age(time.Minute)
	get(1, steadyPeriod)
	check.Equal(t, "in the round after that", s.asked(), "events")

	check.Error(t, s.session.DeleteVM(t.Context(), s.ids[2]), "")
	v.age(time.Minute)
	check.Equal(t, "a VM that was removed", get(2, steadyPeriod) == nil, true)
	check.Equal(t, "with a removal", s.asked(), "events, 1 by ID")

	v.age(time.Second)
	get(0, fastPeriod)
	check.Equal(t, "a VM that boots", s.asked(), "1 by ID")

	v.mu.Lock()
	v.vms[s.ids[0]].vm.Status = "reboot_in_progress"
	v.again = nil
	v.mu.Unlock()
	v.age(time.Minute)
	check.Equal(t, "the end of a restart", get(0, steadyPeriod).Status, engine.VMDown)
	check.Equal(t, "which has no event", s.asked(), "events, 1 by ID")

	v.age(wholePeriod)
	get(0, steadyPeriod)
	check.Equal(t, "after a while", s.asked(), "all")
	v.mu.Lock()
	_, kept := v.vms[s.ids[3]]
	v.mu.Unlock()
	check.Equal(t, "others' VMs are kept", kept, false)
}

// TestAnEngineWithoutEventsIsListed covers a user who cannot read events, and more events than one request returns.
func TestAnEngineWithoutEventsIsListed(t *testing.T) {
	s, v := newWatchedSite(t, 1), &vmView{now: frozen()}
	s.refused = "/events"
	s.asked()

	for range 2 {
		_, err := v.getVM(t.Context(), s.session, s.ids[0], steadyPeriod)
		check.Error(t, err, "")
		check.Equal(t, "without events", s.asked(), "all")
		v.age(time.Minute)
	}

	renew := func() string {
		t.Helper()
		v.age(time.Minute)
		check.Error(t, v.renewView(t.Context(), s.session), "")
		v.vms[s.ids[0]].requested = true

		return s.asked()
	}
	s.refused = ""
	check.Equal(t, "when there are events again", renew(), "all")
	check.Equal(t, "and then", renew(), "events")
	s.refused = "/events"
	check.Equal(t, "when they are gone", renew(), "all")
}

// TestOthersCostNothing uses an engine where most VMs belong to others. The view reads them once, and does not keep
// them.
func TestOthersCostNothing(t *testing.T) {
	s, v := newWatchedSite(t, 8), &vmView{now: frozen()}
	for i := 1; i < 8; i++ {
		s.comment(i, "others'")
	}

	s.asked()
	get := func(at int) string {
		t.Helper()
		vm, err := v.getVM(t.Context(), s.session, s.ids[at], steadyPeriod)
		check.Error(t, err, "")
		check.Equal(t, "the ID", vm.ID, s.ids[at])

		return s.asked()
	}
	check.Equal(t, "at first", get(0), "all")
	check.Equal(t, "VMs that are kept", len(v.vms), 1)

	v.age(wholePeriod)
	check.Equal(t, "after a while", get(0), "1 by ID")
	v.age(time.Minute)
	check.Equal(t, "and then", get(0), "events")
	check.Equal(t, "one that has no mark", get(4), "1 by ID")

	check.Error(t, s.session.DeleteVM(t.Context(), s.ids[4]), "")
	v.age(wholePeriod)
	check.Equal(t, "with one that is gone", get(0), "2 by ID")
	check.Equal(t, "what is known of that one", v.vms[s.ids[4]].vm == nil, true)
}

// TestEventsThatNameNoVM covers events about a host, and about a deleted VM.
func TestEventsThatNameNoVM(t *testing.T) {
	vm := &engine.VM{ID: "01939bb4-0000-4000-8000-000000000001", Name: "m1", Host: engine.NewRef("h1")}
	for name, test := range map[string]struct {
		event engine.Event
		want  bool
	}{
		"of its host":     {engine.Event{Code: 12, Host: engine.NewRef("h1")}, true},
		"of another host": {engine.Event{Code: 12, Host: engine.NewRef("h2")}, false},
		"of its removal": {
			engine.Event{Code: vmRemoved, Description: "VM m1 was successfully removed."}, true,
		},
		"of another removal": {
			engine.Event{Code: vmRemoved, Description: "VM x was successfully removed."}, false,
		},
		"of another VM of its host": {engine.Event{VM: engine.NewRef("v"), Host: engine.NewRef("h1")}, false},
		"of a login":                {engine.Event{Code: 30, Description: "User m1 logged in."}, false},
		"of a removal that names a VM": {
			engine.Event{Code: vmRemoved, VM: engine.NewRef("v"), Description: "VM m1"}, false,
		},
	} {
		check.Equal(t, name, isConcerned(&test.event, vm), test.want)
	}
}

// TestAChangeBeforeTheFirstWatchWakes changes a VM after the pass of its machine has read it, and before the machine
// first watches it.
func TestAChangeBeforeTheFirstWatchWakes(t *testing.T) {
	s, pool := newWatchedSite(t, 2), &Registry{now: frozen()}
	var woken []string
	w := &VMWatcher[types.NamespacedName]{
		Engines: pool, Wake: func(key types.NamespacedName) { woken = append(woken, key.Name) },
	}
	watch := func(at int) {
		t.Helper()
		vm, err := pool.GetVM(t.Context(), s.session, s.ids[at], steadyPeriod)
		check.Error(t, err, "")
		w.Watch(types.NamespacedName{Name: vm.Name}, WatchedVM{Session: s.session, ID: s.ids[at], Seen: vm})
	}
	look := func() {
		t.Helper()
		pool.ensureView(s.session).age(time.Minute)
		w.checkEngine(t.Context(), s.session)
	}
	watch(0)
	seen, err := pool.GetVM(t.Context(), s.session, s.ids[1], steadyPeriod)
	check.Error(t, err, "")
	before := *seen
	s.comment(1, "changed")
	look()
	check.Equal(t, "woken by a VM that nobody watches", len(woken), 0)

	w.Watch(types.NamespacedName{Name: "vm-1"}, WatchedVM{Session: s.session, ID: s.ids[1], Seen: &before})
	look()
	check.Equal(t, "woken", woken, []string{"vm-1"})
	look()
	check.Equal(t, "woken once more", len(woken), 1)
}

// TestManyEventsAreNoReasonToListAgain repeatedly logs more events than one request returns.
func TestManyEventsAreNoReasonToListAgain(t *testing.T) {
	s, v := newWatchedSite(t, 1), &vmView{now: frozen()}
	_, err := v.getVM(t.Context(), s.session, s.ids[0], steadyPeriod)
	check.Error(t, err, "")

	for i := range mostEvents {
		s.comment(0, strconv.Itoa(i))
	}

	s.asked()
	v.age(eventPeriod)
	check.Error(t, v.renewView(t.Context(), s.session), "")
	check.Equal(t, "a moment after a list", s.asked(), "events")
	v.age(steadyPeriod)
	check.Error(t, v.renewView(t.Context(), s.session), "")
	check.Equal(t, "later", s.asked(), "events, all")
}
