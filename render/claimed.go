package render

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// vmAddress returns the address of the resource that has the guest's initialization.
func (in *Machine) vmAddress() Address {
	if in.ClaimedVMID != "" {
		return AdoptedVMAddress
	}

	return VMAddress
}

// buildClaimedFile writes the resources of a machine whose VM comes from a pool. No resource represents the VM itself,
// so nothing can destroy the VM.
func buildClaimedFile(in Machine) *writer {
	w := &writer{file: hclwrite.NewEmptyFile()}
	body := w.beginResource(
		"The VM is one of a pool. It is taken over as it is, and given back when the machine is gone.",
		AdoptedVMAddress,
	)
	setText(body, "vm_id", in.ClaimedVMID)
	setText(body, "initialization_hostname", in.HostName)
	setTraversal(body, "initialization_custom_script", "var", "user_data")

	ignored := []string{"initialization_custom_script", "initialization_hostname", "initialization_nic"}
	if in.hasGuestDNS() {
		ignored = append(ignored, "initialization_dns_servers", "initialization_search_domains")
	}

	setIgnoreChanges(body, "What a guest reads at its first boot matters once.", ignored...)

	start := w.writeStart("The VM may have been up before: its guest is given the initialization all the same.",
		AdoptedVMAddress)
	start.SetAttributeValue("use_initialization", cty.True)
	setIgnoreChanges(start, powerIsWatched, "status", "use_initialization")

	setTraversal(w.beginOutput("vm_id", "UUID of the VM."), "value", AdoptedVMAddress.kind, AdoptedVMAddress.name, "id")

	return w
}
