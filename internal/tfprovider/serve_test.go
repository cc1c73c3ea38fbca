package tfprovider

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-framework/provider"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// panicking is the provider with a bug.
type panicking struct{ provider.Provider }

func (panicking) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
	panic("out of cheese")
}

// served is a terraform.Provider that serves one provider.
type served struct{ provider.Provider }

func (served) Address() string { return Address }

func (s served) Serve(ctx context.Context, _ terraform.Use) (*plugin.ReattachConfig, func(), error) {
	endpoint, err := serve(ctx, s.Provider, nil)
	if err != nil {
		return nil, nil, err
	}

	return endpoint.Config, endpoint.Close, nil
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

func TestAPanicInTheProviderFailsItsRunAndNoMore(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	main := strings.NewReplacer("%URL%", sim.URL()+"/api", "%PASSWORD%", sim.Password()).Replace(lookUp)
	request := terraform.Request{
		Dir:   filepath.Join(t.TempDir(), "work"),
		Files: map[string][]byte{"main.tf": []byte(main)},
	}
	healthy := New(Options{})
	_, err = terraform.NewExecutor(testenv.Executable(t), served{
		panicking{healthy},
	}, t.TempDir()).Apply(t.Context(), request)
	var failed *terraform.DiagnosticError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "the provider panicked in Configure: out of cheese") {
		t.Errorf("the run ended with %v", err)
	}

	_, err = terraform.NewExecutor(testenv.Executable(t), served{healthy}, t.TempDir()).Apply(t.Context(), request)
	if err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// TestAnEndpointEndsAfterItsCalls kills Terraform, as far as the endpoint can see, while the engine makes a tag.
func TestAnEndpointEndsAfterItsCalls(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	sim, err := ovirtsim.New(ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/tags") {
				close(reached)
				<-release
			}

			next.ServeHTTP(w, r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	main := strings.NewReplacer("%URL%", sim.URL()+"/api", "%PASSWORD%", sim.Password()).Replace(lookUp)
	x := terraform.NewExecutor(testenv.Executable(t), served{New(Options{Sessions: &engine.Sessions{}})}, t.TempDir())
	x.StopGrace = time.Millisecond // killed at once
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := x.Apply(ctx, terraform.Request{
			Dir:   filepath.Join(t.TempDir(), "work"),
			Files: map[string][]byte{"main.tf": []byte(main)},
		})
		ended <- err
	}()
	<-reached
	cancel()

	select {
	case err := <-ended:
		t.Errorf("the run ended while the engine worked: %v", err)
	case <-time.After(500 * time.Millisecond): // a window in which nothing may happen
	}

	close(release)
	if err := <-ended; err == nil {
		t.Error("the run succeeded")
	}

	if got := sim.Summary().Tags; got != 1 {
		t.Errorf("the engine has %d tags", got)
	}
}
