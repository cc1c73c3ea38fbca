package render

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Address is where a resource is in a state. It is kept in its parts, and not as text: the key of an instance comes
// from manifests and from engines, and must reach Terraform as a string whatever is in it.
type Address struct {
	// resource is its path, such as "module.cluster.ovirt_affinity_group.this": names of this package.
	resource string
	// key of the instance, where the resource has several.
	key     string
	indexed bool
}

// Instance is the address of one instance of a resource that is made for each of several keys.
func (a Address) Instance(key string) Address {
	return Address{resource: a.resource, key: key, indexed: true}
}

// String is the address as Terraform writes it, such as `ovirt_disk.data["etcd"]`.
func (a Address) String() string {
	return string(hclwrite.TokensForTraversal(a.traversal()).Bytes())
}

// traversal is the address as an expression that has nothing to evaluate.
func (a Address) traversal() hcl.Traversal {
	out := traversal(strings.Split(a.resource, ".")...)
	if a.indexed {
		out = append(out, hcl.TraverseIndex{Key: cty.StringVal(a.key)})
	}

	return out
}

// Addresses of what a configuration makes.
var (
	VMAddress    = Address{resource: "ovirt_vm.this"}
	StartAddress = Address{resource: "ovirt_vm_start.this"}
	// AdoptedVMAddress is that of a VM that was claimed.
	AdoptedVMAddress = Address{resource: "ovirt_adopted_vm.this"}
	// WatchdogAddress is that of the VM's watchdog.
	WatchdogAddress    = Address{resource: "ovirt_vm_watchdog.this"}
	OptimizeCPUAddress = Address{resource: "ovirt_vm_optimize_cpu_settings.this"}
	// TemplateAddress is that of an image's template.
	TemplateAddress = Address{resource: "module.image.ovirt_template.this"}

	tagAddress                = Address{resource: "ovirt_vm_tag.this"}
	membershipAddress         = Address{resource: "ovirt_vm_affinity_group.this"}
	dataDiskAddress           = Address{resource: "ovirt_disk.data"}
	dataDiskAttachmentAddress = Address{resource: "ovirt_disk_attachment.data"}
	hostDeviceAddress         = Address{resource: "ovirt_vm_host_device.this"}
	mediatedDeviceAddress     = Address{resource: "ovirt_vm_mediated_device.this"}
	groupAddress              = Address{resource: "module.cluster.ovirt_affinity_group.this"}
)

// NICAddress is the address of the network interface at that index.
func NICAddress(index int) Address { return Address{resource: "ovirt_nic." + nicName(index)} }

// HostDeviceAddress is the address of the host device of that name.
func HostDeviceAddress(name string) Address { return hostDeviceAddress.Instance(name) }

// MediatedDeviceAddress is the address of the mediated device at that index.
func MediatedDeviceAddress(index int) Address {
	return mediatedDeviceAddress.Instance(mediatedDeviceKey(index))
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
