package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// checkNotUpdating rejects a command such as "run VM" while a change of the VM runs.
func checkNotUpdating(v *store.VM, command string) error {
	if v.Applied != nil {
		return wire.Conflict("Cannot %s. VM is being updated.", command)
	}

	return nil
}

// inStatus returns the error for an action that the VM's status does not allow.
func inStatus(v *store.VM, command string) error {
	return wire.Conflict("Cannot %s because the VM is in %s status.", command, statusTitles[v.Status])
}

// findVMForAction returns the VM in the path for an action. For a missing VM, it returns the error of the action
// instead of the error for a missing path.
func (c *call) findVMForAction(command string) (*store.VM, error) {
	if v := c.store.VMs.Get(c.pathID("vm")); v != nil {
		return v, nil
	}

	return nil, wire.Invalid("Cannot %s. VM is not found.", command)
}

// answerVMAction returns the response to an action of a VM.
func (c *call) answerVMAction(v *store.VM) *wire.Element {
	return c.answerComplete(wire.Ref("vm", "vms", v.ID))
}

// checkStart makes the engine's checks that precede the selection of a host.
func (c *call) checkStart(v *store.VM) error {
	if err := checkNotUpdating(v, "run VM"); err != nil {
		return err
	}

	if err := c.checkSnapshotsSettled(v, "run VM"); err != nil {
		return err
	}

	switch v.Status {
	case store.StatusDown, store.StatusSuspended, store.StatusPaused:
	case store.StatusImageLocked:
		return wire.Conflict("Cannot run VM: VM is locked. Please try again in a few minutes.")
	default:
		return inStatus(v, "run VM")
	}

	disks, err := c.startDisks(v)
	if err != nil {
		return err
	}

	// A VM needs a boot device only if it boots from nothing else.
	order := c.body.List("vm", "os", "boot", "devices", "device")
	if len(order) == 0 {
		order = v.Settings.List("os", "boot", "devices", "device")
	}

	only := ""
	if len(order) == 1 {
		only = order[0].Text
	}

	switch {
	case only == "hd" && disks == 0:
		return wire.Conflict("%s", noDiskText)
	case only == "network" && len(c.store.NICsOf(v.ID)) == 0:
		return wire.Conflict("VM is configured to be 'Network bootable', but no Network Interface is configured.\n" +
			"Alternatives:\n- Select a different boot device (using the 'Run Once' command or 'Edit VM' command on " +
			"Boot " +
			"Option Sub-Tab).\n- Configure Network Interface and rerun the VM.") // from the engine's sources
	}

	return nil
}

// startDisks returns the number of usable boot disks of a VM.
func (c *call) startDisks(v *store.VM) (int, error) {
	disks := 0

	for _, a := range c.store.AttachmentsOf(v.ID) {
		d := c.store.Disks.Get(a.Disk)
		switch {
		case !a.Active:
		case d.Status == store.StatusLocked:
			return 0, wire.Conflict(
				"Cannot run VM: The following disks are locked: %s. Please try again in a few minutes.",
				d.Name,
			)
		case d.Status == store.StatusIllegal:
			return 0, wire.Conflict(
				"Cannot run VM. The following attached disks are in ILLEGAL status: %s - please "+
					"remove them and try again.",
				d.Name,
			)
		default:
			disks++
		}
	}

	return disks, nil
}

func startVM(c *call) (*wire.Element, error) {
	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.PlainFault(
			http.StatusInternalServerError,
			"java.lang.NullPointerException: Cannot invoke "+
				"\"org.ovirt.engine.core.common.businessentities.VM.getStatus()\" "+
				"because the return value of \"org.ovirt.engine.core.bll.RunVmCommand.getVm()\" is null",
		)
	}

	if v.Status == store.StatusPaused {
		c.setStableStatus(v, store.StatusUp)
		return c.answerVMAction(v), nil
	}

	if err := c.checkStart(v); err != nil {
		return nil, err
	}

	once := c.body.Get("vm")
	want, err := c.startHost(once)
	if err != nil {
		return nil, err
	}

	if once.Has("initialization") {
		if _, err := mergeInitialization(nil, once.Get("initialization"), commandOn("run VM")); err != nil {
			return nil, err
		}
	}

	c.recordJob("Launching VM "+v.Name+map[bool]string{true: " in run-once mode", false: ""}[once != nil], v.ID)
	if err := c.launchOn(v, want); err != nil {
		c.finishJobs(v.ID)
		c.recordEvent(54, "error", "Failed to run VM "+v.Name+" (User: "+c.user.Name+").", eventOf{vm: v.ID})
		return nil, err
	}

	v.OnceRun = once != nil
	if c.asksForDrive(v) {
		v.Drive = driveOf(v.Initialization, once.Get("initialization"))
	}

	v.PauseAtStart = c.body.IsTrue("pause") || v.Settings.IsTrue("start_paused")
	c.store.VMs.Put(v.ID, v)
	c.recordEvent(
		153,
		"normal",
		"VM "+v.Name+" was started by "+c.user.Name+" (Host: "+c.store.HostName(v.Host)+").",
		eventOf{
			vm:   v.ID,
			host: v.Host,
		},
	)

	return c.answerVMAction(v), nil
}

