package ovirtsim

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// This file has the life of VMs and hosts: every change of status, by request or by itself.

// arrange plans the VM's next change of status, instead of what was planned before.
func (s *Engine) arrange(v *vm, status string, in time.Duration) {
	v.epoch++
	v.Until = transition{Status: status, At: time.Now().Add(in)}
	s.store.vms.put(v.ID, v)
	s.wake(v)
}

// settle gives the VM a status that stays.
func (s *Engine) settle(v *vm, status string) {
	v.epoch++
	v.Status, v.Until = status, transition{}
	s.store.vms.put(v.ID, v)
}

// wake sets the timer of the VM's next change.
func (s *Engine) wake(v *vm) {
	epoch := v.epoch
	s.at(v.Until.At, func() {
		if s.store.vms.get(v.ID) == v && v.epoch == epoch {
			s.advance(v)
		}
	})
}

// at runs a change of the inventory at a time, unless the simulator has ended.
func (s *Engine) at(when time.Time, change func()) {
	time.AfterFunc(time.Until(when), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil {
			return
		}
		change()
		_ = s.store.flush()
		s.settings.Changed()
	})
}

// advance makes the change that was planned.
func (s *Engine) advance(v *vm) {
	from, to := v.Status, v.Until.Status
	switch to {
	case statusPoweringUp:
		v.Status = to
		switch {
		case s.settings.GuestFault(guestNeverBoots, v.Name):
			s.settle(v, statusPoweringUp)
		case s.settings.GuestFault(guestLostBoot, v.Name):
			s.arrange(v, statusDown, s.settings.Timings.PowerUp)
		default:
			s.arrange(v, statusUp, s.settings.Timings.PowerUp)
		}
	case statusUp:
		if from == statusMigrating {
			v.Host, v.Destination = v.Destination, ""
			s.settle(v, statusUp)
			s.event(63, "normal", "Migration completed (VM: "+v.Name+", Destination: "+s.store.hostName(v.Host)+").", eventOf{vm: v.ID, host: v.Host})
			s.drain()
			return
		}
		if v.PauseAtStart && from == statusPoweringUp {
			v.PauseAtStart = false
			s.settle(v, statusPaused)
			s.finish(v.ID)
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
		if s.settings.GuestFault(guestCrashes, v.Name) {
			s.at(time.Now().Add(s.settings.Timings.PowerUp), func() { s.Crash(v) })
		}
	case statusDown:
		if from == statusDown && v.Applied != nil {
			v.hardware, v.Applied = *v.Applied, nil
			s.settle(v, statusDown)
			return
		}
		if from == statusImageLocked && s.showPreview(v) {
			return
		}
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
	}
}

// down is the end of a VM's run, however it came.
func (s *Engine) down(v *vm) {
	s.event(33, "normal", "VM "+v.Name+" is down.", eventOf{vm: v.ID, host: v.Host})
	v.Host, v.Destination, v.Stopped, v.RunOnce, v.OnceRun, v.Stopping = "", "", time.Now(), nil, false, false
	waited := v.Next
	v.Next = nil
	s.settle(v, statusDown)
	if waited != nil {
		v.Applied = waited
		s.arrange(v, statusDown, s.settings.Timings.PowerDown)
	}
	s.finish(v.ID)
	s.drain()
}

// notUpdating refuses what cannot be done while a change of the VM is under way, such as "run VM".
func (v *vm) notUpdating(command string) error {
	if v.Applied != nil {
		return conflict("Cannot %s. VM is being updated.", command)
	}
	return nil
}

// Crash is a guest that dies by itself.
func (s *Engine) Crash(v *vm) {
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
func (s *Engine) launch(v *vm) error { return s.launchOn(v, "") }

func (s *Engine) launchOn(v *vm, want string) error {
	placed, err := s.place(v, want)
	if err != nil {
		return err
	}
	v.Host, v.Status, v.GuestError, v.StopReason, v.Started = placed.ID, statusWaitForLaunch, "", nil, time.Now()
	s.arrange(v, statusPoweringUp, s.settings.Timings.Launch)
	return nil
}

// statusTitles are the statuses of VMs as messages have them.
var statusTitles = map[string]string{
	statusDown: "Down", statusUp: "Up", statusPoweringUp: "Powering Up", statusPaused: "Paused", statusMigrating: "Migrating", statusUnknown: "Unknown",
	statusNotResponding: "Not Responding", statusWaitForLaunch: "Wait for Launch", statusRebootInProgress: "Reboot in Progress", statusSavingState: "Saving State",
	statusSuspended: "Suspended", statusImageLocked: "Image Locked", statusPoweringDown: "Powering Down",
}

// inStatus refuses an action for the status that a VM is in.
func inStatus(v *vm, command string) error {
	return conflict("Cannot %s because the VM is in %s status.", command, statusTitles[v.Status])
}

// actionVM is the VM of the path, for an action. One that is not there is told by the action, and not by the path.
func (c *call) actionVM(command string) (*vm, error) {
	if v := c.store.vms.get(c.id("vm")); v != nil {
		return v, nil
	}
	return nil, invalid("Cannot %s. VM is not found.", command)
}

// done is the answer to an action of a VM.
func (c *call) done(v *vm) *element { return c.complete(ref("vm", "vms", v.ID)) }

// noDiskText is what the engine says where a VM boots from disks and has none.
const noDiskText = "Cannot run VM without at least one bootable disk.\nAlternatives:\n- Create a disk for this VM, and rerun the VM.\n" +
	"- Change the boot sequence using the Edit VM command (Boot Option Sub-Tab).\n- Use the 'Run Once' command to select a different boot option and rerun the VM."

// checkStart refuses what the engine refuses before it looks for a host.
func (c *call) checkStart(v *vm) error {
	if err := v.notUpdating("run VM"); err != nil {
		return err
	}
	if err := c.store.settledSnapshots(v, "run VM"); err != nil {
		return err
	}
	if len(v.MediatedDevices) > 0 {
		return conflict("Cannot run VM. There is no host that satisfies current scheduling constraints. See below for details:")
	}
	switch v.Status {
	case statusDown, statusSuspended, statusPaused:
	case statusImageLocked:
		return conflict("Cannot run VM: VM is locked. Please try again in a few minutes.")
	default:
		return inStatus(v, "run VM")
	}
	disks := 0
	for _, a := range c.store.attachmentsOf(v.ID) {
		d := c.store.disks.get(a.Disk)
		switch {
		case !a.Active:
		case d.Status == statusLocked:
			return conflict("Cannot run VM: The following disks are locked: %s. Please try again in a few minutes.", d.Name)
		case d.Status == statusIllegal:
			return conflict("Cannot run VM. The following attached disks are in ILLEGAL status: %s - please remove them and try again.", d.Name)
		default:
			disks++
		}
	}
	// Only a VM that boots from nothing else needs what it boots from.
	order := c.body.list("vm", "os", "boot", "devices", "device")
	if len(order) == 0 {
		order = v.Settings.list("os", "boot", "devices", "device")
	}
	only := ""
	if len(order) == 1 {
		only = order[0].text
	}
	switch {
	case only == "hd" && disks == 0:
		return conflict("%s", noDiskText)
	case only == "network" && len(c.store.nicsOf(v.ID)) == 0:
		return conflict("Cannot run VM. There is no network interface to boot from.")
	}
	return nil
}

func startVM(c *call) (*element, error) {
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return nil, failed(http.StatusInternalServerError, "java.lang.NullPointerException: Cannot invoke \"org.ovirt.engine.core.common.businessentities.VM.getStatus()\" "+
			"because the return value of \"org.ovirt.engine.core.bll.RunVmCommand.getVm()\" is null")
	}
	if v.Status == statusPaused {
		c.settle(v, statusUp)
		return c.done(v), nil
	}
	if err := c.checkStart(v); err != nil {
		return nil, err
	}
	once := c.body.get("vm")
	want, err := c.startHost(once)
	if err != nil {
		return nil, err
	}
	if once.has("initialization") {
		if _, err := layInitialization(nil, once.get("initialization"), commandOn("run VM")); err != nil {
			return nil, err
		}
	}

	c.work("Launching VM "+v.Name+map[bool]string{true: " in run-once mode", false: ""}[once != nil], v.ID)
	if err := c.launchOn(v, want); err != nil {
		c.finish(v.ID)
		c.event(54, "error", "Failed to run VM "+v.Name+" (User: "+c.user.Name+").", eventOf{vm: v.ID})
		return nil, err
	}
	v.OnceRun, v.RunOnce = once != nil, once.get("initialization")
	v.PauseAtStart = c.body.yes("pause") || v.Settings.yes("start_paused")
	c.store.vms.put(v.ID, v)
	c.event(153, "normal", "VM "+v.Name+" was started by "+c.user.Name+" (Host: "+c.store.hostName(v.Host)+").", eventOf{vm: v.ID, host: v.Host})
	return c.done(v), nil
}

// startHost is the host that a start names; empty where it names none.
func (c *call) startHost(once *element) (string, error) {
	hosts := once.list("placement_policy", "hosts", "host")
	if len(hosts) == 0 {
		return "", nil
	}
	if err := checkRef(hosts[0]); err != nil {
		return "", err
	}
	found := referred(c.store.hosts, hosts[0], func(h *host) string { return h.Name })
	if found == nil {
		return "", entityNotFound(orElse(refID(hosts[0]), hosts[0].value("name")))
	}
	return found.ID, nil
}

// stopVM powers off; a VM that is down stays down, which the engine counts as success. The VM reads as before until its
// host tells that it has ended, and the host refuses a second stop meanwhile.
func stopVM(c *call) (*element, error) {
	v, err := c.actionVM("stop VM")
	if err != nil {
		return nil, err
	}
	switch {
	case v.Status == statusDown:
		c.work("Stopping VM "+v.Name, "")
		return c.done(v), nil
	case v.Status == statusSuspended:
		c.down(v)
		return c.done(v), nil
	case v.Status == statusImageLocked || v.Status == statusUnknown:
		return nil, conflict("Cannot stop VM. VM is not running.")
	case v.Stopping:
		return nil, invalid("Desktop does not exist")
	}
	reason := c.body.value("reason")
	v.StopReason, v.Stopping = &reason, true
	c.work("Stopping VM "+v.Name, v.ID)
	c.halt(v)
	v.Destination = ""
	c.arrange(v, statusDown, c.settings.Timings.PowerDown)
	return c.done(v), nil
}

// shutdownVM asks the guest, which may ignore it. A guest that does not run yet is powered off.
func shutdownVM(c *call) (*element, error) {
	v, err := c.actionVM("shutdown VM")
	if err != nil {
		return nil, err
	}
	switch v.Status {
	case statusDown, statusPoweringDown:
		c.work("Shutting down VM "+v.Name, "")
		return c.done(v), nil
	case statusImageLocked, statusUnknown, statusSuspended:
		return nil, conflict("Cannot shutdown VM. VM is not running.")
	case statusUp:
		c.event(153, "normal", "VM shutdown initiated by "+c.user.Name+" on VM "+v.Name+".", eventOf{vm: v.ID})
		if c.settings.GuestFault(guestIgnoresShutdown, v.Name) {
			v.Status = statusPoweringDown
			c.arrange(v, statusUp, 4*c.settings.Timings.PowerDown)
			return c.done(v), nil
		}
	}
	reason := c.body.value("reason")
	v.StopReason = &reason
	c.work("Shutting down VM "+v.Name, v.ID)
	c.halt(v)
	v.Status, v.Destination = statusPoweringDown, ""
	c.arrange(v, statusDown, c.settings.Timings.PowerDown)
	return c.done(v), nil
}

// restart is a reboot by the guest, or a reset of the machine.
func (c *call) restart(command string) (*element, error) {
	v, err := c.actionVM(command)
	if err != nil {
		return nil, err
	}
	if v.Status != statusUp && v.Status != statusPoweringUp {
		return nil, inStatus(v, command)
	}
	c.halt(v)
	v.Status = statusRebootInProgress
	c.arrange(v, statusUp, c.settings.Timings.PowerUp)
	c.work("Restarting VM "+v.Name, "")
	c.event(157, "normal", "User "+c.user.Name+" initiated reboot of VM "+v.Name+".", eventOf{vm: v.ID})
	return c.done(v), nil
}

func rebootVM(c *call) (*element, error) { return c.restart("restart VM") }
func resetVM(c *call) (*element, error)  { return c.restart("reset VM") }

func suspendVM(c *call) (*element, error) {
	v, err := c.actionVM("hibernate VM")
	if err != nil {
		return nil, err
	}
	if v.Status != statusUp {
		return nil, conflict("Cannot hibernate VM. VM is not up.")
	}
	c.halt(v)
	v.Status = statusSavingState
	c.arrange(v, statusSuspended, c.settings.Timings.PowerDown)
	c.work("Hibernating VM "+v.Name, "")
	c.status = http.StatusAccepted
	return el("action").flag("async", true).add(ref("job", "jobs", c.job), ref("vm", "vms", v.ID)).str("status", "pending"), nil
}

func migrateVM(c *call) (*element, error) {
	v, err := c.actionVM("migrate VM")
	if err != nil {
		return nil, err
	}
	want := ""
	if h := c.body.get("host"); h != nil {
		found := referred(c.store.hosts, h, func(h *host) string { return h.Name })
		if found == nil {
			return nil, invalid("Cannot migrate VM. Invalid Host Id.")
		}
		want = found.ID
	}
	switch {
	case v.Status == statusMigrating:
		return nil, conflict("Cannot migrate VM. VM is already being migrated.")
	case v.Host == "":
		return nil, conflict("Cannot migrate VM. VM is not running.")
	case v.PlacementAffinity == "pinned":
		return nil, conflict("Cannot migrate VM. The VM is pinned to its host and cannot be migrated.")
	}
	if err := c.move(v, want); err != nil {
		return nil, err
	}
	return c.done(v), nil
}

func cancelMigration(c *call) (*element, error) {
	v, err := c.actionVM("cancel migration for VM")
	if err != nil {
		return nil, err
	}
	if v.Status != statusMigrating {
		return nil, conflict("Cannot cancel migration for non migrating VM.")
	}
	v.Destination = ""
	c.settle(v, statusUp)
	return c.done(v), nil
}

func freezeVM(c *call) (*element, error) { return c.frozen("freeze VM") }
func thawVM(c *call) (*element, error)   { return c.frozen("thaw VM") }

func (c *call) frozen(command string) (*element, error) {
	v, err := c.actionVM(command)
	if err != nil {
		return nil, err
	}
	if v.Status != statusUp {
		return nil, inStatus(v, command)
	}
	return c.done(v), nil
}

// logonVM needs an agent in the guest that knows how.
func logonVM(c *call) (*element, error) {
	if _, err := c.actionVM("logon to VM"); err != nil {
		return nil, err
	}
	return nil, invalid("")
}

func detachVM(*call) (*element, error) { return nil, forbidden() }

// cloneVM and exportVM are refused for what they lack; the simulator does not do more.
func cloneVM(c *call) (*element, error) {
	return nil, orError(mandatory(orElse(c.body.get("vm"), el("vm")), "vm", "name"), failed(http.StatusNotImplemented, "cloning a VM is not simulated"))
}

func exportVM(*call) (*element, error) {
	return nil, notMandatory("No matching signature found, make sure that mandatory attributes are provided.")
}

func orError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func ticketVM(c *call) (*element, error) {
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return nil, bare(entityNotFound("GetVmByVmId"))
	}
	if v.Status != statusUp && v.Status != statusPoweringUp {
		return nil, bare(inStatus(v, "set Virtual Machine Ticket"))
	}
	asked := orElse(c.body.get("ticket"), el("ticket"))
	ticket := el("ticket").str("expiry", orElse(asked.value("expiry"), "7200")).str("value", orElse(asked.value("value"), randomHex(6)))
	return c.complete(ticket), nil
}

