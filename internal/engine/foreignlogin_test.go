package engine_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// foreignRefusals are the refusals of proxies, portals and gateways with a login of their own, by the name of the
// sample. None is a recording.
var foreignRefusals = map[string]struct{ media, body string }{
	"a page":                {"text/html", "<html><body>Sign in to continue</body></html>"},
	"text":                  {"text/plain; charset=utf-8", "Unauthorized"},
	"an API gateway's JSON": {"application/json", `{"message":"Unauthorized"}`},
	"JSON of OAuth without a code": {
		"application/json; charset=utf-8", `{"error":"access_denied","error_description":"x"}`,
	},
	"JSON with an object":  {"application/json", `{"error":{"code":401,"status":"UNAUTHENTICATED"}}`},
	"a code without words": {"application/json", `{"error_code":"access_denied"}`},
	"another code":         {"application/json", `{"error_code":"login_required","error":"Sign in"}`},
	"a list":               {"application/json", `[]`},
	"JSON that breaks off": {"application/json", `{"error_code":"access_denied","error":"Cann`},
	"a refusal in a page":  {"text/html", `{"error_code":"access_denied","error":"Sign in"}`},
	"a problem document":   {"application/problem+json", `{"title":"Forbidden","status":403}`},
	"XML":                  {"application/xml", "<fault><detail>access_denied</detail></fault>"},
	"nothing":              {"application/json", ""},
}

// sampleOfForeign has the samples for the fast tier.
var sampleOfForeign = map[string]bool{
	"200, a page": true, "302, a page": true, "400, a refusal in a page": true, "401, a page": true,
	"401, JSON of OAuth without a code": true, "403, an API gateway's JSON": true, "403, a code without words": true,
	"503, a page": true,
}

// engineRefusal is an engine's recorded refusal of a password.
const engineRefusal = `{"error_code":"access_denied","error":"Cannot authenticate user 'admin@internal': Unable to log ` +
	`in. Verify your login information or contact the system administrator.."}`

// TestALoginThatSomethingElseRefusesIsNoRefusal has a proxy or a portal answer the login: at the first login of a
// client, and after a session has ended. This does not count as a refusal of the user. The login succeeds once the
// portal is gone.
func TestALoginThatSomethingElseRefusesIsNoRefusal(t *testing.T) {
	sim := newEngine(t)

	for _, status := range []int{200, 201, 301, 302, 307, 400, 401, 403, 404, 407, 429, 500, 502, 503, 511} {
		for sample, answer := range foreignRefusals {
			if testing.Short() && !sampleOfForeign[fmt.Sprintf("%d, %s", status, sample)] {
				continue
			}

			for _, accepted := range []bool{false, true} {
				what := fmt.Sprintf("%d, %s, accepted before: %t", status, sample, accepted)
				present := time.Now()
				client, err := engine.New(engine.Config{
					URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
				})
				check.Error(t, err, "")
				client.SetClock(func() time.Time { return present })

				if accepted {
					_, err = client.ListVMs(t.Context())
					check.Error(t, err, "")
					sim.ExpireSessions()
				}

				check.Error(t, sim.Inject(ovirtsim.Fault{
					Path: "^/sso/oauth/token", Status: status, Body: answer.body, MediaType: answer.media,
				}), "")
				present = present.Add(time.Hour) // so the client reads its lists again
				_, err = client.ListVMs(t.Context())
				expectForeign(t, what, err)
				sim.ClearFaults()

				present = present.Add(time.Minute)
				_, err = client.ListVMs(t.Context())
				check.Error(t, err, "")
			}
		}
	}
}

func expectForeign(t *testing.T, what string, err error) {
	t.Helper()

	var (
		away    *engine.UnreachableError
		refused *engine.AuthError
	)

	if !errors.As(err, &away) || errors.As(err, &refused) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestARefusalOfTheEngineIsOneWhateverTheStatus has the engine's own message, with the recorded status and with
// statuses a proxy may change it to. The client must not lock the user.
func TestARefusalOfTheEngineIsOneWhateverTheStatus(t *testing.T) {
	sim := newEngine(t)

	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		check.Error(t, sim.Inject(ovirtsim.Fault{
			Path: "^/sso/oauth/token", Status: status, Body: engineRefusal, MediaType: "application/json",
		}), "")

		err := login(t, sim, &engine.Sessions{}, sim.Username(), sim.Password())

		var refused *engine.AuthError
		check.Equal(t, fmt.Sprintf("%d is a refusal", status), errors.As(err, &refused), true)
		sim.ClearFaults()
	}
}

