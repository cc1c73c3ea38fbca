package steadytext_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatDiffersFromTryToTryIsTakenOut covers texts of libraries, API servers and engines with varying parts.
func TestWhatDiffersFromTryToTryIsTakenOut(t *testing.T) {
	first := time.Date(2026, 11, 9, 3, 4, 5, 123456789, time.UTC)
	texts := map[string]func(time.Time, int) string{
		"a time of Go": func(at time.Time, _ int) string {
			return "current time " + at.String() + " is after"
		},
		"a time of RFC 3339": func(at time.Time, _ int) string { return "expired at " + at.Format(time.RFC3339) },
		"with parts of a second": func(at time.Time, _ int) string {
			return "at " + at.Format(time.RFC3339Nano) + ": no"
		},
		"with an offset": func(at time.Time, _ int) string {
			return at.In(time.FixedZone("CET", 3600)).Format(time.RFC3339) + " no"
		},
		"a time of a log": func(at time.Time, _ int) string {
			return at.Format("2006-01-02 15:04:05,000-07") + " ERROR"
		},
		"a time of HTTP": func(at time.Time, _ int) string { return "since " + at.Format(http.TimeFormat) },
		"a time of Unix": func(at time.Time, _ int) string { return "at " + at.Format(time.UnixDate) + "." },
		"a time of Java": func(at time.Time, _ int) string {
			return at.Format("Jan 2, 2006, 3:04:05 PM") + " failed"
		},
		"a time of day": func(at time.Time, _ int) string {
			return "[" + at.Format(time.TimeOnly) + "] failed"
		},
		"seconds since 1970": func(at time.Time, _ int) string {
			return fmt.Sprintf(`{"timestamp": %d}`, at.UnixMilli())
		},
		"a local port": func(_ time.Time, n int) string {
			return fmt.Sprintf("read tcp 127.0.0.1:%d->10.0.0.1:443: no", n)
		},
		"a local port of IPv6": func(_ time.Time, n int) string {
			return fmt.Sprintf("read tcp [::1]:%d->[::1]:443: no", n)
		},
		"a pointer": func(_ time.Time, n int) string { return fmt.Sprintf("bad value 0xc000%06x", n) },
		"an attempt": func(_ time.Time, n int) string {
			return fmt.Sprintf("attempt %d of 50000 failed", n)
		},
		"a number of times": func(_ time.Time, n int) string { return fmt.Sprintf("failed %d times", n) },
		"retries":           func(_ time.Time, n int) string { return fmt.Sprintf("gave up (retries: %d)", n) },
		"a request ID": func(_ time.Time, n int) string {
			return fmt.Sprintf("no (request id: 7f%d-a1)", n)
		},
		"a correlation ID": func(_ time.Time, n int) string {
			return fmt.Sprintf("Correlation-Id=%d failed", n)
		},
		"a request in quotes": func(_ time.Time, n int) string { return fmt.Sprintf(`{"requestID":"r%d"}`, n) },
		"how long it took":    func(_ time.Time, n int) string { return fmt.Sprintf("gave up after %dm3.25s", n) },
		"how long ago":        func(_ time.Time, n int) string { return fmt.Sprintf("is that of %dm2s ago", n) },
		"how long it took, words": func(_ time.Time, n int) string {
			return fmt.Sprintf("timed out after %d seconds", n)
		},
	}

	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			a, b := text(first, 39211), text(first.Add(11*time.Second+time.Millisecond), 40007)
			if a == b {
				t.Fatal("the two texts are the same")
			}

			check.Equal(t, "text", steadytext.RemoveVarying(a), steadytext.RemoveVarying(b))
		})
	}
}

// TestWhatNamesThingsStays covers texts that look like a time or a counter, but identify an object.
func TestWhatNamesThingsStays(t *testing.T) {
	for _, text := range []string{
		"MAC address 56:6f:1a:00:00:01 is in use", "MAC address 00:11:22:33:44:55 is in use",
		"address fd00:10:20:30::1 is in use", "[2001:db8::10:20:30]:443 refused the connection",
		"VM ca19a686-ad1d-4f89-b234-05d1712b22bc does not exist", "waits for 3 machines: a, b, c",
		"https://10.0.0.1:8443/ovirt-engine: connection refused", "disk of 1099511627776 bytes is too large",
		"version 4.5.8 of 2026-11-09 is too old", "the request ID is missing", "device 0x10de is not there",
		"its serial is 5, but serial 7 was read before", "it took longer than 15m0s", "10.1.2.3-10.1.2.9 is in use",
	} {
		check.Equal(t, "text", steadytext.RemoveVarying(text), text)
	}

	long := strings.Repeat("a:1 ", 10_000)
	check.Equal(t, "a long text", steadytext.RemoveVarying(long), long)
}

// TestEachMessageOfAStatusIsSteady covers messages at every depth of a status, and texts that are not messages.
func TestEachMessageOfAStatusIsSteady(t *testing.T) {
	type condition struct{ Reason, Message string }
	type part struct {
		Conditions []condition
		Message    string
	}
	type status struct {
		Part  *part
		None  *part
		Parts []part
		Time  time.Time
	}
	const noisy, steady = "attempt 3 failed", "attempt … failed"
	noisyPart := part{Conditions: []condition{{Reason: noisy, Message: noisy}}, Message: noisy}
	object := struct {
		Message string
		Status  status
	}{noisy, status{Part: &noisyPart, Parts: []part{{Message: noisy}}, Time: time.Unix(5, 0)}}

	steadytext.SteadyMessages(&object)
	check.Equal(t, "message of no status", object.Message, noisy)
	check.Equal(t, "message", noisyPart.Message, steady)
	check.Equal(t, "condition", noisyPart.Conditions[0], condition{Reason: noisy, Message: steady})
	check.Equal(t, "message in a list", object.Status.Parts[0].Message, steady)
	check.Equal(t, "time", object.Status.Time, time.Unix(5, 0))

	steadytext.SteadyMessages(&struct{}{}) // an object without a status
}
