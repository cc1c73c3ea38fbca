package api

import (
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestManualClock(t *testing.T) {
	c := NewManualClock()
	begin := c.Now()

	var calls []string
	arrange := func(name string, in time.Duration) {
		c.CallAt(begin.Add(in), func() { calls = append(calls, name+" "+c.Now().Sub(begin).String()) })
	}
	expect := func(what, want string) {
		t.Helper()
		check.Equal(t, what, strings.Join(calls, ", "), want)
		calls = nil
	}

	arrange("late", 3*time.Second)
	arrange("first", time.Second)
	arrange("second", time.Second)
	c.CallAt(begin.Add(time.Second), func() { arrange("by a call", 2*time.Second) })
	expect("calls while it stands still", "")

	c.Advance(time.Second - 1)
	expect("calls before their time", "")
	c.Advance(1)
	expect("calls of one time, in their order", "first 1s, second 1s")

	check.Equal(t, "whether there is a next call", c.Step(), true)
	expect("the next call", "by a call 2s")
	c.Advance(time.Minute)
	expect("the rest", "late 3s")
	check.Equal(t, "whether there is a next call at the end", c.Step(), false)

	arrange("overdue", 0)
	check.Equal(t, "whether an overdue call is made", c.Step(), true)
	expect("a call whose time is over", "overdue 1m2s")
}
