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
	// busyGC and idleGC are values of GOGC. busyGC is for creating or deleting machines, with CPU time scarce. idleGC
	// is for all other times, with memory scarce: the live heap then hardly changes. Garbage collection takes 12 % of
	// the CPU time of 100 creates with 200 and 6 % with 400.
	busyGC, idleGC = 400, 25
	// mostGarbage bounds the garbage allowed by busyGC, in bytes, and leastBusyGC the resulting GOGC. Live objects are
	// spread over the heap of a burst, and Go moves none: the larger this heap was, the more stays with the process.
	mostGarbage, leastBusyGC = 96 << 20, 50
	// idleAfter is the time without runs after which the manager counts as idle.
	idleAfter = 30 * time.Second
)

// liftEmptyMemoryLimit removes a GOMEMLIMIT of 0. Kubernetes sets it if the variable is the memory request of a
// container without a request, and Go would collect garbage all the time.
func liftEmptyMemoryLimit() {
	if os.Getenv("GOMEMLIMIT") == "0" {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// percentFor returns GOGC for creating machines with this number of live bytes.
func percentFor(alive uint64) int {
	return int(min(max(mostGarbage*100/max(alive, 1), leastBusyGC), busyGC)) //nolint:gosec // at most busyGC
}

// liveBytes returns the number of bytes left by the last garbage collection.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)

	return sample[0].Value.Uint64()
}

// memory trades memory for CPU time, and the reverse. It is a Runnable of the manager.
type memory struct{ busy func() bool }

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby is idle too.
func (m memory) NeedLeaderElection() bool { return false }

// Start runs until the context ends.
func (m memory) Start(ctx context.Context) error {
	percent := 0
	set := func(to int) {
		if to != percent {
			percent = to
			debug.SetGCPercent(to)
		}
	}

	// Caches fill now. In a small heap, their objects lie close together.
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
