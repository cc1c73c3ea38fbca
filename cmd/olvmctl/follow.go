package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// settleTime is how long a watch waits for more changes, because several objects often change together.
const settleTime = 300 * time.Millisecond

// followChanges prints changes in a list until the command is interrupted. It does not print deletions. If the API
// server becomes unreachable, followChanges reports this once on standard error, and continues when the server is back.
func (g *getting[T]) followChanges(ctx context.Context, list []T) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	changed := make(chan struct{}, 1)
	note := func(any) {
		select {
		case changed <- struct{}{}:
		default: // the printer has a pending change
		}
	}
	if err := g.watchObjects(ctx, note); err != nil {
		return err
	}

	lost := ""
	before := g.byKey(list)

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settleTime):
		}

		now, _, err := g.fetchRequested(ctx) // a named object may no longer exist
		if err != nil {
			if ctx.Err() == nil && err.Error() != lost {
				lost = err.Error()
				_, _ = fmt.Fprintln(g.s.err, "olvmctl:", lost)
			}

			note(nil) // try again

			continue
		}

		lost = ""

		for _, one := range now {
			if old, known := before[g.key(one)]; known && reflect.DeepEqual(old, one) {
				continue
			}

			if err := g.printObjects([]T{one}, true); err != nil {
				return err
			}
		}

		before = g.byKey(now)
	}
}

// watchObjects calls note after each change of the listed objects.
func (g *getting[T]) watchObjects(ctx context.Context, note func(any)) error {
	objects, err := g.in.NewCache(namespaceOf(g.in, g.all), func(context.Context, *toolscache.Reflector, error) {
		note(nil) // the next list also fails, and reports the reason
	})
	if err != nil {
		return err
	}

	go func() { _ = objects.Start(ctx) }()

	for _, object := range g.watched {
		kind, err := apiutil.GVKForObject(object, g.in.Scheme())
		if err != nil {
			return fmt.Errorf("failed to watch %s: %w", g.what, err)
		}

		if _, err := g.in.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			continue // not served, so there are no objects
		}

		informer, err := objects.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("failed to watch %s: %w", g.what, err)
		}

		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: note, DeleteFunc: note, UpdateFunc: func(_, now any) { note(now) },
		})
		if err != nil {
			return fmt.Errorf("failed to watch %s: %w", g.what, err)
		}
	}

	return nil
}

func (g *getting[T]) byKey(list []T) map[client.ObjectKey]T {
	out := map[client.ObjectKey]T{}
	for _, one := range list {
		out[g.key(one)] = one
	}

	return out
}
