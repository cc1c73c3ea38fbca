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

// LoginLimiter is a loginLimiter.
type LoginLimiter struct{ loginLimiter }

// NewLoginLimiter returns one with that store.
func NewLoginLimiter(store RefusalStore) *LoginLimiter {
	return &LoginLimiter{loginLimiter{store: store}}
}

// Reserve reserves a login.
func (l *LoginLimiter) Reserve(ctx context.Context, user string, now time.Time) (time.Time, bool) {
	return l.reserve(ctx, user, now)
}

// RecordRefusal records that a reserved login was refused.
func (l *LoginLimiter) RecordRefusal(ctx context.Context, user string, now time.Time) {
	l.recordRefusal(ctx, user, true, now)
}
