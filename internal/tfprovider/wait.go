package tfprovider

import (
	"context"
	"fmt"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

const (
	// waitLimit bounds every wait: a VM whose disks are copied, not linked, may take minutes.
	waitLimit = 15 * time.Minute
	// waitFirst and waitMost bound the pause between two looks.
	waitFirst = 200 * time.Millisecond
	waitMost  = 3 * time.Second
)

// poll looks until done says so, through errors that pass by themselves.
func poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	pause := waitFirst
	var last error
	for {
		ok, err := done(ctx)
		switch {
		case err == nil && ok:
			return nil
		case err != nil && !engine.IsTransient(err):
			return err
		case err != nil:
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("gave up waiting for %s: %w (last error: %w)", what, ctx.Err(), last)
			}
			return fmt.Errorf("gave up waiting for %s: %w", what, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(pause*3/2, waitMost)
	}
}

// powerOff brings the VM down, by the guest where graceful, and waits. A VM that is gone is down.
func powerOff(ctx context.Context, client *engine.Client, id string, graceful, force bool) error {
	asked := false
	err := poll(ctx, "VM "+id+" to stop", func(ctx context.Context) (bool, error) {
		vm, err := client.VM(ctx, id)
		if engine.IsNotFound(err) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		switch vm.Status {
		case engine.VMDown:
			return true, nil
		case engine.VMImageLocked, engine.VMPoweringDown:
			return false, nil
		}
		if asked && graceful {
			return false, nil // the guest takes its time
		}
		if graceful {
			err = client.ShutdownVM(ctx, id, force)
		} else {
			err = client.StopVM(ctx, id, force)
		}
		if engine.IsNotFound(err) || engine.IsConflict(err) {
			return false, nil // the status changed in between: look again
		}
		asked = err == nil
		return false, err
	})
	return err
}
