package render

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Address is where a resource or a data source is in a state. It is kept in its parts, and not as text: the key of an
// instance comes from manifests and from engines, and must reach Terraform as a string whatever is in it.
type Address struct {
	// module that declares it; empty for the root module.
	module string
	// data reports a data source.
	data       bool
	kind, name string
	// key of the instance, if the resource has several.
	key     string
	indexed bool
}

// NewAddress returns the address of the resource of a type and a name in the root module.
func NewAddress(kind, name string) Address { return Address{kind: kind, name: name} }

// InModule returns the address in a module that the root module calls.
func (a Address) InModule(name string) Address {
	a.module = name
	return a
}

// Data returns the address of the data source of the same type and name.
func (a Address) Data() Address {
	a.data = true
	return a
}

// Instance returns the address of one instance of a resource that is made for each of several keys.
func (a Address) Instance(key string) Address {
	a.key, a.indexed = cty.NormalizeString(key), true
	return a
}

// Type is the type of the resource, such as ovirt_vm.
func (a Address) Type() string { return a.kind }

// String is the address as Terraform writes it, such as `ovirt_disk.data["etcd"]`.
func (a Address) String() string {
	return string(hclwrite.TokensForTraversal(a.traversal()).Bytes())
}

// traversal is the address as an expression that has nothing to evaluate.
func (a Address) traversal() hcl.Traversal {
	var steps []string
	if a.module != "" {
		steps = append(steps, "module", a.module)
	}

	if a.data {
		steps = append(steps, "data")
	}

	out := traversal(append(steps, a.kind, a.name)...)
	if a.indexed {
		out = append(out, hcl.TraverseIndex{Key: cty.StringVal(a.key)})
	}

	return out
}

// The types that configurations have.
const (
	vmType                = "ovirt_vm"
	startType             = "ovirt_vm_start"
	adoptedVMType         = "ovirt_adopted_vm"
	nicType               = "ovirt_nic"
	diskType              = "ovirt_disk"
	attachmentType        = "ovirt_disk_attachment"
	resizeType            = "ovirt_vm_disks_resize"
	tagType               = "ovirt_vm_tag"
	membershipType        = "ovirt_vm_affinity_group"
	watchdogType          = "ovirt_vm_watchdog"
	optimizeCPUType       = "ovirt_vm_optimize_cpu_settings"
	graphicsConsolesType  = "ovirt_vm_graphics_consoles"
	templateNICsType      = "ovirt_vm_template_nics"
	hostDeviceType        = "ovirt_vm_host_device"
	mediatedDeviceType    = "ovirt_vm_mediated_device"
	affinityGroupType     = "ovirt_affinity_group"
	templateType          = "ovirt_template"
	blankTemplateDataType = "ovirt_blank_template"
)

// Kind is what a configuration makes.
type Kind int

// The kinds of configurations. The zero value has no types.
const (
	// OwnVM is the VM of one machine.
	OwnVM Kind = iota + 1
	// ClaimedVM is a VM of a pool that a machine takes over. Its configuration cannot delete the VM.
	ClaimedVM
	// PooledVM is a VM that is made for a pool.
	PooledVM
	// ClusterGroups are the affinity groups of a cluster.
	ClusterGroups
	// ImageTemplate is a template that is made of a disk.
	ImageTemplate
)

// ofVMs are the types that VMs of machines and of pools have in common.
var ofVMs = []string{
	vmType, nicType, diskType, attachmentType, resizeType, tagType, watchdogType, optimizeCPUType, graphicsConsolesType,
	hostDeviceType, mediatedDeviceType, templateNICsType,
}

var typesOfKinds = map[Kind][]string{
	OwnVM:         append([]string{startType, membershipType}, ofVMs...),
	ClaimedVM:     {adoptedVMType, startType},
	PooledVM:      ofVMs,
	ClusterGroups: {affinityGroupType},
	ImageTemplate: {blankTemplateDataType, vmType, attachmentType, templateType},
}

// Types returns the types of resources and data sources that configurations of a kind declare, and that their states
// have, sorted.
func (k Kind) Types() []string {
	return slices.Sorted(slices.Values(typesOfKinds[k]))
}

// Types returns the types of resources and data sources of all kinds of configurations, sorted.
func Types() []string {
	var out []string
	for _, types := range typesOfKinds {
		out = append(out, types...)
	}

	slices.Sort(out)

	return slices.Compact(out)
}

// Addresses of what a configuration makes.
var (
	VMAddress    = NewAddress(vmType, "this")
	StartAddress = NewAddress(startType, "this")
	// AdoptedVMAddress is that of a VM that was claimed.
	AdoptedVMAddress = NewAddress(adoptedVMType, "this")
	// WatchdogAddress is that of the VM's watchdog.
	WatchdogAddress    = NewAddress(watchdogType, "this")
	OptimizeCPUAddress = NewAddress(optimizeCPUType, "this")
	// TemplateAddress is that of an image's template.
	TemplateAddress = NewAddress(templateType, "this").InModule(imageModule)

	resizeAddress             = NewAddress(resizeType, "root")
	graphicsConsolesAddress   = NewAddress(graphicsConsolesType, "none")
	templateNICsAddress       = NewAddress(templateNICsType, "removed")
	tagAddress                = NewAddress(tagType, "this")
	membershipAddress         = NewAddress(membershipType, "this")
	dataDiskAddress           = NewAddress(diskType, "data")
	dataDiskAttachmentAddress = NewAddress(attachmentType, "data")
	hostDeviceAddress         = NewAddress(hostDeviceType, "this")
	mediatedDeviceAddress     = NewAddress(mediatedDeviceType, "this")
	groupAddress              = NewAddress(affinityGroupType, "this").InModule(clusterModule)
)

// NICAddress is the address of the network interface at that index.
func NICAddress(index int) Address { return NewAddress(nicType, nicName(index)) }

// HostDeviceAddress is the address of the host device of that name.
func HostDeviceAddress(name string) Address { return hostDeviceAddress.Instance(name) }

// MediatedDeviceAddress is the address of the mediated device at that index.
func MediatedDeviceAddress(index int) Address {
	return mediatedDeviceAddress.Instance(MediatedDeviceKey(index))
}

// TagAddress is the address of a VM's tag, by the tag's UUID.
func TagAddress(tagID string) Address { return tagAddress.Instance(tagID) }

// DataDiskAddress is the address of the data disk of that name.
func DataDiskAddress(name string) Address { return dataDiskAddress.Instance(name) }

// DataDiskAttachmentAddress is the address of the attachment of the data disk of that name.
func DataDiskAttachmentAddress(name string) Address { return dataDiskAttachmentAddress.Instance(name) }

// MembershipAddress is the address of a VM's membership in the affinity group of that name.
func MembershipAddress(group string) Address { return membershipAddress.Instance(group) }

// GroupAddress is the address of the affinity group of that key in the state of a cluster.
func GroupAddress(key string) Address { return groupAddress.Instance(key) }
