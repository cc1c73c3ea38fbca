package enginepool

import (
	"sync"
	"time"
)

// failureAge is how long an engine that gave no answer is not asked again for the same: it is enough that one reconcile
// waits for its time-out.
const failureAge = 3 * time.Second

// cachedAnswer is an answer of an engine. The first reconcile that finds it too old renews it for all, so that the
// engine sees one request per period, however many machines there are.
type cachedAnswer[T any] struct {
	mu     sync.Mutex
	answer T
	at     time.Time
	// err is that of the last try, at failed; nil where it succeeded.
	err    error
	failed time.Time
}

// within returns an answer that is at most maxAge old, and asks for a new one where there is none.
func (c *cachedAnswer[T]) within(maxAge time.Duration, ask func() (T, error)) (T, error) {
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

// listOf is the cached list of that key, made where there is none.
func listOf[K comparable, T any](p *Pool, lists *map[K]*cachedAnswer[T], key K) *cachedAnswer[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *lists == nil {
		*lists = map[K]*cachedAnswer[T]{}
	}

	if (*lists)[key] == nil {
		p.prune()
		(*lists)[key] = &cachedAnswer[T]{}
	}

	return (*lists)[key]
}
