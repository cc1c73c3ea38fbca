package engine

import (
	"context"
	"net/url"
	"time"
)

// HoldTime has the client take the present for all times: what it remembers does not age while a test counts requests.
func (c *Client) HoldTime() {
	present := time.Now()
	c.now = func() time.Time { return present }
}

// SetClock has the client take the time from a function.
func (c *Client) SetClock(now func() time.Time) { c.now = now }

// LoginLimiter is a loginLimiter.
type LoginLimiter struct{ loginLimiter }

// NewLoginLimiter returns one with that store.
func NewLoginLimiter(store RefusalStore) *LoginLimiter {
	return &LoginLimiter{loginLimiter{store: store}}
}

// Reserve reserves a login.
func (l *LoginLimiter) Reserve(ctx context.Context, user string, now time.Time) (time.Time, bool) {
	return l.reserve(ctx, []string{user}, maxRefusals, now)
}

// RecordRefusal records that a reserved login was refused.
func (l *LoginLimiter) RecordRefusal(ctx context.Context, user, password string, now time.Time) {
	l.recordRefusal(ctx, []string{user}, password, true, now)
}

// RecordSuccess records that a login succeeded.
func (l *LoginLimiter) RecordSuccess(ctx context.Context, user, password string, now time.Time) {
	l.recordSuccess(ctx, []string{user}, password, now)
}

// IsAccepted reports whether a password is the user's last one that the engine accepted.
func (l *LoginLimiter) IsAccepted(ctx context.Context, user, password string) bool {
	return l.isAccepted(ctx, []string{user}, password)
}

// UserKeys are the keys of a user of an engine.
func UserKeys(ctx context.Context, base *url.URL, username string) []string {
	return userKeys(ctx, base, username)
}

// ReachedKeys are the keys of a user at which a login has succeeded.
func ReachedKeys(base *url.URL, remote, username string) []string {
	return reachedKeys(base, remote, username)
}

// MaxUsers is how many users are remembered.
const MaxUsers = maxUsers
