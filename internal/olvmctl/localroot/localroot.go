// Package localroot runs Terraform root modules on this machine, for plans, bootstrap VMs and images.
package localroot

import (
	"context"
	"path/filepath"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Runner is a Terraform executor with its folder, for one command.
type Runner struct {
	Executor *terraform.Executor
	// Dir is the folder. Close removes it.
	Dir    string
	remove func() error
}

// NewRunner finds an executor on PATH, or an executor built by olvmctl start, and creates a folder. The provider of the
// executor uses the sessions.
func NewRunner(ctx context.Context, sessions *engine.Sessions) (*Runner, error) {
	tools, err := toolchain.NewEmbedded()
	if err != nil {
		return nil, err
	}

	executable, err := tools.FindExecutor(ctx)
	if err != nil {
		return nil, err
	}

	dir, remove, err := scratchdir.Make(scratchdir.Command)
	if err != nil {
		return nil, err
	}

	provider := providerprocess.InProcess{Options: tfprovider.Options{Sessions: sessions}}

	executor := terraform.NewExecutor(executable, provider, filepath.Join(dir, "init"))

	return &Runner{Executor: executor, Dir: dir, remove: remove}, nil
}

// AtEngine calls do with an engine session, and with an executor whose provider uses the same session. Both end when
// AtEngine returns.
func AtEngine(ctx context.Context, config engine.Config, do func(*engine.Client, *Runner) error) error {
	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	session, err := sessions.Get(config)
	if err != nil {
		return err
	}

	runner, err := NewRunner(ctx, sessions)
	if err != nil {
		return err
	}
	defer runner.Close()

	return do(session, runner)
}

// Close removes the folder.
func (r *Runner) Close() error { return r.remove() }
