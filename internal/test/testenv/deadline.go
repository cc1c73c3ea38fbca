package testenv

import (
	"flag"
	"testing"
	"time"
)

// begun is the start time of the test binary.
var begun = time.Now()

// RunAfterSetup runs the tests of a package prepared by TestMain. The command go test ends a binary by the time since
// its start, but the package testing counts -timeout from here. After a long setup go test would end the tests before
// their own deadline, and no test could report its wait.
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

// leftOf returns the rest of a time limit after a setup; 0 would mean no limit.
func leftOf(limit, setup time.Duration) time.Duration { return max(limit-setup, time.Second) }
