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
	return poll(ctx, what, func(ctx context.Context) (bool, string, error) {
		err := ask(ctx)
		if err != nil {
			if so, lookErr := isSo(ctx); lookErr == nil && so {
				return true, "", nil
			}
		}

		return err == nil, "", err
	})
}

// progress reports what a wait sees. Terraform has no channel from a resource to the terminal: it shows that it waits,
// and for how long; what for is in its log at level INFO, and in the error when a wait ends early.
func progress(ctx context.Context, what string) func(seen string) {
	return func(seen string) {
		tflog.Info(ctx, "waiting for "+what, map[string]any{"seen": seen})
	}
}

// powerOff brings the VM down, by the guest where graceful, and waits. A VM that is gone is down.
func powerOff(ctx context.Context, client *engine.Client, id engine.ID, graceful, force bool) error {
	var asked time.Time

	return poll(ctx, "VM "+id.String()+" to stop", func(ctx context.Context) (bool, string, error) {
		vm, err := client.VM(ctx, id)
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
			return false, seen, nil
		}

		if !asked.IsZero() && (graceful || time.Since(asked) < engine.StopPatience) {
			return false, seen, nil // the guest takes its time, and so does the host
		}

		if graceful {
			err = client.ShutdownVM(ctx, id, force)
		} else {
			err = client.StopVM(ctx, id, force)
		}

		if engine.IsNotFound(err) || engine.IsRefused(err) {
			return false, seen + refusalOf(err), nil // the status changed in between: look again
		}

		if err == nil {
			asked = time.Now()
		}

		return false, seen, err
	})
}

// refusalOf is why the engine refused, for the message beside what is waited for.
func refusalOf(err error) string {
	var fault *engine.Fault
	if !errors.As(err, &fault) || fault.Detail == "" {
		return ""
	}

	return " (" + fault.Detail + ")"
}