// asksForDrive reports whether a start requests the drive with the initialization, even if the VM has run before.
func (c *call) asksForDrive(v *store.VM) bool {
	return c.body.IsTrue("use_initialization") || c.body.IsTrue("use_cloud_init") && v.OSType != store.OSRHCOS
}

// driveOf returns the stored initialization merged with the values of this start.
func driveOf(stored, once *wire.Element) *wire.Element {
	out := wire.El("initialization")
	if stored != nil {
		out = stored.Clone()
	}

	if once != nil {
		out.MergeRequest(once, []string{"cloud_init", "configuration"})
	}

	return out
}

// startHost returns the ID of the host in a start request, or "".
func (c *call) startHost(once *wire.Element) (string, error) {
	hosts := once.List("placement_policy", "hosts", "host")
	if len(hosts) == 0 {
		return "", nil
	}

	if err := checkRef(hosts[0]); err != nil {
		return "", err
	}

	found := findReferred(c.store.Hosts, hosts[0], func(h *store.Host) string { return h.Name })
	if found == nil {
		return "", wire.EntityNotFound(cmp.Or(wire.RefID(hosts[0]), hosts[0].Value("name")))
	}

	return found.ID, nil
}

// stopVM powers a VM off. Like the engine, it reports success for a stopped VM. The VM keeps its status until its host
// reports the end, and until then the host rejects a second stop.
func stopVM(c *call) (*wire.Element, error) {
	v, err := c.findVMForAction("stop VM")
	if err != nil {
		return nil, err
	}

	switch {
	case v.Status == store.StatusDown:
		c.recordJob("Stopping VM "+v.Name, "")
		return c.answerVMAction(v), nil
	case v.Status == store.StatusSuspended:
		c.markDown(v)
		return c.answerVMAction(v), nil
	case v.Status == store.StatusSavingState:
		return nil, savingState("stop VM")
	case v.Status == store.StatusImageLocked || v.Status == store.StatusUnknown:
		return nil, wire.Conflict("Cannot stop VM. VM is not running.")
	case v.Stopping:
		return nil, wire.Invalid("Desktop does not exist")
	}

	reason := c.body.Value("reason")
	v.StopReason, v.Stopping = &reason, true
	c.recordJob("Stopping VM "+v.Name, v.ID)
	c.haltGuest(v)
	v.Destination = ""
	c.scheduleVM(v, store.StatusDown, c.settings.Timings.PowerDown)

	return c.answerVMAction(v), nil
}

// savingState returns the error for a VM that changes to or from its saved state. The text is from the engine's
// sources.
func savingState(command string) error {
	return wire.Conflict("Cannot %s. VM is in saving/restoring state.\n-Please try again when the VM is either up "+
		"or down.",
		command)
}

