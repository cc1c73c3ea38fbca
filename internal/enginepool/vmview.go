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
	// wholePeriod is how often all VMs of an engine are listed although its events say what has changed: a change may
	// have none, and an event may be missed.
	wholePeriod = 10 * time.Minute
	// mostEvents is how many new events are read at once. Where there are as many, some may have been missed.
	mostEvents = 500
	// mostByID is how many VMs are read by their IDs because of events; where there are more, all are listed.
	mostByID = 1000
	// mostlyOthers is how many VMs the engine must have for each that somebody asks for, so that only those are read by
	// their IDs where all were listed before.
	mostlyOthers = 3
	// vmRemoved is the code of the event of a VM that was removed, which may not name it by its ID.
	vmRemoved = 113
)

// vmView is what is known of the VMs of an engine. An answer has the user data of each VM that still has it, so that
// the list of all VMs may be hundreds of megabytes: it is read once, and then the VMs that the engine's events name, or
// that somebody waits for.
type vmView struct {
	mu  sync.Mutex
	vms map[engine.ID]*viewedVM
	// listed is when all VMs were listed; known, when all of it was true.
	listed, known time.Time
	// changes counts what was read, and whole is that of the last list of all VMs.
	changes, whole int
	// total is how many VMs the engine had when all were listed.
	total int
	// event is the newest that was read; 0 where events cannot be followed.
	event int64
	// again are the VMs that the events of the round before named: an engine logs an event before it stores what the
	// event says.
	again map[engine.ID]bool
	// err is that of the last try, at failed; nil where it succeeded.
	err    error
	failed time.Time
	// now is the time; nil means time.Now.
	now func() time.Time
}

// time is what the view takes for the present.
func (v *vmView) time() time.Time {
	if v.now != nil {
		return v.now()
	}

	return time.Now()
}

// viewedVM is a VM as it was read at a time; nil where the engine had none.
type viewedVM struct {
	vm *engine.VM
	at time.Time
	// change counts the reads of the view, up to this one.
	change int
	// asked reports that somebody has wanted to know of it since the last list. Others' VMs are forgotten.
	asked bool
}

// get returns a VM as it was at most maxAge ago; nil where the engine has none.
func (v *vmView) get(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) (*engine.VM, error) {
	v.mu.Lock()
	defer v.mu.Unlock()

	if maxAge >= steadyPeriod || v.listed.IsZero() {
		if err := v.update(ctx, session, maxAge); err != nil {
			return nil, err
		}
	}

	if seen := v.vms[id]; seen == nil || v.time().Sub(latest(seen.at, v.known)) > maxAge {
		if err := v.try(func() error { return v.read(ctx, session, []engine.ID{id}) }); err != nil {
			return nil, err
		}
	}

	v.vms[id].asked = true

	return v.vms[id].vm, nil
}

// refresh reads VMs anew.
func (v *vmView) refresh(ctx context.Context, session *engine.Client, ids []engine.ID) error {
	v.mu.Lock()
	defer v.mu.Unlock()

	return v.try(func() error { return v.read(ctx, session, ids) })
}

// renew makes all of it as new as the watcher wants it: events are cheap, and a list of all VMs is not.
func (v *vmView) renew(ctx context.Context, session *engine.Client) error {
	v.mu.Lock()
	defer v.mu.Unlock()

	maxAge := steadyPeriod
	if v.event > 0 {
		maxAge = eventPeriod / 2
	}

	return v.update(ctx, session, maxAge)
}

// since returns the VMs of these IDs that were read after so many changes, or whatever is known of those whose value is
// true, and how many changes there were now. A VM that is not there is nil.
func (v *vmView) since(changes int, ids map[engine.ID]bool) (map[engine.ID]*engine.VM, int) {
	v.mu.Lock()
	defer v.mu.Unlock()

	out := map[engine.ID]*engine.VM{}

	for id, always := range ids {
		seen := v.vms[id]
		switch {
		case seen == nil && v.whole > changes:
			out[id] = nil
		case seen != nil:
			seen.asked = true
			if always || seen.change > changes {
				out[id] = seen.vm
			}
		}
	}

	return out, v.changes
}

// try does what asks the engine, unless it gave no answer a moment ago; mu is held.
func (v *vmView) try(ask func() error) error {
	if v.err != nil && v.time().Sub(v.failed) < failureAge {
		return v.err
	}

	if v.err = ask(); v.err != nil {
		v.failed = v.time()
	}

	return v.err
}

