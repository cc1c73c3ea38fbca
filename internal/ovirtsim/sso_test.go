package ovirtsim_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// answer is a response whose body has been read.
type answer struct {
	StatusCode int
	Header     http.Header
	Cookies    []*http.Cookie
}

// ask makes a request with headers and without the token of raw.
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
		// the third one logs out
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
