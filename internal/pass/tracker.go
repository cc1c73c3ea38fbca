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
	// remembered is how many of our own versions of an object a tracker remembers. A pass writes two.
	remembered = 8
	// retryOutdated is the time until the next pass over an object that another client has changed, or that the cache
	// does not have yet. An event starts this pass earlier.
	retryOutdated = time.Second
	// longestLag is the maximum time for which passes wait for the cache. Versions decrease when a backup of the API
	// server is restored.
	longestLag = 10 * time.Second
	// atOnce is the time until the next pass over an object that has changed during a pass.
	atOnce = time.Millisecond
)

// ErrBehind reports that a pass did not start, because the cache has an older object than the last write of an earlier
// pass. Another pass starts when the cache has caught up.
var ErrBehind = errors.New("the cache does not have yet what was written last")

// Tracker remembers the writes of one controller's passes. The zero value is usable.
type Tracker struct {
	mu      sync.Mutex
	objects map[client.ObjectKey]*record
}

// record is the tracker's knowledge of one object.
type record struct {
	// own are the versions that passes have written, the latest last.
	own []string
	// seen is the version in the latest event.
	seen string
	// running is the number of running passes and other writes. pending are the versions in events during this time.
	// Only after all of them have ended is it known which of these versions are our own.
	running int
	pending []string
	// waiting reports that the next pass waits until the cache has the latest version in own. since is the time at
	// which the first pass began to wait.
	waiting bool
	since   time.Time
}

// BeginPass reads an object for a pass, using a client with a cache. Without an error, the caller must call End at the
// end of the pass. Otherwise, the error is ErrBehind or that of the client, for example if the object does not exist.
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

// WriteBeside calls write, which writes an object outside of its passes and returns the new version. This write starts
// no pass. others reports that another client has changed the object meanwhile. Then the caller must start a pass.
func (t *Tracker) WriteBeside(key client.ObjectKey, write func() (version string, err error)) (others bool, err error) {
	t.startRunning(key)
	version, err := write()
	if err == nil {
		t.noteWritten(key, version)
	}

	return t.endPass(key), err
}

// ChangedPredicate accepts the events of objects except those that come from writes of passes.
func (t *Tracker) ChangedPredicate() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || // a resync
				t.isNews(client.ObjectKeyFromObject(e.ObjectNew), e.ObjectNew.GetResourceVersion())
		},
	}
}

// isNews reports whether a version of an object starts a pass.
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

// ensureRecord returns the record of an object, and creates a missing one. The caller must hold mu.
func (t *Tracker) ensureRecord(key client.ObjectKey) *record {
	if t.objects == nil {
		t.objects = map[client.ObjectKey]*record{}
	}

	if t.objects[key] == nil {
		t.objects[key] = &record{}
	}

	return t.objects[key]
}

// abortPass ends a pass that could not start. The next pass handles the events since then. The error of this pass
// requests that next pass.
func (t *Tracker) abortPass(key client.ObjectKey, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if gone {
		delete(t.objects, key)
		return
	}

	t.ensureRecord(key).stopOne()
}

// isBehind reports whether a version of an object is older than the last write of a pass. The result again reports that
// the cache has caught up since the read, so that the caller must read again. Otherwise, the pass does not start.
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

	// The cache has an object before it delivers the object's event.
	if r.seen != "" && !isOlder(r.seen, r.latestOwn()) && isOlder(version, r.seen) {
		return true, true
	}

	r.stopOne()
	r.waiting = true

	return true, false
}

// noteWritten records the version that a pass wrote.
func (t *Tracker) noteWritten(key client.ObjectKey, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	r := t.ensureRecord(key)
	r.own = append(r.own, version)
	if surplus := len(r.own) - remembered; surplus > 0 {
		r.own = slices.Delete(r.own, 0, surplus)
	}
}

// endPass ends a pass or another write, and reports whether another client has changed the object meanwhile.
func (t *Tracker) endPass(key client.ObjectKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.ensureRecord(key).stopOne()
}

// stopOne ends one of the running passes and writes. After the last one, it reports whether an event with a version not
// written by us is pending.
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

// isOlder reports whether a version of an object is older than another version.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)

	return err == nil && order < 0
}
