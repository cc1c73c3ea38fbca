package enginepool

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

const (
	// wholePeriod is the interval for listing all VMs of an engine, even if the view follows its events. A change may
	// have no event, and the view may miss an event.
	wholePeriod = 10 * time.Minute
	// mostEvents limits the new events in one request. If an answer has this many, some events may be missing.
	mostEvents = 500
	// mostByID limits the VMs read by ID because of events. If there are more, the view lists all VMs.
	mostByID = 1000
	// minForeignRatio is a ratio of all VMs to the watched ones. At this ratio or above, the view reads only the
	// watched VMs by ID, instead of listing all VMs again.
	minForeignRatio = 3
	// vmRemoved is the code of the event about a VM's removal. Such an event may lack the VM's ID.
	vmRemoved = 113
)

// vmView is a view of the VMs of an engine. The answer for a VM includes its user data if the engine still has it. A
// list of all VMs may therefore have hundreds of megabytes, and the view lists all VMs as seldom as possible. Between
// two lists, it reads only the VMs named by the engine's events, and those that a machine waits for.
type vmView struct {
	mu  sync.Mutex
	vms map[engine.ID]*viewedVM
	// listed is the time of the last list of all VMs. known is the last time at which the whole view was correct.
	listed, known time.Time
	// changes counts the reads. whole is the count at the last list of all VMs.
	changes, whole int
	// total is the number of VMs in the last list of all VMs.
	total int
	// event is the newest event that was read, or 0 if the view cannot follow events.
	event int64
	// again has the VMs of the events read last time. They are read again, because an engine logs an event before it
	// stores the change.
	again map[engine.ID]bool
	// err is the error of the last try, at the time failed. It is nil after a success.
	err    error
	failed time.Time
	// now returns the time. If it is nil, time.Now does.
	now func() time.Time
}

// currentTime returns the view's current time.
func (v *vmView) currentTime() time.Time {
	if v.now != nil {
		return v.now()
	}

	return time.Now()
}

// viewedVM is a VM as read at a time. vm is nil if the engine had no such VM.
type viewedVM struct {
	vm *engine.VM
	at time.Time
	// change is the view's count of reads after this one.
	change int
	// requested reports whether anyone has requested the VM since the last list. The view drops other VMs.
	requested bool
}

// getVM returns a VM from data at most maxAge old, or nil if the engine does not have it.
func (v *vmView) getVM(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) (*engine.VM, error) {
	v.mu.Lock()
	defer v.mu.Unlock()

	if maxAge >= steadyPeriod || v.listed.IsZero() {
		if err := v.updateView(ctx, session, maxAge); err != nil {
			return nil, err
		}
	}

	if seen := v.vms[id]; seen == nil || v.currentTime().Sub(laterOf(seen.at, v.known)) > maxAge {
		if err := v.tryRequest(func() error { return v.readVMs(ctx, session, []engine.ID{id}) }); err != nil {
			return nil, err
		}
	}

	v.vms[id].requested = true

	return v.vms[id].vm, nil
}

// rereadVMs reads VMs by ID, regardless of the age of the view.
func (v *vmView) rereadVMs(ctx context.Context, session *engine.Client, ids []engine.ID) error {
	v.mu.Lock()
	defer v.mu.Unlock()

	return v.tryRequest(func() error { return v.readVMs(ctx, session, ids) })
}

// renewView updates the whole view for the watcher. It does so often if it can follow events, because they are cheap,
// and seldom if it must list all VMs.
func (v *vmView) renewView(ctx context.Context, session *engine.Client) error {
	v.mu.Lock()
	defer v.mu.Unlock()

	maxAge := steadyPeriod
	if v.event > 0 {
		maxAge = eventPeriod / 2
	}

	return v.updateView(ctx, session, maxAge)
}

// getChanged returns the VMs in ids that were read after this number of changes, and all VMs with the value true. A
// missing VM is nil. getChanged also returns the current number of changes.
func (v *vmView) getChanged(changes int, ids map[engine.ID]bool) (map[engine.ID]*engine.VM, int) {
	v.mu.Lock()
	defer v.mu.Unlock()

	out := map[engine.ID]*engine.VM{}

	for id, always := range ids {
		seen := v.vms[id]
		switch {
		case seen == nil && v.whole > changes:
			out[id] = nil
		case seen != nil:
			seen.requested = true
			if always || seen.change > changes {
				out[id] = seen.vm
			}
		}
	}

	return out, v.changes
}

// tryRequest sends a request to the engine, unless the engine has just failed to answer one. The caller holds mu.
func (v *vmView) tryRequest(ask func() error) error {
	if v.err != nil && v.currentTime().Sub(v.failed) < failureAge {
		return v.err
	}

	if v.err = ask(); v.err != nil {
		v.failed = v.currentTime()
	}

	return v.err
}

// updateView updates the whole view if it is more than maxAge old. The caller holds mu.
func (v *vmView) updateView(ctx context.Context, session *engine.Client, maxAge time.Duration) error {
	if !v.known.IsZero() && v.currentTime().Sub(v.known) <= maxAge {
		return nil
	}

	return v.tryRequest(func() error {
		begin := v.currentTime()
		if v.event > 0 && begin.Sub(v.listed) < wholePeriod {
			followed, err := v.followEvents(ctx, session)
			if err == nil && followed {
				v.known = begin
			}

			// Do not list all VMs after every burst of events. Keep the older data until the next period.
			if err != nil || followed || begin.Sub(v.listed) < steadyPeriod {
				return err
			}
		}

		return v.listVMs(ctx, session)
	})
}