// TestAForeignRefusalForgetsNoPassword has a portal refuse credentials that the engine has accepted before. These
// credentials do not wait because of other wrong passwords of the user.
func TestAForeignRefusalForgetsNoPassword(t *testing.T) {
	sim := newEngine(t)
	sessions := &engine.Sessions{}
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")

	for attempt := range 4 {
		check.Error(t, login(t, sim, sessions, sim.Username(), fmt.Sprintf("wrong-%d", attempt)), "Unable to log in")
	}

	client, err := sessions.Get(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	present := time.Now().Add(time.Hour)
	client.SetClock(func() time.Time { return present })
	sim.ExpireSessions()
	check.Error(t, sim.Inject(ovirtsim.Fault{Path: "^/sso/oauth/token", Status: 401, Count: 1}), "")
	expectForeign(t, "a portal", login(t, sim, sessions, sim.Username(), sim.Password()))

	present = present.Add(2 * time.Second)
	check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")
}

// TestARefusalBehindAPageLocksNobody has a proxy that replaces the engine's refusals with its own page. The engine may
// have accepted the same credentials before. No recording has such a proxy.
func TestARefusalBehindAPageLocksNobody(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		sim := newEngine(t)
		password := "wrong"
		if accepted {
			password = sim.Password()
		}

		client, err := engine.New(engine.Config{
			URL: sim.URL(), Username: sim.Username(), Password: password, CA: sim.CA(),
		})
		check.Error(t, err, "")

		present := time.Now()
		client.SetClock(func() time.Time { return present })

		if accepted {
			_, err = client.ListVMs(t.Context())
			check.Error(t, err, "")
			sim.ExpireSessions()

			present = present.Add(time.Hour) // so the client reads its lists again
		}

		check.Error(t, sim.Inject(ovirtsim.Fault{
			Path: "^/sso/oauth/token", Status: 400, Body: "<html>Bad Request</html>", MediaType: "text/html",
		}), "")

		before := logins(sim)

		for range 60 { // a minute of reconciles
			_, err := client.ListVMs(t.Context())
			expectForeign(t, "a page", err)

			present = present.Add(time.Second)
		}

		check.Equal(t, fmt.Sprintf("logins, accepted before: %t", accepted), logins(sim)-before, 2)
	}
}

// logins returns the number of logins at an engine.
func logins(sim *ovirtsim.Server) int { return requestsTo(sim, "/sso/oauth/token") }

// requestsTo counts the requests to paths with a prefix.
func requestsTo(sim *ovirtsim.Server, prefix string) (count int) {
	for _, request := range sim.ListRequests() {
		if strings.HasPrefix(request.Path, prefix) {
			count++
		}
	}

	return count
}

// TestAPortalBeforeTheAPILeavesNoSessions has a portal answer each request to the API with 401 for a minute. The client
// keeps its session although it cannot use it, and pauses.
func TestAPortalBeforeTheAPILeavesNoSessions(t *testing.T) {
	sim := newEngine(t)
	client, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	present := time.Now()
	client.SetClock(func() time.Time { return present })
	check.Error(t, sim.Inject(ovirtsim.Fault{
		Path: "^/api", Status: 401, Body: "<html>Sign in</html>", MediaType: "text/html",
	}), "")

	for range 60 {
		_, err := client.ListVMs(t.Context())
		expectForeign(t, "a portal", err)

		present = present.Add(time.Second)
	}

	check.Equal(t, "logins", logins(sim), 3)
	check.Equal(t, "sessions that ended", requestsTo(sim, "/services/sso-logout"), 2)
	sim.ClearFaults()

	_, err = client.ListVMs(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "logins once the portal is gone", logins(sim), 3)
}

// TestA401OfAPortalIsNoRefusalOfTheUser has a portal answer requests to the API with 401 after the login. In
// recordings, each 401 of an engine names its realm.
func TestA401OfAPortalIsNoRefusalOfTheUser(t *testing.T) {
	sim := newEngine(t)

	for sample, answer := range foreignRefusals {
		check.Error(t, sim.Inject(ovirtsim.Fault{
			Path: "^/api", Status: 401, Body: answer.body, MediaType: answer.media,
		}), "")

		sessions := &engine.Sessions{}
		expectForeign(t, sample, login(t, sim, sessions, sim.Username(), sim.Password()))
		sim.ClearFaults()
		check.Error(t, login(t, sim, sessions, sim.Username(), sim.Password()), "")
	}
}

// TestARefusalThatIsNotXMLIsNotTheEngines has a gateway refuse the first requests of a client.
func TestARefusalThatIsNotXMLIsNotTheEngines(t *testing.T) {
	sim := newEngine(t)

	statuses := []int{400, 403, 405, 409, 429, 500, 502}
	if testing.Short() {
		statuses = []int{403, 409}
	}

	for _, status := range statuses {
		for _, sample := range []string{"a page", "text", "an API gateway's JSON", "a problem document", "nothing"} {
			if status == 500 && sample == "a page" {
				continue // an engine also reports an error of its own like this
			}

			answer := foreignRefusals[sample]
			check.Error(t, sim.Inject(ovirtsim.Fault{
				Path: "^/api", Status: status, Body: answer.body, MediaType: answer.media,
			}), "")
			expectForeign(t, fmt.Sprintf("%d, %s", status, sample),
				login(t, sim, &engine.Sessions{}, sim.Username(), sim.Password()))
			sim.ClearFaults()
		}
	}
}