// shutdownVM asks the guest to shut down, but the guest can ignore this. If the guest does not run yet, shutdownVM
// powers the VM off.
func shutdownVM(c *call) (*wire.Element, error) {
	v, err := c.findVMForAction("shutdown VM")
	if err != nil {
		return nil, err
	}

	switch v.Status {
	case store.StatusDown, store.StatusPoweringDown:
		c.recordJob("Shutting down VM "+v.Name, "")
		return c.answerVMAction(v), nil
	case store.StatusSuspended: // the engine stops the VM instead
		c.markDown(v)
		return c.answerVMAction(v), nil
	case store.StatusSavingState:
		return nil, savingState("shutdown VM")
	case store.StatusImageLocked, store.StatusUnknown:
		return nil, wire.Conflict("Cannot shutdown VM. VM is not running.")
	case store.StatusUp:
		c.recordEvent(153, "normal", "VM shutdown initiated by "+c.user.Name+" on VM "+v.Name+".", eventOf{vm: v.ID})
		if c.settings.GuestFault(GuestIgnoresShutdown, v.Name) {
			v.Status = store.StatusPoweringDown
			c.scheduleVM(v, store.StatusUp, 4*c.settings.Timings.PowerDown)
			return c.answerVMAction(v), nil
		}

		if c.settings.Guest != nil && c.settings.Guest.Shutdown(v.ID) {
			c.recordJob("Shutting down VM "+v.Name, v.ID)
			v.Status = store.StatusPoweringDown
			c.scheduleVM(v, store.StatusUp, shutdownPatience)

			return c.answerVMAction(v), nil
		}
	}

	reason := c.body.Value("reason")
	v.StopReason = &reason
	c.recordJob("Shutting down VM "+v.Name, v.ID)
	c.haltGuest(v)
	v.Status, v.Destination = store.StatusPoweringDown, ""
	c.scheduleVM(v, store.StatusDown, c.settings.Timings.PowerDown)

	return c.answerVMAction(v), nil
}

// shutdownPatience is the time in which a guest can power itself off. After this time, the engine returns to the
// observed status.
const shutdownPatience = 3 * time.Minute

// restartGuest reboots the guest, or resets the machine.
func (c *call) restartGuest(command string) (*wire.Element, error) {
	v, err := c.findVMForAction(command)
	if err != nil {
		return nil, err
	}

	if v.Status != store.StatusUp && v.Status != store.StatusPoweringUp {
		return nil, inStatus(v, command)
	}

	c.haltGuest(v)
	v.Status = store.StatusRebootInProgress
	c.scheduleVM(v, store.StatusUp, c.settings.Timings.PowerUp)
	c.recordJob("Restarting VM "+v.Name, "")
	c.recordEvent(157, "normal", "User "+c.user.Name+" initiated reboot of VM "+v.Name+".", eventOf{vm: v.ID})

	return c.answerVMAction(v), nil
}

func rebootVM(c *call) (*wire.Element, error) { return c.restartGuest("restart VM") }

func resetVM(c *call) (*wire.Element, error) { return c.restartGuest("reset VM") }

func suspendVM(c *call) (*wire.Element, error) {
	v, err := c.findVMForAction("hibernate VM")
	if err != nil {
		return nil, err
	}

	switch v.Status {
	case store.StatusUp:
	case store.StatusWaitForLaunch, store.StatusUnknown:
		return nil, inStatus(v, "hibernate VM")
	default:
		return nil, wire.Conflict("Cannot hibernate VM. VM is not up.")
	}

	c.haltGuest(v)
	v.Status = store.StatusSavingState
	c.scheduleVM(v, store.StatusSuspended, c.settings.Timings.PowerDown)
	c.recordJob("Hibernating VM "+v.Name, "")
	c.status = http.StatusAccepted

	return wire.El("action").Flag("async", true).Add(wire.Ref("job", "jobs", c.job), wire.Ref("vm", "vms", v.ID)).
		Str("status", "pending"), nil
}

func migrateVM(c *call) (*wire.Element, error) {
	v, err := c.findVMForAction("migrate VM")
	if err != nil {
		return nil, err
	}

	want := ""
	if h := c.body.Get("host"); h != nil {
		found := findReferred(c.store.Hosts, h, func(h *store.Host) string { return h.Name })
		if found == nil {
			return nil, wire.Invalid("Cannot migrate VM. Invalid Host Id.")
		}

		want = found.ID
	}

	switch { // the order is from the engine's sources; so are the texts, except the text for a stopped VM
	case v.PlacementAffinity == "pinned":
		return nil, wire.Conflict("Cannot migrate VM. VM is pinned to Host.")
	case v.PlacementAffinity == "user_migratable" && !c.body.IsTrue("force"):
		return nil, wire.Conflict("Cannot migrate VM. VM is non migratable and user did not specify the " +
			"force-migration flag")
	case v.Status == store.StatusMigrating:
		return nil, wire.Conflict("Cannot migrate VM. VM migration is in progress")
	case v.Host == "" || v.Status == store.StatusPoweringDown || v.Status == store.StatusWaitForLaunch:
		return nil, wire.Conflict("Cannot migrate VM. VM is not running.")
	}

	if err := c.startMigration(v, want); err != nil {
		return nil, err
	}

	return c.answerVMAction(v), nil
}