// autoPinVM turns the engine's own pinning on. It cannot turn it off: that needs a change of the VM.
func autoPinVM(c *call) (*element, error) {
	v := c.store.vms.get(c.id("vm"))
	switch {
	case !c.atLeast(4, 4, 5):
		return nil, gone()
	case v == nil:
		return nil, bare(entityNotFound("VM: id=" + c.id("vm")))
	case !c.body.yes("optimize_cpu_settings") && !c.atLeast(4, 5, 0):
		return nil, bare(failed(http.StatusBadRequest, "The current Auto Pinning policy Existing is currently unsupported."))
	case !c.body.yes("optimize_cpu_settings"):
		return nil, bare(failed(http.StatusBadRequest, "The input is unsupported. `Pin` CPU Pinning policy is not supported."))
	case !c.atLeast(4, 5, 0) && len(v.PlacementHosts) == 0:
		return nil, bare(invalid("Cannot edit VM. The VM must be pinned to at least one host for automatic CPU pinning."))
	}
	wanted := v.copyOf()
	wanted.CPUPinning = pinResize
	v.take(wanted, v.running(), false)
	c.store.vms.put(v.ID, v)
	c.work("Editing VM "+v.Name, "")
	answer := el("action").add(ref("job", "jobs", c.job))
	return answer.str("status", "complete"), nil
}

