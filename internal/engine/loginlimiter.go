package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// maxRefusals is how many passwords of a user may be refused in a row. An engine's internal domain locks a user
	// after five, and directories after about as many; one is left for a person.
	maxRefusals = 4
	// refusalLifetime is the time after which one more refusal is forgotten.
	refusalLifetime = 6 * time.Hour
)

// RefusalStore stores how many passwords of each user the engine refused, so that the counts outlive the process.
type RefusalStore interface {
	// Load returns what was saved last; nil for nothing.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces it.
	Save(ctx context.Context, content []byte) error
}

// loginLimiter limits how many wrong passwords of one user the engine receives, across all tenants. Several tenants may
// use the same user, and each of them could lock it for the others. A password that the engine has accepted before does
// not count.
type loginLimiter struct {
	store RefusalStore // nil stores nothing

	mu     sync.Mutex
	loaded bool
	users  map[string]refusals
}

// refusals are those of a user of an engine, which are forgotten one by one.
type refusals struct {
	// Count of them at that time, with the part of one that is being forgotten.
	Count float64   `json:"count"`
	At    time.Time `json:"at"`
}

// after returns the refusals that are left at a time.
func (r refusals) after(now time.Time) refusals {
	passed := max(now.Sub(r.At), 0)

	return refusals{Count: max(r.Count-passed.Hours()/refusalLifetime.Hours(), 0), At: now}
}

// userKey tells users of engines apart. Engines do not distinguish capitals in names of users.
func userKey(host, username string) string {
	return strings.ToLower(strings.TrimSuffix(host, ":443")) + " " + strings.ToLower(username)
}

// reserve counts a login with a password that the engine has not accepted yet. If the limit is reached, ok is false, and
// retryAt is the earliest time for the next login. A pending login counts as refused, so that concurrent logins cannot
// exceed the limit.
func (l *loginLimiter) reserve(ctx context.Context, user string, now time.Time) (retryAt time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.load(ctx)

	known := l.users[user].after(now)
	if over := known.Count + 1 - maxRefusals; over > 0 {
		return now.Add(time.Duration(over * float64(refusalLifetime))), false
	}

	known.Count++
	l.users[user] = known

	return time.Time{}, true
}

// recordRefusal records a refusal. counted reports that reserve has counted it.
func (l *loginLimiter) recordRefusal(ctx context.Context, user string, counted bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.load(ctx)

	if !counted {
		known := l.users[user].after(now)
		known.Count++
		l.users[user] = known
	}

	l.save(ctx, now)
}

// reset forgets the refusals of a user; the engine also resets its count after a successful login.
func (l *loginLimiter) reset(ctx context.Context, user string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if _, known := l.users[user]; known {
		delete(l.users, user)
		l.save(ctx, now)
	}
}

// release takes back what reserve has counted.
func (l *loginLimiter) release(user string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	known := l.users[user].after(now)
	known.Count = max(known.Count-1, 0)
	l.users[user] = known
}

// load reads what earlier processes knew; mu is held. If that fails, the next login tries again.
func (l *loginLimiter) load(ctx context.Context) {
	if l.users == nil {
		l.users = map[string]refusals{}
	}

	if l.loaded || l.store == nil {
		return
	}

	content, err := l.store.Load(ctx)
	if err != nil {
		return
	}

	known := map[string]refusals{}
	_ = json.Unmarshal(content, &known) // invalid content, such as a manual edit, is ignored

	for user, earlier := range known {
		earlier.Count = min(max(earlier.Count, 0), maxRefusals)
		if l.users[user].Count < earlier.Count {
			l.users[user] = earlier
		}
	}

	l.loaded = true
}

// save keeps what is known; mu is held. If that fails, the next refusal tries again.
func (l *loginLimiter) save(ctx context.Context, now time.Time) {
	for user, known := range l.users {
		if known.after(now).Count == 0 {
			delete(l.users, user)
		}
	}

	if l.store == nil {
		return
	}

	if content, err := json.Marshal(l.users); err == nil {
		_ = l.store.Save(ctx, content)
	}
}

// tooManyRefusals is why a login is refused before the engine is asked.
func tooManyRefusals(username string) string {
	return fmt.Sprintf(
		"the engine refused several passwords of user %s, in this namespace or in others, and one more could lock the "+
			"user; the manager waits before the next login with new credentials. Correct each Secret that names this user",
		username,
	)
}
