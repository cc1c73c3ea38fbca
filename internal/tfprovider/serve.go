package tfprovider

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Endpoint is a provider that runs in this process, for one Terraform run.
type Endpoint struct {
	// Config is what Terraform needs to attach.
	Config *plugin.ReattachConfig
	cancel context.CancelFunc
	closed chan struct{}
	own    *engine.Sessions // nil where the sessions are shared with others
}

// Serve starts an endpoint on a socket of its own. Close ends it.
//
// One endpoint per run, never one for all: a provider holds one configuration, so a second run would redirect the calls
// of the first to its own engine, and interrupting one would interrupt both.
func Serve(ctx context.Context, options Options) (*Endpoint, error) {
	quiet()
	var own *engine.Sessions
	if options.Sessions == nil {
		own = &engine.Sessions{}
		options.Sessions = own
	}
	ctx, cancel := context.WithCancel(ctx)
	configs := make(chan *plugin.ReattachConfig, 1)
	closed := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		failed <- tf5server.Serve(Address, providerserver.NewProtocol5(New(options)),
			tf5server.WithDebug(ctx, configs, closed),
			tf5server.WithGoPluginLogger(hclog.NewNullLogger()),
			tf5server.WithoutLogStderrOverride(),
		)
	}()
	select {
	case config := <-configs:
		return &Endpoint{Config: config, cancel: cancel, closed: closed, own: own}, nil
	case err := <-failed:
		cancel()
		return nil, fmt.Errorf("failed to serve the provider: %w", err)
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
}

// quiet turns the SDK's own log off, unless somebody asks for it. Served in process it would write every call with all
// its values to stderr, whatever the level of our log is.
var quiet = sync.OnceFunc(func() {
	for _, name := range []string{"TF_LOG_SDK", "TF_LOG_PROVIDER", "TF_LOG_PROVIDER_OVIRT"} {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, "off")
		}
	}
})

// logoutLimit bounds the end of the sessions: Terraform kills a plugin that takes more than two seconds to go.
const logoutLimit = 1500 * time.Millisecond

// Close ends the endpoint; calls that run in it are cancelled, and sessions that it shares with nobody are ended.
func (e *Endpoint) Close() {
	e.cancel()
	<-e.closed
	if e.own != nil {
		Logout(e.own)
	}
}

// Logout ends the sessions on their engines, as far as that can be done quickly.
func Logout(sessions *engine.Sessions) {
	ctx, cancel := context.WithTimeout(context.Background(), logoutLimit)
	defer cancel()
	sessions.Close(ctx)
}

// InProcess serves endpoints in this process: the Provider of internal/terraform.
type InProcess struct{ Options Options }

// Serve starts an endpoint for one run.
func (p InProcess) Serve(ctx context.Context) (*plugin.ReattachConfig, func(), error) {
	endpoint, err := Serve(ctx, p.Options)
	if err != nil {
		return nil, nil, err
	}
	return endpoint.Config, endpoint.Close, nil
}

// Address of the provider in configurations.
func (p InProcess) Address() string { return Address }
