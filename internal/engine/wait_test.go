package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAStatusIsNoticedWithinTwoSeconds waits for statuses that come sooner or later. The clock is a synctest bubble's.
func TestAStatusIsNoticedWithinTwoSeconds(t *testing.T) {
	for _, comes := range []time.Duration{0, 300 * time.Millisecond, 4 * time.Second, time.Minute, 14 * time.Minute} {
		t.Run(fmt.Sprint("after ", comes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := engine.Wait(t.Context(), "it to be up", func(context.Context) (bool, string, error) {
					return time.Since(begin) >= comes, "powering_up", nil
				}, nil)
				check.Error(t, err, "")

				if late := time.Since(begin) - comes; late > 2*time.Second {
					t.Errorf("it was noticed %s late", late)
				}
			})
		})
	}
}
