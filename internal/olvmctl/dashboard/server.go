package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// serverInterval is the interval between checks of the API server. A watch does not report a server that is gone or
	// does not respond.
	serverInterval = 3 * time.Second
	// serverLimit bounds the wait for the server's answer.
	serverLimit = 5 * time.Second
)

// These are the states of a watch.
const (
	watchLive = "live"
	watchLost = "lost"
	watchOff  = "not watched"
)

// Watch describes the watch of one kind.
type Watch struct {
	// Kind is the kind of the objects, in the plural.
	Kind string `json:"kind"`
	// State is live, lost, or "not watched".
	State string `json:"state"`
	// Since is the time when the watch was lost.
	Since time.Time `json:"since,omitzero"`
	// Why explains why the watch is not live.
	Why string `json:"why,omitempty"`
}

// loss is the reason of a lost watch or of a missing answer, with the times of its first and last occurrence.
type loss struct {
	since, last time.Time
	why         error
}

// followServer checks the API server again and again.
func (w *watcher) followServer(ctx context.Context) {
	for {
		w.recordServerAnswer(ctx, w.askServer(ctx))

		select {
		case <-ctx.Done():
			return
		case <-time.After(serverInterval):
		}
	}
}

// askServer asks the API server for one Cluster.
func (w *watcher) askServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, serverLimit, fmt.Errorf("no response within %s", serverLimit))
	defer cancel()

	err := w.canList(ctx, watchedKinds[0])
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}

	return err
}

// recordServerAnswer records whether the API server has answered. A refusal is an answer, because the server is
// reachable. The watches report refusals.
func (w *watcher) recordServerAnswer(ctx context.Context, err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
		err = nil
	}

	if ctx.Err() != nil {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	switch was := w.away; {
	case err == nil && was == nil:
		return
	case err == nil:
		w.away = nil
	case was == nil:
		w.away = &loss{time.Now(), time.Now(), err}
	default:
		w.away = &loss{was.since, time.Now(), err}
	}

	w.changed.WakeAll()
}

// isAway reports whether the API server is unreachable.
func (w *watcher) isAway() bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.away != nil
}

// explainAway explains why the API server is unreachable. It returns "" if the server is reachable.
func (w *watcher) explainAway() (why string, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.away == nil {
		return "", time.Time{}
	}

	return w.away.why.Error(), w.away.since
}

// listWatches returns the states of all watches.
func (w *watcher) listWatches() []Watch {
	w.mu.Lock()
	defer w.mu.Unlock()

	out := make([]Watch, 0, len(watchedKinds))

	for _, kind := range watchedKinds {
		next := Watch{Kind: kind.name, State: watchLive}

		switch lost, reason := w.lost[kind.name], w.unseen[kind.name]; {
		case reason != "":
			next.State, next.Why = watchOff, reason
		case w.away != nil:
			next.State, next.Since, next.Why = watchLost, w.away.since, "the API server is unreachable"
		case lost != nil:
			next.State, next.Since, next.Why = watchLost, lost.since, lost.why.Error()
		}

		out = append(out, next)
	}

	return out
}
