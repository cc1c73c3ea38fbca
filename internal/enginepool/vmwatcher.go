package enginepool

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

const (
	// fastPeriod is how often VMs are looked at that are booting, longer by perBooting for each; eventPeriod, how often
	// the events of an engine are read; steadyPeriod, how often all its VMs are listed where it gives no events.
	fastPeriod   = time.Second / 2
	perBooting   = 10 * time.Millisecond
	eventPeriod  = 5 * time.Second
	steadyPeriod = 30 * time.Second
)

// VMWatcher looks at the VMs of each engine at intervals, and wakes the machines whose VM has changed. A machine whose
// VM stays as it is costs nothing, however many there are. K identifies a machine.
type VMWatcher[K comparable] struct {
	Pool *Pool
	// Wake enqueues a machine.
	Wake func(K)

	mu       sync.Mutex
	machines map[K]WatchedVM
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

	// fresh reports that its machine has seen it since the last look.
	fresh bool
}

// watchedEngine is when an engine was looked at last, how many changes of its view were compared, and whether it is
// being looked at.
type watchedEngine struct {
	at       time.Time
	compared int
	busy     bool
}

// Watch has the machine woken when its VM is not what it has seen.
func (w *VMWatcher[K]) Watch(machine K, vm WatchedVM) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machines == nil {
		w.machines = map[K]WatchedVM{}
		w.engines = map[*engine.Client]*watchedEngine{}
	}

	vm.fresh = true
	w.machines[machine] = vm
	if w.engines[vm.Session] == nil {
		w.engines[vm.Session] = &watchedEngine{at: time.Now()}
	}
}

// Unwatch stops watching the VM of a machine.
func (w *VMWatcher[K]) Unwatch(machine K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.machines, machine)
}

// Start watches until the context ends. It is a Runnable of the manager.
func (w *VMWatcher[K]) Start(ctx context.Context) error {
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
func (w *VMWatcher[K]) due(now time.Time) []*engine.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	booting := map[*engine.Client]int{} // an engine that machines use is in it

	for _, vm := range w.machines {
		if vm.Booting {
			booting[vm.Session]++
		} else {
			booting[vm.Session] += 0
		}
	}

	var out []*engine.Client

	for session, e := range w.engines {
		boot, used := booting[session]
		period := eventPeriod
		if boot > 0 {
			period = min(fastPeriod+time.Duration(boot)*perBooting, eventPeriod)
		}

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
func (w *VMWatcher[K]) look(ctx context.Context, session *engine.Client) {
	view := w.Pool.view(session)
	err := view.renew(ctx, session)
	if booting := w.booting(session); err == nil && len(booting) > 0 {
		err = view.refresh(ctx, session, booting)
	}

	for _, machine := range w.changed(session, view, err) {
		w.Wake(machine)
	}
}

// booting are the VMs of an engine that machines wait for.
func (w *VMWatcher[K]) booting(session *engine.Client) []engine.ID {
	w.mu.Lock()
	defer w.mu.Unlock()

	var out []engine.ID

	for _, vm := range w.machines {
		if vm.Session == session && vm.Booting {
			out = append(out, vm.ID)
		}
	}

	return out
}

// changed compares what was read since the last time, and returns the machines whose VM is not what they have seen.
// While the view is asked, which may wait for the engine, machines of others can be watched.
func (w *VMWatcher[K]) changed(session *engine.Client, view *vmView, err error) []K {
	if err != nil {
		w.looked(session, 0)
		return nil
	}

	ids, compared := w.compared(session)
	vms, changes := view.since(compared, ids)
	w.looked(session, changes)
	w.mu.Lock()
	defer w.mu.Unlock()

	var out []K

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

// compared are the VMs of an engine that machines have, true for those whose machine has seen them since the last look:
// what was read in between is compared then, whenever it was. And it is how many changes were compared.
func (w *VMWatcher[K]) compared(session *engine.Client) (ids map[engine.ID]bool, changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids = map[engine.ID]bool{}

	for key, watched := range w.machines {
		if watched.Session != session {
			continue
		}

		ids[watched.ID] = watched.fresh
		watched.fresh = false
		w.machines[key] = watched
	}

	return ids, w.engines[session].compared
}

// looked ends a look at an engine; changes are those that were compared, 0 where none were.
func (w *VMWatcher[K]) looked(session *engine.Client, changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.engines[session]
	e.at, e.busy = time.Now(), false
	e.compared = max(e.compared, changes)
}
