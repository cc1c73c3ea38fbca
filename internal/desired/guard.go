package desired

import "slices"

// undoable are the types of resources that a change can add to a VM.
var undoable = []string{
	"ovirt_nic", "ovirt_disk", "ovirt_disk_attachment", "ovirt_vm_tag", "ovirt_vm_watchdog", "ovirt_vm_host_device",
	"ovirt_vm_mediated_device", "ovirt_vm_disks_resize",
}

// FindRefusedAction returns the action if a machine's plan must not perform it, or "" if the plan may. A plan must
// neither delete nor replace parts of a machine, nor create its VM again. Machines are immutable, and a change is a
// rollout. hadVM reports whether the machine has had a VM.
//
// undoes reports whether the plan reverts an incomplete change; see tfstate.State.IsRevertedBy. Such a plan may delete
// the additions of the change, because the last fully applied configuration did not have them.
func FindRefusedAction(action, resource string, hadVM, undoes bool) string {
	switch {
	case resource == "ovirt_vm_affinity_group":
		return "" // a change of the membership does not affect the VM
	case undoes && action == "delete" && slices.Contains(undoable, resource):
		return ""
	case action == "delete" || action == "replace":
		return action
	case action == "create" && resource == "ovirt_vm" && hadVM:
		return "create again"
	}

	return ""
}
