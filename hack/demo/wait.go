package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/heartbeat"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
)

// This file has how the demo waits, and what it says when it waits in vain.

const (
	// lookInterval is how often a wait looks, and lookLimit how long one look may take.
	lookInterval = 250 * time.Millisecond
	lookLimit    = 5 * time.Second
	// treeLimit is how long a demo that failed asks for the state of its cluster.
	treeLimit = 3 * time.Second
	// maxReminder is how many bytes a wait says about what is missing.
	maxReminder = 160
)

// goal is what the demo waits for.
type goal struct {
	// unmet says that the goal was not reached within the limit.
	unmet string
	limit time.Duration
	// look says what it sees, and reports whether the goal is reached. An error does not end the wait.
	look func(context.Context) (seen string, reached bool, err error)
	// broken says why the goal will never be reached; nil as long as it may be.
	broken func(context.Context) error
	// missing says what is missing now.
	missing func(context.Context) string
}

// wait looks until the goal is reached, or cannot be. It says what it sees when that changes, and in each interval of a
// heartbeat.
func (d *demo) wait(ctx context.Context, g goal) error {
	begin, said, last := time.Now(), time.Now(), ""

	for {
		seen, reached, err := d.lookOnce(ctx, g)
		if err != nil || reached {
			return err
		}

		if time.Since(begin) >= g.limit {
			return fmt.Errorf("%s after %s: %s", g.unmet, g.limit, limited(ctx, g.missing))
		}

		switch {
		case seen != last:
			d.say("%s", seen)
			last, said = seen, time.Now()
		case time.Since(said) >= heartbeat.Interval:
			d.say("%s; %s", seen, shorten(limited(ctx, g.missing)))
			said = time.Now()
		}

		select {
		case <-ctx.Done():
			return errInterrupted
		case <-time.After(lookInterval):
		}
	}
}

// errInterrupted ends a demo that the user has interrupted.
var errInterrupted = errors.New("interrupted")

// sight is what one look at a goal has found.
type sight struct {
	seen    string
	reached bool
	err     error
}

// lookOnce looks at the goal, and meanwhile at what makes it impossible: an API server that hangs lets one wait.
func (d *demo) lookOnce(ctx context.Context, g goal) (seen string, reached bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()

	looked := make(chan sight, 1)
	go func() {
		seen, reached, err := g.look(ctx)
		looked <- sight{seen, reached, err}
	}()

	for {
		select {
		case found := <-looked:
			if found.reached {
				return found.seen, true, nil
			}

			if found.err != nil { // the API server may be busy, and is not gone
				found.seen = "the management cluster does not answer: " + shorten(found.err.Error())
			}

			return found.seen, false, g.broken(ctx)
		case <-time.After(lookInterval):
		}

		if err := g.broken(ctx); err != nil {
			return "", false, err
		}
	}
}

// limited asks with a time limit.
func limited(ctx context.Context, ask func(context.Context) string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()

	return ask(ctx)
}

// shorten cuts a text to one line that is not too long.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxReminder {
		return text
	}

	return strings.ToValidUTF8(text[:maxReminder], "") + " …"
}

// broken says what keeps the cluster from ever coming: a process that has ended, or a guest that did not come up.
// Nothing starts either again.
func (d *demo) broken(ctx context.Context) error {
	if err := d.plane.Failed(); err != nil {
		return err
	}

	guests, err := d.plane.GuestErrors(ctx)
	if err != nil || len(guests) == 0 {
		return nil //nolint:nilerr // a simulator that has ended is a process; one that is busy answers later
	}

	return errors.New(strings.Join(guests, "\n"))
}

// tree reads the cluster.
func (d *demo) tree(ctx context.Context) (*clustertree.Node, error) {
	var cluster clusterv1.Cluster
	key := client.ObjectKey{Namespace: namespace, Name: clusterName}
	if err := d.plane.Client.Get(ctx, key, &cluster); err != nil {
		return nil, fmt.Errorf("failed to get the Cluster: %w", err)
	}

	return clustertree.Discover(ctx, d.plane.Client, &cluster)
}

// trouble is what keeps the cluster from being there.
func (d *demo) trouble(ctx context.Context) string {
	tree, err := d.tree(ctx)
	if err != nil {
		return err.Error()
	}

	return tree.Trouble()
}

// explain says once why the demo failed: first the cause, then where to look and what the cluster looks like.
func (d *demo) explain(err error) {
	if d.explained {
		return
	}

	d.explained = true

	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		fmt.Fprintf(d.errors, "\ndemo interrupted after %.0f s\n", time.Since(d.start).Seconds())
		return
	}

	fmt.Fprintf(d.errors, "\ndemo failed after %.0f s: %v\n", time.Since(d.start).Seconds(), err)
	if d.dir == "" {
		return
	}

	fmt.Fprintf(d.errors, "\nThe logs of all processes: %s\n", filepath.Join(d.dir, "*.log"))
	d.printTree(d.errors)
}

// printTree shows the cluster, if there is one.
func (d *demo) printTree(out io.Writer) {
	if d.plane == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), treeLimit)
	defer cancel()

	tree, err := d.tree(ctx)
	if err != nil {
		return // it may be the API server that broke
	}

	fmt.Fprintln(out)
	_ = tree.Print(out)
}

// stayUp waits for Ctrl-C. A process that ends meanwhile is named at once, and is the error in the end.
func (d *demo) stayUp(ctx context.Context) (failed error) {
	if d.explained {
		fmt.Fprintf(d.errors, "\nThe engine simulator: %s\nThe management cluster: export KUBECONFIG=%s\n\n",
			d.plane.Engine.UIURL, d.plane.Kubeconfig)
	}

	d.say("staying up until Ctrl-C")

	for {
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(lookInterval):
		}

		if failed != nil {
			continue
		}

		if failed = d.plane.Failed(); failed == nil {
			continue
		}

		if d.explained {
			d.say("%v", failed)
		} else {
			d.explain(failed)
		}

		d.say("staying up until Ctrl-C")
	}
}
