package dashboard

import (
	"context"
	"time"
)

// managerInterval is the interval between reads of the manager's Lease. It equals the duration of the Lease.
const managerInterval = 15 * time.Second

// followManager checks whether a manager of this provider is running. It ignores errors, because the watches report an
// unreachable API server.
func (w *watcher) followManager(ctx context.Context) {
	for {
		if trouble, err := w.In.ManagerTrouble(ctx); err == nil {
			w.mu.Lock()
			changed := (trouble == "") != (w.manager == "")
			w.manager = trouble
			w.mu.Unlock()

			if changed {
				w.changed.WakeAll()
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(managerInterval):
		}
	}
}

// managerTrouble explains why no manager of this provider is running, or returns "".
func (w *watcher) managerTrouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.manager
}
