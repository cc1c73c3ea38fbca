package dashboard

import (
	"context"
	"time"
)

// managerInterval is how often the Lease of the manager is looked at: as long as it is held for.
const managerInterval = 15 * time.Second

// followManager looks whether a manager of this provider is alive. A look that fails changes nothing: the watches say
// that the API server is away.
func (w *watcher) followManager(ctx context.Context) {
	for {
		if trouble, err := w.In.ManagerTrouble(ctx); err == nil {
			w.mu.Lock()
			changed := (trouble == "") != (w.manager == "")
			w.manager = trouble
			w.mu.Unlock()

			if changed {
				w.changed.Note()
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(managerInterval):
		}
	}
}

// managerTrouble is why no manager of this provider is alive; empty if one is.
func (w *watcher) managerTrouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.manager
}
