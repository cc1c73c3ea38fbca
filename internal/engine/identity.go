package engine

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Identity is an engine's report on itself at the beginning of a session.
type Identity struct {
	// Installation is the ID of the installation, or "" if the engine omits it.
	Installation string
	// NewestEvent is the ID of the newest event, or 0 if the user sees none. NewestTime is its time, or zero if
	// unknown.
	NewestEvent int64
	NewestTime  time.Time
	// Forgot reports whether the engine no longer has the requested event: it has only older events, or a different
	// event with this ID. An engine restored from a backup assigns the same IDs again.
	Forgot bool
}

// identifying is the context key of the requests that read the engine's identity.
type identifying struct{}

// LoadIdentity returns the engine's identity. It sends requests only once per session, because only a new session can
// reach another engine, or an engine with a restored database.
func (c *Client) LoadIdentity(ctx context.Context) (Identity, error) {
	token, err := c.ensureLogin(ctx)
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

// maxSeenEvents limits the events remembered per session.
const maxSeenEvents = 10_000

// HasSeenEvent reports whether this session has received an event from the engine.
func (c *Client) HasSeenEvent(id int64, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	seen, ok := c.seenEvents[id]

	return ok && isSameSecond(seen, at)
}

// FetchIdentity reads the engine's identity again, and looks for the event with this ID and time. ID 0 looks for no
// event. A found event counts as the newest even if the list lacks it, because an administrator may have dismissed it.
func (c *Client) FetchIdentity(ctx context.Context, event int64, at time.Time) (Identity, error) {
	token, err := c.ensureLogin(ctx)
	if err != nil {
		return Identity{}, err
	}

	identity, err := c.requestIdentity(ctx, event, at)
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
	c.identity.Forgot = false // Forgot is valid only for this call
	c.seenEvents[identity.NewestEvent] = identity.NewestTime

	if event != 0 && !identity.Forgot {
		c.seenEvents[event] = at
	}

	return identity, nil
}

// requestIdentity sends the requests of FetchIdentity.
func (c *Client) requestIdentity(ctx context.Context, event int64, at time.Time) (Identity, error) {
	ctx = context.WithValue(ctx, identifying{}, true)

	product, err := c.FetchProduct(ctx)
	if err != nil {
		return Identity{}, err
	}

	identity := Identity{Installation: product.InstanceID}

	events, err := c.ListEvents(ctx, "", 1)
	if IsTransient(err) {
		return Identity{}, err
	}

	if len(events) > 0 {
		identity.NewestEvent, identity.NewestTime = events[0].Index, events[0].parseTime()
	}

	switch {
	case event == 0, identity.NewestEvent == 0: // the user sees no events
		return identity, nil
	case identity.NewestEvent == event:
		identity.Forgot = !isSameSecond(identity.NewestTime, at)

		return identity, nil
	}

	return identity, c.lookForEvent(ctx, &identity, event, at)
}

// lookForEvent looks for an event that is not the newest in the list.
func (c *Client) lookForEvent(ctx context.Context, identity *Identity, event int64, at time.Time) error {
	var found Event

	// The answer for a missing event is a 404. No recording has the answer for an existing one.
	err := c.callEngine(ctx, http.MethodGet, "/events/"+strconv.FormatInt(event, 10), nil, nil, &found)

	switch {
	case IsTransient(err):
		return err
	case err != nil: // the engine may have deleted an old event
		identity.Forgot = identity.NewestEvent < event
	case !isSameSecond(found.parseTime(), at):
		identity.Forgot = true
	case identity.NewestEvent < event:
		identity.NewestEvent, identity.NewestTime = event, found.parseTime()
	}

	return nil
}

// isSameSecond reports whether two times are equal to the second, because objects record only seconds. An unknown time
// is equal to any other.
func isSameSecond(a, b time.Time) bool {
	return a.IsZero() || b.IsZero() || a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}

// checkSession runs before the first request of a new session. It checks that the engine is still the one of the
// previous session. If not, the client refuses all further requests, so that no operation begins on one engine and
// continues on another. Sessions then creates a new client.
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

	seen, err := c.requestIdentity(ctx, known.NewestEvent, known.NewestTime)
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

// isChanged reports whether the client has found a different engine.
func (c *Client) isChanged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.changed != nil
}
