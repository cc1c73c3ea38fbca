package ovirtsim

// This file has the watchdogs of VMs. A guest that hangs does not set them off: guests do not hang here.

func (c *call) watchdogDocument(v *vm) *element {
	return object("watchdog", v.Watchdog.ID, "vms", v.ID, "watchdogs", v.Watchdog.ID).add(ref("vm", "vms", v.ID)).str("action", v.Watchdog.Action).str("model", v.Watchdog.Model)
}

// watchdog is the VM whose watchdog the path names.
func (c *call) watchdog() (*vm, error) {
	v := c.store.vms.get(c.id("vm"))
	if v == nil || v.Watchdog == nil || v.Watchdog.ID != c.id("id") {
		return nil, gone()
	}
	return v, nil
}

func listWatchdogs(c *call) (*element, error) {
	out := el("watchdogs")
	if v := c.store.vms.get(c.id("vm")); v != nil && v.Watchdog != nil {
		out.items(c.watchdogDocument(v))
	}
	return out, nil
}

func getWatchdog(c *call) (*element, error) {
	v, err := c.watchdog()
	if err != nil {
		return nil, err
	}
	return c.watchdogDocument(v), nil
}

func addWatchdog(c *call) (*element, error) {
	for _, name := range []string{"model", "action"} {
		if err := mandatory(c.body, "watchdog", name); err != nil {
			return nil, err
		}
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if v.Watchdog != nil {
		return nil, conflict("watchdog already exists")
	}
	made := &watchdog{ID: newID(), Model: c.body.value("model"), Action: c.body.value("action")}
	if err := made.check(); err != nil {
		return nil, err
	}
	v.Watchdog = made
	c.store.vms.put(v.ID, v)
	return c.created(c.watchdogDocument(v)), nil
}

// check refuses a model that no operating system here has.
func (w *watchdog) check() error {
	if w.Model != "i6300esb" {
		return invalid("Cannot ${action} ${type}. Selected watchdog model is not supported by the operating system.")
	}
	return nil
}

func updateWatchdog(c *call) (*element, error) {
	v, err := c.watchdog()
	if err != nil {
		return nil, err
	}
	next := *v.Watchdog
	next.Model, next.Action = textOr(c.body, "model", next.Model), textOr(c.body, "action", next.Action)
	if err := next.check(); err != nil {
		return nil, err
	}
	v.Watchdog = &next
	c.store.vms.put(v.ID, v)
	return c.watchdogDocument(v), nil
}

func removeWatchdog(c *call) (*element, error) {
	v, err := c.watchdog()
	if err != nil {
		return nil, err
	}
	v.Watchdog = nil
	c.store.vms.put(v.ID, v)
	c.work("Removing the watchdog of VM "+v.Name, "")
	return c.complete(), nil
}
