package tfprovider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-framework/provider"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// panicking is a provider with a bug.
type panicking struct{ provider.Provider }

func (panicking) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
	panic("out of cheese")
}

// served is a terraform.Provider for one provider.
type served struct {
	provider.Provider
	// closing is called before the run closes its endpoint, and closed afterwards. Both may be nil.
	closing func(endpoint net.Addr)
	closed  func()
}

func (served) Address() string { return Address }

func (s served) Serve(ctx context.Context, _ terraform.Use) (*plugin.ReattachConfig, func(), error) {
	endpoint, err := startEndpoint(ctx, s.Provider, Options{})
	if err != nil {
		return nil, nil, err
	}

	return endpoint.Config, func() {
		if s.closing != nil {
			s.closing(endpoint.Config.Addr)
			defer s.closed()
		}

		endpoint.Close()
	}, nil
}

const lookUp = `
terraform {
  required_providers {
    ovirt = { source = "registry.terraform.io/ovirt/ovirt" }
  }
}
provider "ovirt" {
  url = "%URL%"
  username = "admin@internal"
  password = "%PASSWORD%"
  tls_insecure = true
}
resource "ovirt_tag" "one" { name = "one" }
`

// oneTag is a configuration with one tag.
func oneTag(main string) render.Configuration {
	return render.Configuration{
		Files:     render.Files{"main.tf": []byte(main)},
		Resources: []render.Address{render.NewAddress("ovirt_tag", "one")},
	}
}

func TestAPanicInTheProviderFailsItsRunAndNoMore(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	main := strings.NewReplacer("%URL%", sim.URL()+"/api", "%PASSWORD%", sim.Password()).Replace(lookUp)
	request := terraform.Request{
		Configuration: oneTag(main),
		Dir:           filepath.Join(t.TempDir(), "work"),
	}
	healthy := New(Options{})
	_, err = terraform.NewExecutor(testenv.FindExecutable(t), served{
		Provider: panicking{healthy},
	}, t.TempDir()).Apply(t.Context(), request)
	var failed *terraform.DiagnosticError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "the provider panicked in Configure: out of cheese") {
		t.Errorf("the run ended with %v", err)
	}

	_, err = terraform.NewExecutor(testenv.FindExecutable(t), served{Provider: healthy}, t.TempDir()).
		Apply(t.Context(), request)
	if err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// TestAnEndpointEndsAfterItsCalls simulates the end of Terraform while the engine creates a tag. The engine continues
// after the endpoint has stopped accepting calls. An endpoint that did not wait for its calls would end before the tag
// exists.
func TestAnEndpointEndsAfterItsCalls(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	var made, early atomic.Bool
	sim, err := ovirtsim.New(ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/tags") {
				close(reached)
				<-release
				defer made.Store(true)
			}

			next.ServeHTTP(w, r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	main := strings.NewReplacer("%URL%", sim.URL()+"/api", "%PASSWORD%", sim.Password()).Replace(lookUp)
	closing := make(chan net.Addr, 1)
	x := terraform.NewExecutor(testenv.FindExecutable(t), served{
		Provider: New(Options{Sessions: &engine.Sessions{}}),
		closing:  func(endpoint net.Addr) { closing <- endpoint },
		closed:   func() { early.Store(!made.Load()) },
	}, t.TempDir())
	x.StopGrace = time.Millisecond // killed at once
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := x.Apply(ctx, terraform.Request{
			Configuration: oneTag(main),
			Dir:           filepath.Join(t.TempDir(), "work"),
		})
		ended <- err
	}()
	wait.Receive(t, "the engine is to make the tag", reached)
	cancel()

	endpoint := wait.Receive(t, "the endpoint is closed", closing)
	wait.Until(t, "the endpoint takes no more calls", func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), endpoint.Network(), endpoint.String())
		if err == nil {
			_ = connection.Close()
		}

		return err != nil
	})
	close(release)

	if err := wait.Receive(t, "the run ends", ended); err == nil {
		t.Error("the run succeeded")
	}

	check.Equal(t, "the endpoint ended before its call", early.Load(), false)
	if got := sim.Summarize().Tags; got != 1 {
		t.Errorf("the engine has %d tags", got)
	}
}
