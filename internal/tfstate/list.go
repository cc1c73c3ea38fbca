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

// This file has how a Store reads the states of a namespace all at once, after a restart, when none is remembered.

const (
	// unlisted is how many states of a namespace are read one by one within listFor before the others are read at once.
	unlisted = 3
	// listPage is how many are read with one request: a state that still has user data may have a hundred KiB.
	listPage = 50
	// listFor is how long what was read at once waits for those who ask. Nobody asks for that of an owner that is gone.
	listFor = time.Minute
)

// stateList is what was read of a namespace.
type stateList struct {
	mu sync.Mutex
	// missed counts the states that were read one by one since the first of them.
	missed int
	since  time.Time
	// states by the names of their Secrets, nil where they were not read at once; each is handed out once.
	states map[string]listedState
}

// listedState is a state with the metadata of its Secret: not its text, which may be large.
type listedState struct {
	metadata metav1.ObjectMeta
	state    *State
}

// listed is the state of an owner among those of its namespace that were read at once; false where it has to be read
// alone. What was read at once may have become old: the cache knows.
func (s *Store) listed(ctx context.Context, owner client.Object, clusterName string) (*State, bool) {
	if s.Metadata == nil {
		return nil, false
	}

	list := s.listOf(owner.GetNamespace())
	list.mu.Lock()
	defer list.mu.Unlock()

	if list.states == nil && !s.fill(ctx, list, owner.GetNamespace()) {
		return nil, false
	}

	found, ok := list.states[s.SecretName(owner)]
	delete(list.states, s.SecretName(owner))
	if !ok {
		return nil, false
	}

	if now, err := s.cached(ctx, owner); err != nil || now.ResourceVersion != found.metadata.ResourceVersion {
		return nil, false
	}

	secret := &corev1.Secret{ObjectMeta: found.metadata}
	before := secret.DeepCopy()
	if err := s.tie(secret, owner, clusterName); err != nil || !equality.Semantic.DeepEqual(before, secret) {
		return nil, false // it has to be written
	}

	s.remember(owner, secret, found.state)

	return found.state, true
}

// fill reads the states of a namespace, where enough were read alone a moment ago; list.mu is held. What nobody asks
// for is forgotten after a while.
func (s *Store) fill(ctx context.Context, list *stateList, namespace string) bool {
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

func (s *Store) listOf(namespace string) *stateList {
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

// readAll reads the states of a namespace that are as they should be, as many as it can: each that is missing is read
// alone.
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
			if state, err := Decode(secret); err == nil && secret.DeletionTimestamp.IsZero() {
				secret.ManagedFields = nil
				out[secret.Name] = listedState{metadata: secret.ObjectMeta, state: state.brief()}
			}
		}

		if options.Continue = page.Continue; page.Continue == "" {
			return out
		}
	}
}
