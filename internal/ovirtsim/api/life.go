package api

import (
	"fmt"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the life of VMs: every change of their status, requested or automatic.

var lifeRoutes = []route{
	{"POST", "/vms/{vm}/autopincpuandnumanodes", autoPinVM},
	{"POST", "/vms/{vm}/cancelmigration", cancelMigration},
	{"POST", "/vms/{vm}/clone", cloneVM},
	{"POST", "/vms/{vm}/detach", detachVM},
	{"POST", "/vms/{vm}/export", exportVM},
	{"POST", "/vms/{vm}/freezefilesystems", freezeVM},
	{"POST", "/vms/{vm}/logon", logonVM},
	{"POST", "/vms/{vm}/migrate", migrateVM},
	{"POST", "/vms/{vm}/reboot", rebootVM},
	{"POST", "/vms/{vm}/reset", resetVM},
	{"POST", "/vms/{vm}/shutdown", shutdownVM},
	{"POST", "/vms/{vm}/start", startVM},
	{"POST", "/vms/{vm}/stop", stopVM},
	{"POST", "/vms/{vm}/suspend", suspendVM},
	{"POST", "/vms/{vm}/thawfilesystems", thawVM},
	{"POST", "/vms/{vm}/ticket", ticketVM},
}

// scheduleVM schedules the VM's next change of status, and replaces any change scheduled earlier.
func (s *Engine) scheduleVM(v *store.VM, status string, in time.Duration) {
	v.Epoch++
	v.Until = store.Transition{Status: status, At: s.now().Add(in)}
	s.store.VMs.Put(v.ID, v)
	s.startVMTimer(v)
}

// setStableStatus gives the VM a status without a scheduled change.
func (s *Engine) setStableStatus(v *store.VM, status string) {
	v.Epoch++
	v.Status, v.Until = status, store.Transition{}
	s.store.VMs.Put(v.ID, v)
}

// startVMTimer starts the timer for the VM's next change of status.
func (s *Engine) startVMTimer(v *store.VM) {
	epoch := v.Epoch
	s.scheduleChange(v.Until.At, func() {
		if s.store.VMs.Get(v.ID) == v && v.Epoch == epoch {
			s.advanceVM(v)
		}
	})
}

// scheduleChange schedules a change of the inventory for a given time. The change does not happen if the simulator ends
// before.
func (s *Engine) scheduleChange(when time.Time, change func()) {
	s.settings.Clock.CallAt(when, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil {
			return
		}

		change()
		_ = s.store.Flush()
		s.settings.Changed()
	})
}

// advanceVM makes the VM's scheduled change of status.
func (s *Engine) advanceVM(v *store.VM) {
	switch v.Until.Status {
	case store.StatusPoweringUp:
		s.powerUp(v)
	case store.StatusUp:
		s.completeStart(v)
	case store.StatusDown:
		s.completeStop(v)
	case store.StatusSuspended:
		v.Host = ""
		s.setStableStatus(v, store.StatusSuspended)
		s.drainHosts()
	}
}

func (s *Engine) powerUp(v *store.VM) {
	v.Status = store.StatusPoweringUp

	switch {
	case s.settings.GuestFault(GuestNeverBoots, v.Name):
		s.setStableStatus(v, store.StatusPoweringUp)
	case s.settings.GuestFault(GuestLostBoot, v.Name):
		s.scheduleVM(v, store.StatusDown, s.settings.Timings.PowerUp)
	default:
		s.scheduleVM(v, store.StatusUp, s.settings.Timings.PowerUp)
	}
}

func (s *Engine) completeStart(v *store.VM) {
	from := v.Status

	switch {
	case from == store.StatusMigrating:
		v.Host, v.Destination = v.Destination, ""
		s.setStableStatus(v, store.StatusUp)
		s.recordEvent(63, "normal",
			"Migration completed (VM: "+v.Name+", Destination: "+s.store.HostName(v.Host)+").",
			eventOf{vm: v.ID, host: v.Host})
		s.drainHosts()

		return
	case v.PauseAtStart && from == store.StatusPoweringUp:
		v.PauseAtStart = false
		s.setStableStatus(v, store.StatusPaused)
		s.finishJobs(v.ID)

		return
	}

	s.setStableStatus(v, store.StatusUp)
	if from == store.StatusPoweringDown { // the guest ignored a shutdown, so the engine returns to the observed status
		return
	}

	v.Initialized = true
	s.finishJobs(v.ID)
	s.recordEvent(
		32, "normal", "VM "+v.Name+" started on Host "+s.store.HostName(v.Host), eventOf{vm: v.ID, host: v.Host},
	)
	s.bootGuest(v)
	s.drainHosts()
	if s.settings.GuestFault(GuestCrashes, v.Name) {
		s.scheduleChange(s.now().Add(s.settings.Timings.PowerUp), func() { s.CrashVM(v) })
	}
}

func (s *Engine) completeStop(v *store.VM) {
	from := v.Status

	switch {
	case from == store.StatusDown && v.Applied != nil:
		v.Hardware, v.Applied = *v.Applied, nil
		s.setStableStatus(v, store.StatusDown)

		return
	case from == store.StatusImageLocked:
		if !s.showPreview(v) {
			s.completeCreation(v)
		}

		return
	case from == store.StatusPoweringUp:
		s.recordEvent(
			119, "error", "VM "+v.Name+" is down with error. Exit message: Lost connection with qemu process.",
			eventOf{vm: v.ID, host: v.Host},
		)
	}

	s.markDown(v)
}

