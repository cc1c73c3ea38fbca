package workspace

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// Executor runs Terraform. It is a *terraform.Executor in production, and a fake in tests.
type Executor interface {
	Apply(ctx context.Context, request terraform.Request) (terraform.Summary, error)
	Check(ctx context.Context, request terraform.Request) ([]terraform.Drift, error)
}

// Keeper stores the state of one root.
type Keeper interface {
	// Load returns the state, or nil if there is none.
	Load(ctx context.Context) (*tfstate.State, error)
	// Save stores a state as written by Terraform. digest marks the state as applied; see MarkApplied. It is empty
	// until the configuration is completely applied.
	Save(ctx context.Context, state []byte, digest string) error
	// MarkApplied records that the stored state matches the configuration with this digest.
	MarkApplied(ctx context.Context, digest string) error
	// MarkChanging records that a change from the configuration with digest from begins. Until MarkApplied, or a Save
	// with a digest, the engine may have more resources than the stored state. adds names additions that the change may
	// have made.
	MarkChanging(ctx context.Context, from, adds string) error
}

// Root runs Terraform in one directory, and keeps the state. It does not depend on Kubernetes. A Workspace connects it
// to an object.
type Root struct {
	Executor Executor
	Keeper   Keeper
	// Dir is the working directory.
	Dir string
	// Confirm is called before anything is applied, and after the guard has accepted the plan if there is one. An error
	// ends the run. A nil Confirm allows every run.
	Confirm func(ctx context.Context, operation terraform.Operation) error
}

// Apply applies the subject's configuration, and marks the state with the digest.
func (r *Root) Apply(ctx context.Context, subject Subject, digest string) (terraform.Summary, error) {
	before, err := r.Keeper.Load(ctx)
	if err != nil {
		return terraform.Summary{}, err
	}

	configuration, err := subject.Render(ctx, before)
	if err != nil {
		return terraform.Summary{}, err
	}

	request, marked := r.buildRequest(terraform.Apply, configuration, before), false
	request.Confirm = func(ctx context.Context) error { return r.beginRun(ctx, before, configuration) }
	if configuration.Whole {
		request.SaveState = func(ctx context.Context, state []byte, done bool) error {
			if !done {
				return r.Keeper.Save(ctx, state, "")
			}

			err := r.Keeper.Save(ctx, state, digest)
			marked = err == nil

			return err
		}
	}

	summary, err := r.Executor.Apply(ctx, request)
	if err != nil || marked {
		return summary, err
	}

	if err := subject.RemoveOrphans(ctx, terraform.Apply, before, r.Keeper.Load); err != nil {
		return summary, err
	}

	return summary, r.Keeper.MarkApplied(ctx, digest)
}

// checkDir is the folder for checks in the working directory. Because of it, the leftovers of a killed check do not
// look like an unsaved state.
const checkDir = "check"

// Check plans the subject's configuration, but applies nothing.
func (r *Root) Check(ctx context.Context, subject Subject) (terraform.Summary, error) {
	state, err := r.Keeper.Load(ctx)
	if err != nil {
		return terraform.Summary{}, err
	}

	if state == nil || state.AppliedDigest == "" {
		return terraform.Summary{}, errors.New("no run has succeeded yet")
	}

	configuration, err := subject.Render(ctx, state)
	if err != nil {
		return terraform.Summary{}, err
	}

	request := r.buildRequest(terraform.Check, configuration, state)
	request.Dir = filepath.Join(r.Dir, checkDir)
	defer os.RemoveAll(request.Dir)

	drift, err := r.Executor.Check(ctx, request)

	return terraform.Summary{Drift: drift}, err
}

// Destroy destroys the resources in the state, and then removes any orphans.
func (r *Root) Destroy(ctx context.Context, subject Subject) (terraform.Summary, error) {
	before, err := r.Keeper.Load(ctx)
	if err != nil {
		return terraform.Summary{}, err
	}

	var summary terraform.Summary
	if !before.Empty() {
		summary, err = r.destroyState(ctx, subject, before)
	}

	if err != nil {
		return summary, err
	}

	return summary, subject.RemoveOrphans(ctx, terraform.Destroy, before, r.Keeper.Load)
}

// destroyState runs Terraform to empty a state. It tries once more if the subject has removed an obstacle.
func (r *Root) destroyState(ctx context.Context, subject Subject, state *tfstate.State) (terraform.Summary, error) {
	configuration, err := subject.RenderDestroy(ctx)
	if err != nil {
		return terraform.Summary{}, err
	}

	summary, failure := r.Executor.Apply(ctx, r.buildRequest(terraform.Destroy, configuration, state))
	unblocker, ok := subject.(Unblocker)
	if failure == nil || !ok {
		return summary, failure
	}

	if err := r.confirmRun(ctx, terraform.Destroy); err != nil {
		return summary, failure
	}

	again, err := unblocker.Unblock(ctx, failure)
	if err != nil {
		return summary, err
	}

	if !again {
		return summary, failure
	}

	if state, err = r.Keeper.Load(ctx); err != nil {
		return summary, err
	}

	return r.Executor.Apply(ctx, r.buildRequest(terraform.Destroy, configuration, state))
}

func (r *Root) buildRequest(
	operation terraform.Operation, configuration Configuration, state *tfstate.State,
) terraform.Request {
	return terraform.Request{
		Configuration: configuration.Configuration,
		Dir:           r.Dir,
		Owner:         configuration.Owner,
		Secrets:       configuration.Secrets,
		Names:         configuration.Names,
		State:         state.Bytes(),
		Destroy:       operation == terraform.Destroy,
		Fresh:         configuration.Fresh,
		Guard:         configuration.Guard,
		Confirm:       func(ctx context.Context) error { return r.confirmRun(ctx, operation) },
		Applied:       configuration.Applied,
		SaveState:     func(ctx context.Context, state []byte, _ bool) error { return r.Keeper.Save(ctx, state, "") },
		Keeps:         configuration.Keeps,
	}
}

// beginRun confirms a run, records that a change begins, and prepares the run.
func (r *Root) beginRun(ctx context.Context, before *tfstate.State, configuration Configuration) error {
	err := r.confirmChange(ctx, before, configuration.Adds)
	if err != nil || configuration.Prepare == nil {
		return err
	}

	return configuration.Prepare(ctx)
}

// confirmChange is confirmRun for a run that changes an applied configuration. It records the change before the change
// begins. An incomplete change must not look as if it were applied, and must not be made twice.
func (r *Root) confirmChange(
	ctx context.Context, before *tfstate.State, ask func(context.Context) (string, error),
) error {
	if err := r.confirmRun(ctx, terraform.Apply); err != nil || !before.WasApplied() {
		return err
	}

	var adds string

	if ask != nil {
		var err error
		if adds, err = ask(ctx); err != nil {
			return err
		}
	}

	if before.AppliedDigest == "" && adds == before.ChangeAdds {
		return nil // an earlier run has recorded the change
	}

	return r.Keeper.MarkChanging(ctx, cmp.Or(before.AppliedDigest, before.ChangingFrom), adds)
}

func (r *Root) confirmRun(ctx context.Context, operation terraform.Operation) error {
	if r.Confirm == nil {
		return nil
	}

	return r.Confirm(ctx, operation)
}
