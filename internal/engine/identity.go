package engine

import (
	"context"
	"errors"
	"net/http"
	"strconv"
)

// Identity is what an engine says of itself at the beginning of a session.
type Identity struct {
	// Installation is the ID of the installation; "" if the engine does not say it.
	Installation string
	// NewestEvent is the ID of the newest event; 0 if the user sees none.
	NewestEvent int64
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

	return c.FetchIdentity(ctx, 0)
}

// FetchIdentity asks the engine which one it is, whatever it said before. An event that it has counts as the newest,
// although no list has it: an administrator may have dismissed it.
func (c *Client) FetchIdentity(ctx context.Context, event int64) (Identity, error) {
	token, err := c.login(ctx)
	if err != nil {
		return Identity{}, err
	}

	identity, err := c.askIdentity(ctx, event)
	if err != nil {
		return Identity{}, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.changed != nil {
		return Identity{}, c.changed
	}

	c.identity, c.identityOf = identity, token

	return identity, nil
}

// askIdentity sends the requests of FetchIdentity.
func (c *Client) askIdentity(ctx context.Context, event int64) (Identity, error) {
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
		identity.NewestEvent = events[0].Index
	}

	if identity.NewestEvent >= event {
		return identity, nil
	}

	// The answer for an event that is there was not recorded; that for one that is not is a 404.
	err = c.do(ctx, http.MethodGet, "/events/"+strconv.FormatInt(event, 10), nil, nil, nil)

	switch {
	case err == nil:
		identity.NewestEvent = event
	case IsTransient(err):
		return Identity{}, err
	}

	return identity, nil
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

	seen, err := c.askIdentity(ctx, known.NewestEvent)
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if seen.Installation != known.Installation || seen.NewestEvent != 0 && seen.NewestEvent < known.NewestEvent {
		c.changed = &UnreachableError{
			Err: errors.New("another engine, or the same one at an earlier time, answers at this URL"),
		}

		return c.changed
	}

	c.identity, c.identityOf = seen, token

	return nil
}

// isChanged reports whether another engine answers than the one that the client was made for.
func (c *Client) isChanged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.changed != nil
}
