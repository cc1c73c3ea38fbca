package engine

import (
	"context"
	"time"
)

// HoldTime has the client take the present for all times: what it remembers does not age while a test counts requests.
func (c *Client) HoldTime() {
	present := time.Now()
	c.now = func() time.Time { return present }
}

// CountedGuesses are the guesses of tests.
type CountedGuesses struct{ guesses }

// NewGuesses returns guesses that are kept there.
func NewGuesses(kept Guesses) *CountedGuesses { return &CountedGuesses{guesses{kept: kept}} }

// Begin begins a login.
func (g *CountedGuesses) Begin(ctx context.Context, user string, now time.Time) (time.Time, bool) {
	return g.begin(ctx, user, now)
}

// Refused ends one that was refused.
func (g *CountedGuesses) Refused(ctx context.Context, user string, now time.Time) {
	g.refused(ctx, user, true, now)
}
