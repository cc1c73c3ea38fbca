package engine

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Identity is what an engine says of itself at the beginning of a session.
type Identity struct {
	// Installation is the ID of the installation; "" if the engine does not say it.
	Installation string
	// NewestEvent is the ID of the newest event; 0 if the user sees none. NewestTime is when it was; zero if unknown.
	NewestEvent int64
	NewestTime  time.Time
	// Forgot reports that the engine does not have the event that it was asked for, although it has only older ones, or
	// that another event has its ID: a restored engine gives the same IDs again.
	Forgot bool
}

// identifying marks the requests by which a client finds out which engine answers.
type identifying struct{}

// Identity returns what the engine said of itself. It asks once in each session, because only a new session can be
// with another engine, or with one whose database was restored.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	token, err := c.login(ctx)
	if err != nil {
		return Identity{}, err
	}

	if err := c.checkSession(ctx, token); err != nil {
		return Identity{}, err
	}

	c.mu.Lock()
	known, of := c.identity, c.identityOf
	c.mu.Unlock()

	if of == token {
		return known, nil
	}

	return c.FetchIdentity(ctx, 0, time.Time{})
}

// maxSeenEvents bounds the events that a session remembers.
const maxSeenEvents = 10_000

// HasSeenEvent reports whether this session has asked the engine for an event, and got it.
func (c *Client) HasSeenEvent(id int64, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	seen, ok := c.seenEvents[id]

	return ok && sameSecond(seen, at)
}

// FetchIdentity asks the engine which one it is, whatever it said before, and whether it has an event of that ID and
// time; ID 0 means none. An event that it has counts as the newest, although no list has it: an administrator may have
// dismissed it.
func (c *Client) FetchIdentity(ctx context.Context, event int64, at time.Time) (Identity, error) {
	token, err := c.login(ctx)
	if err != nil {
		return Identity{}, err
	}

	identity, err := c.askIdentity(ctx, event, at)
	if err != nil {
		return Identity{}, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.changed != nil {
		return Identity{}, c.changed
	}

	if c.identityOf != token || len(c.seenEvents) == 0 || len(c.seenEvents) > maxSeenEvents {
		c.seenEvents = map[int64]time.Time{}
	}

	c.identity, c.identityOf = identity, token
	c.identity.Forgot = false // that is about the event of this call
	c.seenEvents[identity.NewestEvent] = identity.NewestTime

	if event != 0 && !identity.Forgot {
		c.seenEvents[event] = at
	}

	return identity, nil
}

// askIdentity sends the requests of FetchIdentity.
func (c *Client) askIdentity(ctx context.Context, event int64, at time.Time) (Identity, error) {
	ctx = context.WithValue(ctx, identifying{}, true)

	product, err := c.Product(ctx)
	if err != nil {
		return Identity{}, err
	}

	identity := Identity{Installation: product.InstanceID}

	events, err := c.Events(ctx, "", 1)
	if IsTransient(err) {
		return Identity{}, err
	}

	if len(events) > 0 {
		identity.NewestEvent, identity.NewestTime = events[0].Index, events[0].at()
	}

	switch {
	case event == 0, identity.NewestEvent == 0: // a user who sees no events is told of none
		return identity, nil
	case identity.NewestEvent == event:
		identity.Forgot = !sameSecond(identity.NewestTime, at)

		return identity, nil
	}

	return identity, c.lookForEvent(ctx, &identity, event, at)
}

// lookForEvent looks for an event that is not the newest of the list.
func (c *Client) lookForEvent(ctx context.Context, identity *Identity, event int64, at time.Time) error {
	var found Event

	// The answer for an event that is there was not recorded; that for one that is not is a 404.
	err := c.do(ctx, http.MethodGet, "/events/"+strconv.FormatInt(event, 10), nil, nil, &found)

	switch {
	case IsTransient(err):
		return err
	case err != nil: // one that is older than the newest may have been cleaned up
		identity.Forgot = identity.NewestEvent < event
	case !sameSecond(found.at(), at):
		identity.Forgot = true
	case identity.NewestEvent < event:
		identity.NewestEvent, identity.NewestTime = event, found.at()
	}

	return nil
}

// sameSecond reports whether two times are the same as far as they are known: an object records only seconds.
func sameSecond(a, b time.Time) bool {
	return a.IsZero() || b.IsZero() || a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}

// checkSession checks, at the first request of a new session, that the engine is the one of the session before. If it
// is not, the client refuses all that follows, so that nobody begins with one engine and goes on with the other.
// Sessions makes a new client then.
func (c *Client) checkSession(ctx context.Context, token string) error {
	c.mu.Lock()
	changed, known, of := c.changed, c.identity, c.identityOf
	c.mu.Unlock()

	if changed != nil {
		return changed
	}

	if of == "" || of == token || ctx.Value(identifying{}) != nil {
		return nil
	}

	seen, err := c.askIdentity(ctx, known.NewestEvent, known.NewestTime)
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if seen.Installation != known.Installation || seen.Forgot {
		c.changed = &UnreachableError{
			Err: errors.New("another engine, or the same one at an earlier time, answers at this URL"),
		}

		return c.changed
	}

	c.identity, c.identityOf, c.seenEvents = seen, token, nil

	return nil
}

// isChanged reports whether another engine answers than the one that the client was made for.
func (c *Client) isChanged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.changed != nil
}
