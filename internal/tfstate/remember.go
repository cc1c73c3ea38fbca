package tfstate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file has what a Store remembers of states, so that a pass reads none that has not changed.

// held is what is remembered of a state: enough for decisions, and none of its secrets. The state is nil where there
// was none.
type held struct {
	owner   types.UID
	uid     types.UID // of the Secret
	version string
	at      time.Time
	// cached reports that the cache has had the Secret.
	cached bool
	state  *State
}

// cacheLag is how long a Secret that was read or written here is believed to be there although the cache has not had it
// yet.
const cacheLag = 2 * time.Second

// brief is the state without its text.
func (s *State) brief() *State {
	out := *s
	out.Raw = nil

	return &out
}

// remembered is the state of an owner whose Secret has not changed since it was read, nil where there was none; ok is
// false where that is not known.
func (s *Store) remembered(ctx context.Context, owner client.Object) (state *State, ok bool) {
	s.mu.Lock()
	known, ok := s.held[s.key(owner)]
	s.mu.Unlock()
	if s.Metadata == nil || !ok || known.owner != owner.GetUID() {
		return nil, false
	}

	now, err := s.cached(ctx, owner)
	if known.state == nil {
		return nil, apierrors.IsNotFound(err)
	}

	if apierrors.IsNotFound(err) && !known.cached && time.Since(known.at) < cacheLag {
		return known.state, true
	}

	if err != nil || now.UID != known.uid || !now.DeletionTimestamp.IsZero() {
		return nil, false
	}

	s.hasCached(owner, known.uid)

	// The cache may not have seen yet what was written here.
	newer, err := resourceversion.CompareResourceVersion(now.ResourceVersion, known.version)
	if now.ResourceVersion != known.version && (err != nil || newer > 0) {
		return nil, false
	}

	return known.state, true
}

// hasCached notes that the cache has had the Secret of an owner.
func (s *Store) hasCached(owner client.Object, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.held[s.key(owner)]; ok && known.uid == uid && !known.cached {
		known.cached = true
		s.held[s.key(owner)] = known
	}
}

// cached is the metadata of the Secret of an owner, as the cache has it.
func (s *Store) cached(ctx context.Context, owner client.Object) (*metav1.PartialObjectMetadata, error) {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))

	return out, s.Metadata.Get(ctx, s.key(owner), out)
}

// Unheard reports whether nothing is known of a state of the owner: the cache has no Secret, and none was read or
// written here. That is no proof, and good enough for Hold: a run reads past the cache.
func (s *Store) Unheard(ctx context.Context, owner client.Object) bool {
	s.mu.Lock()
	_, known := s.held[s.key(owner)]
	s.mu.Unlock()
	if s.Metadata == nil || known {
		return false
	}

	if _, err := s.cached(ctx, owner); !apierrors.IsNotFound(err) {
		return false
	}

	s.rememberNone(owner)

	return true
}

// rememberNone remembers that there is no state.
func (s *Store) rememberNone(owner client.Object) {
	if s.Metadata == nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[client.ObjectKey]held{}
	}

	// A run may have written one since it was looked for.
	if known, ok := s.held[s.key(owner)]; !ok || known.state == nil {
		s.held[s.key(owner)] = held{owner: owner.GetUID()}
	}
}

func (s *Store) remember(owner client.Object, secret client.Object, state *State) {
	if s.Metadata == nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[client.ObjectKey]held{}
	}

	// A store that read before another wrote must not undo what the other remembered.
	cached := false
	if known, ok := s.held[s.key(owner)]; ok && known.uid == secret.GetUID() {
		cached = known.cached
		newer, err := resourceversion.CompareResourceVersion(known.version, secret.GetResourceVersion())
		if err == nil && newer > 0 {
			return
		}
	}

	s.held[s.key(owner)] = held{
		owner:   owner.GetUID(),
		uid:     secret.GetUID(),
		version: secret.GetResourceVersion(),
		at:      time.Now(),
		cached:  cached,
		state:   state.brief(),
	}
}

// Forget forgets what is remembered of the state of an owner that is gone.
func (s *Store) Forget(owner types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKey{Namespace: owner.Namespace, Name: namePrefix + suffix(s.Prefix+owner.Name)}
	delete(s.held, key)
	delete(s.latest, key)
	delete(s.begun, key)
}

func (s *Store) forget(owner client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, s.key(owner))
}
