package engine_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestACancelledRequestSaysNothingOfTheEngine cancels a request at each place where a client waits for an engine.
func TestACancelledRequestSaysNothingOfTheEngine(t *testing.T) {
	stopped := errors.New("the process ends")
	vms := func(ctx context.Context, c *engine.Client) error {
		_, err := c.ListVMs(ctx)
		return err
	}

	for name, at := range map[string]struct {
		// holds is the end of the path without an answer. If begun is set, the headers and a part of the answer arrive.
		holds string
		begun bool
		call  func(ctx context.Context, c *engine.Client) error
	}{
		"during the login": {holds: "/sso/oauth/token", call: vms},
		"during a request": {holds: "/vms", call: vms},
		"within an answer": {holds: "/vms", begun: true, call: vms},
		"while it asks whether a 404 is the engine's": {holds: "/api", call: func(ctx context.Context, c *engine.Client) error {
			_, err := c.FetchVM(ctx, "11111111-1111-1111-1111-111111111111")
			return err
		}},
		"at the end of an upload": {holds: "/finalize", call: func(ctx context.Context, c *engine.Client) error {
			return c.FinalizeTransfer(ctx, "11111111-1111-1111-1111-111111111111")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			reached := make(chan struct{}, 1)
			_, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, at.holds) {
						next.ServeHTTP(w, r)
						return
					}

					if at.begun {
						w.Header().Set("Content-Type", "application/xml")
						_, _ = w.Write([]byte("<vms><vm>"))
						_ = http.NewResponseController(w).Flush()
					}

					reached <- struct{}{}
					<-r.Context().Done()
				})
			}})
			ctx, cancel := context.WithCancelCause(t.Context())

			got := make(chan error, 1)
			go func() { got <- at.call(ctx, client(t, config)) }()
			wait.Receive(t, "the request", reached)
			cancel(stopped)

			err := wait.Receive(t, "the client gives up", got)
			checkCancelled(t, err)
			check.Equal(t, "it is the cause", errors.Is(err, stopped), true)
		})
	}
}

// TestACancelledWaitForALoginSaysNothingOfTheEngine cancels a request that waits for the login of another request.
func TestACancelledWaitForALoginSaysNothingOfTheEngine(t *testing.T) {
	reached, free := make(chan struct{}, 1), make(chan struct{})
	_, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/sso/oauth/token") {
				reached <- struct{}{}
				<-free
			}

			next.ServeHTTP(w, r)
		})
	}})
	c := client(t, config)

	first := make(chan error, 1)
	go func() {
		_, err := c.ListVMs(t.Context())
		first <- err
	}()
	wait.Receive(t, "the login", reached)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := c.ListVMs(ctx)
	checkCancelled(t, err)
	close(free)
	check.Error(t, wait.Receive(t, "the first request", first), "")
}

// checkCancelled checks that an error reports a canceled request, and nothing about the engine.
func checkCancelled(t *testing.T, err error) {
	t.Helper()

	check.Contains(t, "the text", err.Error(), "the request to the engine was cancelled")
	check.Equal(t, "it is a cancellation", errors.Is(err, context.Canceled), true)
	check.Equal(t, "it is about the engine", blocker.IsEngineError(err), false)
	check.Equal(t, "its remedy", blocker.AddRemedy(err, blocker.OfManifests).Error(), err.Error())
	check.Equal(t, "the engine may have done it", engine.IsAnswerLost(err), true)

	reason, message := blocker.ExplainEngineError(err)
	check.Equal(t, "the condition", reason+": "+message, "WaitingForEngine: "+err.Error())
}
