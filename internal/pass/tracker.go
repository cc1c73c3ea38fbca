package pass

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	// remembered is how many versions of an object are known to be our own; a pass writes two.
	remembered = 8
	// retryOutdated is when to look again at an object that was changed by somebody else, or that the cache does not
	// have yet, if no event of it comes before.
	retryOutdated = time.Second
	// longestLag is how long passes wait for the cache: versions go back when a backup of the API server is restored.
	longestLag = 10 * time.Second
	// atOnce is when to look again at what has changed during a pass.
	atOnce = time.Millisecond
)

// ErrBehind is why a pass does not begin: the cache has an older object than an earlier pass wrote. Another pass begins
// when it has that one.
var ErrBehind = errors.New("the cache does not have yet what was written last")

// Tracker knows what the passes of one controller wrote. The zero value can be used.
type Tracker struct {
	mu      sync.Mutex
	objects map[client.ObjectKey]*record
}

// record is what is known of one object.
type record struct {
	// own are the versions that passes wrote, the latest last.
	own []string
	// seen is the latest version that an event had.
	seen string
	// running is how many passes and writes beside them go; pending are the versions that events had meanwhile. Which
	// of them are our own is known when they have ended.
	running int
	pending []string
	// waiting reports that the next pass waits for the cache to have the latest of own, and since is when one began to.
	waiting bool
	since   time.Time
}

// BeginPass reads an object for a pass, with a client that reads from a cache. End must be called at the end of the
// pass, unless there is an error: that of the client where there is no such object, else ErrBehind or what went wrong.
func (t *Tracker) BeginPass(
	ctx context.Context, c client.Client, key client.ObjectKey, object client.Object,
) (*Pass, error) {
	t.startRunning(key)

	for {
		if err := c.Get(ctx, key, object); err != nil {
			t.abortPass(key, apierrors.IsNotFound(err))
			return nil, err
		}

		behind, again := t.isBehind(key, object.GetResourceVersion())
		if !behind {
			return newPass(t, c, key, object), nil
		}

		if !again {
			return nil, ErrBehind
		}
	}
}

// WriteBeside calls write, which writes an object beside its passes and returns the version that it has then. No pass
// begins because of it; others reports that somebody else has changed the object meanwhile, which one must look at.
func (t *Tracker) WriteBeside(key client.ObjectKey, write func() (version string, err error)) (others bool, err error) {
	t.startRunning(key)
	version, err := write()
	if err == nil {
		t.noteWritten(key, version)
	}

	return t.endPass(key), err
}

// ChangedPredicate passes the events of objects but for those of what passes wrote themselves.
func (t *Tracker) ChangedPredicate() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || // a resync
				t.isNews(client.ObjectKeyFromObject(e.ObjectNew), e.ObjectNew.GetResourceVersion())
		},
	}
}

// isNews reports whether a version of an object begins a pass.
func (t *Tracker) isNews(key client.ObjectKey, version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	r := t.objects[key]
	if r == nil {
		return true
	}

	r.seen = version
	own := slices.Contains(r.own, version)

	switch {
	case r.running > 0:
		r.pending = append(r.pending, version)
		return false
	case own && (!r.waiting || version != r.latestOwn()):
		return false
	}

	r.waiting = false

	return true
}

func (t *Tracker) startRunning(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.ensureRecord(key)
	r.running++
	r.waiting = false
}

// ensureRecord is that of an object; mu is held.
func (t *Tracker) ensureRecord(key client.ObjectKey) *record {
	if t.objects == nil {
		t.objects = map[client.ObjectKey]*record{}
	}

	if t.objects[key] == nil {
		t.objects[key] = &record{}
	}

	return t.objects[key]
}

// abortPass ends a pass that could not begin. What came meanwhile is looked at by the next one, which the error brings.
func (t *Tracker) abortPass(key client.ObjectKey, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if gone {
		delete(t.objects, key)
		return
	}

	t.ensureRecord(key).stopOne()
}

// isBehind reports whether a version of an object is older than what a pass wrote. Where the cache has caught up since
// it was read, it is to be read again; else the pass does not begin.
func (t *Tracker) isBehind(key client.ObjectKey, version string) (behind, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	r := t.ensureRecord(key)
	if len(r.own) == 0 || !isOlder(version, r.latestOwn()) {
		r.since = time.Time{}
		return false, false
	}

	if r.since.IsZero() {
		r.since = time.Now()
	} else if time.Since(r.since) > longestLag {
		r.own, r.since = nil, time.Time{}
		return false, false
	}

	// The cache has an object before its event is handed out.
	if r.seen != "" && !isOlder(r.seen, r.latestOwn()) && isOlder(version, r.seen) {
		return true, true
	}

	r.stopOne()
	r.waiting = true

	return true, false
}

// noteWritten notes the version that a pass wrote.
func (t *Tracker) noteWritten(key client.ObjectKey, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	r := t.ensureRecord(key)
	r.own = append(r.own, version)
	if surplus := len(r.own) - remembered; surplus > 0 {
		r.own = slices.Delete(r.own, 0, surplus)
	}
}

// endPass ends a pass or a write beside it, and reports whether somebody else has changed the object meanwhile.
func (t *Tracker) endPass(key client.ObjectKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.ensureRecord(key).stopOne()
}

// stopOne ends one of what is running, and reports with the last one whether an event was pending that is not our own.
func (r *record) stopOne() (others bool) {
	if r.running = max(r.running-1, 0); r.running > 0 {
		return false
	}

	others = slices.ContainsFunc(r.pending, func(version string) bool { return !slices.Contains(r.own, version) })
	r.pending = nil

	return others
}

func (r *record) latestOwn() string {
	if len(r.own) == 0 {
		return ""
	}

	return r.own[len(r.own)-1]
}

// isOlder reports whether a version of an object comes before another.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)

	return err == nil && order < 0
}
