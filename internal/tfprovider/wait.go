package tfprovider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// poll waits as engine.Wait does and reports what it sees.
func poll(ctx context.Context, what string, look engine.Look) error {
	return engine.Wait(ctx, what, look, progress(ctx, what))
}

// ensure asks for something until it is so. An earlier try may have done it although its answer was lost, or it was so
// before: then a refusal is none.
func ensure(
	ctx context.Context, what string, ask func(context.Context) error, isSo func(context.Context) (bool, error),
) error {
	lost := false
	err := poll(ctx, what, func(ctx context.Context) (bool, string, error) {
		err := ask(ctx)
		if err != nil {
			lost = lost || engine.AnswerLost(err)
			if so, lookErr := isSo(ctx); lookErr == nil && so {
				return true, "", nil
			}
		}

		return err == nil, "", err
	})

	return unanswered(err, lost)
}

// unanswered says of a wait that ended early that the engine may have done what was asked, if an answer was lost.
func unanswered(err error, lost bool) error {
	var early *engine.WaitError
	if !lost || !errors.As(err, &early) {
		return err
	}

	return &engine.UnansweredError{Err: err}
}

// progress reports what a wait sees. Terraform has no channel from a resource to the terminal: it shows that it waits,
// and for how long; what for is in its log at level INFO, and in the error when a wait ends early.
func progress(ctx context.Context, what string) func(seen string) {
	return func(seen string) {
		tflog.Info(ctx, "waiting for "+what, map[string]any{"seen": seen})
	}
}

// shutdownPatience is how long a guest may read as up after it was asked to shut down. An engine gives up after about
// 30 seconds, and the VM is up again: the guest did not hear it, because it was not up enough, or it ignores it.
const shutdownPatience = 45 * time.Second

// powerOff brings the VM down, by the guest if graceful, and waits. A VM that is gone is down.
func powerOff(ctx context.Context, client *engine.Client, id engine.ID, graceful, force bool) error {
	stop := stopping{client: client, id: id, graceful: graceful, force: force, patience: engine.StopPatience}
	if graceful {
		stop.patience = shutdownPatience
	}

	return poll(ctx, "VM "+id.String()+" to stop", stop.look)
}

// stopping is a VM on its way down.
type stopping struct {
	client          *engine.Client
	id              engine.ID
	graceful, force bool
	// patience is how long the VM may read as if it had not been asked, after it was.
	patience time.Duration
	asked    time.Time
	// leaving reports that it was seen on its way down.
	leaving bool
}

// look asks the VM to stop if that is due, and reports whether it has.
func (s *stopping) look(ctx context.Context) (bool, string, error) {
	vm, err := s.client.VM(ctx, s.id)
	if engine.IsNotFound(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", err
	}

	seen := string(vm.Status)
	switch {
	case vm.Status.Off():
		return true, seen, nil
	case vm.Status.Busy():
		s.leaving = s.leaving || vm.Status == engine.VMPoweringDown
		return false, seen, nil
	case s.leaving && vm.Status == engine.VMUp && s.graceful:
		s.asked, s.leaving = time.Time{}, false // it did not hear it: ask again
	}

	if !s.asked.IsZero() && time.Since(s.asked) < s.patience {
		return false, seen, nil // the guest takes its time, and so does the host
	}

	if s.graceful {
		err = s.client.ShutdownVM(ctx, s.id, s.force)
	} else {
		err = s.client.StopVM(ctx, s.id, s.force)
	}

	if engine.IsNotFound(err) || engine.IsRefused(err) {
		return false, seen + refusalOf(err), nil // the status changed in between: look again
	}

	if err == nil {
		s.asked = time.Now()
	}

	return false, seen, err
}

// refusalOf is why the engine refused, for the message beside what is waited for.
func refusalOf(err error) string {
	var fault *engine.Fault
	if !errors.As(err, &fault) || fault.Detail == "" {
		return ""
	}

	return " (" + fault.Detail + ")"
}
