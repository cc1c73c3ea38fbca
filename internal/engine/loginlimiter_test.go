package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// login logs in with a password of the simulator's user.
func login(t *testing.T, sim *ovirtsim.Server, sessions *engine.Sessions, username, password string) error {
	t.Helper()
	client, err := sessions.Get(engine.Config{URL: sim.URL(), Username: username, Password: password, CA: sim.CA()})
	check.Error(t, err, "")

	_, err = client.ListDataCenters(t.Context())

	return err
}

func newEngine(t *testing.T) *ovirtsim.Server {
	t.Helper()
	sim, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	return sim
}

// kept is a RefusalStore in memory.
type kept struct {
	content []byte
	fails   error
}

func (k *kept) Load(context.Context) ([]byte, error) { return k.content, k.fails }

func (k *kept) Save(_ context.Context, content []byte) error {
	k.content = content
	return k.fails
}

const waits = "one more could lock the user"

// TestAUserIsNotLockedByOthersPasswords has tenants with wrong passwords of a shared user. The engine locks a user
// after five.
func TestAUserIsNotLockedByOthersPasswords(t *testing.T) {
	sim := newEngine(t)
	memory := &kept{}
	sessions := &engine.Sessions{Refusals: memory}
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	// A restarted manager knows the earlier refusals, but not the passwords.
	for attempt := range 8 {
		restarted := &engine.Sessions{Refusals: memory}
		err := login(t, sim, restarted, strings.ToUpper(sim.Username()[:1])+sim.Username()[1:],
			fmt.Sprintf("wrong-%d", attempt))

		var refused *engine.AuthError
		check.Equal(t, "it is refused", errors.As(err, &refused), true)
		check.Equal(
			t, fmt.Sprintf("attempt %d is not sent", attempt), strings.Contains(err.Error(), waits), attempt >= 4,
		)
	}

	check.Lacks(t, "what is kept", string(memory.content), "wrong")
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	// The other tenants' session ends, and they can log in again, because their password was accepted before.
	sim.ExpireSessions()
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	// A restarted manager also recognizes this password, although it may try no other one.
	check.Error(t, login(t, sim, &engine.Sessions{Refusals: memory}, sim.Username(), sim.Password()), "")

	for attempt := range 5 {
		restarted := &engine.Sessions{Refusals: memory}
		err := login(t, sim, restarted, sim.Username(), fmt.Sprintf("wrong-again-%d", attempt))
		check.Equal(
			t, fmt.Sprintf("attempt %d is not sent", attempt), strings.Contains(err.Error(), waits), attempt >= 4,
		)
	}

	check.Error(t, login(t, sim, &engine.Sessions{Refusals: memory}, sim.Username(), sim.Password()), "")
	check.Lacks(t, "what is kept", string(memory.content), sim.Password())

	// The engine then starts a new count, and so does the manager.
	check.Error(t, login(t, sim, sessions, sim.Username(), "wrong again"), "Unable to log in")
	check.Error(t, login(t, sim, &engine.Sessions{Refusals: memory}, sim.Username(), sim.Password()), "")
}

// TestACorrectedPasswordWaitsNoLongerThanItMust has a user with too many refused passwords.
func TestACorrectedPasswordWaitsNoLongerThanItMust(t *testing.T) {
	sim := newEngine(t)
	sessions := &engine.Sessions{}

	for attempt := range 4 {
		check.Error(t, login(t, sim, sessions, sim.Username(), fmt.Sprintf("wrong-%d", attempt)), "Unable to log in")
	}

	err := login(t, sim, sessions, sim.Username(), sim.Password())
	check.Error(t, err, waits)

	var refused *engine.AuthError
	check.Equal(t, "it is refused", errors.As(err, &refused), true)
	left := time.Until(refused.RetryAt)
	check.Equal(t, "it is tried within six hours", left > 5*time.Hour && left < 6*time.Hour+time.Minute, true)
	check.Error(t, login(t, sim, sessions, "somebody@internal", "x"), "Unable to log in")
}

