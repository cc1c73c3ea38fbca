package render

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Address is the address of a resource or a data source in a state. It is stored in parts instead of text. The key of
// an instance comes from manifests and engines, and must reach Terraform as a string, whatever it contains.
type Address struct {
	// module is the module that declares the resource. It is empty for the root module.
	module string
	// data reports whether this is a data source.
	data       bool
	kind, name string
	// key identifies the instance if the resource has several.
	key     string
	indexed bool
}

// NewAddress returns the address of the resource with this type and name in the root module.
func NewAddress(kind, name string) Address { return Address{kind: kind, name: name} }

// InModule returns the same address in a module that the root module calls.
func (a Address) InModule(name string) Address {
	a.module = name
	return a
}

// AsData returns the address of the data source with the same type and name.
func (a Address) AsData() Address {
	a.data = true
	return a
}

// WithKey returns the address of the instance with this key.
func (a Address) WithKey(key string) Address {
	a.key, a.indexed = cty.NormalizeString(key), true
	return a
}

// Type returns the type of the resource, such as ovirt_vm.
func (a Address) Type() string { return a.kind }

// String returns the address in Terraform's syntax, such as `ovirt_disk.data["etcd"]`.
func (a Address) String() string {
	return string(hclwrite.TokensForTraversal(a.toTraversal()).Bytes())
}

// toTraversal returns the address as an expression in which Terraform evaluates nothing.
func (a Address) toTraversal() hcl.Traversal {
	var steps []string
	if a.module != "" {
		steps = append(steps, "module", a.module)
	}

	if a.data {
		steps = append(steps, "data")
	}

	out := newTraversal(append(steps, a.kind, a.name)...)
	if a.indexed {
		out = append(out, hcl.TraverseIndex{Key: cty.StringVal(a.key)})
	}

	return out
}

// These are the types of resources in configurations.
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

// Kind is the kind of the objects that a configuration creates.
type Kind int

// These are the kinds of configurations. The zero value has no types.
const (
	// OwnVM is the VM of one machine.
	OwnVM Kind = iota + 1
	// ClaimedVM is a pool's VM that a machine has taken over. Its configuration cannot delete the VM.
	ClaimedVM
	// PooledVM is a VM created for a pool.
	PooledVM
	// ClusterGroups are the affinity groups of a cluster.
	ClusterGroups
	// ImageTemplate is a template created from a disk.
	ImageTemplate
)

// ofVMs are the types that the VMs of machines and of pools have in common.
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

// Types returns the sorted types of resources and data sources in configurations and states of this kind.
func (k Kind) Types() []string {
	return slices.Sorted(slices.Values(typesOfKinds[k]))
}

// Types returns the sorted types of resources and data sources in all kinds of configurations.
func Types() []string {
	var out []string
	for _, types := range typesOfKinds {
		out = append(out, types...)
	}

	slices.Sort(out)

	return slices.Compact(out)
}

// These are the addresses of the resources in configurations.
var (
	VMAddress    = NewAddress(vmType, "this")
	StartAddress = NewAddress(startType, "this")
	// AdoptedVMAddress is the address of a claimed VM.
	AdoptedVMAddress = NewAddress(adoptedVMType, "this")
	// WatchdogAddress is the address of the VM's watchdog.
	WatchdogAddress    = NewAddress(watchdogType, "this")
	OptimizeCPUAddress = NewAddress(optimizeCPUType, "this")
	// TemplateAddress is the address of the template in an image's configuration.
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

// NICAddress returns the address of the network interface at this index.
func NICAddress(index int) Address { return NewAddress(nicType, nicName(index)) }

// HostDeviceAddress returns the address of the host device with this name.
func HostDeviceAddress(name string) Address { return hostDeviceAddress.WithKey(name) }

// MediatedDeviceAddress returns the address of the mediated device at this index.
func MediatedDeviceAddress(index int) Address {
	return mediatedDeviceAddress.WithKey(MediatedDeviceKey(index))
}

// TagAddress returns the address of a VM's tag, by the tag's UUID.
func TagAddress(tagID string) Address { return tagAddress.WithKey(tagID) }

// DataDiskAddress returns the address of the data disk with this name.
func DataDiskAddress(name string) Address { return dataDiskAddress.WithKey(name) }

// DataDiskAttachmentAddress returns the address of the attachment of the data disk with this name.
func DataDiskAttachmentAddress(name string) Address { return dataDiskAttachmentAddress.WithKey(name) }

// MembershipAddress returns the address of a VM's membership in the affinity group with this name.
func MembershipAddress(group string) Address { return membershipAddress.WithKey(group) }

// GroupAddress returns the address of the affinity group with this key in the state of a cluster.
func GroupAddress(key string) Address { return groupAddress.WithKey(key) }
