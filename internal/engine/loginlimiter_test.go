package engine_test

import (
	"context"
	"errors"
	"fmt"
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

	_, err = client.DataCenters(t.Context())

	return err
}

func newEngine(t *testing.T) *ovirtsim.Server {
	t.Helper()
	sim, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	return sim
}

// kept is where refused passwords are kept in mind.
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

// TestAUserIsNotLockedByOthersPasswords has tenants with wrong passwords of a user that others have as well. The engine
// locks a user after five.
func TestAUserIsNotLockedByOthersPasswords(t *testing.T) {
	sim := newEngine(t)
	memory := &kept{}
	sessions := &engine.Sessions{Refusals: memory}
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	// A manager that was restarted knows no password, and what was refused before.
	for attempt := range 8 {
		restarted := &engine.Sessions{Refusals: memory}
		err := login(t, sim, restarted, strings.ToUpper(sim.Username()[:1])+sim.Username()[1:],
			fmt.Sprintf("wrong-%d", attempt))

		var refused *engine.AuthError
		check.Equal(t, "it is refused", errors.As(err, &refused), true)
		check.Equal(t, fmt.Sprintf("attempt %d is not sent", attempt), strings.Contains(err.Error(), waits), attempt >= 4)
	}

	check.Lacks(t, "what is kept", string(memory.content), "wrong")
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	// The session of the others ends, and they log in again: their password was accepted before.
	sim.ExpireSessions()
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	// The engine counts anew then, and so does the manager.
	check.Error(t, login(t, sim, sessions, sim.Username(), "wrong again"), "Unable to log in")
	check.Error(t, login(t, sim, &engine.Sessions{Refusals: memory}, sim.Username(), sim.Password()), "")
}

// TestACorrectedPasswordWaitsNoLongerThanItMust has a user whose passwords were refused too often.
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

// TestAnEngineThatDoesNotAnswerRefusesNothing has more logins without an answer than may be refused.
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

// TestRefusalsAreForgotten has the time pass, with a store that holds nonsense and one that fails.
func TestRefusalsAreForgotten(t *testing.T) {
	for name, store := range map[string]*kept{
		"nothing is kept":       nil,
		"what is kept is none":  {content: []byte("nonsense")},
		"nothing can be kept":   {fails: errors.New("the API server is away")},
		"somebody wrote others": {content: []byte(`{"e u":{"count":-5,"at":"2030-01-01T00:00:00Z"}}`)},
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
						l.RecordRefusal(t.Context(), "e u", time.Now())
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
