package ovirtsim_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// answer is a response whose body is already read.
type answer struct {
	StatusCode int
	Header     http.Header
	Cookies    []*http.Cookie
}

// ask sends a request with headers, but without raw's token.
func (r *raw) ask(method, path string, header map[string]string) (answer, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.sim.URL()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}

	for name, value := range header {
		request.Header.Set(name, value)
	}

	if user, password, ok := strings.Cut(header["Basic"], ":"); ok {
		request.Header.Del("Basic")
		request.SetBasicAuth(user, password)
	}

	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}

	return answer{response.StatusCode, response.Header, response.Cookies()}, string(content)
}

func TestWithoutALoginTheWaysToLogInAreNamed(t *testing.T) {
	r := newRaw(t)
	response, _ := r.ask("GET", "/api", nil)
	ways := strings.Join(response.Header.Values("WWW-Authenticate"), " ")
	if response.StatusCode != 401 || ways != `Basic realm="RESTAPI"` {
		t.Errorf("got %d and the ways %s", response.StatusCode, ways)
	}
}

func TestAPasswordInEveryRequestMakesNoSession(t *testing.T) {
	r := newRaw(t)
	response, _ := r.ask("GET", "/api/vms", map[string]string{"Basic": r.sim.Username() + ":" + r.sim.Password()})
	if response.StatusCode != 200 || len(response.Cookies) > 0 {
		t.Errorf("got %d with cookies %v", response.StatusCode, response.Cookies)
	}
}

func TestACookieLivesAsLongAsTheClientPrefersIt(t *testing.T) {
	r := newRaw(t)
	response, _ := r.ask("GET", "/api", map[string]string{
		"Basic":  r.sim.Username() + ":" + r.sim.Password(),
		"Prefer": "persistent-auth, csrf-protection",
	})
	if response.StatusCode != 200 || len(response.Cookies) != 1 {
		t.Fatalf("got %d with cookies %v", response.StatusCode, response.Cookies)
	}

	cookie := response.Cookies[0]
	check.Equal(t, "cookie.Name", cookie.Name, "JSESSIONID")
	check.Set(t, "cookie.Value", cookie.Value)

	check.Equal(t, "cookie.HttpOnly", cookie.HttpOnly, true)

	for _, step := range []struct {
		prefer string
		status int
	}{{"persistent-auth", 200}, {"persistent-auth", 200}, {"", 401}, {"persistent-auth", 401}} {
		// The third request logs out.
		response, _ := r.ask("GET", "/api/vms", map[string]string{
			"Cookie": "JSESSIONID=" + cookie.Value,
			"Prefer": step.prefer,
		})
		if response.StatusCode != step.status {
			t.Errorf("with %q: %d, not %d", step.prefer, response.StatusCode, step.status)
		}
	}
}

func TestWrongPasswordsLockAUserHoweverTheyCome(t *testing.T) {
	r := newRaw(t)
	for range 5 {
		response, _ := r.ask("GET", "/api", map[string]string{"Basic": r.sim.Username() + ":wrong"})
		if response.StatusCode != 401 {
			t.Fatalf("a wrong password: %d", response.StatusCode)
		}
	}

	response, _ := r.ask("GET", "/api", map[string]string{"Basic": r.sim.Username() + ":" + r.sim.Password()})
	if response.StatusCode != 401 {
		t.Errorf("a locked user: %d", response.StatusCode)
	}

	_, body := r.askToken(r.sim.Username(), r.sim.Password())
	if !strings.Contains(body, "user account is disabled or locked") {
		t.Errorf("a locked user hears %s", body)
	}
}

// TestAnEngineWithKeycloakTakesTokensAlone uses the profile of Keycloak users. No recording confirms the responses of
// such an engine.
func TestAnEngineWithKeycloakTakesTokensAlone(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{Keycloak: true})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)
	check.Equal(t, "the administrator", sim.Username(), "admin@ovirt@internalsso")

	for _, name := range []string{"admin@ovirt", "admin@internal", "admin", "admin@ovirt@internal"} {
		_, err := loggedIn(t, sim, name)
		check.Error(t, err, "No valid profile found in credentials")
	}

	vms, err := loggedIn(t, sim, sim.Username())
	check.Error(t, err, "")
	check.Equal(t, "VMs", len(vms), 0)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sim.URL()+"/api", nil)
	check.Error(t, err, "")
	request.SetBasicAuth(sim.Username(), sim.Password())

	response, err := (&http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // of a test
	}}).Do(request)
	check.Error(t, err, "")
	defer response.Body.Close()
	check.Equal(t, "status of HTTP Basic", response.StatusCode, http.StatusUnauthorized)
	check.Contains(t, "its page", response.Header.Get("Content-Type"), "text/html")
}

// loggedIn logs in as a user and lists the VMs.
func loggedIn(t *testing.T, sim *ovirtsim.Server, name string) ([]engine.VM, error) {
	t.Helper()

	c, err := engine.New(engine.Config{URL: sim.URL(), Username: name, Password: sim.Password(), CA: sim.CA()})
	check.Error(t, err, "")

	return c.ListVMs(t.Context())
}
