package engine_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

func start(t *testing.T, options ovirtsim.Options) (*ovirtsim.Server, engine.Config) {
	t.Helper()
	sim, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)

	return sim, engine.Config{URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA()}
}

func client(t *testing.T, config engine.Config) *engine.Client {
	t.Helper()
	c, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}

	return c
}

// home returns the data center and the cluster of the default inventory.
func home(t *testing.T, c *engine.Client) (*engine.DataCenter, *engine.Cluster) {
	t.Helper()
	dc, err := c.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := c.FindCluster(t.Context(), dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	return dc, cluster
}

func TestOneLoginServesAllAndIsRenewedWhenItExpires(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	c := client(t, config)

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := c.ListVMs(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	if sim.CountLogins() != 1 {
		t.Errorf("%d logins for 20 requests at once", sim.CountLogins())
	}

	sim.ExpireSessions()
	if _, err := c.ListVMs(t.Context()); err != nil || sim.CountLogins() != 2 {
		t.Errorf("after the session expired: %v, %d logins", err, sim.CountLogins())
	}

	if err := c.Logout(t.Context()); err != nil || sim.Summarize().Sessions != 0 {
		t.Errorf("after logout: %v, %+v", err, sim.Summarize())
	}
}

func TestSessionsAreSharedByEngineAndCredentials(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	var sessions engine.Sessions
	first, err := sessions.Get(config)
	if err != nil {
		t.Fatal(err)
	}

	same := config
	same.URL += "/api/"
	if again, err := sessions.Get(same); err != nil || again != first {
		t.Errorf("the URL with /api/ made another session: %v", err)
	}

	other := config
	other.Password = "other"
	if again, err := sessions.Get(other); err != nil || again == first {
		t.Errorf("another password shares the session: %v", err)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	sim, good := start(t, ovirtsim.Options{})
	with := func(change func(*engine.Config)) engine.Config {
		config := good
		change(&config)
		return config
	}
	var (
		auth        *engine.AuthError
		tls         *engine.TLSError
		unreachable *engine.UnreachableError
	)

	tests := map[string]struct {
		config engine.Config
		want   any
	}{
		"a wrong password": {with(func(c *engine.Config) { c.Password = "wrong" }), &auth},
		"an unknown CA":    {with(func(c *engine.Config) { c.CA = nil }), &tls},
		"nobody listens": {with(func(c *engine.Config) {
			c.URL = "https://127.0.0.1:1/ovirt-engine" // the system never assigns this port
		}), &unreachable},
		"a URL that is not its path": {with(func(c *engine.Config) {
			c.URL = strings.Replace(c.URL, "/ovirt-engine", "/engine", 1)
		}), &unreachable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, test.config).FetchProduct(t.Context())
			if err == nil || !errors.As(err, test.want) {
				t.Fatalf("got %v, want %T", err, test.want)
			}

			again := ""
			if _, err2 := client(t, test.config).FetchProduct(t.Context()); err2 != nil {
				again = err2.Error()
			}

			if again != err.Error() {
				t.Errorf("the message differs with every try:\n%s\n%s", err, again)
			}
		})
	}

	t.Run("a web page from before the engine is no answer of it", func(t *testing.T) {
		c := client(t, good)
		if _, err := c.FetchProduct(t.Context()); err != nil {
			t.Fatal(err)
		}

		if err := sim.Inject(ovirtsim.Fault{Path: "^/api", Status: 404}); err != nil {
			t.Fatal(err)
		}

		defer sim.ClearFaults()
		_, err := c.FetchVM(t.Context(), "11111111-1111-4111-8111-111111111111")
		if engine.IsNotFound(err) || !errors.As(err, &unreachable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a VM that does not exist", func(t *testing.T) {
		if _, err := client(
			t, good,
		).FetchVM(t.Context(), "11111111-1111-4111-8111-111111111111"); !engine.IsNotFound(
			err,
		) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRefusedCredentialsAreNotTriedAgainAtOnce(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	config.Password = "wrong"
	c := client(t, config)
	begin := time.Now()
	c.HoldTime()

	for range 5 {
		var auth *engine.AuthError
		if _, err := c.FetchProduct(
			t.Context(),
		); !errors.As(err, &auth) ||
			auth.RetryAt.Before(begin.Add(30*time.Second)) {
			t.Fatalf("got %v", err)
		}
	}

	if tried := len(sim.ListRequests()); tried != 1 {
		t.Errorf("%d requests", tried)
	}
}

// TestAUserWhoMayNotLogInIsNotTriedAgainAtOnce has an API that refuses each token: B1. The client logs in once more,
// and then gives up for a while.
func TestAUserWhoMayNotLogInIsNotTriedAgainAtOnce(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	if err := sim.Inject(ovirtsim.Fault{Path: "^/api", Action: "expire-token"}); err != nil {
		t.Fatal(err)
	}

	c := client(t, config)
	c.HoldTime()

	for range 3 {
		var auth *engine.AuthError
		_, err := c.FetchProduct(t.Context())
		if !errors.As(err, &auth) || !strings.Contains(err.Error(), "needs a role that may log in") {
			t.Fatalf("got %v", err)
		}
	}

	if logins := sim.CountLogins(); logins != 2 {
		t.Errorf("%d logins", logins)
	}
}

func TestWaitersGiveUpWithTheirContext(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	config.Timeout = wait.Limit
	if err := sim.Inject(ovirtsim.Fault{Path: "/sso/", Action: "hold"}); err != nil {
		t.Fatal(err)
	}

	c := client(t, config)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.FetchProduct(t.Context())
		first <- err
	}()
	wait.Until(t, "the first one logs in", func() bool { return sim.CountHits() == 1 })

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // it gives up even if it begins to wait late
	defer cancel()
	go func() {
		_, err := c.FetchProduct(ctx)
		second <- err
	}()
	check.Error(t, wait.Receive(t, "the second one gives up", second), context.DeadlineExceeded.Error())
	check.Equal(t, "logins under way", sim.CountHits(), 1)

	sim.ClearFaults()
	check.Error(t, wait.Receive(t, "the first one has logged in", first), "")
}

func TestNamesThatDoNotExistListThoseThatDo(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	c := client(t, config)
	c.HoldTime()
	ctx := t.Context()
	dc, err := c.FindDataCenter(ctx, "Default")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := c.FindTemplate(ctx, dc, "ock-1.36"); err != nil {
		t.Error(err)
	}

	before := len(sim.ListRequests())
	var unknown *engine.NameError

	for range 5 {
		_, err := c.FindTemplate(ctx, dc, "ock-1.37")
		if !errors.As(err, &unknown) || !slices.Equal(unknown.Known, []string{"Blank", "ock-1.36", "ol9-k8s"}) {
			t.Fatalf("got %v", err)
		}
	}

	if more := len(sim.ListRequests()) - before; more > 1 {
		t.Errorf("%d requests for five look-ups of a name that does not exist", more)
	}
}

func TestBaseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://engine/ovirt-engine":      "https://engine/ovirt-engine",
		"https://engine/ovirt-engine/api/": "https://engine/ovirt-engine",
		"engine.example.com":               "https://engine.example.com/ovirt-engine",
	} {
		if got, err := engine.ParseBaseURL(raw); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v", raw, got, err)
		}
	}

	for _, raw := range []string{"http://engine/ovirt-engine", "https://", "ftp://engine", "https://[::1"} {
		if got, err := engine.ParseBaseURL(raw); err == nil {
			t.Errorf("%s was read as %s", raw, got)
		}
	}
}

func TestARequestThatHangsTimesOut(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	config.Timeout = 300 * time.Millisecond
	c := client(t, config)
	wait.For(t, "a login is answered in time", func() error {
		_, err := c.FetchProduct(t.Context())
		return err
	})

	if err := sim.Inject(ovirtsim.Fault{Path: "/vms", Action: "hang"}); err != nil {
		t.Fatal(err)
	}

	got := make(chan error, 1)
	go func() {
		_, err := c.ListVMs(t.Context())
		got <- err
	}()
	var unreachable *engine.UnreachableError
	if err := wait.Receive(t, "the client gives up", got); !errors.As(err, &unreachable) {
		t.Errorf("got %v", err)
	}
}

// TestAnEngineThatRepeatsSecrets has an engine write the password and the token of the session into its faults, in
// several forms.
func TestAnEngineThatRepeatsSecrets(t *testing.T) {
	var password string
	sim, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/datacenters") {
				next.ServeHTTP(w, r)
				return
			}

			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, "<fault><reason>%s</reason><detail>[%s %s]</detail></fault>",
				base64.StdEncoding.EncodeToString([]byte("u:"+password)), token, url.QueryEscape(password))
		})
	}})
	password = sim.Password()
	_, err := client(t, config).ListDataCenters(t.Context())
	if err == nil || !strings.Contains(err.Error(), "(redacted)") {
		t.Fatalf("got %v", err)
	}

	if strings.Contains(err.Error(), password) ||
		strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte("u:" + password))[:20]) {
		t.Errorf("the password is in %v", err)
	}
}

