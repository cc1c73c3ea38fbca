package engine_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// kindsOfRequests returns calls of each kind: objects, lists and actions, with each method.
func kindsOfRequests(id engine.ID) map[string]func(context.Context, *engine.Client) error {
	return map[string]func(context.Context, *engine.Client) error{
		"GET an object": func(ctx context.Context, c *engine.Client) error { _, err := c.FetchVM(ctx, id); return err },
		"GET a list":    func(ctx context.Context, c *engine.Client) error { _, err := c.ListVMs(ctx); return err },
		"GET what belongs to an object": func(ctx context.Context, c *engine.Client) error {
			_, err := c.ListDiskAttachments(ctx, id)
			return err
		},
		"GET the root": func(ctx context.Context, c *engine.Client) error { _, err := c.FetchProduct(ctx); return err },
		"POST an object": func(ctx context.Context, c *engine.Client) error {
			_, err := c.CreateVM(ctx, &engine.VM{Name: "other"}, nil)
			return err
		},
		"POST what belongs to an object": func(ctx context.Context, c *engine.Client) error {
			_, err := c.AddMediatedDevice(ctx, id, "nvidia-63")
			return err
		},
		"POST an action": func(ctx context.Context, c *engine.Client) error { return c.StopVM(ctx, id, true) },
		"PUT": func(ctx context.Context, c *engine.Client) error {
			_, err := c.UpdateVM(ctx, id, &engine.VM{Name: "renamed"})
			return err
		},
		"DELETE an object": func(ctx context.Context, c *engine.Client) error { return c.DeleteVM(ctx, id) },
		"DELETE a disk":    func(ctx context.Context, c *engine.Client) error { return c.DeleteDisk(ctx, id) },
		"DELETE what belongs to an object": func(ctx context.Context, c *engine.Client) error {
			return c.DetachDisk(ctx, id, id)
		},
		"DELETE a member": func(ctx context.Context, c *engine.Client) error {
			return c.RemoveFromAffinityGroup(ctx, id, id, id)
		},
		"DELETE a tag": func(ctx context.Context, c *engine.Client) error { return c.DeleteTag(ctx, id) },
	}
}

// foreignBodies maps media types to answers from a server in front of the engine.
var foreignBodies = map[string]string{
	"text/html":                     "<html><body>404 page not found</body></html>",
	"text/plain; charset=utf-8":     "default backend - 404",
	"application/json":              `{"message":"no Route matched with those values"}`,
	"application/xml":               "<vms/>",
	"application/xml; charset=utf8": `<action><status>complete</status></action>`,
	"application/x-empty":           "",
	"text/xml":                      `<vm id="11111111-1111-4111-8111-111111111111"><status>down</status></vm>`,
}

// TestAnAnswerThatIsNotTheEnginesDecidesNothing has a proxy answer each kind of request, as a client's first request
// and later.
func TestAnAnswerThatIsNotTheEnginesDecidesNothing(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	const id = "22222222-2222-4222-8222-222222222222"
	inventory.DataCenters[0].VMs = append(inventory.DataCenters[0].VMs, ovirtsim.VM{
		Name: "here", ID: id, Cluster: "Default", Template: "ol9-k8s",
	})
	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	client := func() *engine.Client {
		c, err := engine.New(engine.Config{
			URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
		})
		check.Error(t, err, "")

		return c
	}
	warm := client()
	_, err = warm.ListVMs(t.Context())
	check.Error(t, err, "")

	for kind, call := range kindsOfRequests(id) {
		for _, status := range []int{200, 201, 202, 301, 307, 404, 409, 502, 503} {
			for media, body := range foreignBodies {
				what := fmt.Sprintf("%s, %d, %s", kind, status, media)
				check.Error(t, sim.Inject(ovirtsim.Fault{
					Path: "^/api", Status: status, Body: body, MediaType: media,
				}), "")
				cold := client()

				for state, c := range map[string]*engine.Client{"first": cold, "later": warm} {
					err := call(t.Context(), c)
					var away *engine.UnreachableError
					refused := state == "first" && status > 404 && err != nil && !engine.IsNotFound(err)
					root := state == "first" && kind == "GET the root" && err != nil // it proves nothing

					if !errors.As(err, &away) && !refused && !root {
						t.Errorf("%s, %s: it counted: %v", what, state, err)
					}
				}

				sim.ClearFaults()
			}
		}
	}

	check.Length(t, "VMs", sim.ListVMs(), 1)

	for kind, call := range kindsOfRequests("33333333-3333-4333-8333-333333333333") {
		var away *engine.UnreachableError
		if err := call(t.Context(), warm); errors.As(err, &away) {
			t.Errorf("%s: an answer of the engine did not count: %v", kind, err)
		}
	}
}

