package workspace

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// shortQueue is the time after which a queued apply needs another check. After a longer wait, the job looks in the
// cache whether the run is still wanted before it plans. Every run checks this again before it applies, without the
// cache.
const shortQueue = time.Second

// submitRun queues a run. Before that, it records on the object that a run may act for it.
func (w *Workspace) submitRun(ctx context.Context, operation terraform.Operation, request Request) error {
	if operation != terraform.Check { // a check creates nothing that a move could lose
		if err := w.blockMove(ctx, request.Annotations); err != nil {
			return err
		}
	}

	var limit time.Duration
	if operation == terraform.Check {
		limit = checkLimit
	}

	return w.runQueue().submitJob(terraform.Job{
		Key:       w.key.String(),
		Tenant:    w.object.GetNamespace(),
		Engine:    request.Engine,
		Operation: operation,
		Digest:    request.Digest,
		Limit:     limit,
		Run:       w.newJob(operation, request.Subject(), request.Digest),
	})
}

// newJob returns the function for one run. The run works on copies, because the pass that submits it ends before the
// run begins.
func (w *Workspace) newJob(
	operation terraform.Operation, subject Subject, digest string,
) func(context.Context) (terraform.Summary, error) {
	owner := pass.CopyObject(w.object)
	submitted := time.Now()
	wanted := func(reader client.Reader) func(context.Context, terraform.Operation) error {
		return func(ctx context.Context, operation terraform.Operation) error {
			return w.checkStillWanted(ctx, reader, owner, subject, operation)
		}
	}
	root := &Root{
		Executor: w.runQueue().Executor,
		Keeper:   w.newKeeper(owner),
		Dir:      w.workDir(),
		Confirm:  wanted(w.runQueue().APIReader),
	}

	return func(ctx context.Context) (terraform.Summary, error) {
		defer w.kind.states.EndJob(owner)

		if operation != terraform.Apply || time.Since(submitted) > shortQueue {
			if err := wanted(w.runQueue().Client)(ctx, operation); err != nil {
				return terraform.Summary{}, err
			}
		}

		switch operation {
		case terraform.Destroy:
			return root.Destroy(ctx, subject)
		case terraform.Check:
			return root.Check(ctx, subject)
		}

		return root.Apply(ctx, subject, digest)
	}
}

// checkStillWanted fails if the object was paused, moved, changed or deleted since a pass submitted the job. A
// destruction does not need the Cluster.
func (w *Workspace) checkStillWanted(
	ctx context.Context, reader client.Reader, owner client.Object, subject Subject, operation terraform.Operation,
) error {
	if err := w.runQueue().MayAct(ctx); err != nil {
		return err
	}

	current := w.kind.New()
	if err := reader.Get(ctx, client.ObjectKeyFromObject(owner), current); err != nil {
		return fmt.Errorf("failed to get the %s before the run: %w", w.kind.Name, err)
	}

	cluster := &clusterv1.Cluster{}
	if w.cluster != "" {
		key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: w.cluster}
		err := reader.Get(ctx, key, cluster)
		if err != nil && (operation != terraform.Destroy || !apierrors.IsNotFound(err)) {
			return fmt.Errorf("failed to get the Cluster before the run: %w", err)
		}
	}

	if current.GetUID() != owner.GetUID() || IsMoving(current) || annotations.IsPaused(cluster, current) {
		return terraform.ErrCancelled
	}

	if operation != terraform.Destroy && (!current.GetDeletionTimestamp().IsZero() || subject.Outdated(current)) {
		return terraform.ErrCancelled
	}

	return nil
}

// newKeeper returns the Keeper of the object's state. owner is the object or a copy of it.
func (w *Workspace) newKeeper(owner client.Object) Keeper {
	return &secret{states: w.kind.states, owner: owner, cluster: w.cluster}
}

// secret keeps the state of an object in its Secret.
type secret struct {
	states  *tfstate.Store
	owner   client.Object
	cluster string
}

func (s *secret) Load(ctx context.Context) (*tfstate.State, error) {
	return s.states.Load(ctx, s.owner)
}

func (s *secret) Save(ctx context.Context, state []byte, digest string) error {
	return s.states.SaveApplied(ctx, s.owner, s.cluster, state, digest)
}

func (s *secret) MarkApplied(ctx context.Context, digest string) error {
	return s.states.MarkApplied(ctx, s.owner, digest)
}

func (s *secret) MarkChanging(ctx context.Context, from, adds string) error {
	return s.states.MarkChanging(ctx, s.owner, from, adds)
}
