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
	// busyGC and idleGC are GOGC while machines are made or deleted, when CPU time is what is short, and else, when it
	// is memory: what is alive then hardly changes. Garbage collection is 12 % of the CPU time of 100 creates with 200
	// and 6 % with 400.
	busyGC, idleGC = 400, 25
	// mostGarbage bounds what busyGC lets grow, in bytes, and leastBusyGC what that makes of it. What lives is spread
	// over the heap of a burst, and Go moves nothing: the larger that heap was, the more stays with the process.
	mostGarbage, leastBusyGC = 96 << 20, 50
	// idleAfter is how long nothing must have run until the manager counts as idle.
	idleAfter = 30 * time.Second
)

// liftEmptyMemoryLimit undoes a GOMEMLIMIT of 0. Kubernetes sets that where it is the memory request of a container and
// the container requests none, and Go would collect garbage all the time.
func liftEmptyMemoryLimit() {
	if os.Getenv("GOMEMLIMIT") == "0" {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// percentFor is GOGC while machines are made, with so many bytes alive.
func percentFor(alive uint64) int {
	return int(min(max(mostGarbage*100/max(alive, 1), leastBusyGC), busyGC)) //nolint:gosec // at most busyGC
}

// alive is how many bytes the last garbage collection left.
func alive() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)

	return sample[0].Value.Uint64()
}

// memory trades memory for CPU time, or the other way round. It is a Runnable of the manager.
type memory struct{ busy func() bool }

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby is idle too.
func (m memory) NeedLeaderElection() bool { return false }

// Start works until the context ends.
func (m memory) Start(ctx context.Context) error {
	percent := 0
	set := func(to int) {
		if to != percent {
			percent = to
			debug.SetGCPercent(to)
		}
	}

	// Caches fill now. In a small heap, what they keep lies close together.
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
				set(percentFor(alive()))
			case !idle && now.Sub(last) > idleAfter:
				idle = true
				set(idleGC)
				debug.FreeOSMemory()
			}
		}
	}
}
