package render

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// vmResource are type and name of the resource that has what the guest is told.
func (in *Machine) vmResource() []string {
	if in.Claimed != nil {
		return []string{"ovirt_adopted_vm", "this"}
	}

	return []string{"ovirt_vm", "this"}
}

// claimedFile has the resources of a machine whose VM is one of a pool. No resource stands for the VM itself, so that
// nothing can destroy it.
func claimedFile(in Machine) []byte {
	w := &writer{file: hclwrite.NewEmptyFile()}
	body := w.resource(
		"VM "+in.Claimed.Name+" is one of a pool. It is taken over as it is, and given back when the machine is gone.",
		"ovirt_adopted_vm", "this")
	setText(body, "vm_id", in.Claimed.ID)
	setText(body, "initialization_hostname", in.HostName)
	setTraversal(body, "initialization_custom_script", "var", "user_data")

	ignored := []string{"initialization_custom_script", "initialization_hostname", "initialization_nic"}
	if in.guestDNS() {
		ignored = append(ignored, "initialization_dns_servers", "initialization_search_domains")
	}

	ignoreChanges(body, "What a guest reads at its first boot matters once.", ignored...)

	start := w.start("The VM may have been up before: its guest is given the initialization all the same.",
		"ovirt_adopted_vm", "this", "id")
	start.SetAttributeValue("use_initialization", cty.True)
	ignoreChanges(start, powerIsWatched, "status", "use_initialization")

	setTraversal(w.output("vm_id", "UUID of the VM."), "value", "ovirt_adopted_vm", "this", "id")

	return w.file.Bytes()
}
