package workspace

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Subject is what a run acts on. A run may wait for minutes in the queue, so a subject holds copies of all it needs.
type Subject interface {
	// Render returns the configuration to apply, with imports of what the engine has already. The state is that before
	// the run, nil where there is none.
	Render(ctx context.Context, state *tfstate.State) (Configuration, error)
	// RenderDestroy returns the configuration under which all resources of the state are destroyed. It fails where that
	// must not be any more.
	RenderDestroy(ctx context.Context) (Configuration, error)
	// Outdated reports whether the object, as it is stored now, asks for something else than Render returns.
	Outdated(current client.Object) bool
	// RemoveOrphans deletes, without Terraform, what interrupted runs made and no state has. It is called after each
	// run that ended well, and where a destruction finds an empty state. The state is that from before the run; load
	// reads the one that the run left.
	RemoveOrphans(ctx context.Context, operation terraform.Operation, before *tfstate.State, load LoadFunc) error
}

// LoadFunc reads the state that is stored now; nil where there is none.
type LoadFunc func(ctx context.Context) (*tfstate.State, error)

// Unblocker is a Subject that can remove what the engine names as the obstacle to a destruction.
type Unblocker interface {
	// Unblock removes the obstacle that the error of a run names. It reports whether the run is to be tried again.
	Unblock(ctx context.Context, err error) (bool, error)
}

// Configuration is what a run applies, and how.
type Configuration struct {
	render.Configuration

	// Owner mark that the provider writes to what it makes; may be empty.
	Owner string
	// Secrets are redacted from all output. Names are not, even where a secret contains one.
	Secrets, Names []string
	// Fresh reports that nothing exists of what is asked for, so that a plan can only create.
	Fresh bool
	// Guard is asked about each planned change; an answer other than "" refuses the plan. It is not asked where Fresh.
	Guard func(terraform.Change) (refusal string)
	// Applied is called with address and ID of each resource the moment it exists; may be nil.
	Applied func(ctx context.Context, address, id string)
	// Keeps reports whether the state is saved as soon as the resource of an address exists; nil saves it after each.
	// What it does not name is found again by other means.
	Keeps func(address string) bool
	// Adds returns what the run, and earlier ones of a change that was not applied to its end, may add to what was
	// applied before. It is asked when such a run is confirmed, and kept beside the state until one ends well; may
	// be nil.
	Adds func(ctx context.Context) (string, error)
	// Prepare is called when the run is confirmed, before anything is applied; may be nil.
	Prepare func(ctx context.Context) error
	// Whole reports that RemoveOrphans has nothing to do after the run: what is saved at its end is all that was asked
	// for.
	Whole bool
}
