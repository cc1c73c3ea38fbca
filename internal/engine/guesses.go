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
	// mostGuesses is how many passwords of a user may be refused in a row. An engine's internal domain locks a user
	// after five, and directories after about as many; one is left for a person.
	mostGuesses = 4
	// guessPeriod is how long it takes until one refusal more is forgotten.
	guessPeriod = 6 * time.Hour
)

// Guesses keeps what is known of refused passwords where it outlives the process.
type Guesses interface {
	// Load returns what was saved last; nil for nothing.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces it.
	Save(ctx context.Context, content []byte) error
}

// guesses bound how many wrong passwords of one user an engine is sent, whoever has them: several tenants may name the
// same user, and each of them could lock it for all. A password that was accepted before is no guess.
type guesses struct {
	kept Guesses // nil keeps nothing

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

	return refusals{Count: max(r.Count-passed.Hours()/guessPeriod.Hours(), 0), At: now}
}

// userKey tells users of engines apart. Engines do not distinguish capitals in names of users.
func userKey(host, username string) string {
	return strings.ToLower(strings.TrimSuffix(host, ":443")) + " " + strings.ToLower(username)
}

// begin counts a login with a password that was not accepted yet. ok is false if too many were refused: the login is not
// to be tried until the time that is returned. A login that goes on counts as refused, so that many at once are not too
// many.
func (g *guesses) begin(ctx context.Context, user string, now time.Time) (retryAt time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.load(ctx)

	known := g.users[user].after(now)
	if over := known.Count + 1 - mostGuesses; over > 0 {
		return now.Add(time.Duration(over * float64(guessPeriod))), false
	}

	known.Count++
	g.users[user] = known

	return time.Time{}, true
}

// refused keeps a refusal. counted reports that begin has counted it.
func (g *guesses) refused(ctx context.Context, user string, counted bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.load(ctx)

	if !counted {
		known := g.users[user].after(now)
		known.Count++
		g.users[user] = known
	}

	g.save(ctx, now)
}

// accepted forgets the refusals of a user: the engine has, too.
func (g *guesses) accepted(ctx context.Context, user string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if _, known := g.users[user]; known {
		delete(g.users, user)
		g.save(ctx, now)
	}
}

// unanswered takes back what begin has counted.
func (g *guesses) unanswered(user string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()

	known := g.users[user].after(now)
	known.Count = max(known.Count-1, 0)
	g.users[user] = known
}

// load reads what earlier processes knew; mu is held. If that fails, the next login tries again.
func (g *guesses) load(ctx context.Context) {
	if g.users == nil {
		g.users = map[string]refusals{}
	}

	if g.loaded || g.kept == nil {
		return
	}

	content, err := g.kept.Load(ctx)
	if err != nil {
		return
	}

	known := map[string]refusals{}
	_ = json.Unmarshal(content, &known) // what somebody else wrote there is passed over

	for user, earlier := range known {
		earlier.Count = min(max(earlier.Count, 0), mostGuesses)
		if g.users[user].Count < earlier.Count {
			g.users[user] = earlier
		}
	}

	g.loaded = true
}

// save keeps what is known; mu is held. If that fails, the next refusal tries again.
func (g *guesses) save(ctx context.Context, now time.Time) {
	for user, known := range g.users {
		if known.after(now).Count == 0 {
			delete(g.users, user)
		}
	}

	if g.kept == nil {
		return
	}

	if content, err := json.Marshal(g.users); err == nil {
		_ = g.kept.Save(ctx, content)
	}
}

// tooManyGuesses is why a login is refused before the engine is asked.
func tooManyGuesses(username string) string {
	return fmt.Sprintf(
		"passwords of user %s were refused several times, here or for others, and one more could lock the user; correct "+
			"the credentials of all that name the user. A login with other credentials waits",
		username,
	)
}