func cancelMigration(c *call) (*wire.Element, error) {
	v, err := c.findVMForAction("cancel migration for VM")
	if err != nil {
		return nil, err
	}

	if v.Status != store.StatusMigrating {
		return nil, wire.Conflict("Cannot cancel migration for non migrating VM.")
	}

	v.Destination = ""
	c.setStableStatus(v, store.StatusUp)

	return c.answerVMAction(v), nil
}

func freezeVM(c *call) (*wire.Element, error) { return c.answerFreeze("freeze VM") }

func thawVM(c *call) (*wire.Element, error) { return c.answerFreeze("thaw VM") }

func (c *call) answerFreeze(command string) (*wire.Element, error) {
	v, err := c.findVMForAction(command)
	if err != nil {
		return nil, err
	}

	if v.Status != store.StatusUp {
		return nil, inStatus(v, command)
	}

	return c.answerVMAction(v), nil
}

// logonVM requires a guest agent that supports this action.
func logonVM(c *call) (*wire.Element, error) {
	if _, err := c.findVMForAction("logon to VM"); err != nil {
		return nil, err
	}

	return nil, wire.Invalid("")
}

func detachVM(*call) (*wire.Element, error) { return nil, wire.Forbidden() }

// cloneVM and exportVM only check for missing elements. The simulator does not perform these operations.
func cloneVM(c *call) (*wire.Element, error) {
	return nil, firstError(requireParameter(cmp.Or(c.body.Get("vm"), wire.El("vm")), "vm", "name"),
		wire.PlainFault(http.StatusNotImplemented, "cloning a VM is not simulated"))
}

func exportVM(*call) (*wire.Element, error) {
	return nil, invalidInput("No matching signature found, make sure that mandatory attributes are provided.")
}

func firstError(first, second error) error {
	if first != nil {
		return first
	}

	return second
}

func ticketVM(c *call) (*wire.Element, error) {
	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.WithoutAction(wire.EntityNotFound("GetVmByVmId"))
	}

	if v.Status != store.StatusUp && v.Status != store.StatusPoweringUp {
		return nil, wire.WithoutAction(inStatus(v, "set Virtual Machine Ticket"))
	}

	asked := cmp.Or(c.body.Get("ticket"), wire.El("ticket"))
	ticket := wire.El("ticket").Str("expiry", cmp.Or(asked.Value("expiry"), "7200")).
		Str("value", cmp.Or(asked.Value("value"), wire.RandomHex(6)))

	return c.answerComplete(ticket), nil
}

// autoPinVM enables the engine's automatic pinning. Only a change of the VM can disable this pinning.
func autoPinVM(c *call) (*wire.Element, error) {
	v := c.store.VMs.Get(c.pathID("vm"))
	switch {
	case !c.atLeast(4, 4, 5):
		return nil, wire.NotFound()
	case v == nil:
		return nil, wire.WithoutAction(wire.EntityNotFound("VM: id=" + c.pathID("vm")))
	case !c.body.IsTrue("optimize_cpu_settings") && !c.atLeast(4, 5, 0):
		return nil, wire.WithoutAction(
			wire.PlainFault(
				http.StatusBadRequest, "The current Auto Pinning policy Existing is currently unsupported.",
			),
		)
	case !c.body.IsTrue("optimize_cpu_settings"):
		return nil, wire.WithoutAction(
			wire.PlainFault(
				http.StatusBadRequest, "The input is unsupported. `Pin` CPU Pinning policy is not supported.",
			),
		)
	case !c.atLeast(4, 5, 0) && len(v.PlacementHosts) == 0:
		return nil, wire.WithoutAction(
			wire.Invalid("Cannot edit VM. VM must be pinned to at least one host."),
		)
	}

	wanted := v.CopyOf()
	wanted.CPUPinning = store.PinResize
	v.SetHardware(wanted, v.IsRunning(), false)
	c.store.VMs.Put(v.ID, v)
	c.recordJob("Editing VM "+v.Name, "")
	answer := wire.El("action").Add(wire.Ref("job", "jobs", c.job))

	return answer.Str("status", "complete"), nil
}
