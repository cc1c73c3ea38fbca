package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// asOlvmctl makes the test binary be olvmctl, for what a process alone has: a terminal of its own, signals, trust.
const asOlvmctl = "TEST_AS_OLVMCTL"

func TestMain(m *testing.M) {
	if os.Getenv(asOlvmctl) != "" {
		main()
	}

	code := m.Run()
	stopManagementClusters()
	os.Exit(code)
}

func TestErrorsAfterAnInterrupt(t *testing.T) {
	interruptedContext, cancel := context.WithCancel(t.Context())
	cancel()
	waited := fmt.Errorf("%w; it waited for this: no machines", progress.ErrInterrupted)

	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want string
		code int
	}{
		"a wait says itself that it was interrupted":   {interruptedContext, waited, waited.Error(), 1},
		"another error says that it was interrupted":   {interruptedContext, context.Canceled, "interrupted: context canceled", 1},
		"a plan with changes keeps its exit code":      {interruptedContext, errChanges, errChanges.Error(), 2},
		"an error before any interrupt stays as it is": {t.Context(), errors.New("no"), "no", 1},
	} {
		t.Run(name, func(t *testing.T) {
			err := interrupted(test.ctx, test.err)
			if err.Error() != test.want {
				t.Errorf("got %q, want %q", err, test.want)
			}

			if code := exitCode(err); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}
