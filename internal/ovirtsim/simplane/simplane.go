// Package simplane runs a local management plane together with an engine simulator, for the demo and for tests.
package simplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// Options configure a plane. BinDir must also contain the program ovirtsim.
type Options struct {
	localplane.Options
	// SimSpeed is the factor by which the simulator's asynchronous operations are faster than usual; 0 means 1.
	SimSpeed float64
	// Inventory is the initial content of the simulated engine; nil means the simulator's default.
	Inventory *ovirtsim.Inventory
	// SimArgs are further arguments of the simulator, such as --guests=nodes.
	SimArgs []string
	// Simulator is a plane whose simulator to use; nil starts a new simulator.
	Simulator *Plane
}

// Plane is a running management plane with its simulator.
type Plane struct {
	*localplane.Plane
	// Engine is the connection to the simulator.
	Engine ovirtsim.Connection
	// EngineCA is the CA of the simulator, in PEM.
	EngineCA []byte
	// Sim is the process of the simulator. It is nil if the simulator belongs to another plane.
	Sim *localplane.Process
}

// patience keeps the only manager of a plane from ending if a busy machine delays the renewal of its lease. The
// simulator and the tests share the processors with it.
var patience = []string{"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s"}

// Start starts the plane, the simulator and our manager, in this order. On an error, it stops everything that it
// started.
func Start(ctx context.Context, options Options) (_ *Plane, err error) {
	withoutProvider := options.Options
	withoutProvider.NoProvider = true
	withoutProvider.ManagerArgs = slices.Concat(patience, options.ManagerArgs)

	plane, err := localplane.Start(ctx, withoutProvider)
	if err != nil {
		return nil, err
	}

	defer func() {
		if err != nil {
			plane.Stop()
		}
	}()

	p := &Plane{Plane: plane}
	if other := options.Simulator; other != nil {
		p.Engine, p.EngineCA = other.Engine, other.EngineCA
	} else if err := p.RunStep(ctx, "start the engine simulator", func(ctx context.Context) error {
		return p.startSimulator(ctx, options)
	}); err != nil {
		return nil, err
	}

	if options.NoProvider {
		return p, nil
	}

	return p, p.InstallProvider(ctx)
}

func (p *Plane) startSimulator(ctx context.Context, options Options) error {
	connection := filepath.Join(options.Dir, "ovirtsim.json")
	_ = os.Remove(connection)

	args, err := simulatorArgs(options)
	if err != nil {
		return err
	}

	args = append(args, "--connection="+connection)
	if p.Sim, err = p.RunProcess("ovirtsim", filepath.Join(options.BinDir, "ovirtsim"), args); err != nil {
		return err
	}

	err = p.Sim.WaitUntil(ctx, "serving", func() bool { _, err := os.Stat(connection); return err == nil })
	if err != nil {
		return err
	}

	content, err := os.ReadFile(connection)
	if err != nil {
		return fmt.Errorf("failed to read the connection: %w", err)
	}

	if err := json.Unmarshal(content, &p.Engine); err != nil {
		return fmt.Errorf("failed to parse the connection: %w", err)
	}

	if p.EngineCA, err = os.ReadFile(p.Engine.CAFile); err != nil {
		return fmt.Errorf("failed to read the engine's CA: %w", err)
	}

	p.ReportProgress("open the engine simulator at %s", p.Engine.UIURL)

	return nil
}

// simulatorArgs returns the arguments of the simulator. It also writes the inventory file to which they refer.
func simulatorArgs(options Options) ([]string, error) {
	speed := options.SimSpeed
	if speed == 0 {
		speed = 1
	}

	args := []string{fmt.Sprintf("--speed=%g", speed), "--verbose", "--ui=127.0.0.1:0"}

	if options.Inventory != nil {
		inventory := filepath.Join(options.Dir, "inventory.yaml")

		content, err := yaml.Marshal(options.Inventory)
		if err != nil {
			return nil, fmt.Errorf("failed to encode the inventory: %w", err)
		}

		if err := os.WriteFile(inventory, content, 0o600); err != nil {
			return nil, fmt.Errorf("failed to write the inventory: %w", err)
		}

		args = append(args, "--inventory="+inventory)
	}

	return append(args, options.SimArgs...), nil
}

// EngineClient returns a client of the simulator with its own session.
func (p *Plane) EngineClient() (*engine.Client, error) {
	return engine.New(engine.Config{
		URL:      p.Engine.URL,
		Username: p.Engine.Username,
		Password: p.Engine.Password,
		CA:       p.EngineCA,
	})
}

// CallControl calls the simulator's control API. It sends in and decodes the answer into out; each may be nil.
func (p *Plane) CallControl(ctx context.Context, method, path string, in, out any) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.EngineCA)
	c := http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
	defer c.CloseIdleConnections()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("failed to encode the body: %w", err)
		}
	}

	request, err := http.NewRequestWithContext(ctx, method, p.Engine.ControlURL+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("failed to build the request: %w", err)
	}

	response, err := c.Do(request)
	if err != nil {
		return fmt.Errorf("the simulator did not answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator answered %s %s with %s", method, path, response.Status)
	}

	if out == nil {
		return nil
	}

	return json.NewDecoder(response.Body).Decode(out)
}

// QueryGuestErrors asks the simulator for failed guests. It returns a line for each VM with a failed guest.
func (p *Plane) QueryGuestErrors(ctx context.Context) ([]string, error) {
	var vms []ovirtsim.VMInfo
	if err := p.CallControl(ctx, http.MethodGet, "/vms", nil, &vms); err != nil {
		return nil, err
	}

	var out []string

	for _, vm := range vms {
		if vm.GuestError != "" {
			out = append(out, fmt.Sprintf("the guest of VM %s did not come up: %s", vm.Name, vm.GuestError))
		}
	}

	return out, nil
}
