package command

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestTheHeapOfABurstIsBounded(t *testing.T) {
	for alive, want := range map[uint64]int{0: busyGC, 20 << 20: busyGC, 96 << 20: 100, 1 << 30: leastBusyGC} {
		check.Equal(t, "GOGC", percentFor(alive), want)
	}

	check.Equal(t, "something is alive", alive() > 0, true)
}
