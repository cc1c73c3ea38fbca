package preview

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Scratch is an executor with a folder for it, for one command.
type Scratch struct {
	Executor *terraform.Executor
	// Dir is a folder that is there until Close.
	Dir string
}

// NewScratch finds an executor on PATH, or the one that olvmctl start has built, and makes a folder. Sessions are those
// of its provider.
func NewScratch(ctx context.Context, sessions *engine.Sessions) (*Scratch, error) {
	tools, err := toolchain.Embedded()
	if err != nil {
		return nil, err
	}

	executable, err := tools.FindExecutor(ctx)
	if err != nil {
		return nil, err
	}

	dir, err := os.MkdirTemp("", "olvmctl-")
	if err != nil {
		return nil, fmt.Errorf("failed to make a working directory: %w", err)
	}

	provider := tfprovider.InProcess{Options: tfprovider.Options{Sessions: sessions}}

	return &Scratch{Executor: terraform.NewExecutor(executable, provider, filepath.Join(dir, "init")), Dir: dir}, nil
}

// Close removes the folder.
func (s *Scratch) Close() error { return os.RemoveAll(s.Dir) }
