package desired

import "slices"

// undoable are the types of what a change can add to a VM.
var undoable = []string{
	"ovirt_nic", "ovirt_disk", "ovirt_disk_attachment", "ovirt_vm_tag", "ovirt_vm_watchdog", "ovirt_vm_host_device",
	"ovirt_vm_mediated_device", "ovirt_vm_disks_resize",
}

// Refuses says what a machine does not take of a plan, by the action on a resource of a type; "" if it takes it.
// Nothing that a machine has is deleted or replaced, and its VM is not created again: machines are immutable, and a
// change is a rollout. hadVM reports that the machine has had a VM.
//
// undoes reports that the plan takes back a change that was not applied to its end, as tfstate.State.Undoes has it.
// Such a plan deletes what the change has added: the last configuration that was applied in full had nothing of it.
func Refuses(action, resource string, hadVM, undoes bool) string {
	switch {
	case resource == "ovirt_vm_affinity_group":
		return "" // leaving or changing a group touches no VM
	case undoes && action == "delete" && slices.Contains(undoable, resource):
		return ""
	case action == "delete" || action == "replace":
		return action
	case action == "create" && resource == "ovirt_vm" && hadVM:
		return "create again"
	}

	return ""
}