// listVMs reads all VMs that anyone may ask for. It drops VMs for which nobody has asked since the previous list. The
// caller holds mu.
func (v *vmView) listVMs(ctx context.Context, session *engine.Client) error {
	// The list includes the changes of earlier events.
	event := int64(0)
	if newest, err := session.ListEvents(ctx, "", 1); err == nil && len(newest) > 0 {
		event = newest[0].Index
	}

	begin := v.currentTime()
	list, err := v.fetchVMs(ctx, session)
	if err != nil {
		return err
	}

	v.changes++
	vms := map[engine.ID]*viewedVM{}

	for _, vm := range list { // copied, so that the rest of the list can be freed
		before := v.vms[vm.ID]
		if v.listed.IsZero() && hasOwnerMark(&vm) || before != nil && before.requested {
			vms[vm.ID] = &viewedVM{vm: &vm, at: begin, change: v.changes}
		}
	}

	for id, before := range v.vms {
		if vms[id] == nil && before.requested {
			vms[id] = &viewedVM{at: begin, change: v.changes}
		}
	}

	v.vms, v.listed, v.known, v.whole, v.event, v.again = vms, begin, begin, v.changes, event, nil

	return nil
}

// fetchVMs lists the VMs of the engine. If most of them belong to others, it reads only those that someone has asked
// for. The caller holds mu.
func (v *vmView) fetchVMs(ctx context.Context, session *engine.Client) ([]engine.VM, error) {
	var requested []engine.ID

	for id, seen := range v.vms {
		if seen.requested {
			requested = append(requested, id)
		}
	}

	if !v.listed.IsZero() && len(requested)*minForeignRatio <= v.total {
		return session.ListVMsByID(ctx, requested)
	}

	list, err := session.ListVMs(ctx)
	v.total = len(list)

	return list, err
}

// hasOwnerMark reports whether a VM has an owner mark. Only then can anyone ask for it.
func hasOwnerMark(vm *engine.VM) bool {
	comment := ptr.Deref(vm.Comment, "")
	_, machine := ownermark.ParseOwner(comment)
	_, pooled := ownermark.ParseInventoryOwner(comment)

	return machine || pooled
}

// readVMs reads VMs by ID. The caller holds mu.
func (v *vmView) readVMs(ctx context.Context, session *engine.Client, ids []engine.ID) error {
	begin := v.currentTime()
	found, err := session.ListVMsByID(ctx, ids)
	if err != nil {
		return err
	}

	v.changes++
	if v.vms == nil {
		v.vms = map[engine.ID]*viewedVM{}
	}

	for _, id := range ids {
		before := v.vms[id]
		v.vms[id] = &viewedVM{at: begin, change: v.changes, requested: before != nil && before.requested}
	}

	for _, vm := range found { // an engine may ignore the search and return more VMs
		if seen := v.vms[vm.ID]; seen != nil && seen.change == v.changes {
			seen.vm = &vm
		}
	}

	return nil
}

// followEvents reads the VMs of new events. It also reads VMs in a transitional status, because the end of a transition
// may have no event. It returns false if it may have missed events, or if too many VMs have changed. The caller holds
// mu.
func (v *vmView) followEvents(ctx context.Context, session *engine.Client) (bool, error) {
	events, err := session.ListEventsAfter(ctx, v.event, mostEvents)
	if err != nil || len(events) >= mostEvents {
		return false, nil //nolint:nilerr // without events, the view lists the VMs
	}

	named := v.findConcerned(events)
	changed := maps.Clone(named)
	maps.Copy(changed, v.again)

	for id, seen := range v.vms {
		if seen.vm != nil && seen.vm.Status != engine.VMUp && seen.vm.Status != engine.VMDown {
			changed[id] = true
		}
	}

	if len(changed) > mostByID {
		return false, nil
	}

	if len(changed) > 0 {
		if err := v.readVMs(ctx, session, slices.Collect(maps.Keys(changed))); err != nil {
			return false, err
		}
	}

	v.again = named
	if len(events) > 0 {
		v.event = events[0].Index // the newest is first
	}

	return true, nil
}

// findConcerned returns the VMs that the events may concern. The caller holds mu.
func (v *vmView) findConcerned(events []engine.Event) map[engine.ID]bool {
	out := map[engine.ID]bool{}

	for i := range events {
		if id := engine.RefID(events[i].VM); id != "" {
			if v.vms[id] != nil {
				out[id] = true
			}

			continue
		}

		for id, seen := range v.vms {
			if seen.vm != nil && isConcerned(&events[i], seen.vm) {
				out[id] = true
			}
		}
	}

	return out
}

// isConcerned reports whether an event without a VM's ID may concern a VM. An event of a host concerns the VMs on it,
// and an event about a removal concerns the removed VM.
func isConcerned(event *engine.Event, vm *engine.VM) bool {
	switch {
	case event.VM != nil:
		return false
	case event.Code == vmRemoved:
		return strings.Contains(event.Description, vm.Name)
	}

	return event.Host != nil && vm.Host != nil && event.Host.ID == vm.Host.ID
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}
