package ovirtsim

import (
	"fmt"
	"slices"
	"time"
)

// This file has the life of VMs and hosts: every change of status, by request or by itself.

// arrange plans the VM's next change of status, instead of what was planned before.
func (s *Server) arrange(v *vm, status string, in time.Duration) {
	v.epoch++
	v.Until = transition{Status: status, At: time.Now().Add(in)}
	s.store.vms.put(v.ID, v)
	s.wake(v)
}

// settle gives the VM a status that stays.
func (s *Server) settle(v *vm, status string) {
	v.epoch++
	v.Status, v.Until = status, transition{}
	s.store.vms.put(v.ID, v)
}

// wake sets the timer of the VM's next change.
func (s *Server) wake(v *vm) {
	epoch := v.epoch
	s.at(v.Until.At, func() {
		if s.store.vms.get(v.ID) == v && v.epoch == epoch {
			s.advance(v)
		}
	})
}

// at runs a change of the inventory at a time, unless the simulator has ended.
func (s *Server) at(when time.Time, change func()) {
	time.AfterFunc(time.Until(when), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil {
			return
		}
		change()
		_ = s.store.flush()
		s.watchers.changed()
	})
}

// advance makes the change that was planned.
func (s *Server) advance(v *vm) {
	from, to := v.Status, v.Until.Status
	switch to {
	case statusPoweringUp:
		v.Status = to
		switch {
		case s.guestFault(guestNeverBoots, v.Name):
			s.settle(v, statusPoweringUp)
		case s.guestFault(guestLostBoot, v.Name):
			s.arrange(v, statusDown, s.options.Timings.PowerUp)
		default:
			s.arrange(v, statusUp, s.options.Timings.PowerUp)
		}
	case statusUp:
		if from == statusMigrating {
			v.Host, v.Destination = v.Destination, ""
			s.settle(v, statusUp)
			s.event(63, "normal", "Migration completed (VM: "+v.Name+", Destination: "+s.store.hostName(v.Host)+").", eventOf{vm: v.ID, host: v.Host})
			s.drain()
			return
		}
		s.settle(v, statusUp)
		if from == statusPoweringDown { // the guest ignored a shutdown, and the engine goes back to what it sees
			return
		}
		s.finish(v.ID)
		s.event(32, "normal", "VM "+v.Name+" started on Host "+s.store.hostName(v.Host), eventOf{vm: v.ID, host: v.Host})
		s.boot(v)
		s.drain()
		if s.guestFault(guestCrashes, v.Name) {
			s.at(time.Now().Add(s.options.Timings.PowerUp), func() { s.crash(v) })
		}
	case statusDown:
		if from == statusImageLocked {
			for _, a := range s.store.attachmentsOf(v.ID) {
				if d := s.store.disks.get(a.Disk); d.Status == statusLocked && d.Until.Status == "" {
					d.Status = statusOK
					s.store.disks.put(d.ID, d)
				}
			}
			s.event(53, "normal", "VM "+v.Name+" creation has been completed.", eventOf{vm: v.ID})
			s.settle(v, statusDown)
			s.finish(v.ID)
			return
		}
		if from == statusPoweringUp {
			s.event(119, "error", "VM "+v.Name+" is down with error. Exit message: Lost connection with qemu process.", eventOf{vm: v.ID, host: v.Host})
		}
		s.down(v)
	case statusSuspended:
		v.Host = ""
		s.settle(v, statusSuspended)
		s.drain()
	case statusRemoved:
		var doomed []*disk
		for _, a := range s.store.attachmentsOf(v.ID) {
			if len(s.store.attachmentsOfDisk(a.Disk)) == 1 {
				doomed = append(doomed, s.store.disks.get(a.Disk))
			}
		}
		s.forget(v, doomed)
	}
}

// down is the end of a VM's run, however it came.
func (s *Server) down(v *vm) {
	s.event(33, "normal", "VM "+v.Name+" is down.", eventOf{vm: v.ID, host: v.Host})
	v.Host, v.Destination, v.Stopped, v.RunOnce = "", "", time.Now(), nil
	if v.NextMemory != 0 {
		v.Memory, v.GuaranteedMemory, v.NextMemory = v.NextMemory, min(v.GuaranteedMemory, v.NextMemory), 0
	}
	if v.NextCPU.Cores != 0 {
		v.CPU, v.NextCPU = v.NextCPU, topology{}
	}
	s.settle(v, statusDown)
	s.finish(v.ID)
	s.drain()
}

