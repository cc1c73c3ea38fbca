package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// ProvisionPlan lists the changes after which an inventory has the provisioned VMs it requests.
type ProvisionPlan struct {
	// Make lists the missing VMs, by the names of their OLVMInventoryVMs.
	Make []NewVM
	// Remove has the names of the unclaimed OLVMInventoryVMs to delete: surplus ones, and one that has another
	// template.
	Remove []string
	// Wanted is the desired number of VMs.
	Wanted int
}

// NewVM is a VM to create.
type NewVM struct {
	Name string
	// Index is the index of the provision in the OLVMInventory. Host is the host to pin the VM to, or "".
	Index    int
	HostName string
}

// PlanProvision decides which VMs of an inventory are missing or surplus. hosts maps provisions with countPerHost to
// the names of hosts. taken has the names that new objects must not have. there has the OLVMInventoryVMs of the
// inventory. inUse has the names of the VMs that are in use according to the engine.
//
// A VM that is being deleted counts until it is gone, because only then are its addresses free. Claimed VMs stay first,
// then those with the lowest numbers. VMs with another template are replaced one at a time, and only while no other VM
// is missing. Unfinished VMs with another template are replaced at once.
func PlanProvision(
	pool *infrav1alpha1.OLVMInventory,
	hosts map[string][]string,
	there []infrav1alpha1.OLVMInventoryVM,
	taken, inUse map[string]bool,
) ProvisionPlan {
	p := &provisioner{
		pool: pool, left: map[bucket][]*infrav1alpha1.OLVMInventoryVM{}, taken: maps.Clone(taken), inUse: inUse,
	}

	for i := range there {
		if of := there[i].Spec.FromProvision; of != nil {
			key := bucket{of.ProvisionName, of.HostName}
			p.left[key] = append(p.left[key], &there[i])
			p.busy = p.busy || !there[i].DeletionTimestamp.IsZero() || !IsComplete(&there[i])
		}
	}

	for i, provision := range pool.Spec.Provision {
		if provision.CountPerHost == nil {
			p.fillBucket(i, "", provision.Count)
			continue
		}

		for _, host := range hosts[provision.Name] {
			p.fillBucket(i, host, provision.CountPerHost)
		}
	}

	for _, extra := range p.left { // of provisions and hosts that are no longer requested
		for _, vm := range extra {
			p.planRemoval(vm)
		}
	}

	if p.outdated != "" && !p.busy && len(p.plan.Make)+len(p.plan.Remove) == 0 {
		p.plan.Remove = []string{p.outdated}
	}

	slices.Sort(p.plan.Remove)

	return p.plan
}

// bucket is a provision, or one host of a provision with a count per host.
type bucket struct{ provision, host string }

type provisioner struct {
	pool *infrav1alpha1.OLVMInventory
	// left has the VMs that the plan does not cover yet.
	left         map[bucket][]*infrav1alpha1.OLVMInventoryVM
	taken, inUse map[string]bool
	// busy reports whether a VM is being created or deleted. outdated is the name of a VM with another template, or "".
	busy     bool
	outdated string
	plan     ProvisionPlan
}

// fillBucket plans the changes that bring a bucket to its count.
func (p *provisioner) fillBucket(index int, host string, count *int32) {
	wanted := 0
	if count != nil {
		wanted = int(*count)
	}

	p.plan.Wanted += wanted
	provision := p.pool.Spec.Provision[index]
	key := bucket{provision.Name, host}
	has := p.left[key]
	delete(p.left, key)
	slices.SortFunc(has, func(a, b *infrav1alpha1.OLVMInventoryVM) int {
		return cmp.Or(cmp.Compare(boolToInt(p.isKept(b)), boolToInt(p.isKept(a))), compareNames(a.Name, b.Name))
	})

	for _, vm := range has[min(len(has), wanted):] {
		p.planRemoval(vm)
	}

	for _, vm := range has[:min(len(has), wanted)] {
		switch current := vm.Spec.FromProvision.MachineTemplateName == provision.MachineTemplateName; {
		case current || p.isKept(vm):
		case !IsComplete(vm): // no machine can claim it yet
			p.planRemoval(vm)
		case p.outdated == "":
			p.outdated = vm.Name
		}
	}

	prefix := p.pool.Name + "-" + provision.Name + "-"
	if host != "" {
		prefix += strings.Trim(unfit.ReplaceAllString(strings.ToLower(host), "-"), ".-") + "-"
	}

	for number, missing := 0, wanted-len(has); missing > 0; number++ {
		name := prefix + strconv.Itoa(number)
		if p.taken[name] {
			continue
		}

		p.taken[name] = true
		p.plan.Make = append(p.plan.Make, NewVM{Name: name, Index: index, HostName: host})
		missing--
	}
}

// planRemoval plans the deletion of an unused VM.
func (p *provisioner) planRemoval(vm *infrav1alpha1.OLVMInventoryVM) {
	if !p.isKept(vm) {
		p.plan.Remove = append(p.plan.Remove, vm.Name)
	}
}

