package enginepool

import (
	"sync"
	"time"
)

// failureAge is the pause after a failed request before the engine gets the same request again. During the pause, other
// reconciles get the same error at once, instead of waiting for the timeout, too.
const failureAge = 3 * time.Second

// cachedAnswer is an answer of an engine. The first reconcile that finds it too old renews it for all others. So the
// engine gets one request per period, for any number of machines.
type cachedAnswer[T any] struct {
	mu     sync.Mutex
	answer T
	at     time.Time
	// err is the error of the last try, at the time failed. It is nil after a success.
	err    error
	failed time.Time
}

// getWithin returns an answer that is at most maxAge old. If the cached one is older, it calls ask.
func (c *cachedAnswer[T]) getWithin(maxAge time.Duration, ask func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) <= maxAge {
		return c.answer, nil
	}

	if c.err != nil && time.Since(c.failed) < failureAge {
		return c.answer, c.err
	}

	answer, err := ask()
	if err != nil {
		c.err, c.failed = err, time.Now()
		return answer, err
	}

	c.answer, c.at, c.err = answer, time.Now(), nil

	return c.answer, nil
}

// ensureAnswer returns the cached answer with this key, and creates it if necessary.
func ensureAnswer[K comparable, T any](r *Registry, answers *map[K]*cachedAnswer[T], key K) *cachedAnswer[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *answers == nil {
		*answers = map[K]*cachedAnswer[T]{}
	}

	if (*answers)[key] == nil {
		r.pruneEnded()
		(*answers)[key] = &cachedAnswer[T]{}
	}

	return (*answers)[key]
}
