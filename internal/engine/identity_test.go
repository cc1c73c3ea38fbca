package engine_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// log is a fake engine. The test sets its identity and its event log.
type log struct {
	mu           sync.Mutex
	installation string
	// listed is the newest event in the list. dismissed events exist, but the list omits them.
	listed    int64
	dismissed int64
	// restored is the first event that another one replaces, or 0.
	restored int64
	sessions int
	asked    int // number of requests for an event by ID
	// cleaned is the last event removed because of its age.
	cleaned int64
}

func (l *log) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()

	token := fmt.Sprintf("token-%d", l.sessions)

	switch path := strings.TrimPrefix(r.URL.Path, "/ovirt-engine"); {
	case path == "/sso/oauth/token":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q}`, token)
	case r.Header.Get("Authorization") != "Bearer "+token:
		w.WriteHeader(http.StatusUnauthorized)
	case path == "/api":
		fmt.Fprintf(w, `<api><product_info><instance_id>%s</instance_id></product_info></api>`, l.installation)
	case path == "/api/events":
		fmt.Fprintf(w, `<events>%s</events>`, l.event(l.listed))
	case strings.HasPrefix(path, "/api/events/"):
		id, _ := strconv.ParseInt(strings.TrimPrefix(path, "/api/events/"), 10, 64)
		if l.asked++; id > l.listed && id != l.dismissed || id <= l.cleaned {
			w.WriteHeader(http.StatusNotFound)
			return
		}

		fmt.Fprint(w, l.event(id))
	case path == "/api/vms":
		fmt.Fprint(w, `<vms/>`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// eventTime returns the time of the event with this ID.
func eventTime(id int64) time.Time { return time.Date(2026, 11, 9, 3, 0, int(id), 5e6, time.UTC) }

// event returns the XML document of an event.
func (l *log) event(id int64) string {
	at := eventTime(id)
	if l.restored != 0 && id >= l.restored {
		at = at.Add(time.Hour)
	}

	return fmt.Sprintf(`<event id="%d"><index>%d</index><time>%s</time></event>`, id, id, at.Format(time.RFC3339Nano))
}

func startLog(t *testing.T) (*log, *engine.Sessions, engine.Config) {
	t.Helper()
	l := &log{installation: "one", listed: 7}
	server := httptest.NewTLSServer(l)
	t.Cleanup(server.Close)

	return l, &engine.Sessions{}, engine.Config{
		URL: server.URL + "/ovirt-engine", Username: "u@internal", Password: "p", Insecure: true,
	}
}

// TestAnEventThatIsDismissedIsStillThere has an administrator dismiss the newest recorded event.
func TestAnEventThatIsDismissedIsStillThere(t *testing.T) {
	l, sessions, config := startLog(t)
	c, err := sessions.Get(config)
	check.Error(t, err, "")

	l.set(func() { l.listed, l.dismissed = 5, 7 })
	seen, err := c.FetchIdentity(t.Context(), 7, eventTime(7))
	check.Error(t, err, "")
	check.Equal(t, "newest event", seen.NewestEvent, 7)
	check.Equal(t, "it is forgotten", seen.Forgot, false)

	l.set(func() { l.dismissed = 0 })
	seen, err = c.FetchIdentity(t.Context(), 7, eventTime(7))
	check.Error(t, err, "")
	check.Equal(t, "newest event of an engine that has forgotten it", seen.NewestEvent, 5)
	check.Equal(t, "it is forgotten", seen.Forgot, true)
}

// TestARestoredEngineIsNotTheSameWithAsManyEventsAgain has an engine with a restored database assign the same event IDs
// again. Only their times differ.
func TestARestoredEngineIsNotTheSameWithAsManyEventsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*log)
		at     time.Time
		want   bool
	}{
		"nothing happened":              {func(*log) {}, eventTime(7), false},
		"later events":                  {func(l *log) { l.listed = 9 }, eventTime(7), false},
		"as recorded, in seconds":       {func(l *log) { l.listed = 9 }, eventTime(7).Truncate(time.Second), false},
		"a record without a time":       {func(l *log) { l.listed, l.restored = 9, 5 }, time.Time{}, false},
		"it was cleaned up":             {func(l *log) { l.listed, l.cleaned = 9, 8 }, eventTime(7), false},
		"restored, with fewer events":   {func(l *log) { l.listed, l.restored = 6, 5 }, eventTime(7), true},
		"restored, with as many events": {func(l *log) { l.restored = 5 }, eventTime(7), true},
		"restored, with more events":    {func(l *log) { l.listed, l.restored = 9, 5 }, eventTime(7), true},
	} {
		l, sessions, config := startLog(t)
		c, err := sessions.Get(config)
		check.Error(t, err, "")

		l.set(func() { test.change(l) })

		seen, err := c.FetchIdentity(t.Context(), 7, test.at)
		check.Error(t, err, "")
		check.Equal(t, name+" is told as forgotten", seen.Forgot, test.want)
		check.Equal(t, name+" is asked once", c.HasSeenEvent(7, test.at), !test.want)
	}
}

// TestARunGetsNoTokenOfAnotherEngine refuses the token of a Terraform run halfway. The new token must come from the
// same engine, because another engine would report the run's VM as gone.
func TestARunGetsNoTokenOfAnotherEngine(t *testing.T) {
	for name, test := range map[string]struct {
		swap    func(*log)
		refused bool
	}{
		"the engine restarts":      {func(l *log) { l.listed = 9 }, false},
		"another engine":           {func(l *log) { l.installation = "two" }, true},
		"the database is restored": {func(l *log) { l.listed, l.restored = 9, 5 }, true},
	} {
		l, sessions, config := startLog(t)
		c, err := sessions.Get(config)
		check.Error(t, err, "")
		_, err = c.LoadIdentity(t.Context())
		check.Error(t, err, "")
		token, err := c.ShareToken(t.Context(), "")
		check.Error(t, err, "")
		check.Equal(t, "token", token, "token-0")

		l.set(func() { l.sessions++; test.swap(l) })

		for range 2 { // also the second time
			token, err = c.ShareToken(t.Context(), "token-0")
			check.Equal(t, name+" is refused", err != nil, test.refused)
			check.Equal(t, name+" gives a token", token != "", !test.refused)
		}
	}
}

// TestAClientDoesNotGoOnWithAnotherEngine ends the session, and lets another or an earlier engine answer at the same
// URL.
func TestAClientDoesNotGoOnWithAnotherEngine(t *testing.T) {
	for name, test := range map[string]struct {
		swap    func(*log)
		refused bool
	}{
		"the engine restarts":            {func(l *log) { l.listed = 9 }, false},
		"another engine":                 {func(l *log) { l.installation = "two" }, true},
		"the database is restored":       {func(l *log) { l.listed = 3 }, true},
		"restored, with more events":     {func(l *log) { l.listed, l.restored = 9, 5 }, true},
		"the newest event was dismissed": {func(l *log) { l.listed, l.dismissed = 3, 7 }, false},
	} {
		l, sessions, config := startLog(t)
		c, err := sessions.Get(config)
		check.Error(t, err, "")
		_, err = c.LoadIdentity(t.Context())
		check.Error(t, err, "")

		l.set(func() { l.sessions++; test.swap(l) })

		for range 2 { // also the second time
			_, err = c.ListVMs(t.Context())
			check.Equal(t, name+" is refused", err != nil, test.refused)
		}

		if _, err := c.LoadIdentity(t.Context()); (err != nil) != test.refused {
			t.Errorf("%s: identity: %v", name, err)
		}

		// The next reconcile gets the new identity.
		next, err := sessions.Get(config)
		check.Error(t, err, "")
		check.Equal(t, name+" has a new client", next != c, test.refused)

		seen, err := next.LoadIdentity(t.Context())
		check.Error(t, err, "")
		check.Equal(t, name+" installation", seen.Installation, l.installation)
	}
}