// TestASessionThatIsLetGo ends a session for later callers, but not yet for its current holder.
func TestASessionThatIsLetGo(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	sessions := &engine.Sessions{}
	first, err := sessions.Get(config)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := first.FetchProduct(t.Context()); err != nil || !sessions.HasClient(first) {
		t.Fatalf("there is no session: %v", err)
	}

	sessions.Drop(first)
	if _, err := first.FetchProduct(t.Context()); err != nil || sessions.HasClient(first) {
		t.Errorf("a run that is under way: %v", err)
	}

	if second, err := sessions.Get(config); err != nil || second == first {
		t.Errorf("who comes later gets the same: %v", err)
	}

	sessions.Close(t.Context())
}

// TestAGarbledIDHidesNoVM has one tenant's invalid provider ID among valid ones of others.
func TestAGarbledIDHidesNoVM(t *testing.T) {
	sim := newEngine(t)
	client, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")
	dc, err := client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	cluster, err := client.FindCluster(t.Context(), dc, "Default")
	check.Error(t, err, "")
	vm, err := client.CreateVM(t.Context(), &engine.VM{
		Name: "vm", Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(engine.BlankTemplateID),
	}, nil)
	check.Error(t, err, "")

	for _, garbled := range []engine.ID{"", "x", "x or name=*", `") or (`, "../../tags", vm.ID + " and name=none", "id=" + vm.ID} {
		found, err := client.ListVMsByID(t.Context(), []engine.ID{garbled, vm.ID, garbled})
		check.Error(t, err, "")
		check.Length(t, "VMs beside "+string(garbled), found, 1)

		found, err = client.ListVMsByID(t.Context(), []engine.ID{garbled})
		check.Error(t, err, "")
		check.Length(t, "VMs of "+string(garbled), found, 0)
	}
}
