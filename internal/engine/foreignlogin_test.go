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

// foreignRefusals are what proxies, portals and gateways say who want a login of their own, by the name of the sample.
// None is a recording.
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

// sampleOfForeign are those of the fast tier.
var sampleOfForeign = map[string]bool{
	"200, a page": true, "302, a page": true, "400, a refusal in a page": true, "401, a page": true,
	"401, JSON of OAuth without a code": true, "403, an API gateway's JSON": true, "403, a code without words": true,
	"503, a page": true,
}

// engineRefusal is how an engine refuses a password, as was recorded.
const engineRefusal = `{"error_code":"access_denied","error":"Cannot authenticate user 'admin@internal': Unable to log ` +
	`in. Verify your login information or contact the system administrator.."}`

// TestALoginThatSomethingElseRefusesIsNoRefusal has a proxy or a portal answer the login, at the first one of a client
// and after a session has ended. The user is not refused, and the login succeeds once the portal is gone.
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
				present = present.Add(time.Hour) // no list is remembered
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

// TestARefusalOfTheEngineIsOneWhateverTheStatus has the engine's own words, with the recorded status and with those
// that a proxy may make of it: a user must not be locked.
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

// TestAForeignRefusalForgetsNoPassword has a portal refuse credentials that the engine has accepted before: other wrong
// passwords of the user do not make them wait.
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

// TestARefusalBehindAPageLocksNobody has a proxy that puts a page of its own in the place of the engine's refusals. The
// engine may have accepted the same credentials before. No recording has one.
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

			present = present.Add(time.Hour) // no list is remembered
		}

		check.Error(t, sim.Inject(ovirtsim.Fault{
			Path: "^/sso/oauth/token", Status: 400, Body: "<html>Bad Request</html>", MediaType: "text/html",
		}), "")

		before := logins(sim)

		for range 60 { // a minute of passes
			_, err := client.ListVMs(t.Context())
			expectForeign(t, "a page", err)

			present = present.Add(time.Second)
		}

		check.Equal(t, fmt.Sprintf("logins, accepted before: %t", accepted), logins(sim)-before, 2)
	}
}

// logins counts the logins that an engine has had.
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
// keeps the session that it cannot use, and pauses.
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

// TestA401OfAPortalIsNoRefusalOfTheUser has a portal answer the API after the login, with 401. An engine asks for its
// realm with each of its own, as was recorded.
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
				continue // so an engine reports an error of its own
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
