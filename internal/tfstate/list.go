package tfstate

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file lets a Store read all states of a namespace at once, because it remembers no state after a restart.

const (
	// unlisted is how many states of a namespace the store reads one by one within listFor. The next read then fetches
	// all states at once.
	unlisted = 3
	// listPage is the number of states per list request. A state with user data may take a hundred KiB.
	listPage = 50
	// listFor limits how long the store keeps listed states for their owners. Deleted owners never ask for theirs.
	listFor = time.Minute
)

// stateList holds the listed states of one namespace.
type stateList struct {
	mu sync.Mutex
	// missed counts the states read one by one since the time since.
	missed int
	since  time.Time
	// states has the listed states by the names of their Secrets. Each entry is used once. The map is nil unless the
	// namespace was listed.
	states map[string]listedState
}

// listedState is a state with the metadata of its Secret. It lacks the text of the state, because the text may be
// large.
type listedState struct {
	metadata metav1.ObjectMeta
	state    *State
}

// findListed returns the owner's state from the list of its namespace. It returns false if the caller must read the
// state itself. It compares the listed version with the cache, because the list may be outdated.
func (s *Store) findListed(ctx context.Context, owner client.Object, clusterName string) (*State, bool) {
	if s.Metadata == nil {
		return nil, false
	}

	list := s.getList(owner.GetNamespace())
	list.mu.Lock()
	defer list.mu.Unlock()

	if list.states == nil && !s.fillList(ctx, list, owner.GetNamespace()) {
		return nil, false
	}

	found, ok := list.states[s.SecretName(owner)]
	delete(list.states, s.SecretName(owner))
	if !ok {
		return nil, false
	}

	if now, err := s.getCached(ctx, owner); err != nil || now.ResourceVersion != found.metadata.ResourceVersion {
		return nil, false
	}

	secret := &corev1.Secret{ObjectMeta: found.metadata}
	before := secret.DeepCopy()
	if err := s.markOwned(secret, owner, clusterName); err != nil || !equality.Semantic.DeepEqual(before, secret) {
		return nil, false // the Secret needs a repair
	}

	s.rememberState(owner, secret, found.state)

	return found.state, true
}

// fillList lists the states of a namespace if the store has just read enough of them one by one. A timer drops the list
// after listFor. The caller holds list.mu.
func (s *Store) fillList(ctx context.Context, list *stateList, namespace string) bool {
	if time.Since(list.since) > listFor {
		list.missed, list.since = 0, time.Now()
	}

	if list.missed++; list.missed <= unlisted {
		return false
	}

	list.states = s.readAll(ctx, namespace)
	time.AfterFunc(listFor, func() {
		list.mu.Lock()
		defer list.mu.Unlock()
		list.missed, list.since, list.states = 0, time.Now(), nil
	})

	return true
}

func (s *Store) getList(namespace string) *stateList {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.lists == nil {
		s.lists = map[string]*stateList{}
	}

	if s.lists[namespace] == nil {
		s.lists[namespace] = &stateList{}
	}

	return s.lists[namespace]
}

// readAll returns as many valid states of a namespace as it can. Callers read each missing state one by one.
func (s *Store) readAll(ctx context.Context, namespace string) map[string]listedState {
	out := map[string]listedState{}
	options := &client.ListOptions{Namespace: namespace, Limit: listPage}
	client.MatchingLabels{stateLabel: "true"}.ApplyToList(options)

	for {
		var page corev1.SecretList
		if err := s.Reader.List(ctx, &page, options); err != nil {
			return out
		}

		for i := range page.Items {
			secret := &page.Items[i]
			if state, err := DecodeSecret(secret); err == nil && secret.DeletionTimestamp.IsZero() {
				secret.ManagedFields = nil
				out[secret.Name] = listedState{metadata: secret.ObjectMeta, state: state.withoutText()}
			}
		}

		if options.Continue = page.Continue; page.Continue == "" {
			return out
		}
	}
}