// completeCreation unlocks the disks of a new VM.
func (s *Engine) completeCreation(v *store.VM) {
	for _, a := range s.store.AttachmentsOf(v.ID) {
		if d := s.store.Disks.Get(a.Disk); d.Status == store.StatusLocked && d.Until.Status == "" {
			d.Status = store.StatusOK
			s.store.Disks.Put(d.ID, d)
		}
	}

	s.recordEvent(53, "normal", "VM "+v.Name+" creation has been completed.", eventOf{vm: v.ID})
	s.setStableStatus(v, store.StatusDown)
	s.finishJobs(v.ID)
}

// FailCreation ends the creation of a VM with locked disks, as if the engine could not copy the disks. The VM and its
// disks disappear, and an event remains. No recording confirms this: the event and its text are from memory.
func (s *Engine) FailCreation(v *store.VM) error {
	if v.Status != store.StatusImageLocked {
		return fmt.Errorf("VM %s is %s, and not being made", v.Name, v.Status)
	}

	s.recordEvent(60, "error", "Failed to complete VM "+v.Name+" creation.", eventOf{vm: v.ID})

	for _, a := range s.store.AttachmentsOf(v.ID) {
		s.dropDisk(s.store.Disks.Get(a.Disk))
	}

	s.dropVM(v)

	return nil
}

// markDown ends the run of a VM for any reason.
func (s *Engine) markDown(v *store.VM) {
	s.recordEvent(33, "normal", "VM "+v.Name+" is down.", eventOf{vm: v.ID, host: v.Host})
	v.Host, v.Destination, v.Stopped, v.Drive, v.OnceRun, v.Stopping = "", "", s.now(), nil, false, false
	waited := v.Next
	v.Next = nil
	s.setStableStatus(v, store.StatusDown)
	if waited != nil {
		v.Applied = waited
		s.scheduleVM(v, store.StatusDown, s.settings.Timings.PowerDown)
	}

	s.finishJobs(v.ID)
	s.drainHosts()
}

// CrashVM simulates a crash of the guest.
func (s *Engine) CrashVM(v *store.VM) {
	if v.Status != store.StatusUp && v.Status != store.StatusPoweringUp && v.Status != store.StatusRebootInProgress {
		return
	}

	s.haltGuest(v)
	s.recordEvent(
		119,
		"error",
		"VM "+v.Name+" is down with error. Exit message: Lost connection with qemu process.",
		eventOf{
			vm:   v.ID,
			host: v.Host,
		},
	)
	restart := v.HighlyAvailable
	s.markDown(v)
	if restart {
		_ = s.launchVM(v)
	}
}

// launchVM starts a stopped VM on a host.
func (s *Engine) launchVM(v *store.VM) error { return s.launchOn(v, "") }

func (s *Engine) launchOn(v *store.VM, want string) error {
	placed, err := s.placeVM(v, want)
	if err != nil {
		return err
	}

	v.Host, v.Status, v.GuestError, v.StopReason, v.Started = placed.ID, store.StatusWaitForLaunch, "", nil, s.now()
	v.DriveID = ""
	if v.Drive = nil; !v.Initialized {
		v.Drive = v.Initialization.Clone()
	}

	s.scheduleVM(v, store.StatusPoweringUp, s.settings.Timings.Launch)

	return nil
}

// statusTitles maps statuses of VMs to their names in messages.
var statusTitles = map[string]string{
	store.StatusDown:             "Down",
	store.StatusUp:               "Up",
	store.StatusPoweringUp:       "Powering Up",
	store.StatusPaused:           "Paused",
	store.StatusMigrating:        "Migrating",
	store.StatusUnknown:          "Unknown",
	store.StatusNotResponding:    "Not Responding",
	store.StatusWaitForLaunch:    "Wait for Launch",
	store.StatusRebootInProgress: "Reboot in Progress",
	store.StatusSavingState:      "Saving State",
	store.StatusSuspended:        "Suspended",
	store.StatusImageLocked:      "Image Locked",
	store.StatusPoweringDown:     "Powering Down",
}

// noDiskText is the engine's error for a start from disks if the VM has no boot disk.
const noDiskText = "Cannot run VM without at least one bootable disk.\nAlternatives:\n- Create a disk for this VM, " +
	"and rerun the VM.\n" +
	"- Change the boot sequence using the Edit VM command (Boot Option Sub-Tab).\n- Use the 'Run Once' command to " +
	"select a different boot option and rerun the VM."

// startMigration starts the migration of a VM to a given host, or to the best host if hostID is "".
func (s *Engine) startMigration(v *store.VM, hostID string) error {
	to, err := s.placeVM(v, hostID)
	if err != nil {
		return wire.Conflict("%s", "Cannot migrate VM. "+trimVerdict(err))
	}

	v.Status, v.Destination = store.StatusMigrating, to.ID
	s.recordEvent(
		62,
		"normal",
		"Migration started (VM: "+v.Name+", Source: "+s.store.HostName(v.Host)+", Destination: "+to.Name+").",
		eventOf{
			vm:   v.ID,
			host: v.Host,
		},
	)
	s.scheduleVM(v, store.StatusUp, s.settings.Timings.Migrate)

	return nil
}

func (s *Engine) vmsOn(hostID string) []*store.VM {
	return s.store.VMs.Where(func(v *store.VM) bool { return v.Host == hostID }, store.VMKey)
}
