package api

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the watchdogs of VMs. They never trigger, because simulated guests do not hang.

var watchdogRoutes = []route{
	{"GET", "/vms/{vm}/watchdogs", listWatchdogs},
	{"POST", "/vms/{vm}/watchdogs", addWatchdog},
	{"GET", "/vms/{vm}/watchdogs/{id}", getWatchdog},
	{"PUT", "/vms/{vm}/watchdogs/{id}", updateWatchdog},
	{"DELETE", "/vms/{vm}/watchdogs/{id}", removeWatchdog},
}

func (c *call) watchdogDocument(v *store.VM) *wire.Element {
	return wire.NewObject("watchdog", v.Watchdog.ID, "vms", v.ID, "watchdogs", v.Watchdog.ID).
		Add(wire.Ref("vm", "vms", v.ID)).Str("action", v.Watchdog.Action).Str("model", v.Watchdog.Model)
}

// findWatchdog returns the VM of the watchdog in the path.
func (c *call) findWatchdog() (*store.VM, error) {
	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil || v.Watchdog == nil || v.Watchdog.ID != c.pathID("id") {
		return nil, wire.NotFound()
	}

	return v, nil
}

func listWatchdogs(c *call) (*wire.Element, error) {
	out := wire.El("watchdogs")
	if v := c.store.VMs.Get(c.pathID("vm")); v != nil && v.Watchdog != nil {
		out.AddItems(c.watchdogDocument(v))
	}

	return out, nil
}

func getWatchdog(c *call) (*wire.Element, error) {
	v, err := c.findWatchdog()
	if err != nil {
		return nil, err
	}

	return c.watchdogDocument(v), nil
}

func addWatchdog(c *call) (*wire.Element, error) {
	for _, name := range []string{"model", "action"} {
		if err := requireParameter(c.body, "watchdog", name); err != nil {
			return nil, err
		}
	}

	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	if v.Watchdog != nil {
		return nil, wire.Conflict("watchdog already exists")
	}

	made := &store.Watchdog{ID: store.NewID(), Model: c.body.Value("model"), Action: c.body.Value("action")}
	if err := checkWatchdog(made); err != nil {
		return nil, err
	}

	v.Watchdog = made
	c.store.VMs.Put(v.ID, v)

	return c.answerCreated(c.watchdogDocument(v)), nil
}

// checkWatchdog rejects a watchdog model that no operating system here supports.
func checkWatchdog(w *store.Watchdog) error {
	if w.Model != "i6300esb" {
		return wire.Invalid(
			"Cannot ${action} ${type}. Selected watchdog model is not supported by the operating system.",
		)
	}

	return nil
}

func updateWatchdog(c *call) (*wire.Element, error) {
	v, err := c.findWatchdog()
	if err != nil {
		return nil, err
	}

	next := *v.Watchdog
	next.Model, next.Action = textOr(c.body, "model", next.Model), textOr(c.body, "action", next.Action)
	if err := checkWatchdog(&next); err != nil {
		return nil, err
	}

	v.Watchdog = &next
	c.store.VMs.Put(v.ID, v)

	return c.watchdogDocument(v), nil
}

func removeWatchdog(c *call) (*wire.Element, error) {
	v, err := c.findWatchdog()
	if err != nil {
		return nil, err
	}

	v.Watchdog = nil
	c.store.VMs.Put(v.ID, v)
	c.recordJob("Removing the watchdog of VM "+v.Name, "")

	return c.answerComplete(), nil
}
