package tfprovider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// pollEngine waits like engine.Wait, and logs its progress.
func pollEngine(ctx context.Context, what string, look engine.Look) error {
	return engine.Wait(ctx, what, look, newProgressLogger(ctx, what))
}

// ensureDone repeats a request until it succeeds. It ignores an error if isSo reports that the goal is already reached:
// from the start, or by an earlier try with a lost answer.
func ensureDone(
	ctx context.Context, what string, ask func(context.Context) error, isSo func(context.Context) (bool, error),
) error {
	lost := false
	err := pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		err := ask(ctx)
		if err != nil {
			lost = lost || engine.IsAnswerLost(err)
			if so, lookErr := isSo(ctx); lookErr == nil && so {
				return true, "", nil
			}
		}

		return err == nil, "", err
	})

	return markUnanswered(err, lost)
}

// markUnanswered marks the error of an interrupted wait if an answer was lost, because the engine may have done the
// work.
func markUnanswered(err error, lost bool) error {
	var early *engine.WaitError
	if !lost || !errors.As(err, &early) {
		return err
	}

	return &engine.UnansweredError{Err: err}
}

// newProgressLogger returns a function that logs the progress of a wait. A resource cannot write to Terraform's
// terminal, which shows only the wait and its duration. The reason is in Terraform's log at level INFO, and in the
// error of an interrupted wait.
func newProgressLogger(ctx context.Context, what string) func(seen string) {
	return func(seen string) {
		tflog.Info(ctx, "waiting for "+what, map[string]any{"seen": seen})
	}
}

// shutdownPatience limits how long a guest may stay up after a shutdown request. An engine gives up after about 30
// seconds. The VM is then up again, because its guest was not ready for the request, or ignored it.
const shutdownPatience = 45 * time.Second

// powerOff stops the VM and waits. If graceful is set, the guest shuts down. A deleted VM counts as stopped.
func powerOff(ctx context.Context, client *engine.Client, id engine.ID, graceful, force bool) error {
	stop := stopping{client: client, id: id, graceful: graceful, force: force, patience: engine.StopPatience}
	if graceful {
		stop.patience = shutdownPatience
	}

	return pollEngine(ctx, "VM "+id.String()+" to stop", stop.stopAndCheck)
}

// stopping is the stop of a VM.
type stopping struct {
	client          *engine.Client
	id              engine.ID
	graceful, force bool
	// patience is how long after a request the VM may still look as if it had got none.
	patience time.Duration
	asked    time.Time
	// leaving reports whether an earlier look showed the VM going down.
	leaving bool
}

// stopAndCheck asks the VM to stop if a request is due, and reports whether it has stopped.
func (s *stopping) stopAndCheck(ctx context.Context) (bool, string, error) {
	vm, err := s.client.FetchVM(ctx, s.id)
	if engine.IsNotFound(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", err
	}

	seen := string(vm.Status)
	switch {
	case vm.Status.IsOff():
		return true, seen, nil
	case vm.Status.IsBusy():
		s.leaving = s.leaving || vm.Status == engine.VMPoweringDown
		return false, seen, nil
	case s.leaving && vm.Status == engine.VMUp && s.graceful:
		s.asked, s.leaving = time.Time{}, false // the guest did not hear the request, so ask again
	}

	if !s.asked.IsZero() && time.Since(s.asked) < s.patience {
		return false, seen, nil // the guest or the host needs more time
	}

	if s.graceful {
		err = s.client.ShutdownVM(ctx, s.id, s.force)
	} else {
		err = s.client.StopVM(ctx, s.id, s.force)
	}

	if engine.IsNotFound(err) || engine.IsRefused(err) {
		return false, seen + getRefusal(err), nil // the status has changed in between, so look again
	}

	if err == nil {
		s.asked = time.Now()
	}

	return false, seen, err
}

// getRefusal returns the engine's reason for a refusal. The caller appends it to the progress of the wait.
func getRefusal(err error) string {
	var fault *engine.Fault
	if !errors.As(err, &fault) || fault.Detail == "" {
		return ""
	}

	return " (" + fault.Detail + ")"
}
