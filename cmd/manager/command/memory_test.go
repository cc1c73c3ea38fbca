package command

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestTheHeapOfABurstIsBounded(t *testing.T) {
	for alive, want := range map[uint64]int{0: busyGC, 20 << 20: busyGC, 96 << 20: 100, 1 << 30: leastBusyGC} {
		check.Equal(t, "GOGC", percentFor(alive), want)
	}

	check.Equal(t, "something is alive", liveBytes() > 0, true)
}

// TestAPodWithoutAMemoryRequestHasNoMemoryLimit starts with the memory limit set by the Go runtime before main.
func TestAPodWithoutAMemoryRequestHasNoMemoryLimit(t *testing.T) {
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })

	for variable, limits := range map[string]struct{ before, after int64 }{
		"0":          {0, math.MaxInt64},
		"1073741824": {1 << 30, 1 << 30},
		"512MiB":     {512 << 20, 512 << 20},
		"":           {math.MaxInt64, math.MaxInt64},
	} {
		t.Setenv("GOMEMLIMIT", variable)
		debug.SetMemoryLimit(limits.before)
		liftEmptyMemoryLimit()
		check.Equal(t, "limit with GOMEMLIMIT="+variable, debug.SetMemoryLimit(-1), limits.after)
	}
}