// TestAnEngineThatDoesNotAnswerRefusesNothing has more unanswered logins than the limit of refusals.
func TestAnEngineThatDoesNotAnswerRefusesNothing(t *testing.T) {
	sim := newEngine(t)
	sessions := &engine.Sessions{}

	check.Error(t, sim.Inject(ovirtsim.Fault{Path: "/sso/", Status: 503}), "")

	for attempt := range 8 {
		err := login(t, sim, sessions, sim.Username(), fmt.Sprintf("unsaid-%d", attempt))
		check.Equal(t, "it is not refused", err != nil && !strings.Contains(err.Error(), waits), true)
	}

	sim.ClearFaults()
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")
}

// TestRefusalsAreForgotten lets time pass, once with a store full of nonsense and once with a failing store.
func TestRefusalsAreForgotten(t *testing.T) {
	for name, store := range map[string]*kept{
		"nothing is kept":       nil,
		"what is kept is none":  {content: []byte("nonsense")},
		"nothing can be kept":   {fails: errors.New("the API server is away")},
		"somebody wrote others": {content: []byte(`{"e u":{"count":-5,"at":"2030-01-01T00:00:00Z","accepted":"x"}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refusals engine.RefusalStore
				if store != nil {
					refusals = store
				}

				l := engine.NewLoginLimiter(refusals)
				refuse := func() bool {
					_, ok := l.Reserve(t.Context(), "e u", time.Now())
					if ok {
						l.RecordRefusal(t.Context(), "e u", "wrong", time.Now())
					}

					return ok
				}

				for range 4 {
					check.Equal(t, "it may be tried", refuse(), true)
				}

				check.Equal(t, "a fifth may be tried", refuse(), false)
				time.Sleep(6*time.Hour - time.Minute)
				check.Equal(t, "a fifth may be tried a minute too early", refuse(), false)
				time.Sleep(time.Minute)
				check.Equal(t, "a fifth may be tried", refuse(), true)
				check.Equal(t, "a sixth may be tried", refuse(), false)
			})
		})
	}
}

// TestRetriesLeaveARefusalForCorrectedCredentials has credentials with repeated refusals.
func TestRetriesLeaveARefusalForCorrectedCredentials(t *testing.T) {
	sim := newEngine(t)
	sessions := &engine.Sessions{}
	wrong := engine.Config{URL: sim.URL(), Username: sim.Username(), Password: "wrong", CA: sim.CA()}
	client, err := sessions.Get(wrong)
	check.Error(t, err, "")

	present := time.Now()
	client.SetClock(func() time.Time { return present })

	for attempt, pause := range []time.Duration{0, 30 * time.Second, 2 * time.Minute, time.Hour, time.Hour} {
		present = present.Add(pause)
		err := login(t, sim, sessions, sim.Username(), "wrong")
		check.Equal(
			t, fmt.Sprintf("retry %d waits: %v", attempt, err), strings.Contains(err.Error(), waits), attempt >= 3,
		)
	}

	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")
}

// TestAcceptedCredentialsDoNotWaitForOthers has an engine temporarily refuse a correct password, for example because
// its directory server is down. Others have already used up all refusals.
func TestAcceptedCredentialsDoNotWaitForOthers(t *testing.T) {
	sim := newEngine(t)
	sessions := &engine.Sessions{}
	right := engine.Config{URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA()}
	client, err := sessions.Get(right)
	check.Error(t, err, "")

	present := time.Now()
	client.SetClock(func() time.Time { return present })
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	for attempt := range 4 {
		check.Error(t, login(t, sim, sessions, sim.Username(), fmt.Sprintf("wrong-%d", attempt)), "Unable to log in")
	}

	sim.ExpireSessions()
	present = present.Add(time.Hour) // so the list of data centers is not cached
	check.Error(t, sim.Inject(ovirtsim.Fault{
		Path: "/sso/oauth/token", Status: 400, Body: engineRefusal, MediaType: "application/json", Count: 1,
	}), "")
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "Unable to log in")

	present = present.Add(31 * time.Second)
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")
}

// TestAUserIsKnownByAllNamesOfItsEngine has the keys for counting refusals.
func TestAUserIsKnownByAllNamesOfItsEngine(t *testing.T) {
	keys := func(raw, username string) []string {
		base, err := engine.ParseBaseURL(raw)
		check.Error(t, err, "")

		return engine.UserKeys(t.Context(), base, username)
	}

	same := keys("https://127.0.0.1", "admin@internal")
	check.Equal(t, "an address has one key", len(same), 1)

	for _, other := range []string{"127.0.0.1:443", "https://127.0.0.1/ovirt-engine/api", "https://localhost"} {
		check.Equal(t, other+" is the same engine", slices.Contains(keys(other, "ADMIN@internal"), same[0]), true)
	}

	for _, other := range []string{"https://127.0.0.1:8443", "https://127.0.0.2"} {
		check.Equal(t, other+" is the same engine", slices.Contains(keys(other, "admin@internal"), same[0]), false)
	}

	name := keys("https://engine.invalid", "a")
	check.Equal(t, "keys of a name", len(name), 1)
	check.Equal(t, "keys of a name with a dot", keys("https://ENGINE.invalid.", "a"), name)

	// The owner of a name can make it resolve to any address, so only the address of the connection counts.
	base, err := engine.ParseBaseURL("https://localhost")
	check.Error(t, err, "")
	check.Equal(t, "a login at that address", slices.Contains(engine.ReachedKeys(base, "127.0.0.1:443", "admin@internal"),
		same[0]), true)
	check.Equal(t, "a login elsewhere", slices.Contains(engine.ReachedKeys(base, "127.0.0.2:443", "admin@internal"),
		same[0]), false)
	check.Equal(t, "a login through a proxy", len(engine.ReachedKeys(base, "127.0.0.1:3128", "admin@internal")), 1)
}

// TestWhatIsStoredIsNotLost has a store unreadable for a while, and more users than the limit.
func TestWhatIsStoredIsNotLost(t *testing.T) {
	store, now := &kept{}, time.Now()
	earlier := engine.NewLoginLimiter(store)
	earlier.RecordSuccess(t.Context(), "victim", "right", now)

	for range 4 {
		_, ok := earlier.Reserve(t.Context(), "victim", now)
		check.Equal(t, "it may be tried", ok, true)
		earlier.RecordRefusal(t.Context(), "victim", "wrong", now)
	}

	before := string(store.content)
	store.fails = errors.New("the API server is away")
	restarted := engine.NewLoginLimiter(store)
	_, ok := restarted.Reserve(t.Context(), "other", now)
	check.Equal(t, "another may be tried", ok, true)
	restarted.RecordRefusal(t.Context(), "other", "wrong", now)
	check.Equal(t, "what is stored", string(store.content), before)

	store.fails = nil
	_, ok = restarted.Reserve(t.Context(), "victim", now)
	check.Equal(t, "a fifth may be tried", ok, false)
	check.Equal(t, "the password is known", restarted.IsAccepted(t.Context(), "victim", "right"), true)
	check.Equal(t, "another password is known", restarted.IsAccepted(t.Context(), "victim", "guess"), false)

	for i := range engine.MaxUsers + 10 {
		_, _ = restarted.Reserve(t.Context(), fmt.Sprintf("invented-%d", i), now)
	}

	restarted.RecordRefusal(t.Context(), "last", "wrong", now)
	check.Contains(t, "what is stored", string(store.content), `"victim"`)

	var stored map[string]any
	check.Error(t, json.Unmarshal(store.content, &stored), "")
	check.Equal(t, "users that are stored", len(stored), engine.MaxUsers)

	// A password the engine no longer accepts is a guess like any other.
	restarted.RecordRefusal(t.Context(), "victim", "right", now)
	check.Equal(t, "the old password is known", restarted.IsAccepted(t.Context(), "victim", "right"), false)
	check.Equal(t, "it is known after a restart", engine.NewLoginLimiter(store).IsAccepted(t.Context(), "victim", "right"),
		false)
}
