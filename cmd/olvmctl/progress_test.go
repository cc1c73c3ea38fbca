package main

import (
	"bytes"
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWaitingSaysWhyItEnds(t *testing.T) {
	var progress bytes.Buffer
	s := &steps{progress: &progress}
	waits := func(context.Context) error { return errors.New("no machines") }
	err := s.until(t.Context(), time.Millisecond, waits)
	if err == nil || err.Error() != "not done after 1ms: no machines" {
		t.Errorf("the timeout: %v", err)
	}

	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGUSR1)
	defer stop()
	err = s.until(ctx, time.Minute, func(ctx context.Context) error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}

		<-ctx.Done()

		return errors.New("no machines")
	})
	if !errors.Is(err, errInterrupted) || !strings.HasSuffix(err.Error(), "no machines") {
		t.Errorf("a signal: %v", err)
	}

	if again := interrupted(ctx, err); again.Error() != err.Error() {
		t.Errorf("it is said twice: %v", again)
	}

	if err := interrupted(ctx, ctx.Err()); err.Error() != "interrupted: context canceled" {
		t.Errorf("an error that comes from it: %v", err)
	}

	if err := interrupted(ctx, errChanges); exitCode(err) != 2 {
		t.Errorf("changes: %v", err)
	}

	if err := interrupted(t.Context(), errors.New("no")); err.Error() != "no" {
		t.Errorf("without a signal: %v", err)
	}
}
