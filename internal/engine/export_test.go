package engine

import (
	"context"
	"net/url"
	"time"
)

// HoldTime stops the client's clock, so its caches do not age while a test counts requests.
func (c *Client) HoldTime() {
	present := time.Now()
	c.now = func() time.Time { return present }
}

// SetClock replaces the client's clock.
func (c *Client) SetClock(now func() time.Time) { c.now = now }

// LoginLimiter is a loginLimiter.
type LoginLimiter struct{ loginLimiter }

// NewLoginLimiter returns a LoginLimiter with this store.
func NewLoginLimiter(store RefusalStore) *LoginLimiter {
	return &LoginLimiter{loginLimiter{store: store}}
}

// Reserve reserves a login.
func (l *LoginLimiter) Reserve(ctx context.Context, user string, now time.Time) (time.Time, bool) {
	return l.reserveLogin(ctx, []string{user}, maxRefusals, now)
}

// RecordRefusal records that a reserved login was refused.
func (l *LoginLimiter) RecordRefusal(ctx context.Context, user, password string, now time.Time) {
	l.recordRefusal(ctx, []string{user}, password, true, now)
}

// RecordSuccess records that a login succeeded.
func (l *LoginLimiter) RecordSuccess(ctx context.Context, user, password string, now time.Time) {
	l.recordSuccess(ctx, []string{user}, password, now)
}

// IsAccepted reports whether a password is the user's last accepted one.
func (l *LoginLimiter) IsAccepted(ctx context.Context, user, password string) bool {
	return l.isAccepted(ctx, []string{user}, password)
}

// UserKeys returns the keys of a user of an engine.
func UserKeys(ctx context.Context, base *url.URL, username string) []string {
	return userKeys(ctx, base, username)
}

// ReachedKeys returns the keys of a user after a successful login.
func ReachedKeys(base *url.URL, remote, username string) []string {
	return reachedKeys(base, remote, username)
}

// MaxUsers is the maximum number of remembered users.
const MaxUsers = maxUsers