// isKept reports whether a VM cannot be deleted now, or is already being deleted.
func (p *provisioner) isKept(vm *infrav1alpha1.OLVMInventoryVM) bool {
	return vm.Spec.ClaimRef != nil || !vm.DeletionTimestamp.IsZero() || p.inUse[vm.Name]
}

// IsInUse reports whether a provisioned VM must stay unchanged. A machine may use it, possibly in another management
// cluster. A user may have powered it on, or it may retain a node's disk.
func IsInUse(vm engine.DescribedVM) bool {
	_, tagged := GetMark(vm)
	_, owned := ownermark.ParseOwner(vm.CommentText())

	return tagged || owned || IsRetained(vm.Tags) || !vm.Status.IsOff() && !vm.Status.IsBusy()
}

// compareNames compares names so that pool-2 comes before pool-10.
func compareNames(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// IsComplete reports whether the VM of an OLVMInventoryVM is complete. A VM that this provider has not provisioned
// always is.
func IsComplete(vm *infrav1alpha1.OLVMInventoryVM) bool {
	if vm.Spec.FromProvision == nil {
		return true
	}

	return vm.Spec.VMID != "" && slices.ContainsFunc(vm.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == infrav1.InfrastructureAppliedCondition && c.Status == metav1.ConditionTrue
	})
}

// BuildMachineSpec returns the spec of a provisioned VM. It is the template's spec, with the inventory's tag and the
// VM's own host and MAC addresses.
func BuildMachineSpec(
	template infrav1.OLVMMachineSpec, tag string, decided infrav1alpha1.ProvisionedVM,
) infrav1.OLVMMachineSpec {
	out := *template.DeepCopy()
	if !slices.Contains(out.VirtualMachine.Tags, tag) {
		out.VirtualMachine.Tags = append(out.VirtualMachine.Tags, tag)
	}

	if decided.HostName != "" {
		out.VirtualMachine.Placement = infrav1.Placement{HostNames: []string{decided.HostName}}
	}

	for i, network := range addressing.CollectNetworks(out) {
		named := func(n infrav1alpha1.ProvisionedNIC) bool { return n.Name == network.VNICName }
		at := slices.IndexFunc(decided.NICs, named)
		if at < 0 || decided.NICs[at].MACAddress == "" {
			continue
		}

		if i == 0 {
			out.OLVMNetwork.MACAddress = decided.NICs[at].MACAddress
		} else {
			out.AdditionalNetworks[i-1].MACAddress = decided.NICs[at].MACAddress
		}
	}

	return out
}

// ProvisionInputs has the inputs for creating VMs.
type ProvisionInputs struct {
	// Templates are the machine specs by the name of the template. Hosts are the hosts by the name of the provision
	// with countPerHost.
	Templates map[string]infrav1.OLVMMachineSpec
	Hosts     map[string][]string
}

// ReadProvision reads the templates and hosts of an inventory's provisions. template reads the machine spec of an
// OLVMMachineTemplate. If there is none, it returns the error of NewNoTemplateError. hosts returns the hosts that a
// spec allows.
func ReadProvision(
	pool *infrav1alpha1.OLVMInventory,
	template func(name string) (infrav1.OLVMMachineSpec, error),
	hosts func(infrav1.OLVMMachineSpec) ([]string, error),
) (ProvisionInputs, error) {
	out := ProvisionInputs{Templates: map[string]infrav1.OLVMMachineSpec{}, Hosts: map[string][]string{}}

	for i, provision := range pool.Spec.Provision {
		name := provision.MachineTemplateName
		found, err := template(name)

		var missing *blocker.Error
		if errors.As(err, &missing) && missing.Field == "" {
			missing.Field = fmt.Sprintf("spec.provision[%d].machineTemplateName", i)
		}

		if err != nil {
			return out, err
		}

		out.Templates[name] = found
		if provision.CountPerHost == nil {
			continue
		}

		if out.Hosts[provision.Name], err = hosts(found); err != nil {
			return out, WrapTemplateError(name, err)
		}
	}

	return out, nil
}

// NewNoTemplateError returns the error for a missing template.
func NewNoTemplateError(format string, args ...any) error {
	return blocker.New(infrav1.MachineTemplateNotFoundReason, "", format, args...)
}