// move begins the migration of a VM, to a host or to the best one.
func (s *Engine) move(v *vm, hostID string) error {
	to, err := s.place(v, hostID)
	if err != nil {
		return conflict("%s", "Cannot migrate VM. "+trimVerdict(err))
	}
	v.Status, v.Destination = statusMigrating, to.ID
	s.event(62, "normal", "Migration started (VM: "+v.Name+", Source: "+s.store.hostName(v.Host)+", Destination: "+to.Name+").", eventOf{vm: v.ID, host: v.Host})
	s.arrange(v, statusUp, s.settings.Timings.Migrate)
	return nil
}

func (s *Engine) vmsOn(hostID string) []*vm {
	return s.store.vms.where(func(v *vm) bool { return v.Host == hostID }, vmKey)
}

func activateHost(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	if h.Status == hostUp {
		return nil, conflict("Cannot activate Host. Host in Up status.")
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
	if err := c.Maintain(h); err != nil {
		return nil, err
	}
	return c.complete(), nil
}

// Maintain empties a host and takes it out of service.
func (s *Engine) Maintain(h *host) error {
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
func (s *Engine) turnBack(h *host) {
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
func (s *Engine) drain() {
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

func (s *Engine) hostStatus(h *host, status string) {
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
	c.Lose(h)
	c.fenced(h)
	c.hostStatus(h, hostUp)
	return c.complete(), nil
}

// Lose is a host that is not reached any more: its VMs are unknown until it has been fenced.
func (s *Engine) Lose(h *host) {
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
	s.at(failed.Add(s.settings.Timings.Fence), func() {
		if h.Status == hostNonResponsive && h.FailedAt.Equal(failed) {
			s.fenced(h)
		}
	})
}

// fenced is the moment from which the VMs of a lost host are known to be down. Highly available ones start elsewhere.
func (s *Engine) fenced(h *host) {
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

// Recover brings a host back, from failure or from maintenance; the store is locked.
func (s *Engine) Recover(h *host) {
	s.fenced(h)
	s.hostStatus(h, hostUp)
}

// resume continues after a restart of the simulator: what was on its way goes on, and what ran boots again.
func (s *Engine) resume() {
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
	for _, found := range s.store.snapshots.rows {
		if found.Until.Status != "" {
			s.wakeSnapshot(found)
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
			s.Lose(h)
		}
	}
}

// seed makes what an inventory wants beyond the objects that fill made: VMs and their affinity groups.
func (s *Engine) seed(inv Inventory) error {
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

func (s *Engine) seedVM(dc DataCenter, want VM) error {
	c := &call{Engine: s}
	source := c.templateFor(el("template").str("name", want.Template), s.store.idOf(dc.ID, "datacenter", dc.Name))
	home := &cluster{}
	for _, one := range dc.Clusters {
		if one.Name == want.Cluster {
			home = s.store.clusters.get(s.store.idOf(one.ID, "cluster", dc.Name, one.Name))
		}
	}
	made := c.vmOf(source, home)
	made.ID, made.Name, made.Comment, made.DeleteProtected = orElse(want.ID, made.ID), want.Name, want.Comment, want.DeleteProtected
	if want.Memory != 0 {
		made.Memory = int64(want.Memory)
		made.MaxMemory, made.GuaranteedMemory = 4*made.Memory, made.Memory
	}
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
