package enginepool

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhileOthersLeaveAPassWaits runs three passes in a row. The last one waits longer than it would for a dead engine.
func TestWhileOthersLeaveAPassWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &ReconcileLimiter{Limit: 1}
		const each = maxWait * 2 / 3
		results := make(chan bool, 3)

		for range 3 {
			go func() {
				leave, ok := c.AcquirePlace(t.Context(), "ns", "busy")
				if ok {
					time.Sleep(each)
					leave()
				}

				results <- ok
			}()
		}

		for range 3 {
			if !<-results {
				t.Error("a pass was refused although others left")
			}
		}
	})
}

func TestACrowdAtOneEngineKeepsNobodyFromAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &ReconcileLimiter{Limit: 2}
		var leave []func()

		for range 2 {
			done, ok := c.AcquirePlace(t.Context(), "ns", "slow")
			if !ok {
				t.Fatal("there was no place at an idle engine")
			}

			leave = append(leave, done)
		}

		for range 100 { // only the first one waits
			if _, ok := c.AcquirePlace(t.Context(), "ns", "slow"); ok {
				t.Fatal("a third pass is at the engine")
			}
		}

		if _, ok := c.AcquirePlace(t.Context(), "ns", "swift"); !ok {
			t.Error("there was no place at the other engine")
		}

		leave[0]()
		if _, ok := c.AcquirePlace(t.Context(), "ns", "slow"); !ok {
			t.Error("a place that was left is not given")
		}
	})
}

// TestManyEnginesOfOneNamespaceKeepNobodyOut gives each pass of a namespace a dead engine of its own: threat M4 of
// docs/operate/security.md.
func TestManyEnginesOfOneNamespaceKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &ReconcileLimiter{Limit: 2}
		entered := 0

		for i := range 20 {
			if _, ok := c.AcquirePlace(t.Context(), "hostile", fmt.Sprintf("engine-%d", i)); ok {
				entered++
			}
		}

		if want := tenantFactor * c.Limit; entered != want {
			t.Errorf("%d passes are for one namespace, want %d", entered, want)
		}

		if leave, ok := c.AcquirePlace(t.Context(), "other", "engine-1"); !ok {
			t.Error("there was no place for another namespace, at an engine of the same name")
		} else {
			leave()
		}

		if n := len(c.queues); n != entered+1 {
			t.Errorf("%d crowds are remembered", n)
		}
	})
}

// TestThoseWhoWaitHoldFewWorkers starts too many passes for a slow engine. Each pass takes long, but ends.
func TestThoseWhoWaitHoldFewWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &ReconcileLimiter{Limit: 2}
		entered := make(chan func(), 100)
		refused := make(chan struct{}, 100)

		for range 100 {
			go func() {
				if leave, ok := c.AcquirePlace(t.Context(), "ns", "slow"); ok {
					entered <- leave
				} else {
					refused <- struct{}{}
				}
			}()
		}

		// Wait until each goroutine of the bubble has a place, was refused, or blocks. The clock stands still
		// meanwhile.
		synctest.Wait()
		check.Equal(t, "how many are refused at once", len(refused), 100-reconcilesPerPlace*c.Limit)
		check.Equal(t, "how many have entered", len(entered), c.Limit)

		for range c.Limit {
			(<-entered)()
		}
	})
}
