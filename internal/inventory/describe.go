// Package inventory makes the decisions for an OLVMInventory: which OLVMInventoryVMs describe the engine's VMs, which
// VMs each cluster gets, and how the engine stores a claim.
package inventory

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// maxLabel limits the value of a label, and the name in its key, in characters.
const maxLabel = 63

// defaultLabels are the label rules of an inventory without any.
var defaultLabels = []infrav1alpha1.InventoryLabel{
	{Key: infrav1alpha1.InventoryLabelPrefix + "host", From: infrav1alpha1.LabelFromHost},
	{Key: infrav1alpha1.InventoryLabelPrefix + "vm-template", From: infrav1alpha1.LabelFromVMTemplate},
	{Key: infrav1alpha1.InventoryLabelPrefix + "network", From: infrav1alpha1.LabelFromNetworks},
}

// FindHost returns the host that the VM is on, or the only host that it is pinned to. It returns nil if there is none.
func FindHost(vm engine.DescribedVM, hosts map[engine.ID]engine.DescribedHost) *engine.DescribedHost {
	id := engine.RefID(vm.Host)
	if bound := vm.PlacementPolicy; id == "" && bound != nil && bound.Hosts != nil && len(bound.Hosts.Hosts) == 1 {
		id = bound.Hosts.Hosts[0].ID
	}

	host, ok := hosts[id]
	if !ok {
		return nil
	}

	return &host
}

// BuildLabels returns the labels that the inventory's rules give to a VM.
func BuildLabels(
	inventory *infrav1alpha1.OLVMInventory, vm engine.DescribedVM, hosts map[engine.ID]engine.DescribedHost,
) map[string]string {
	wanted := inventory.Spec.LabelRules
	if len(wanted) == 0 {
		wanted = defaultLabels
	}

	out := map[string]string{}
	host := FindHost(vm, hosts)

	for _, label := range wanted {
		names := collectLabelSources(label, vm, host)
		if label.From == infrav1alpha1.LabelFromNetworks {
			for _, name := range names {
				if value, ok := trimLabelPrefix(name, label.Prefix); ok {
					out[networkKey(label.Key, value)] = "true"
				}
			}

			continue
		}

		for _, name := range names {
			if value, ok := trimLabelPrefix(name, label.Prefix); ok {
				out[label.Key] = value
				break
			}
		}
	}

	out[infrav1alpha1.InventoryNameLabel] = ToLabelValue(inventory.Name)

	return out
}

// collectLabelSources returns the texts that a label may come from, in a fixed order.
func collectLabelSources(
	label infrav1alpha1.InventoryLabel, vm engine.DescribedVM, host *engine.DescribedHost,
) []string {
	switch label.From {
	case infrav1alpha1.LabelFromVMTemplate:
		return []string{vm.Template.Name}
	case infrav1alpha1.LabelFromNetworks:
		return networkNames(vm)
	case infrav1alpha1.LabelFromAffinityLabel:
		return labelNames(vm.Labels)
	case infrav1alpha1.LabelFromCustomProperty:
		return findProperties(vm, label.Property)
	}

	if host == nil {
		return nil
	}

	switch label.From {
	case infrav1alpha1.LabelFromHost:
		return []string{host.Name}
	case infrav1alpha1.LabelFromHostTag:
		return tagNames(host.Tags)
	case infrav1alpha1.LabelFromHostAffinityLabel:
		return labelNames(host.Labels)
	}

	return nil
}

func tagNames(tags []engine.Tag) []string {
	var out []string
	for _, tag := range tags {
		out = append(out, tag.Name)
	}

	slices.Sort(out)

	return out
}

func labelNames(labels []engine.AffinityLabel) []string {
	var out []string
	for _, label := range labels {
		out = append(out, label.Name)
	}

	slices.Sort(out)

	return out
}

func findProperties(vm engine.DescribedVM, name string) []string {
	if vm.Properties == nil {
		return nil
	}

	for _, property := range vm.Properties.Items {
		if property.Name == name {
			return []string{property.Value}
		}
	}

	return nil
}

func networkNames(vm engine.DescribedVM) []string {
	var out []string

	for _, nic := range vm.NICs {
		if name := nic.ConnectedNetwork(); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}

	return out
}

// trimLabelPrefix returns the text after the prefix. It returns false if the prefix is missing, or nothing follows it.
func trimLabelPrefix(name, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	value := ToLabelValue(rest)

	return value, ok && value != ""
}

