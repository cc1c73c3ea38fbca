package workspace

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Subject is the target of a run. A run may wait for minutes in the queue, so a subject holds copies of all its inputs.
type Subject interface {
	// Render returns the configuration to apply, with imports of resources already in the engine. state is the state
	// before the run, or nil if there is none.
	Render(ctx context.Context, state *tfstate.State) (Configuration, error)
	// RenderDestroy returns the configuration for the destruction of all resources of the state. It fails if they must
	// not be destroyed any more.
	RenderDestroy(ctx context.Context) (Configuration, error)
	// Outdated reports whether the stored object asks for something else than Render returns.
	Outdated(current client.Object) bool
	// RemoveOrphans deletes orphans of interrupted runs without Terraform. It is called after each successful run, and
	// if a destruction finds an empty state. before is the state from before the run; load reads the state after the
	// run.
	RemoveOrphans(ctx context.Context, operation terraform.Operation, before *tfstate.State, load LoadFunc) error
}

// LoadFunc reads the currently stored state, or returns nil if there is none.
type LoadFunc func(ctx context.Context) (*tfstate.State, error)

// Unblocker is a Subject with the means to remove an obstacle to its destruction.
type Unblocker interface {
	// Unblock removes the obstacle named by the error of a run. It reports whether to try the run again.
	Unblock(ctx context.Context, err error) (bool, error)
}

// Configuration is the configuration of a run, with its options.
type Configuration struct {
	render.Configuration

	// Owner is the owner mark for the provider to write on new resources. It may be empty.
	Owner string
	// Secrets are redacted from all output. Names are not, even if a name contains a secret.
	Secrets, Names []string
	// Fresh reports that no wanted resource exists yet, so a plan can only create.
	Fresh bool
	// Guard judges each planned change. An answer other than "" refuses the plan. It is not called if Fresh.
	Guard func(terraform.Change) (refusal string)
	// Applied is called with the address and ID of each new resource as soon as it exists. It may be nil.
	Applied func(ctx context.Context, address, id string)
	// Keeps reports whether to save the state as soon as the resource at this address exists. nil saves it after each
	// resource. Resources without such a save are found again by other means.
	Keeps func(address string) bool
	// Adds returns the possible additions of the run to the applied configuration. It includes those of earlier runs of
	// an incomplete change. It is called when such a run is confirmed. The result is kept beside the state until a run
	// succeeds. Adds may be nil.
	Adds func(ctx context.Context) (string, error)
	// Prepare is called after the run is confirmed, before anything is applied. It may be nil.
	Prepare func(ctx context.Context) error
	// Whole reports that RemoveOrphans has nothing to do after the run, because the final state has all wanted
	// resources.
	Whole bool
}
