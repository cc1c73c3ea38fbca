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

// This file lets a Store remember states, so that a pass reads only changed ones.

// held is a remembered state without secrets. It suffices for decisions. The state is nil if the owner had none.
type held struct {
	owner   types.UID
	uid     types.UID // UID of the Secret
	version string
	at      time.Time
	// cached reports whether the cache has ever had the Secret.
	cached bool
	state  *State
}

// cacheLag is how long a Secret missing from the cache still counts as existing after this store has read or written
// it.
const cacheLag = 2 * time.Second

// withoutText returns a copy of the state without its text.
func (s *State) withoutText() *State {
	out := *s
	out.Raw = nil

	return &out
}

// getRemembered returns the owner's state if its Secret has not changed since the last read. The state is nil if the
// owner had none. ok is false if the caller must read the state.
func (s *Store) getRemembered(ctx context.Context, owner client.Object) (state *State, ok bool) {
	s.mu.Lock()
	known, ok := s.held[s.secretKey(owner)]
	s.mu.Unlock()
	if s.Metadata == nil || !ok || known.owner != owner.GetUID() {
		return nil, false
	}

	now, err := s.getCached(ctx, owner)
	if known.state == nil {
		return nil, apierrors.IsNotFound(err)
	}

	if apierrors.IsNotFound(err) && !known.cached && time.Since(known.at) < cacheLag {
		return known.state, true
	}

	if err != nil || now.UID != known.uid || !now.DeletionTimestamp.IsZero() {
		return nil, false
	}

	s.markCached(owner, known.uid)

	// The cache may not have received this store's last write yet.
	newer, err := resourceversion.CompareResourceVersion(now.ResourceVersion, known.version)
	if now.ResourceVersion != known.version && (err != nil || newer > 0) {
		return nil, false
	}

	return known.state, true
}

// markCached records that the cache has the owner's Secret.
func (s *Store) markCached(owner client.Object, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.held[s.secretKey(owner)]; ok && known.uid == uid && !known.cached {
		known.cached = true
		s.held[s.secretKey(owner)] = known
	}
}

// getCached returns the metadata of the owner's Secret in the cache.
func (s *Store) getCached(ctx context.Context, owner client.Object) (*metav1.PartialObjectMetadata, error) {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))

	return out, s.Metadata.Get(ctx, s.secretKey(owner), out)
}

// CheckNoState checks whether the owner seems to have no state: the cache has no Secret, and this store has neither
// read nor written one. This is no proof, but it suffices for LoadAndRepair, because a run reads without the cache. If
// so, the store remembers it.
func (s *Store) CheckNoState(ctx context.Context, owner client.Object) bool {
	s.mu.Lock()
	_, known := s.held[s.secretKey(owner)]
	s.mu.Unlock()
	if s.Metadata == nil || known {
		return false
	}

	if _, err := s.getCached(ctx, owner); !apierrors.IsNotFound(err) {
		return false
	}

	s.rememberNone(owner)

	return true
}

// rememberNone remembers that the owner has no state.
func (s *Store) rememberNone(owner client.Object) {
	if s.Metadata == nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[client.ObjectKey]held{}
	}

	// A run may have saved a state since the read.
	if known, ok := s.held[s.secretKey(owner)]; !ok || known.state == nil {
		s.held[s.secretKey(owner)] = held{owner: owner.GetUID()}
	}
}

func (s *Store) rememberState(owner client.Object, secret client.Object, state *State) {
	if s.Metadata == nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[client.ObjectKey]held{}
	}

	// A slow reader must not replace a newer version that the store has remembered meanwhile.
	cached := false
	if known, ok := s.held[s.secretKey(owner)]; ok && known.uid == secret.GetUID() {
		cached = known.cached
		newer, err := resourceversion.CompareResourceVersion(known.version, secret.GetResourceVersion())
		if err == nil && newer > 0 {
			return
		}
	}

	s.held[s.secretKey(owner)] = held{
		owner:   owner.GetUID(),
		uid:     secret.GetUID(),
		version: secret.GetResourceVersion(),
		at:      time.Now(),
		cached:  cached,
		state:   state.withoutText(),
	}
}

// DropOwner drops everything remembered about the state of a deleted owner.
func (s *Store) DropOwner(owner types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKey{Namespace: owner.Namespace, Name: namePrefix + shortenSuffix(s.Prefix+owner.Name)}
	delete(s.held, key)
	delete(s.latest, key)
	delete(s.begun, key)
}

func (s *Store) dropHeld(owner client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, s.secretKey(owner))
}