// foreign matches characters that a label must not contain.
var foreign = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// ToLabelValue converts a name to a valid label value. It replaces invalid characters with dashes, and shortens the
// value to 63 characters.
func ToLabelValue(name string) string {
	value := foreign.ReplaceAllString(name, "-")
	value = value[:min(len(value), maxLabel)]

	return strings.Trim(value, "._-")
}

// networkKey returns the label key of a network.
func networkKey(key, network string) string {
	prefix, name := "", key
	if at := strings.Index(key, "/"); at >= 0 {
		prefix, name = key[:at+1], key[at+1:]
	}

	name += "-" + network

	return prefix + strings.TrimRight(name[:min(len(name), maxLabel)], "._-")
}

// CollectNetworks returns the networks of a VM, with the static addresses in its initialization. The engine orders
// addresses by the guest's network interfaces, not by the VM's. CollectNetworks assumes that both orders are equal.
func CollectNetworks(vm engine.DescribedVM) []infrav1alpha1.InventoryNetwork {
	var out []infrav1alpha1.InventoryNetwork

	for i, nic := range vm.NICs {
		name := nic.ConnectedNetwork()
		if name == "" {
			continue
		}

		at := slices.IndexFunc(out, func(n infrav1alpha1.InventoryNetwork) bool { return n.Name == name })
		if at < 0 {
			out = append(out, infrav1alpha1.InventoryNetwork{Name: name})
			at = len(out) - 1
		}

		out[at].IPAddresses = append(out[at].IPAddresses, getAddresses(vm, i)...)
	}

	return out
}

// getAddresses returns the addresses in the network configuration at an index.
func getAddresses(vm engine.DescribedVM, index int) []string {
	if vm.Initialization == nil || vm.Initialization.NICs == nil || index >= len(vm.Initialization.NICs.Items) {
		return nil
	}

	var out []string
	config := vm.Initialization.NICs.Items[index]

	for _, ip := range []*engine.IP{config.IP, config.IPv6} {
		if ip == nil {
			continue
		}

		if address, err := netip.ParseAddr(ip.Address); err == nil {
			out = append(out, address.String())
		}
	}

	return out
}

// These are the reasons why a VM cannot be claimed.
const (
	ReasonPoweredOn    = "PoweredOn"
	ReasonBusy         = "Busy"
	ReasonNoNetwork    = "NoNetwork"
	ReasonForeign      = "OwnedByAnother"
	ReasonRetained     = "Retained"
	ReasonNoAddress    = "NoAddress"
	ReasonHostDown     = "HostDown"
	ReasonAbsent       = "NotInEngine"
	ReasonClaimant     = "ClaimantGone"
	ReasonUnmarked     = "NotMarkedYet"
	ReasonProvisioning = "Provisioning"
	ReasonDeleting     = "Deleting"
	ReasonClaimedThem  = "ClaimedByAnother"
)

// ExplainBroken returns why a standby VM is no longer usable. Both texts are empty for a usable VM.
func ExplainBroken(vm engine.DescribedVM, host *engine.DescribedHost) (reason, message string) {
	switch {
	case vm.Status != engine.VMDown && !vm.Status.IsBusy():
		return ReasonPoweredOn, fmt.Sprintf("The VM is %s; power it off", vm.Status)
	case host != nil && host.Status != engine.HostUp:
		return ReasonHostDown, fmt.Sprintf("The VM is bound to host %s, and the host is %s", host.Name, host.Status)
	}

	return "", ""
}

// ExplainIneligible returns why an unclaimed VM cannot be claimed. Both texts are empty if it can.
func ExplainIneligible(vm engine.DescribedVM, host *engine.DescribedHost) (reason, message string) {
	owner, owned := ownermark.ParseOwner(vm.CommentText())

	switch {
	case IsMarkedDeleting(vm.Tags):
		return ReasonDeleting, "The VM is about to be deleted. If it is not, remove its tag " +
			getDeletingTag(vm.ID) + " in the engine"
	case IsRetained(vm.Tags):
		return ReasonRetained, "The VM was a node, and keeps its disk. Clean the disk, and remove the tag " +
			retainedTag + " in the engine"
	case owned:
		return ReasonForeign, fmt.Sprintf("The VM's comment marks it as the VM of OLVMMachine %s/%s. If this is no "+
			"longer true, clear the comment", owner.Namespace, owner.Name)
	case vm.Status.IsBusy():
		return ReasonBusy, "The VM is " + string(vm.Status)
	case len(networkNames(vm)) == 0:
		return ReasonNoNetwork, "The VM has no network interface connected to a network"
	}

	return ExplainBroken(vm, host)
}
