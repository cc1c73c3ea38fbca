package testenv

import (
	"flag"
	"testing"
	"time"
)

// begun is the time at which the test binary started.
var begun = time.Now()

// RunAfterSetup runs the tests of a package after the setup in TestMain. The command go test limits the time since the
// start of a binary, but the package testing counts -timeout from this call. Therefore, after a long setup, go test
// would end the tests before their own deadline, and no test could report its wait.
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

// leftOf returns the rest of a time limit after a setup. It is never 0, because 0 means no limit.
func leftOf(limit, setup time.Duration) time.Duration { return max(limit-setup, time.Second) }