// update makes all of it at most maxAge old; mu is held.
func (v *vmView) update(ctx context.Context, session *engine.Client, maxAge time.Duration) error {
	if !v.known.IsZero() && v.time().Sub(v.known) <= maxAge {
		return nil
	}

	return v.try(func() error {
		begin := v.time()
		if v.event > 0 && begin.Sub(v.listed) < wholePeriod {
			followed, err := v.follow(ctx, session)
			if err == nil && followed {
				v.known = begin
			}

			// A list is no answer to each of many events; what is known stays as old as it is until then.
			if err != nil || followed || begin.Sub(v.listed) < steadyPeriod {
				return err
			}
		}

		return v.list(ctx, session)
	})
}

// list reads all VMs that somebody may ask for; mu is held. Those that nobody has asked for since the list before are
// forgotten.
func (v *vmView) list(ctx context.Context, session *engine.Client) error {
	// Events from before the list are in it.
	event := int64(0)
	if newest, err := session.Events(ctx, "", 1); err == nil && len(newest) > 0 {
		event = newest[0].Index
	}

	begin := v.time()
	list, err := v.fetch(ctx, session)
	if err != nil {
		return err
	}

	v.changes++
	vms := map[engine.ID]*viewedVM{}

	for _, vm := range list { // copied, so that no other VM of the list is kept with it
		before := v.vms[vm.ID]
		if v.listed.IsZero() && marked(&vm) || before != nil && before.asked {
			vms[vm.ID] = &viewedVM{vm: &vm, at: begin, change: v.changes}
		}
	}

	for id, before := range v.vms {
		if vms[id] == nil && before.asked {
			vms[id] = &viewedVM{at: begin, change: v.changes}
		}
	}

	v.vms, v.listed, v.known, v.whole, v.event, v.again = vms, begin, begin, v.changes, event, nil

	return nil
}

// fetch lists the VMs of the engine, or only those that somebody has asked for, where most are others'; mu is held.
func (v *vmView) fetch(ctx context.Context, session *engine.Client) ([]engine.VM, error) {
	var asked []engine.ID

	for id, seen := range v.vms {
		if seen.asked {
			asked = append(asked, id)
		}
	}

	if !v.listed.IsZero() && len(asked)*mostlyOthers <= v.total {
		return session.VMsByID(ctx, asked)
	}

	list, err := session.VMs(ctx)
	v.total = len(list)

	return list, err
}

// marked reports whether a VM has the mark of an owner: it may be asked for.
func marked(vm *engine.VM) bool {
	comment := ptr.Deref(vm.Comment, "")
	_, machine := ownermark.OwnerOf(comment)
	_, pooled := ownermark.InventoryOwnerOf(comment)

	return machine || pooled
}

// read reads VMs by their IDs; mu is held.
func (v *vmView) read(ctx context.Context, session *engine.Client, ids []engine.ID) error {
	begin := v.time()
	found, err := session.VMsByID(ctx, ids)
	if err != nil {
		return err
	}

	v.changes++
	if v.vms == nil {
		v.vms = map[engine.ID]*viewedVM{}
	}

	for _, id := range ids {
		before := v.vms[id]
		v.vms[id] = &viewedVM{at: begin, change: v.changes, asked: before != nil && before.asked}
	}

	for _, vm := range found { // an engine that ignores the search answers with more than was asked for
		if seen := v.vms[vm.ID]; seen != nil && seen.change == v.changes {
			seen.vm = &vm
		}
	}

	return nil
}

// follow reads the VMs that new events are about, and those on their way to another status, which may come without an
// event; mu is held. It returns false where events may have been missed, or say that much has changed.
func (v *vmView) follow(ctx context.Context, session *engine.Client) (bool, error) {
	events, err := session.EventsAfter(ctx, v.event, mostEvents)
	if err != nil || len(events) >= mostEvents {
		return false, nil //nolint:nilerr // an engine that gives no events is asked for its VMs
	}

	named := v.named(events)
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
		if err := v.read(ctx, session, slices.Collect(maps.Keys(changed))); err != nil {
			return false, err
		}
	}

	v.again = named
	if len(events) > 0 {
		v.event = events[0].Index // the newest is first
	}

	return true, nil
}

// named are the VMs that events are about; mu is held.
func (v *vmView) named(events []engine.Event) map[engine.ID]bool {
	out := map[engine.ID]bool{}

	for i := range events {
		if id := engine.RefID(events[i].VM); id != "" {
			if v.vms[id] != nil {
				out[id] = true
			}

			continue
		}

		for id, seen := range v.vms {
			if seen.vm != nil && concerns(&events[i], seen.vm) {
				out[id] = true
			}
		}
	}

	return out
}

// concerns reports whether an event that names no VM by its ID may be about one: that of a host, for the VMs on it, and
// that of a removal.
func concerns(event *engine.Event, vm *engine.VM) bool {
	switch {
	case event.VM != nil:
		return false
	case event.Code == vmRemoved:
		return strings.Contains(event.Description, vm.Name)
	}

	return event.Host != nil && vm.Host != nil && event.Host.ID == vm.Host.ID
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}