// TestOneForeignAnswerAmongTheEnginesDecidesNothing has a load balancer send one request of a client to another server,
// even the first one.
func TestOneForeignAnswerAmongTheEnginesDecidesNothing(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	bodies := map[int]string{200: "<action><status>complete</status></action>", 404: "<fault/>"}

	for kind, call := range kindsOfRequests("33333333-3333-4333-8333-333333333333") {
		if kind == "GET the root" {
			continue // it proves nothing
		}

		for status := range bodies {
			check.Error(t, sim.Inject(ovirtsim.Fault{
				Path: "^/api", Status: status, Body: bodies[status], MediaType: "application/xml", Count: 1,
			}), "")
			c, err := engine.New(engine.Config{
				URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
			})
			check.Error(t, err, "")
			err = call(t.Context(), c)
			var away *engine.UnreachableError

			if !errors.As(err, &away) {
				t.Errorf("%s, %d: %v", kind, status, err)
			}

			sim.ClearFaults()
		}
	}
}

// TestAProxyMayTakeTheNamesOfRequestsAway has a proxy that drops the header. A 404 counts if the engine answers.
func TestAProxyMayTakeTheNamesOfRequestsAway(t *testing.T) {
	c, sim := proxied(t, func(r *http.Response) error {
		r.Header.Del("Correlation-Id")
		return nil
	})
	direct, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")
	product, err := direct.FetchProduct(t.Context())
	check.Error(t, err, "")

	got, err := c.FetchProduct(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "the engine", got, product)
	_, err = c.FetchVM(t.Context(), "33333333-3333-4333-8333-333333333333")
	check.Equal(t, "a VM is missing", engine.IsNotFound(err), true)
	check.Equal(t, "a deletion of what is missing", engine.IsNotFound(
		c.DeleteVM(t.Context(), "33333333-3333-4333-8333-333333333333")), true)
}

// TestAProxyThatIsPutBeforeARunningEngineIsNoStranger has a proxy begin to remove the names. The client accepts it as
// long as the engine reports its identity, and refuses a different engine.
func TestAProxyThatIsPutBeforeARunningEngineIsNoStranger(t *testing.T) {
	var takes, lies atomic.Bool

	c, _ := proxied(t, func(r *http.Response) error {
		if takes.Load() {
			r.Header.Del("Correlation-Id")
		}

		if lies.Load() { // like another engine, without the ID
			r.StatusCode, r.Body, r.ContentLength = http.StatusNotFound, http.NoBody, 0
		}

		return nil
	})
	_, err := c.LoadIdentity(t.Context())
	check.Error(t, err, "")

	takes.Store(true)
	_, err = c.FetchVM(t.Context(), "33333333-3333-4333-8333-333333333333")
	check.Equal(t, "a VM is missing", engine.IsNotFound(err), true)

	lies.Store(true)
	_, err = c.FetchVM(t.Context(), "33333333-3333-4333-8333-333333333333")
	check.Equal(t, "a stranger's word that a VM is missing", engine.IsNotFound(err), false)
}

// proxied returns a client of a simulated engine behind a proxy, and the simulator. answer changes the proxy's answers.
func proxied(t *testing.T, answer func(*http.Response) error) (*engine.Client, *ovirtsim.Server) {
	t.Helper()

	sim, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	target, err := url.Parse(sim.URL())
	check.Error(t, err, "")

	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		},
		ModifyResponse: answer,
		Transport:      trusting(sim.CA()),
	})
	t.Cleanup(proxy.Close)

	c, err := engine.New(engine.Config{
		URL: proxy.URL + target.Path, Username: sim.Username(), Password: sim.Password(), Insecure: true,
	})
	check.Error(t, err, "")

	return c, sim
}

// trusting returns a transport that trusts a CA.
func trusting(ca []byte) *http.Transport {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)

	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
}

// TestNothingIsChangedBySomebodyWhoMayNotAct checks that the client calls MayAct before each kind of changing request,
// and before no other.
func TestNothingIsChangedBySomebodyWhoMayNotAct(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	const id = "22222222-2222-4222-8222-222222222222"
	inventory.DataCenters[0].VMs = append(inventory.DataCenters[0].VMs, ovirtsim.VM{
		Name: "here", ID: id, Cluster: "Default", Template: "ol9-k8s",
	})
	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	sessions := &engine.Sessions{MayAct: func(context.Context) error { return engine.ErrSuperseded }}
	c, err := sessions.Get(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	for kind, call := range kindsOfRequests(id) {
		err := call(t.Context(), c)
		check.Equal(t, kind+" is refused", errors.Is(err, engine.ErrSuperseded), !strings.HasPrefix(kind, "GET"))
	}

	check.Equal(
		t,
		"requests that change something",
		slices.ContainsFunc(sim.ListRequests(), func(r ovirtsim.Request) bool {
			return r.Method != http.MethodGet && strings.HasPrefix(r.Path, "/api")
		}),
		false,
	)
}
