package enginepool

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// fastPeriod is how often VMs are looked at that are booting; eventPeriod, how often the events of an engine are
	// read; steadyPeriod, how often all its VMs are listed where it gives no events.
	fastPeriod   = time.Second / 2
	eventPeriod  = 5 * time.Second
	steadyPeriod = 30 * time.Second
)

// VMWatcher looks at the VMs of each engine at intervals, and wakes the machines whose VM has changed. A machine whose
// VM stays as it is costs nothing, however many there are.
type VMWatcher struct {
	Pool *Pool
	// Wake enqueues a machine.
	Wake func(workspace.Key)

	mu       sync.Mutex
	machines map[workspace.Key]WatchedVM
	engines  map[*engine.Client]*watchedEngine
}

// WatchedVM is the VM of a machine.
type WatchedVM struct {
	Session *engine.Client
	ID      engine.ID
	// Booting reports that the machine waits for its VM to come up.
	Booting bool
	// Seen is the VM as its machine knows it; nil where the engine has none.
	Seen *engine.VM
}

// watchedEngine is when an engine was looked at last, how many changes of its view were compared, and whether it is being
// looked at.
type watchedEngine struct {
	at       time.Time
	compared int
	busy     bool
}

// Watch has the machine woken when its VM is not what it has seen.
func (w *VMWatcher) Watch(machine workspace.Key, vm WatchedVM) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machines == nil {
		w.machines = map[workspace.Key]WatchedVM{}
		w.engines = map[*engine.Client]*watchedEngine{}
	}

	w.machines[machine] = vm
	if w.engines[vm.Session] == nil {
		w.engines[vm.Session] = &watchedEngine{at: time.Now()}
	}
}

// Unwatch stops watching the VM of a machine.
func (w *VMWatcher) Unwatch(machine workspace.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.machines, machine)
}

// Start watches until the context ends. It is a Runnable of the manager.
func (w *VMWatcher) Start(ctx context.Context) error {
	ticker := time.NewTicker(fastPeriod / 2)
	defer ticker.Stop()
	var group sync.WaitGroup
	defer group.Wait()

	for {
		// Each engine has its own goroutine: one that does not answer delays no other.
		for _, session := range w.due(time.Now()) {
			group.Go(func() { w.look(ctx, session) })
		}

		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// due are the engines to look at now. They are marked as busy until look has ended.
func (w *VMWatcher) due(now time.Time) []*engine.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	periods := map[*engine.Client]time.Duration{}

	for _, vm := range w.machines {
		period := eventPeriod
		if vm.Booting {
			period = fastPeriod
		}

		if shortest, ok := periods[vm.Session]; !ok || period < shortest {
			periods[vm.Session] = period
		}
	}

	var out []*engine.Client

	for session, e := range w.engines {
		period, used := periods[session]
		switch {
		case e.busy:
		case !used:
			delete(w.engines, session)
		case now.Sub(e.at) >= period:
			e.busy = true
			out = append(out, session)
		}
	}

	return out
}

// look looks at the VMs of an engine, and wakes the machines whose VM has changed. The OLVMCluster reports an engine
// that does not answer.
func (w *VMWatcher) look(ctx context.Context, session *engine.Client) {
	view := w.Pool.view(session)
	all, booting := w.watched(session)
	err := view.renew(ctx, session)
	if err == nil && len(booting) > 0 {
		err = view.refresh(ctx, session, booting)
	}

	for _, machine := range w.changed(session, view, all, err) {
		w.Wake(machine)
	}
}

// watched are the IDs of the VMs of an engine that machines have, and those that they wait for.
func (w *VMWatcher) watched(session *engine.Client) (all, booting []engine.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, vm := range w.machines {
		if vm.Session != session {
			continue
		}

		all = append(all, vm.ID)
		if vm.Booting {
			booting = append(booting, vm.ID)
		}
	}

	return all, booting
}

// changed records what was read since the last time, and returns the machines whose VM is not what they have seen.
func (w *VMWatcher) changed(session *engine.Client, view *vmView, ids []engine.ID, err error) []workspace.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.engines[session]
	e.at, e.busy = time.Now(), false
	if err != nil {
		return nil
	}

	vms, changes := view.since(e.compared, ids)
	e.compared = changes

	var out []workspace.Key

	for key, watched := range w.machines {
		vm, read := vms[watched.ID]
		if watched.Session != session || !read || reflect.DeepEqual(watched.Seen, vm) {
			continue
		}

		// Recorded, so that the machine is woken once.
		watched.Seen = vm
		w.machines[key] = watched
		out = append(out, key)
	}

	return out
}
