package terraform

import (
	"context"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestAProcessIsStartedBeforeItsContextEnds calls Err like terraform-exec: after the start, and at the end.
func TestAProcessIsStartedBeforeItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	gate, stop := newStartGate(ctx)
	defer stop()

	select {
	case <-gate.Done():
		t.Fatal("the context ends before the process is started")
	default:
	}

	check.Error(t, gate.Err(), "")
	wait.Receive(t, "the end of the context", gate.Done())
	check.Equal(t, "why it ended", gate.Err(), context.Canceled)
}

func TestAContextThatGoesOn(t *testing.T) {
	gate, stop := newStartGate(t.Context())
	check.Error(t, gate.Err(), "")
	stop()
	stop()
	check.Error(t, gate.Err(), "")
}
