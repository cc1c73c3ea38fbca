package workspace

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Subject describes the goal of a run. A run may wait in the queue for minutes, so a subject holds copies of all its
// inputs.
type Subject interface {
	// Render returns the configuration to apply, with imports of resources that already exist in the engine. state is
	// the state before the run, or nil if there is none.
	Render(ctx context.Context, state *tfstate.State) (Configuration, error)
	// RenderDestroy returns the configuration that destroys all resources in the state. It fails if they must not be
	// destroyed any more.
	RenderDestroy(ctx context.Context) (Configuration, error)
	// Outdated reports whether the stored object requests something else than Render returns.
	Outdated(current client.Object) bool
	// RemoveOrphans deletes the orphans of interrupted runs without Terraform. It is called after each successful run,
	// and if a destruction finds an empty state. before is the state before the run. load reads the state after the
	// run.
	RemoveOrphans(ctx context.Context, operation terraform.Operation, before *tfstate.State, load LoadFunc) error
}

// LoadFunc reads the currently stored state, or returns nil if there is none.
type LoadFunc func(ctx context.Context) (*tfstate.State, error)

// Unblocker is a Subject that may be able to remove an obstacle to its destruction.
type Unblocker interface {
	// Unblock removes the obstacle that caused the error of a run. It reports whether the run should be tried again.
	Unblock(ctx context.Context, err error) (bool, error)
}

// Configuration is the configuration of a run, with its options.
type Configuration struct {
	render.Configuration

	// Owner is the mark that the provider writes on new resources. It may be empty.
	Owner string
	// Secrets are redacted from all output. Names are not, even if a name contains a secret.
	Secrets, Names []string
	// Fresh reports that none of the wanted resources exists yet. The plan can then only create resources.
	Fresh bool
	// Guard checks each planned change. An answer other than "" refuses the plan. It is not called if Fresh is set.
	Guard func(terraform.Change) (refusal string)
	// Applied is called with the address and ID of each new resource as soon as it exists. It may be nil.
	Applied func(ctx context.Context, address, id string)
	// Keeps reports whether to save the state as soon as the resource at this address exists. A nil Keeps saves it
	// after each resource. If a resource is not saved in this way, a later run finds it by other means.
	Keeps func(address string) bool
	// Adds returns the additions that the run, and earlier runs of an incomplete change, may make to the applied
	// configuration. It is called when such a run is confirmed. The result stays beside the state until a run succeeds.
	// Adds may be nil.
	Adds func(ctx context.Context) (string, error)
	// Prepare is called after the run is confirmed, before anything is applied. It may be nil.
	Prepare func(ctx context.Context) error
	// Whole reports whether the final state has all wanted resources, so that RemoveOrphans has nothing to do.
	Whole bool
}
