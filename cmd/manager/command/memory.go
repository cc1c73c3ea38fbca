package command

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busyGC and idleGC are values of GOGC. busyGC applies while machines are created or deleted, because CPU time is
	// then scarce. idleGC applies at all other times, because memory is then scarcer and the live heap hardly changes.
	// With 200, garbage collection takes 12 % of the CPU time of 100 creations, and with 400 it takes 6 %.
	busyGC, idleGC = 400, 25
	// mostGarbage is the maximum number of bytes of garbage allowed by busyGC. leastBusyGC is the minimum of the
	// resulting GOGC. Live objects are spread over the heap of a burst, and Go does not move them. The larger this heap
	// was, the more memory stays with the process.
	mostGarbage, leastBusyGC = 96 << 20, 50
	// idleAfter is the time without runs after which the manager counts as idle.
	idleAfter = 30 * time.Second
)

// liftEmptyMemoryLimit removes a GOMEMLIMIT of 0. Kubernetes sets this value if the variable refers to the memory
// request of a container without a request. Go would then collect garbage all the time.
func liftEmptyMemoryLimit() {
	if os.Getenv("GOMEMLIMIT") == "0" {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// percentFor returns the GOGC value for creating machines, for a given number of live bytes.
func percentFor(alive uint64) int {
	return int(min(max(mostGarbage*100/max(alive, 1), leastBusyGC), busyGC)) //nolint:gosec // at most busyGC
}

// liveBytes returns the number of live bytes after the last garbage collection.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)

	return sample[0].Value.Uint64()
}

// memory trades memory for CPU time, and CPU time for memory. It is a Runnable of the manager.
type memory struct{ busy func() bool }

// NeedLeaderElection implements manager.LeaderElectionRunnable. It returns false, because a standby is idle, too.
func (m memory) NeedLeaderElection() bool { return false }

// Start adjusts GOGC until the context ends.
func (m memory) Start(ctx context.Context) error {
	percent := 0
	set := func(to int) {
		if to != percent {
			percent = to
			debug.SetGCPercent(to)
		}
	}

	// The caches are being filled now. In a small heap, their objects lie close together.
	set(leastBusyGC)

	idle, last := false, time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			switch {
			case m.busy():
				last, idle = now, false
				set(percentFor(liveBytes()))
			case !idle && now.Sub(last) > idleAfter:
				idle = true
				set(idleGC)
				debug.FreeOSMemory()
			}
		}
	}
}