// crash is a guest that dies by itself.
func (s *Server) crash(v *vm) {
	if v.Status != statusUp && v.Status != statusPoweringUp && v.Status != statusRebootInProgress {
		return
	}
	s.halt(v)
	s.event(119, "error", "VM "+v.Name+" is down with error. Exit message: Lost connection with qemu process.", eventOf{vm: v.ID, host: v.Host})
	restart := v.HighlyAvailable
	s.down(v)
	if restart {
		_ = s.launch(v)
	}
}

// launch puts a VM that is down on a host.
func (s *Server) launch(v *vm) error {
	placed, err := s.place(v, "")
	if err != nil {
		return err
	}
	v.Host, v.Status, v.GuestError, v.StopReason, v.Started = placed.ID, statusWaitForLaunch, "", "", time.Now()
	s.arrange(v, statusPoweringUp, s.options.Timings.Launch)
	return nil
}

func startVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	switch v.Status {
	case statusDown, statusSuspended:
	case statusImageLocked:
		return nil, conflict("Cannot run VM: VM is locked. Please try again in a few minutes.")
	default:
		return nil, conflict("Cannot run VM. VM is running.")
	}
	bootable := false
	for _, a := range c.store.attachmentsOf(v.ID) {
		d := c.store.disks.get(a.Disk)
		switch {
		case !a.Active:
		case d.Status == statusLocked:
			return nil, conflict("Cannot run VM: The following disks are locked: %s. Please try again in a few minutes.", d.Name)
		case d.Status == statusIllegal:
			return nil, conflict("Cannot run VM. The following attached disks are in ILLEGAL status: %s - please remove them and try again.", d.Name)
		default:
			bootable = true
		}
	}
	if !bootable {
		return nil, conflict("Cannot run VM without at least one bootable disk.")
	}
	c.work("Launching VM "+v.Name, v.ID)
	if err := c.launch(v); err != nil {
		c.finish(v.ID)
		c.event(54, "error", "Failed to run VM "+v.Name+" (User: "+c.user+").", eventOf{vm: v.ID})
		return nil, err
	}
	if in := c.body.get("vm", "initialization"); in != nil {
		v.RunOnce = in
		c.store.vms.put(v.ID, v)
	}
	c.event(153, "normal", "VM "+v.Name+" was started by "+c.user+" (Host: "+c.store.hostName(v.Host)+").", eventOf{vm: v.ID, host: v.Host})
	return c.complete(), nil
}

// stopVM powers off; a VM that is down stays down, which the engine counts as success.
func stopVM(c *call) (*element, error) { return c.end(false) }

// shutdownVM asks the guest, which may ignore it.
func shutdownVM(c *call) (*element, error) { return c.end(true) }

func (c *call) end(graceful bool) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	switch v.Status {
	case statusImageLocked:
		return nil, conflict("Cannot stop VM: VM is locked. Please try again in a few minutes.")
	case statusDown:
		return c.complete(), nil
	case statusPoweringDown:
		if graceful {
			return c.complete(), nil
		}
	case statusSuspended:
		c.down(v)
		return c.complete(), nil
	case statusUnknown:
		return nil, conflict("Cannot stop VM. The host of the VM is not reached.")
	}
	v.StopReason = c.body.value("reason")
	if graceful && v.Status == statusUp {
		c.event(153, "normal", "VM shutdown initiated by "+c.user+" on VM "+v.Name+".", eventOf{vm: v.ID})
		if c.guestFault(guestIgnoresShutdown, v.Name) {
			v.Status = statusPoweringDown
			c.arrange(v, statusUp, 4*c.options.Timings.PowerDown)
			return c.complete(), nil
		}
	}
	c.work("Stopping VM "+v.Name, v.ID)
	c.halt(v)
	v.Status, v.Destination = statusPoweringDown, ""
	c.arrange(v, statusDown, c.options.Timings.PowerDown)
	return c.complete(), nil
}

func rebootVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if v.Status != statusUp && v.Status != statusPoweringUp {
		return nil, conflict("Cannot reboot VM. VM is not running.")
	}
	c.halt(v)
	v.Status = statusRebootInProgress
	c.arrange(v, statusUp, c.options.Timings.PowerUp)
	c.event(157, "normal", "User "+c.user+" initiated reboot of VM "+v.Name+".", eventOf{vm: v.ID})
	return c.complete(), nil
}

// resetVM cuts the power for a moment.
func resetVM(c *call) (*element, error) { return rebootVM(c) }

func suspendVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if v.Status != statusUp {
		return nil, conflict("Cannot hibernate VM. VM is not up.")
	}
	c.halt(v)
	v.Status = statusSavingState
	c.arrange(v, statusSuspended, c.options.Timings.PowerDown)
	return c.complete(), nil
}

func migrateVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	switch {
	case v.Status != statusUp:
		return nil, conflict("Cannot migrate VM. VM is not up.")
	case v.PlacementAffinity == "pinned":
		return nil, conflict("Cannot migrate VM. The VM is pinned to its host and cannot be migrated.")
	}
	want := ""
	if h := c.body.get("host"); h != nil {
		found := referred(c.store.hosts, h, func(h *host) string { return h.Name })
		if found == nil {
			return nil, notFound("Host", refID(h))
		}
		want = found.ID
	}
	if err := c.move(v, want); err != nil {
		return nil, err
	}
	return c.complete(), nil
}

// move begins the migration of a VM, to a host or to the best one.
func (s *Server) move(v *vm, hostID string) error {
	to, err := s.place(v, hostID)
	if err != nil {
		return conflict("%s", "Cannot migrate VM. "+trimVerdict(err))
	}
	v.Status, v.Destination = statusMigrating, to.ID
	s.event(62, "normal", "Migration started (VM: "+v.Name+", Source: "+s.store.hostName(v.Host)+", Destination: "+to.Name+").", eventOf{vm: v.ID, host: v.Host})
	s.arrange(v, statusUp, s.options.Timings.Migrate)
	return nil
}

func (s *Server) vmsOn(hostID string) []*vm {
	return s.store.vms.where(func(v *vm) bool { return v.Host == hostID }, vmKey)
}

func activateHost(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	if h.Status == hostUp {
		return nil, conflict("Cannot activate Host. Host is already up.")
	}
	c.fenced(h)
	c.hostStatus(h, hostUp)
	return c.complete(), nil
}

func deactivateHost(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	if err := c.maintain(h); err != nil {
		return nil, err
	}
	return c.complete(), nil
}

// maintain empties a host and takes it out of service.
func (s *Server) maintain(h *host) error {
	if h.Status != hostUp {
		return conflict("Cannot switch Host to Maintenance mode. The Host is not up.")
	}
	vms := s.vmsOn(h.ID)
	for _, v := range vms {
		if v.PlacementAffinity == "pinned" {
			return conflict("Cannot switch Host to Maintenance mode. The following VMs are set to run specifically only on this Host: %s.", v.Name)
		}
	}
	s.hostStatus(h, hostPreparing)
	s.turnBack(h)
	s.drain()
	return nil
}

// turnBack ends migrations to a host that is no place to go any more.
func (s *Server) turnBack(h *host) {
	for _, v := range s.store.vms.rows {
		if v.Destination == h.ID {
			v.Destination = ""
			s.settle(v, statusUp)
			s.event(65, "error", "Migration failed (VM: "+v.Name+", Destination: "+h.Name+").", eventOf{vm: v.ID, host: v.Host})
		}
	}
}

// drain moves VMs off hosts that prepare for maintenance, as far as other hosts take them now, and completes the
// maintenance of those whose last VM has left. It is called whenever a VM has settled.
func (s *Server) drain() {
	for _, h := range s.store.hosts.rows {
		if h.Status != hostPreparing {
			continue
		}
		vms := s.vmsOn(h.ID)
		for _, v := range vms {
			if v.Status == statusUp {
				_ = s.move(v, "") // no host takes it: it waits for one that does
			}
		}
		if len(vms) == 0 {
			s.hostStatus(h, hostMaintenance)
		}
	}
}

func (s *Server) hostStatus(h *host, status string) {
	h.Status, h.FailedAt = status, time.Time{}
	s.store.hosts.put(h.ID, h)
	s.event(13, "normal", "Status of host "+h.Name+" was set to "+status+".", eventOf{host: h.ID})
}

// fenceHost is the power management of a host: a restart ends its VMs.
func fenceHost(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	switch kind := c.body.value("fence_type"); {
	case kind == "status":
		return c.complete().str("power_management_status", "on"), nil
	case slices.Contains([]string{"restart", "stop", "start", ""}, kind):
	}
	c.lose(h)
	c.fenced(h)
	c.hostStatus(h, hostUp)
	return c.complete(), nil
}

// lose is a host that is not reached any more: its VMs are unknown until it has been fenced.
func (s *Server) lose(h *host) {
	h.Status, h.FailedAt = hostNonResponsive, time.Now()
	s.store.hosts.put(h.ID, h)
	s.event(12, "error", "Host "+h.Name+" is non responsive.", eventOf{host: h.ID})
	s.turnBack(h)
	for _, v := range s.vmsOn(h.ID) {
		s.halt(v)
		v.Destination = ""
		s.settle(v, statusUnknown)
	}
	failed := h.FailedAt
	s.at(failed.Add(s.options.Timings.Fence), func() {
		if h.Status == hostNonResponsive && h.FailedAt.Equal(failed) {
			s.fenced(h)
		}
	})
}

