package testenv

import (
	"flag"
	"testing"
	"time"
)

// begun is when the test binary began.
var begun = time.Now()

// RunAfterSetup runs the tests of a package that TestMain has prepared. The command go test ends a binary by the time
// since its start, but the package testing counts -timeout from here. After a long setup go test would end the tests
// before their own deadline, and no test could say what it waited for.
func RunAfterSetup(m *testing.M) int {
	if !flag.Parsed() {
		flag.Parse()
	}

	limit := flag.Lookup("test.timeout")
	if value, ok := limit.Value.(flag.Getter).Get().(time.Duration); ok && value > 0 {
		_ = limit.Value.Set(leftOf(value, time.Since(begun)).String())
	}

	return m.Run()
}

// leftOf is what a setup has left of a time limit; 0 would mean no limit.
func leftOf(limit, setup time.Duration) time.Duration { return max(limit-setup, time.Second) }