// AssignAddresses assigns the lowest free MAC addresses and static addresses to a VM of a provision. It adds them to
// macs and held. The error is a *blocker.Error with the field of the OLVMInventory or of the template.
func (in ProvisionInputs) AssignAddresses(
	pool *infrav1alpha1.OLVMInventory, vm NewVM, macs map[string]bool, held addressing.Held,
) (*infrav1alpha1.ProvisionedVM, error) {
	provision := pool.Spec.Provision[vm.Index]
	template := in.Templates[provision.MachineTemplateName]
	field := fmt.Sprintf("spec.provision[%d].", vm.Index)
	out := &infrav1alpha1.ProvisionedVM{
		ProvisionName:       provision.Name,
		MachineTemplateName: provision.MachineTemplateName,
		HostName:            vm.HostName,
	}
	nics, err := buildProvisionedNICs(template)
	if err != nil {
		return nil, WrapTemplateError(provision.MachineTemplateName, err)
	}

	addresses, err := addressing.Allocation{NICs: nics}.Allocate(held)
	if err != nil {
		return nil, WrapTemplateError(provision.MachineTemplateName, err)
	}

	for _, nic := range nics {
		decided := infrav1alpha1.ProvisionedNIC{Name: nic.VNICName, NetworkName: nic.NetworkName}
		if decided.MACAddress, err = findFreeMAC(provision.MACAddresses, macs, field+"macAddresses"); err != nil {
			return nil, err
		}

		for _, address := range addresses[nic.VNICName] {
			decided.IPAddresses = append(decided.IPAddresses, address.String())
		}

		if decided.MACAddress != "" || len(decided.IPAddresses) > 0 {
			out.NICs = append(out.NICs, decided)
		}
	}

	return out, nil
}

// WrapTemplateError adds the template's field to an error about its machine spec.
func WrapTemplateError(name string, err error) error {
	var field *blocker.Error
	if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "spec.") {
		return err
	}

	out := *field
	out.Field = "OLVMMachineTemplate " + name + " spec.template." + field.Field

	return &out
}

// buildProvisionedNICs returns the network interfaces of a provisioned VM. Such a VM has no cluster.
func buildProvisionedNICs(template infrav1.OLVMMachineSpec) ([]addressing.NIC, error) {
	if template.FromInventory != nil {
		return nil, blocker.New(infrav1.ProvisionInvalidReason, "spec.fromInventory",
			"a VM of a pool is created, not claimed; remove this field, or use another template")
	}

	nics, err := addressing.BuildNICs(template, infrav1.OLVMClusterSpec{})
	if err != nil {
		return nil, err
	}

	for _, nic := range nics {
		switch {
		case nic.MACAddress != "":
			return nil, blocker.New(infrav1.ProvisionInvalidReason, nic.Field+"macAddress",
				"all VMs of the template would have %s; remove it, and set spec.provision.macAddresses in the "+
					"OLVMInventory", nic.MACAddress)
		case nic.Guest != nil && len(nic.Guest.FromPools) > 0:
			return nil, blocker.New(infrav1.ProvisionInvalidReason, nic.Guest.Field+".addressesFromPools",
				"IPAM providers assign addresses only to machines of clusters; use ranges in ipv4 or ipv6")
		}
	}

	return nics, nil
}

var macPattern = regexp.MustCompile(`^([0-9a-f]{12})(?:-([0-9a-f]{12}))?$`)

// findFreeMAC returns the first free MAC address in the ranges, or "" if there are no ranges.
func findFreeMAC(ranges []string, used map[string]bool, field string) (string, error) {
	for i, text := range ranges {
		first, last, err := parseMACRange(text)
		if err != nil {
			return "", blocker.New(infrav1.ProvisionInvalidReason, fmt.Sprintf("%s[%d]", field, i), "%v", err)
		}

		for number := first; number <= last; number++ {
			if mac := formatMAC(number); !used[mac] {
				used[mac] = true
				return mac, nil
			}
		}
	}

	if len(ranges) == 0 {
		return "", nil
	}

	return "", blocker.New(infrav1.MACAddressesExhaustedReason, field,
		"all MAC addresses of %s are in use; add some", strings.Join(ranges, ", "))
}

// parseMACRange parses a MAC address or a range of them. It rejects multicast addresses.
func parseMACRange(text string) (first, last uint64, err error) {
	match := macPattern.FindStringSubmatch(strings.ToLower(strings.ReplaceAll(text, ":", "")))
	if match == nil {
		return 0, 0, fmt.Errorf("%q is neither a MAC address nor a range a-b", text)
	}

	const hex, bits = 16, 48
	if first, err = strconv.ParseUint(match[1], hex, bits); err != nil {
		return 0, 0, fmt.Errorf("%q is not a MAC address: %w", match[1], err)
	}

	if last, err = strconv.ParseUint(cmp.Or(match[2], match[1]), hex, bits); err != nil {
		return 0, 0, fmt.Errorf("%q is not a MAC address: %w", match[2], err)
	}

	const group = 1 << 40
	switch {
	case last < first:
		return 0, 0, fmt.Errorf("%q ends before it begins", text)
	case first&group != 0 || first>>40 != last>>40:
		return 0, 0, fmt.Errorf("%q contains multicast addresses, whose first byte is odd", text)
	}

	return first, last, nil
}

func formatMAC(number uint64) string {
	text := fmt.Sprintf("%012x", number)

	var parts []string
	for i := 0; i < len(text); i += 2 {
		parts = append(parts, text[i:i+2])
	}

	return strings.Join(parts, ":")
}