// fenced is the moment from which the VMs of a lost host are known to be down. Highly available ones start elsewhere.
func (s *Server) fenced(h *host) {
	for _, v := range s.vmsOn(h.ID) {
		if v.Status != statusUnknown {
			continue
		}
		s.down(v)
		if v.HighlyAvailable {
			if err := s.launch(v); err != nil {
				s.event(54, "error", "Failed to restart VM "+v.Name+": "+err.Error(), eventOf{vm: v.ID})
			}
		}
	}
}

// resume continues after a restart of the simulator: what was on its way goes on, and what ran boots again.
func (s *Server) resume() {
	for _, v := range s.store.vms.rows {
		switch {
		case v.Until.Status != "":
			s.wake(v)
			if v.Until.Status == statusUp && (v.Status == statusMigrating || v.Status == statusPoweringDown) {
				s.boot(v) // the guest runs all the time
			}
		case v.Status == statusUp:
			s.boot(v)
		}
	}
	for _, d := range s.store.disks.rows {
		if d.Until.Status != "" {
			s.wakeDisk(d)
		}
	}
	for _, t := range s.store.templates.rows {
		if t.Until.Status != "" {
			s.wakeTemplate(t)
		}
	}
	for _, t := range s.store.transfers.rows {
		s.resumeUpload(t)
	}
	for _, h := range s.store.hosts.rows {
		if h.Status == hostNonResponsive {
			s.lose(h)
		}
	}
}

// seed makes what an inventory wants beyond the objects that fill made: VMs and their affinity groups.
func (s *Server) seed(inv Inventory) error {
	for _, dc := range inv.DataCenters {
		for _, want := range dc.VMs {
			if err := s.seedVM(dc, want); err != nil {
				return fmt.Errorf("the inventory's VM %q cannot be made: %w", want.Name, err)
			}
		}
		for _, c := range dc.Clusters {
			for _, g := range c.AffinityGroups {
				made := &affinityGroup{ID: orElse(g.ID, newID()), Name: g.Name, Cluster: s.store.idOf(c.ID, "cluster", dc.Name, c.Name), Priority: 1,
					VMsRule: rule{Enabled: true, Enforcing: g.Enforcing, Positive: g.Positive}}
				for _, v := range s.store.vms.rows {
					if v.Cluster == made.Cluster && slices.Contains(g.VMs, v.Name) {
						made.VMs = append(made.VMs, v.ID)
					}
				}
				s.store.groups.put(made.ID, made)
			}
		}
	}
	return nil
}

func (s *Server) seedVM(dc DataCenter, want VM) error {
	c := &call{Server: s}
	source := c.templateFor(el("template").str("name", want.Template), s.store.idOf(dc.ID, "datacenter", dc.Name))
	made := &vm{
		ID: orElse(want.ID, newID()), Name: want.Name, Comment: want.Comment, Status: statusDown, Template: source.ID, Original: source.ID,
		Memory: orElse(int64(want.Memory), source.Memory), CPU: source.CPU, OSType: source.OSType, Type: source.Type, Ballooning: true, Created: time.Now(),
		DeleteProtected: want.DeleteProtected, Consoles: []graphicsConsole{{ID: "766e63", Protocol: "vnc"}},
		Kubernetes: source.Kubernetes, Ignition: source.Ignition,
	}
	for _, c := range dc.Clusters {
		if c.Name == want.Cluster {
			made.Cluster = s.store.idOf(c.ID, "cluster", dc.Name, c.Name)
		}
	}
	made.MaxMemory, made.GuaranteedMemory = 4*made.Memory, made.Memory
	s.store.vms.put(made.ID, made)
	disks, err := c.copyDisks(made, source, nil, false)
	if err != nil {
		return err
	}
	for _, d := range disks {
		d.disk.Status = statusOK
	}
	s.store.outfit(made, source, disks)
	for _, name := range want.Tags {
		t := s.store.ensureTag(name)
		member(&t.VMs, made.ID, true)
		s.store.tags.put(t.ID, t)
	}
	if want.Up {
		placed, err := s.place(made, "")
		if err != nil {
			return err
		}
		made.Host, made.Started = placed.ID, time.Now()
		s.settle(made, statusUp)
		s.boot(made)
	}
	return nil
}
