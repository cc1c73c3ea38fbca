package tfprovider

import (
	"context"
	"fmt"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// named describes an object whose name is unique in the engine: a tag or an affinity group.
type named[T any] struct {
	kind, name string
	create     func(context.Context) (*T, error)
	// list returns the objects with the name.
	list   func(context.Context) ([]T, error)
	remove func(context.Context, *T) error
	id     func(*T) string
}

// createUnique creates the object, unless its name is taken. It looks for the name first, so an object found after a
// lost answer is the requested one.
//
// The engine itself accepts two simultaneous creates with the same name. So createUnique looks again afterwards, and
// removes its own object if there is another. If two runs do this, both fail, and the next run of either creates the
// object.
func (n named[T]) createUnique(ctx context.Context) (*T, error) {
	what := n.kind + " " + n.name
	if others, err := n.list(ctx); err != nil {
		return nil, err
	} else if len(others) > 0 {
		return nil, n.newTakenError(&others[0])
	}

	made, err := engine.CreateOnce(ctx, what, newProgressLogger(ctx, what), n.create, n.findFirst)
	if engine.IsRefused(err) && !engine.IsTransient(err) { // 409 for a tag, 400 for an affinity group
		if other, findErr := n.findFirst(ctx); findErr == nil && other != nil { // another client was faster
			return nil, n.newTakenError(other)
		}
	}

	if err != nil {
		return nil, err
	}

	// An interrupt must not leave the object outside the state.
	ctx = context.WithoutCancel(ctx)
	all, err := n.list(ctx)
	if err != nil {
		return made, nil //nolint:nilerr // the object is made; the next plan reads it
	}

	at := slices.IndexFunc(all, func(other T) bool { return n.id(&other) != n.id(made) })
	if at < 0 {
		return made, nil
	}

	if err := n.remove(ctx, made); err != nil && !engine.IsNotFound(err) {
		return nil, fmt.Errorf("%w; ours, %s, was made at the same moment and could not be removed: %w",
			n.newTakenError(&all[at]), n.id(made), err)
	}

	return nil, n.newTakenError(&all[at])
}

func (n named[T]) findFirst(ctx context.Context) (*T, error) {
	all, err := n.list(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}

	return &all[0], nil
}

func (n named[T]) newTakenError(by *T) error {
	return fmt.Errorf("%s %s exists already: the name is in use by %s %s; import that, or choose another name", n.kind,
		n.name, n.kind, n.id(by))
}
