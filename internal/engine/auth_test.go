package engine

import (
	"testing"
	"time"
)

// TestHowLongRefusedCredentialsRest has the messages of a running engine's refusals: M10, D9. The client does not retry
// permanent refusals for long. A directory server that is down looks like a wrong password, so the client soon tries
// again.
func TestHowLongRefusedCredentialsRest(t *testing.T) {
	const (
		wrong   = "Unable to log in. Verify your login information or contact the system administrator.."
		profile = "No valid profile found in credentials.."
		longest = refusalLifetime
	)

	tests := map[string]struct {
		user, message string
		failures      int
		want          time.Duration
	}{
		"a wrong password, the first time":           {"admin@internal", wrong, 0, 30 * time.Second},
		"a wrong password, the second time":          {"admin@internal", wrong, 1, 2 * time.Minute},
		"a wrong password, the third time":           {"admin@internal", wrong, 2, time.Hour},
		"a wrong password, again and again":          {"admin@internal", wrong, 9, longest},
		"a directory user, the first time":           {"jane@example.com", wrong, 0, 30 * time.Second},
		"a directory user, again and again":          {"jane@example.com", wrong, 9, 10 * time.Minute},
		"a profile that is not there, at once":       {"admin@nowhere", profile, 0, time.Hour},
		"a user whose password has expired, at once": {"jane@example.com", "The password has expired.", 0, time.Hour},
	}
	for name, test := range tests {
		if got := computeAuthPause(test.user, test.message, test.failures); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
