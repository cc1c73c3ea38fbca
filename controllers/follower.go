package controllers

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// followFast is how often the VMs of an engine are listed while one of them is on its way; followSteady, otherwise.
	followFast   = time.Second / 2
	followSteady = vmSteady
)

// follower looks at the VMs of all machines, in one list per engine, and wakes the machines whose VM has changed: a
// machine whose VM stays as it is costs nothing, however many there are.
type follower struct {
	engines *Engines
	wake    func(key workspace.Key)

	mu       sync.Mutex
	machines map[workspace.Key]followed
	seen     map[*engine.Client]*sighting
}

// followed is the VM of a machine.
type followed struct {
	session *engine.Client
	vmID    engine.ID
	// fast says that the VM is on its way, and somebody waits for it.
	fast bool
	// vm is what the machine has seen of it.
	vm *engine.VM
}

// sighting is when an engine was looked at last.
type sighting struct {
	at   time.Time
	busy bool
}

// follow has the machine woken when its VM is not what it has seen.
func (f *follower) follow(key workspace.Key, machine followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.machines == nil {
		f.machines, f.seen = map[workspace.Key]followed{}, map[*engine.Client]*sighting{}
	}

	f.machines[key] = machine
	if f.seen[machine.session] == nil {
		f.seen[machine.session] = &sighting{at: time.Now()}
	}
}

// leave ends it.
func (f *follower) leave(key workspace.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.machines, key)
}

// Start looks until the context ends. It is a Runnable of the manager.
func (f *follower) Start(ctx context.Context) error {
	ticker := time.NewTicker(followFast / 2)
	defer ticker.Stop()
	var group sync.WaitGroup
	defer group.Wait()

	for {
		for _, session := range f.due(time.Now()) {
			group.Add(1)
			go func() { // an engine that does not answer keeps no other one
				defer group.Done()
				f.look(ctx, session)
			}()
		}

		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// due are the engines to look at now; nobody else looks at them until look has ended.
func (f *follower) due(now time.Time) []*engine.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	pauses := map[*engine.Client]time.Duration{}

	for _, m := range f.machines {
		pause := followSteady
		if m.fast {
			pause = followFast
		}

		if known, ok := pauses[m.session]; !ok || pause < known {
			pauses[m.session] = pause
		}
	}

	var out []*engine.Client

	for session, s := range f.seen {
		pause, used := pauses[session]
		switch {
		case s.busy:
		case !used:
			delete(f.seen, session)
		case now.Sub(s.at) >= pause:
			s.busy = true
			out = append(out, session)
		}
	}

	return out
}

// look lists the VMs of an engine and wakes the machines whose VM has changed. That an engine does not answer is told
// by the OLVMCluster.
func (f *follower) look(ctx context.Context, session *engine.Client) {
	vms, err := f.engines.listVMs(ctx, session, followFast/2)
	f.mu.Lock()
	s := f.seen[session]
	s.at, s.busy = time.Now(), false
	var changed []workspace.Key
	if err == nil {
		for key, m := range f.machines {
			if m.session != session {
				continue
			}

			vm, there := vms[m.vmID]
			if there != (m.vm != nil) || there && !reflect.DeepEqual(*m.vm, vm) {
				changed = append(changed, key)
				m.vm = nil
				if there {
					m.vm = &vm
				}

				f.machines[key] = m // once: the machine looks itself
			}
		}
	}

	f.mu.Unlock()

	for _, key := range changed {
		f.wake(key)
	}
}
