package enginepool

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

const (
	// fastPeriod is the interval between checks of booting VMs. Each booting VM adds perBooting to it. eventPeriod is
	// the interval for reading an engine's events. steadyPeriod is the interval for listing all VMs of an engine that
	// provides no events.
	fastPeriod   = time.Second / 2
	perBooting   = 10 * time.Millisecond
	eventPeriod  = 5 * time.Second
	steadyPeriod = 30 * time.Second
)

// VMWatcher checks the VMs of each engine at intervals, and wakes the machines whose VM has changed. Machines with an
// unchanged VM cost nothing, regardless of their number. K identifies a machine.
type VMWatcher[K comparable] struct {
	Engines *Registry
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
	// Booting reports whether the machine waits for its VM to boot.
	Booting bool
	// Seen is the VM as its machine has last seen it, or nil if the engine had no VM.
	Seen *engine.VM

	// fresh reports whether the machine has seen the VM since the last check.
	fresh bool
}

// watchedEngine has the time of the last check of an engine, the number of compared changes in its view, and whether a
// check is running.
type watchedEngine struct {
	lastCheck time.Time
	compared  int
	busy      bool
}

// Watch wakes the machine once its VM differs from the one that it has seen.
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
		w.engines[vm.Session] = &watchedEngine{lastCheck: time.Now()}
	}
}

// Unwatch stops watching the VM of a machine.
func (w *VMWatcher[K]) Unwatch(machine K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.machines, machine)
}

// Start checks the engines until the context ends. It is a Runnable of the manager.
func (w *VMWatcher[K]) Start(ctx context.Context) error {
	ticker := time.NewTicker(fastPeriod / 2)
	defer ticker.Stop()
	var group sync.WaitGroup
	defer group.Wait()

	for {
		// Each engine has its own goroutine, so a dead engine delays no other.
		for _, session := range w.takeDue(time.Now()) {
			group.Go(func() { w.checkEngine(ctx, session) })
		}

		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// takeDue returns the engines that are due for a check. It marks them as busy until checkEngine ends.
func (w *VMWatcher[K]) takeDue(now time.Time) []*engine.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	booting := map[*engine.Client]int{} // has every engine with watched machines

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
		case now.Sub(e.lastCheck) >= period:
			e.busy = true
			out = append(out, session)
		}
	}

	return out
}

// checkEngine checks the VMs of an engine, and wakes the machines whose VM has changed. It reports no error, because
// the OLVMCluster reports a dead engine.
func (w *VMWatcher[K]) checkEngine(ctx context.Context, session *engine.Client) {
	view := w.Engines.ensureView(session)
	err := view.renewView(ctx, session)
	if booting := w.findBooting(session); err == nil && len(booting) > 0 {
		err = view.rereadVMs(ctx, session, booting)
	}

	for _, machine := range w.findChanged(session, view, err) {
		w.Wake(machine)
	}
}

// findBooting returns the VMs of an engine that their machines wait for.
func (w *VMWatcher[K]) findBooting(session *engine.Client) []engine.ID {
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

// findChanged compares the VMs read since the last check, and returns the machines whose VM differs. It does not hold
// mu while it calls the view, because the view may wait for the engine. This lets other goroutines watch machines
// meanwhile.
func (w *VMWatcher[K]) findChanged(session *engine.Client, view *vmView, err error) []K {
	if err != nil {
		w.endCheck(session, 0)
		return nil
	}

	ids, compared := w.startComparison(session)
	vms, changes := view.getChanged(compared, ids)
	w.endCheck(session, changes)
	w.mu.Lock()
	defer w.mu.Unlock()

	var out []K

	for key, watched := range w.machines {
		vm, read := vms[watched.ID]
		if watched.Session != session || !read || reflect.DeepEqual(watched.Seen, vm) {
			continue
		}

		// Record it, so that the machine is woken only once.
		watched.Seen = vm
		w.machines[key] = watched
		out = append(out, key)
	}

	return out
}

// startComparison returns the VMs of an engine's machines, and the number of changes compared so far. A value in ids is
// true if the machine has seen its VM since the last check. Such a VM is always compared, regardless of when it was
// read.
func (w *VMWatcher[K]) startComparison(session *engine.Client) (ids map[engine.ID]bool, changes int) {
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

// endCheck ends the check of an engine. changes is the number of compared changes, or 0 without a comparison.
func (w *VMWatcher[K]) endCheck(session *engine.Client, changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.engines[session]
	e.lastCheck, e.busy = time.Now(), false
	e.compared = max(e.compared, changes)
}
