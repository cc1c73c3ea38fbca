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

// This file contains the demo's waits, and its messages after a timeout.

const (
	// lookInterval is the time between two looks during a wait. lookLimit is the time limit of one look.
	lookInterval = 250 * time.Millisecond
	lookLimit    = 5 * time.Second
	// treeLimit is the time limit for reading the state of the cluster after a failed demo.
	treeLimit = 3 * time.Second
	// maxReminder is the maximum length of a reminder about missing parts, in bytes.
	maxReminder = 160
)

// goal is the object of a wait.
type goal struct {
	// unmet is the error if the demo does not reach the goal within the limit.
	unmet string
	limit time.Duration
	// look describes the current state, and reports whether the goal is reached. An error does not end the wait.
	look func(context.Context) (seen string, reached bool, err error)
	// broken explains why the goal is no longer reachable. It returns nil while the goal may be reached.
	broken func(context.Context) error
	// missing describes the parts that are missing now.
	missing func(context.Context) string
}

// waitForGoal looks at the goal until it is reached or no longer reachable. It prints the state after each change, and
// once per heartbeat interval.
func (d *demo) waitForGoal(ctx context.Context, g goal) error {
	begin, said, last := time.Now(), time.Now(), ""

	for {
		seen, reached, err := d.lookOnce(ctx, g)
		if err != nil || reached {
			return err
		}

		if time.Since(begin) >= g.limit {
			return fmt.Errorf("%s after %s: %s", g.unmet, g.limit, withLimit(ctx, g.missing))
		}

		switch {
		case seen != last:
			d.reportProgress("%s", seen)
			last, said = seen, time.Now()
		case time.Since(said) >= heartbeat.Interval:
			d.reportProgress("%s; %s", seen, shortenLine(withLimit(ctx, g.missing)))
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

// sight is the result of one look at a goal.
type sight struct {
	seen    string
	reached bool
	err     error
}

// lookOnce looks at the goal. At the same time, it looks for failures that make the goal unreachable, because a hung
// API server would block the look at the goal.
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

			if found.err != nil { // the API server may be busy instead of gone
				found.seen = "the management cluster does not answer: " + shortenLine(found.err.Error())
			}

			return found.seen, false, g.broken(ctx)
		case <-time.After(lookInterval):
		}

		if err := g.broken(ctx); err != nil {
			return "", false, err
		}
	}
}

// withLimit calls a function with a time limit.
func withLimit(ctx context.Context, ask func(context.Context) string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()

	return ask(ctx)
}

// shortenLine shortens a text to one line of limited length.
func shortenLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxReminder {
		return text
	}

	return strings.ToValidUTF8(text[:maxReminder], "") + " …"
}

// findFailure returns an error if the cluster can never become available, because a process has ended or a guest has
// failed to start. Nothing starts them again.
func (d *demo) findFailure(ctx context.Context) error {
	if err := d.plane.Failed(); err != nil {
		return err
	}

	guests, err := d.plane.QueryGuestErrors(ctx)
	if err != nil || len(guests) == 0 {
		return nil //nolint:nilerr // an ended simulator is noticed as a process; a busy one answers later
	}

	return errors.New(strings.Join(guests, "\n"))
}

// readTree reads the tree of the cluster's objects.
func (d *demo) readTree(ctx context.Context) (*clustertree.Node, error) {
	var cluster clusterv1.Cluster
	key := client.ObjectKey{Namespace: namespace, Name: clusterName}
	if err := d.plane.Client.Get(ctx, key, &cluster); err != nil {
		return nil, fmt.Errorf("failed to get the Cluster: %w", err)
	}

	return clustertree.Discover(ctx, d.plane.Client, &cluster)
}

// describeTrouble describes why the cluster is not available.
func (d *demo) describeTrouble(ctx context.Context) string {
	tree, err := d.readTree(ctx)
	if err != nil {
		return err.Error()
	}

	return tree.DescribeTrouble()
}

// explainFailure explains once why the demo failed. It prints the cause, and then the logs and the state of the
// cluster.
func (d *demo) explainFailure(err error) {
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

// printTree prints the tree of the cluster's objects, if the cluster exists.
func (d *demo) printTree(out io.Writer) {
	if d.plane == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), treeLimit)
	defer cancel()

	tree, err := d.readTree(ctx)
	if err != nil {
		return // the API server may be the part that failed
	}

	fmt.Fprintln(out)
	_ = tree.Print(out)
}

// stayUp waits for Ctrl-C. If a process ends before, stayUp names it at once, and later returns this as the error.
func (d *demo) stayUp(ctx context.Context) (failed error) {
	if d.explained {
		fmt.Fprintf(d.errors, "\nThe engine simulator: %s\nThe management cluster: export KUBECONFIG=%s\n\n",
			d.plane.Engine.UIURL, d.plane.Kubeconfig)
	}

	d.reportProgress("staying up until Ctrl-C")

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
			d.reportProgress("%v", failed)
		} else {
			d.explainFailure(failed)
		}

		d.reportProgress("staying up until Ctrl-C")
	}
}
