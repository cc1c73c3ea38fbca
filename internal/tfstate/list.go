package tfstate

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file has how a Store reads the states of a namespace all at once, after a restart, when none is remembered.

const (
	// unlisted is how many states of a namespace are read one by one before the others are read all at once.
	unlisted = 3
	// listPage is how many are read with one request: a state that still has user data may have a hundred KiB.
	listPage = 50
	// listFor is how long what was read at once waits for those who ask. Nobody asks for that of an owner that is gone.
	listFor = time.Minute
)

// stateList is what was read of a namespace.
type stateList struct {
	mu sync.Mutex
	// missed counts the states that were read one by one.
	missed int
	// at is when the others were read; zero where they were not yet.
	at time.Time
	// secrets by name; each is handed out once.
	secrets map[string]*corev1.Secret
}

// listed is the Secret of an owner among those of its namespace that were read at once; nil where it has to be read
// alone. What was read at once may have become old: the cache knows.
func (s *Store) listed(ctx context.Context, owner client.Object) *corev1.Secret {
	if s.Metadata == nil {
		return nil
	}

	list := s.listOf(owner.GetNamespace())
	list.mu.Lock()
	defer list.mu.Unlock()

	if list.missed++; list.missed > unlisted && list.at.IsZero() {
		list.at = time.Now()
		list.secrets = s.readAll(ctx, owner.GetNamespace())
	}

	if !list.at.IsZero() && time.Since(list.at) > listFor {
		list.missed, list.at, list.secrets = 0, time.Time{}, nil
	}

	secret := list.secrets[s.SecretName(owner)]
	if secret == nil {
		return nil
	}

	delete(list.secrets, secret.Name)
	if now, err := s.cached(ctx, owner); err != nil || now.ResourceVersion != secret.ResourceVersion {
		return nil
	}

	return secret
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

// readAll reads the states of a namespace, as many as it can: each that is missing is read alone.
func (s *Store) readAll(ctx context.Context, namespace string) map[string]*corev1.Secret {
	out := map[string]*corev1.Secret{}
	options := &client.ListOptions{Namespace: namespace, Limit: listPage}
	client.MatchingLabels{stateLabel: "true"}.ApplyToList(options)

	for {
		var page corev1.SecretList
		if err := s.Reader.List(ctx, &page, options); err != nil {
			return out
		}

		for i := range page.Items {
			out[page.Items[i].Name] = page.Items[i].DeepCopy() // which keeps no page
		}

		if options.Continue = page.Continue; page.Continue == "" {
			return out
		}
	}
}
