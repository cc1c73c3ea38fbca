package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// MachineFinalizer lets the OLVMMachine outlive its VM.
	MachineFinalizer = "olvmmachine.infrastructure.cluster.x-k8s.io"

	// AddressesAnnotation records the static addresses of an OLVMMachine: a JSON object with a list of IP addresses for
	// each network interface, by the interface's name in the engine. An address is in use while it stands in one.
	// An annotation, because clusterctl move keeps annotations and drops status.
	AddressesAnnotation = "infrastructure.cluster.x-k8s.io/olvm-addresses"

	// CreateRequestedAnnotation records the name of the VM before the first run that may create it. While it is there,
	// a deletion looks for the VM in the engine, whatever else was lost.
	CreateRequestedAnnotation = "infrastructure.cluster.x-k8s.io/olvm-create-requested"

	// HostLabel of a Node of a workload cluster is the name of the host that its VM runs on.
	HostLabel = "infrastructure.cluster.x-k8s.io/olvm-host"

	// NodeFencedAnnotation of a Node has the provider ID of its failed VM. The manager has added the taint
	// out-of-service for this VM.
	NodeFencedAnnotation = "infrastructure.cluster.x-k8s.io/olvm-fenced"

	// NodeLabelsAnnotation of such a Node names the labels that the manager has given to it, with commas between them.
	NodeLabelsAnnotation = "infrastructure.cluster.x-k8s.io/olvm-node-labels"
)

// OLVMMachineSpec is the desired VM of a machine: one that is made, or one of an OLVMInventory.
// +kubebuilder:validation:XValidation:rule="has(self.fromInventory) || (has(self.vmTemplateName) && has(self.olvmNetwork) && has(self.virtualMachine) && has(self.virtualMachine.network))",message="set vmTemplateName, olvmNetwork and virtualMachine with its network for a VM that is made, or fromInventory for one of a pool"
// +kubebuilder:validation:XValidation:rule="has(self.fromInventory) || !has(self.virtualMachine) || (has(self.virtualMachine.memory) && size(self.virtualMachine.memory) > 0) != (has(self.virtualMachine.instanceType) && size(self.virtualMachine.instanceType) > 0)",message="set exactly one of virtualMachine.memory and virtualMachine.instanceType"
// +kubebuilder:validation:XValidation:rule="!has(self.fromInventory) || (!has(self.vmTemplateName) && !has(self.vmTemplateVersion) && !has(self.olvmOvirtClusterName) && !has(self.olvmNetwork) && !has(self.additionalNetworks) && !has(self.removeTemplateInterfaces))",message="fromInventory takes a VM as it is; remove vmTemplateName, vmTemplateVersion, olvmOvirtClusterName, olvmNetwork, additionalNetworks and removeTemplateInterfaces"
// +kubebuilder:validation:XValidation:rule="!has(self.fromInventory) || !has(self.virtualMachine) || (!has(self.virtualMachine.memory) && !has(self.virtualMachine.guaranteedMemory) && !has(self.virtualMachine.maximumMemory) && !has(self.virtualMachine.memoryBallooning) && !has(self.virtualMachine.hugePages) && !has(self.virtualMachine.instanceType) && !has(self.virtualMachine.type) && !has(self.virtualMachine.osType) && !has(self.virtualMachine.serialConsole) && !has(self.virtualMachine.soundCard) && !has(self.virtualMachine.graphicsConsoles) && !has(self.virtualMachine.rootDisk) && !has(self.virtualMachine.dataDisks) && !has(self.virtualMachine.description) && !has(self.virtualMachine.tags) && !has(self.virtualMachine.highAvailability) && !has(self.virtualMachine.watchdog) && !has(self.virtualMachine.firmware) && !has(self.virtualMachine.hostDevices) && !has(self.virtualMachine.mediatedDevices) && !has(self.virtualMachine.customProperties) && !has(self.virtualMachine.cpu) && !has(self.virtualMachine.placement))",message="fromInventory takes a VM as it is; of virtualMachine only network and shutdown can be set"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || oldSelf.providerID == \"\" || (has(self.providerID) && self.providerID in [oldSelf.providerID, \"\"])",message="providerID is immutable once set: it names the VM of this machine"
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalNetworks) || [[has(self.olvmNetwork) && has(self.olvmNetwork.vnicName) && size(self.olvmNetwork.vnicName) > 0 ? self.olvmNetwork.vnicName : 'nic1'] + [0, 1, 2, 3, 4, 5, 6].filter(i, i < size(self.additionalNetworks)).map(i, has(self.additionalNetworks[i].vnicName) && size(self.additionalNetworks[i].vnicName) > 0 ? self.additionalNetworks[i].vnicName : ['nic2', 'nic3', 'nic4', 'nic5', 'nic6', 'nic7', 'nic8'][i])].all(names, names.all(a, names.exists_one(b, a == b)))`,message="network interfaces of a VM have different names, and a vnicName is there twice; without one it is nic1, nic2, ... in their order",fieldPath=".additionalNetworks"
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalNetworks) || [[has(self.virtualMachine) && has(self.virtualMachine.network) && has(self.virtualMachine.network.interface) && size(self.virtualMachine.network.interface) > 0 ? self.virtualMachine.network.interface : 'enp1s0'] + self.additionalNetworks.filter(n, has(n.guest) && has(n.guest.interface)).map(n, n.guest.interface)].all(names, names.all(a, names.exists_one(b, a == b)))`,message="the guest's network interfaces have different names, and guest.interface is there twice; virtualMachine.network.interface is enp1s0 if it is not set",fieldPath=".additionalNetworks"
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalNetworks) || self.additionalNetworks.all(a, !has(a.macAddress) || self.additionalNetworks.exists_one(b, has(b.macAddress) && a.macAddress.lowerAscii() == b.macAddress.lowerAscii()) && !(has(self.olvmNetwork) && has(self.olvmNetwork.macAddress) && self.olvmNetwork.macAddress.lowerAscii() == a.macAddress.lowerAscii()))`,message="network interfaces have different MAC addresses, and a macAddress is there twice; remove one of the two",fieldPath=".additionalNetworks"
// +kubebuilder:validation:XValidation:rule=`!has(self.olvmNetwork) || !has(self.olvmNetwork.interfaceType) || !has(self.virtualMachine) || !has(self.virtualMachine.network) || !has(self.virtualMachine.network.interfaceType) || size(self.virtualMachine.network.interfaceType) == 0 || self.olvmNetwork.interfaceType == self.virtualMachine.network.interfaceType.lowerAscii()`,message="olvmNetwork.interfaceType and virtualMachine.network.interfaceType differ; remove one of the two",fieldPath=".olvmNetwork.interfaceType"
// +kubebuilder:validation:XValidation:rule=`has(self.fromInventory) || !has(self.virtualMachine) || !has(self.virtualMachine.network) || has(self.virtualMachine.network.ipv4) || has(self.virtualMachine.network.ipv6) && (has(self.virtualMachine.network.ipv6.autoConf) && self.virtualMachine.network.ipv6.autoConf || has(self.virtualMachine.network.ipv6.dhcp) && self.virtualMachine.network.ipv6.dhcp || has(self.virtualMachine.network.ipv6.ipAddresses) && size(self.virtualMachine.network.ipv6.ipAddresses) > 0) || has(self.virtualMachine.network.ipProfileName) && size(self.virtualMachine.network.ipProfileName) > 0 || has(self.virtualMachine.network.addressesFromPools)`,message="the network says nothing about addresses; set ipv4 or ipv6, ipProfileName, or addressesFromPools",fieldPath=".virtualMachine.network"
type OLVMMachineSpec struct {
	// providerID is olvm://<UUID of the VM>. Omit it: the controller sets it once the VM exists. It cannot be changed
	// then.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || self.matches('^olvm://[^/ ]+$')`,message="write olvm:// and the engine's UUID of the VM, or remove it: the controller sets it"
	ProviderID string `json:"providerID,omitempty"`

	// olvmOvirtClusterName is the name of the engine's cluster in which the VM is made. That of the machine's failure
	// domain goes before it. If omitted, the failure domain must name one. Changes are refused while the VM runs.
	// +optional
	OLVMOvirtClusterName EngineName `json:"olvmOvirtClusterName,omitempty"`

	// fromInventory takes the machine's VM from a pool, instead of one that is made. Omit the fields that make hardware
	// then. If omitted, a VM is made. It cannot be changed.
	// +optional
	FromInventory *FromInventory `json:"fromInventory,omitempty"`

	// vmTemplateName is the name of the engine's template from which the VM is made. ${KUBERNETES_VERSION} in it stands
	// for the Machine's version, such as v1.36.1 (write $${KUBERNETES_VERSION} if clusterctl or Flux substitutes
	// variables). Omit it with fromInventory only. Changes take effect on new machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[^$]*([$][{]KUBERNETES_VERSION[}][^$]*)*$')`,message="of variables, only that of KUBERNETES_VERSION is replaced, with one dollar sign; substitute others before you apply the object"
	VMTemplateName EngineName `json:"vmTemplateName,omitempty"`

	// vmTemplateVersion is the version of the template, as the engine counts them. If omitted or 0, it is the newest
	// one. Changes take effect on new machines.
	// +optional
	// +kubebuilder:validation:Minimum=0
	VMTemplateVersion int32 `json:"vmTemplateVersion,omitempty"`

	// olvmNetwork names the network and the vNIC profile of the VM's first network interface, which has the node's
	// address. Omit it with fromInventory only.
	// +optional
	OLVMNetwork OLVMNetwork `json:"olvmNetwork,omitempty,omitzero"`

	// additionalNetworks are the networks of further network interfaces, in the order in which the guest finds them.
	// Their vnicName is nic2, nic3 and so on, unless it is set. If omitted, the VM has one network interface. An
	// interface that is added appears at once; removing one is refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=7
	AdditionalNetworks []AdditionalNetwork `json:"additionalNetworks,omitempty"`

	// removeTemplateInterfaces removes the network interfaces that the template gives to the VM and that neither
	// olvmNetwork nor additionalNetworks names by its vnicName. If omitted or false, such a template is refused.
	// Changes take effect on new VMs. A change back is refused.
	// +optional
	RemoveTemplateInterfaces *bool `json:"removeTemplateInterfaces,omitempty"`

	// virtualMachine sizes the VM and configures its network. For a VM from an inventory, it configures the network and
	// the shutdown alone; if omitted, such a VM keeps the network configuration that it has.
	// +optional
	VirtualMachine VirtualMachine `json:"virtualMachine,omitempty,omitzero"`

	// userData is added to the bootstrap data, after that of the OLVMCluster. If omitted, nothing is added. Changes
	// take effect on new machines.
	// +optional
	UserData *UserData `json:"userData,omitempty"`
}

// FromInventory says which VM of a pool a machine takes.
type FromInventory struct {
	// inventoryName is the name of the OLVMInventory, in the namespace of the machine.
	// +required
	InventoryName ObjectName `json:"inventoryName,omitempty"`

	// selector chooses by the labels of the OLVMInventoryVMs. If omitted or empty, it chooses all.
	// +optional
	Selector LabelSelector `json:"selector,omitempty,omitzero"`

	// topologyKey is the key of a label. The machines of a role (control plane, or workers) have one VM for each value
	// of the label at most. An example is inventory.infrastructure.cluster.x-k8s.io/host. VMs without the label are not
	// bound by it. If omitted, there is no such rule.
	// +optional
	TopologyKey LabelKey `json:"topologyKey,omitempty"`

	// networkName is the name of a network on which the VM must have an address of its own. If
	// omitted, any VM will do.
	// +optional
	NetworkName EngineName `json:"networkName,omitempty"`
}

// RootDisk says how the template's bootable disk becomes the VM's.
// +kubebuilder:validation:XValidation:rule=`!has(self.clone) || self.clone || !(has(self.format) && self.format == 'raw') && !(has(self.sparse) && !self.sparse)`,message="format raw and a disk that is not sparse need a copy of the template's; set clone to true, or remove it",fieldPath=".clone"
type RootDisk struct {
	// size of the disk: a number with a unit, such as 100GB, which is 100 * 2^30 bytes. The disk is grown to it and
	// never shrunk. It must be at least the template's, which it is if omitted or empty. Changes take effect at once.
	// +optional
	Size Size `json:"size,omitempty"`

	// clone copies the template's disk instead of linking to it. If omitted, it is copied if it must be: for format
	// raw, or for another storage domain than the template's. Changes take effect on new machines.
	// +optional
	Clone *bool `json:"clone,omitempty"`

	// format is cow or raw. If omitted, it is the template's. Changes take effect on new machines.
	// +optional
	// +kubebuilder:validation:Enum=cow;raw
	Format string `json:"format,omitempty"`

	// sparse lets the disk take space as it fills. If omitted, it follows the format: cow is sparse, raw is not.
	// Changes take effect on new machines.
	// +optional
	Sparse *bool `json:"sparse,omitempty"`

	// storageDomainName is the storage domain of the disk. If omitted, it is the template's. Changes take effect on new
	// machines.
	// +optional
	StorageDomainName EngineName `json:"storageDomainName,omitempty"`
}

// DataDisk is a disk that the VM gets beside those of its template.
type DataDisk struct {
	// name of the disk, unique within the VM. In the engine, the name of the VM is before it. Another name is another
	// disk.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name DeviceName `json:"name,omitempty"`

	// size of the disk: a number with a unit, such as 100GB, which is 100 * 2^30 bytes. A smaller size is refused.
	// Changes take effect at once.
	// +required
	// +kubebuilder:validation:MinLength=1
	Size Size `json:"size,omitempty"`

	// format is cow or raw. If omitted, it is cow. Changes take effect on new disks.
	// +optional
	// +kubebuilder:validation:Enum=cow;raw
	Format string `json:"format,omitempty"`

	// sparse lets the disk take space as it fills. If omitted, it follows the format: cow is sparse, raw is not.
	// Changes take effect on new disks.
	// +optional
	Sparse *bool `json:"sparse,omitempty"`

	// storageDomainName is the storage domain of the disk. If omitted, it is that of the template's bootable disk.
	// Changes take effect on new disks.
	// +optional
	StorageDomainName EngineName `json:"storageDomainName,omitempty"`

	// interfaceType of the disk: virtio_scsi, virtio or sata. If omitted, it is virtio_scsi. Changes are refused while
	// the VM runs.
	// +optional
	// +kubebuilder:validation:Enum=virtio_scsi;virtio;sata
	InterfaceType string `json:"interfaceType,omitempty"`
}

// VirtualMachine sizes a VM and configures its network.
// +kubebuilder:validation:XValidation:rule=`!has(self.guaranteedMemory) || !has(self.memory) || !self.guaranteedMemory.matches('^ *[0-9]+([.][0-9]+)? *([kKmMgGtT][iI]?)?[bB]? *$') || !self.memory.matches('^ *[0-9]+([.][0-9]+)? *([kKmMgGtT][iI]?)?[bB]? *$') || double(self.guaranteedMemory.find('[0-9.]+')) * {"": 0.00000095367431640625, 'K': 0.0009765625, 'M': 1.0, 'G': 1024.0, 'T': 1048576.0}[self.guaranteedMemory.find('[kKmMgGtT]').upperAscii()] <= double(self.memory.find('[0-9.]+')) * {"": 0.00000095367431640625, 'K': 0.0009765625, 'M': 1.0, 'G': 1024.0, 'T': 1048576.0}[self.memory.find('[kKmMgGtT]').upperAscii()]`,message="guaranteedMemory is more than memory; lower it, or raise memory",fieldPath=".guaranteedMemory"
// +kubebuilder:validation:XValidation:rule=`!has(self.maximumMemory) || !has(self.memory) || !self.maximumMemory.matches('^ *[0-9]+([.][0-9]+)? *([kKmMgGtT][iI]?)?[bB]? *$') || !self.memory.matches('^ *[0-9]+([.][0-9]+)? *([kKmMgGtT][iI]?)?[bB]? *$') || double(self.maximumMemory.find('[0-9.]+')) * {"": 0.00000095367431640625, 'K': 0.0009765625, 'M': 1.0, 'G': 1024.0, 'T': 1048576.0}[self.maximumMemory.find('[kKmMgGtT]').upperAscii()] >= double(self.memory.find('[0-9.]+')) * {"": 0.00000095367431640625, 'K': 0.0009765625, 'M': 1.0, 'G': 1024.0, 'T': 1048576.0}[self.memory.find('[kKmMgGtT]').upperAscii()]`,message="maximumMemory is less than memory; raise it, or lower memory",fieldPath=".maximumMemory"
// +kubebuilder:validation:XValidation:rule=`!(has(self.instanceType) && size(self.instanceType) > 0) || !has(self.guaranteedMemory) && !has(self.maximumMemory)`,message="the instance type has the memory; remove guaranteedMemory and maximumMemory, or instanceType",fieldPath=".instanceType"
// +kubebuilder:validation:XValidation:rule=`!(has(self.instanceType) && size(self.instanceType) > 0) || !has(self.cpu) || !(has(self.cpu.topology) && [has(self.cpu.topology.cores) && self.cpu.topology.cores != 0, has(self.cpu.topology.sockets) && self.cpu.topology.sockets != 0, has(self.cpu.topology.threads) && self.cpu.topology.threads != 0].exists(set, set))`,message="the instance type has the CPU; remove cpu.topology, or instanceType",fieldPath=".instanceType"
// +kubebuilder:validation:XValidation:rule=`!(has(self.instanceType) && size(self.instanceType) > 0) || !has(self.cpu) || !has(self.cpu.autoPinningPolicy) || self.cpu.autoPinningPolicy != 'resize_and_pin'`,message="the instance type has the CPU; remove cpu.autoPinningPolicy, or instanceType",fieldPath=".instanceType"
// +kubebuilder:validation:XValidation:rule=`!has(self.type) || self.type != 'high_performance' || !has(self.graphicsConsoles) || self.graphicsConsoles != 'Keep'`,message="a high_performance VM has no graphics consoles; write Remove, or remove graphicsConsoles",fieldPath=".graphicsConsoles"
// +kubebuilder:validation:XValidation:rule=`!has(self.hostDevices) || size(self.hostDevices) == 0 || !has(self.placement) || !has(self.placement.hostNames) || size(self.placement.hostNames) == 1`,message="hostDevices belong to one host; name that one alone in placement.hostNames",fieldPath=".hostDevices"
type VirtualMachine struct {
	// memory of the VM, a number with a unit: 7680MB, or 16GB, 16G, 16GiB or 16Gi, which are all 16 * 2^30 bytes. Set
	// exactly one of memory and instanceType: if omitted, the instance type says it. Changes take effect at once; less
	// memory, at the next start of the VM.
	// +optional
	Memory Size `json:"memory,omitempty"`

	// guaranteedMemory is what the VM keeps when its host runs short: a number with a unit, such as 8GB, and at most
	// memory. If omitted, it is as much as memory. Changes take effect at once.
	// +optional
	// +kubebuilder:validation:MinLength=1
	GuaranteedMemory Size `json:"guaranteedMemory,omitempty"`

	// maximumMemory is how far memory can be raised while the VM runs: a number with a unit, such as 64GB, and at least
	// memory. If omitted, the engine decides. Changes take effect at the next start of the VM.
	// +optional
	// +kubebuilder:validation:MinLength=1
	MaximumMemory Size `json:"maximumMemory,omitempty"`

	// memoryBallooning lets the host take memory back that the guest does not use. If omitted, it is off for
	// high_performance VMs and the engine's choice for others. Changes take effect at the next start of the VM.
	// +optional
	MemoryBallooning *bool `json:"memoryBallooning,omitempty"`

	// hugePages is the size in KiB of the pages that back the VM's memory: 2048 or 1048576. If omitted, the VM has
	// what its template has: ordinary pages, unless the template says another size. Changes take effect at the next
	// start of the VM.
	// +optional
	// +kubebuilder:validation:Enum=2048;1048576
	HugePages int32 `json:"hugePages,omitempty"`

	// instanceType is the name of an instance type of the engine, which sizes memory and CPU instead of memory and
	// cpu.topology. If omitted, those say the sizes. Changes take effect at the next start of the VM.
	// +optional
	InstanceType EngineName `json:"instanceType,omitempty"`

	// type of the VM: server, desktop or high_performance. If omitted, it is the template's. For high_performance VMs,
	// cpu.mode is host_passthrough, the serial console is on, and sound card, ballooning and graphics consoles are off,
	// unless they are set. Changes take effect at the next start of the VM.
	// +optional
	// +kubebuilder:validation:Enum=server;desktop;high_performance
	Type string `json:"type,omitempty"`

	// osType is the operating system as the engine spells it, for example ol_9x64. With rhcos_x64, the engine hands the
	// user data to Ignition. If omitted, it is the template's. Changes take effect on new machines.
	// +optional
	OSType EngineName `json:"osType,omitempty"`

	// serialConsole gives the VM a serial console. If omitted, it is on for high_performance VMs and the engine's
	// choice for others. Changes take effect at the next start of the VM.
	// +optional
	SerialConsole *bool `json:"serialConsole,omitempty"`

	// soundCard gives the VM a sound card. If omitted, it is off for high_performance VMs and the engine's choice for
	// others. Changes take effect at the next start of the VM.
	// +optional
	SoundCard *bool `json:"soundCard,omitempty"`

	// graphicsConsoles says what becomes of the graphics consoles of the template: Keep or Remove. If omitted, it is
	// Remove for the types server and high_performance, which cannot have them, and Keep for others. Changes to Remove
	// take effect at once; a change back to Keep is refused.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Remove
	GraphicsConsoles string `json:"graphicsConsoles,omitempty"`

	// rootDisk says how the template's bootable disk becomes the VM's. If omitted, it is as the template has it.
	// +optional
	RootDisk *RootDisk `json:"rootDisk,omitempty"`

	// dataDisks are disks that the VM gets beside those of its template. They are destroyed with it. If omitted, there
	// are none. A disk that is added appears at once; removing one is refused.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	DataDisks []DataDisk `json:"dataDisks,omitempty"`

	// description of the VM in the engine, without emoji and other characters beyond U+FFFF, which it refuses. If
	// omitted, it is empty. Changes take effect at once.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[\\x{0}-\\x{FFFF}]*$')`,message="the engine refuses emoji and other characters beyond U+FFFF; remove them"
	Description string `json:"description,omitempty"`

	// tags of the engine that the VM gets; they must exist. If omitted, it gets none. Changes take effect at once;
	// removing one is refused.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Tags []EngineTag `json:"tags,omitempty"`

	// highAvailability has the engine restart the VM elsewhere when its host is lost. If omitted, the engine leaves the
	// VM as its template is. Changes take effect at once.
	// +optional
	HighAvailability *HighAvailability `json:"highAvailability,omitempty"`

	// watchdog gives the VM a device by which its host sees that the guest hangs. If omitted, it has none. Changes take
	// effect at the next start of the VM.
	// +optional
	Watchdog *Watchdog `json:"watchdog,omitempty"`

	// firmware of the VM. If omitted, it is the template's. Changes take effect on new machines.
	// +optional
	Firmware Firmware `json:"firmware,omitempty,omitzero"`

	// hostDevices are names of devices of a host that the VM gets for itself, such as pci_0000_3b_00_0. They need one
	// host that is named in placement.hostNames. If omitted, it gets none. Changes take effect on new machines.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	HostDevices []EngineName `json:"hostDevices,omitempty"`

	// mediatedDevices are parts of devices of hosts, such as virtual GPUs. The VM runs on hosts that have them. If
	// omitted, it gets none. Changes take effect on new machines.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MediatedDevices []MediatedDevice `json:"mediatedDevices,omitempty"`

	// customProperties of the VM in the engine. If omitted, they are the template's. Changes take effect on new
	// machines.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	CustomProperties []CustomProperty `json:"customProperties,omitempty"`

	// cpu of the VM. If omitted, its parts have their defaults.
	// +optional
	CPU CPU `json:"cpu,omitempty,omitzero"`

	// shutdown says how the VM is powered off before it is deleted. If omitted, the power is cut. Changes take effect
	// at once.
	// +optional
	Shutdown Shutdown `json:"shutdown,omitempty,omitzero"`

	// network configuration of the guest. Omit it with fromInventory only: the VM keeps what it has then. Changes take
	// effect on new machines.
	// +optional
	Network GuestNetwork `json:"network,omitempty,omitzero"`

	// placement of the VM on hosts. If omitted, it runs on any host of its cluster or its failure domain. Changes take
	// effect at once.
	// +optional
	Placement Placement `json:"placement,omitempty,omitzero"`
}

// Shutdown says how a VM is powered off before it is deleted.
type Shutdown struct {
	// mode is Stop, which cuts the power (the node was drained before), or Graceful, which asks the guest first. If
	// omitted, it is Stop.
	// +optional
	// +kubebuilder:validation:Enum=Stop;Graceful
	Mode string `json:"mode,omitempty"`

	// timeoutSeconds is how many seconds a guest that is asked may take before the power is cut. If omitted or 0, it is
	// 300 seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// CPU is the virtual processor of a VM.
// +kubebuilder:validation:XValidation:rule=`!has(self.autoPinningPolicy) || self.autoPinningPolicy != 'resize_and_pin' || !(has(self.topology) && [has(self.topology.cores) && self.topology.cores != 0, has(self.topology.sockets) && self.topology.sockets != 0, has(self.topology.threads) && self.topology.threads != 0].exists(set, set))`,message="resize_and_pin takes the topology from the host; remove topology, or autoPinningPolicy",fieldPath=".topology"
type CPU struct {
	// architecture of the CPU. If omitted, it is x86_64. Changes take effect on new machines.
	// +optional
	// +kubebuilder:validation:Enum="";x86_64;amd64;aarch64;arm64;ppc64;s390x
	Architecture string `json:"architecture,omitempty"`

	// mode is custom, host_model or host_passthrough. If omitted, it is host_passthrough for high_performance VMs, and
	// the engine's choice for others. Changes take effect at the next start of the VM.
	// +optional
	// +kubebuilder:validation:Enum=custom;host_model;host_passthrough
	Mode string `json:"mode,omitempty"`

	// topology of the CPU. If omitted, each part has its default.
	// +optional
	Topology CPUTopology `json:"topology,omitempty,omitzero"`

	// autoPinningPolicy is none or resize_and_pin. The latter gives the VM the sockets, cores and threads of a host it
	// is placed on, less a core for the host, and pins its virtual CPUs and NUMA nodes to those of the host. It needs
	// hosts that are named, by placement or a failure domain, and excludes topology. If omitted, it is none. Changes
	// take effect on new machines.
	// +optional
	// +kubebuilder:validation:Enum=none;resize_and_pin
	AutoPinningPolicy string `json:"autoPinningPolicy,omitempty"`
}

// CPUTopology divides the virtual processor. Zero means the default.
type CPUTopology struct {
	// cores per socket. If omitted or 0, there are 2. Changes take effect at the next start of the VM.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=254
	Cores int32 `json:"cores,omitempty"`

	// sockets of the VM. If omitted or 0, there are 2. Changes take effect at once; fewer sockets, at the next start of
	// the VM.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Sockets int32 `json:"sockets,omitempty"`

	// threads per core. If omitted or 0, there is 1. Changes take effect at the next start of the VM.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	Threads int32 `json:"threads,omitempty"`
}

// OLVMMachineStatus is what the controller has observed.
type OLVMMachineStatus struct {
	// conditions of the OLVMMachine: Ready, UpToDate, BootstrapDataAvailable, VirtualMachineClaimed,
	// AddressesAllocated, InfrastructureApplied, VirtualMachineRunning, DriftDetected, UserDataRemoved, Paused,
	// Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization says whether the first provisioning is done, as the Cluster API contract asks.
	// +optional
	Initialization OLVMMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses of the machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain in which the VM was placed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// olvm is what the names of the spec were resolved to, and the VM.
	// +optional
	OLVM *OLVMStatus `json:"olvm,omitempty"`

	// terraform says what the last Terraform run for this machine did.
	// +optional
	Terraform *TerraformStatus `json:"terraform,omitempty"`
}

// OLVMMachineInitializationStatus says whether the first provisioning is done.
// +kubebuilder:validation:MinProperties=1
type OLVMMachineInitializationStatus struct {
	// provisioned is true once the VM was up with its address; it never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// OLVMStatus is the engine's view of a machine.
type OLVMStatus struct {
	// engineID identifies the installation of the engine on which the VM is or will be.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	EngineID string `json:"engineID,omitempty"`
	// clusterID is the engine's UUID of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterID string `json:"clusterID,omitempty"`
	// clusterName is the name of the engine's cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	ClusterName string `json:"clusterName,omitempty"`
	// ipAddress is the first address of the machine: IPv4 where it has one.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	IPAddress string `json:"ipAddress,omitempty"`
	// networkID is the engine's UUID of the network.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NetworkID string `json:"networkID,omitempty"`
	// networkName is the name of the network.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	NetworkName string `json:"networkName,omitempty"`
	// vmTemplateID is the engine's UUID of the template.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VMTemplateID string `json:"vmTemplateID,omitempty"`
	// vmTemplateName is the name of the template.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VMTemplateName string `json:"vmTemplateName,omitempty"`
	// vnicID is the engine's UUID of the VM's network interface.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VNICID string `json:"vnicID,omitempty"`
	// vnicName is the name of the VM's network interface.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VNICName string `json:"vnicName,omitempty"`
	// vnicProfileID is the engine's UUID of the vNIC profile.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VNICProfileID string `json:"vnicProfileID,omitempty"`
	// vnicProfileName is the name of the vNIC profile.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VNICProfileName string `json:"vnicProfileName,omitempty"`
	// virtualMachine is the VM.
	// +optional
	VirtualMachine VirtualMachineStatus `json:"virtualMachine,omitempty,omitzero"`
}

// VirtualMachineStatus is the engine's view of a VM.
type VirtualMachineStatus struct {
	// vmID is the engine's UUID of the VM.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VMID string `json:"vmID,omitempty"`
	// vmName is its name.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VMName string `json:"vmName,omitempty"`
	// status is the VM's status as the engine spells it, for example up.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Status string `json:"status,omitempty"`
	// hostName is the name of the host that the VM runs on; empty where it runs on none.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	HostName string `json:"hostName,omitempty"`
	// creationStatus is Requested, Created or Failed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CreationStatus string `json:"creationStatus,omitempty"`
	// creationError is the error of the last attempt to create the VM.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	CreationError string `json:"creationError,omitempty"`
	// createRequestSubmitted is true once a run that creates the VM was started.
	// +optional
	CreateRequestSubmitted bool `json:"createRequestSubmitted,omitempty"`
	// lastGeneration is the generation of the spec that was applied last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastGeneration string `json:"lastGeneration,omitempty"`
}

// TerraformStatus says what the Terraform runs for an object did.
type TerraformStatus struct {
	// stateSecretName is the name of the Secret that holds the Terraform state.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StateSecretName string `json:"stateSecretName,omitempty"`
	// stateLineage and stateSerial are those of the newest state that was seen. One of the same lineage and a lower
	// serial was restored over it, and is not used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	StateLineage string `json:"stateLineage,omitempty"`
	// stateSerial grows with each change of the state.
	// +optional
	StateSerial int64 `json:"stateSerial,omitempty"`
	// runs counts the runs since the object was created or moved here.
	// +optional
	Runs int64 `json:"runs,omitempty"`
	// failures counts the runs that failed since the last one that succeeded.
	// +optional
	Failures int64 `json:"failures,omitempty"`
	// lastRun is the run that ended last.
	// +optional
	LastRun *TerraformRun `json:"lastRun,omitempty"`
	// drift is what the last check for drift found.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
}

// DriftStatus is what a check found: a plan that is not applied.
type DriftStatus struct {
	// checkTime is when the check ended.
	// +required
	CheckTime metav1.Time `json:"checkTime,omitempty,omitzero"`
	// differences are the resources of which the engine has something else than was applied, each with the attributes
	// that differ, such as "ovirt_vm.this (memory)".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	Differences []string `json:"differences,omitempty"`
	// differenceCount is how many differences there are; differences has the first of them.
	// +optional
	DifferenceCount int32 `json:"differenceCount,omitempty"`
	// error is why the check could not be made.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Error string `json:"error,omitempty"`
}

// TerraformRun is one execution of Terraform.
type TerraformRun struct {
	// operation is Apply or Destroy; checks for drift are not listed here.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Operation string `json:"operation,omitempty"`
	// result is Succeeded, Failed or Refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Result string `json:"result,omitempty"`
	// startTime of the run.
	// +required
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// completionTime of the run.
	// +required
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// added counts the resources that the run created.
	// +optional
	Added int32 `json:"added,omitempty"`
	// changed counts the resources that the run updated.
	// +optional
	Changed int32 `json:"changed,omitempty"`
	// destroyed counts the resources that the run deleted.
	// +optional
	Destroyed int32 `json:"destroyed,omitempty"`
	// changes are what the plan of the run had, each with what is done to which resource, such as "create
	// ovirt_vm.this". A run that failed or was refused did not do all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	Changes []string `json:"changes,omitempty"`
	// changeCount is how many changes the plan had; changes has the first of them.
	// +optional
	ChangeCount int32 `json:"changeCount,omitempty"`
}

// OLVMMachine is a VM on Oracle Linux Virtualization Manager or oVirt that becomes a node.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1"
// +kubebuilder:resource:path=olvmmachines,scope=Namespaced,categories=cluster-api,shortName=olvmm
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if the VM runs"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not ready"
// +kubebuilder:printcolumn:name="UpToDate",type=string,JSONPath=`.status.conditions[?(@.type=="UpToDate")].status`,description="True if the VM is what the spec asks for"
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.addresses[?(@.type=="Hostname")].address`,description="Name of the VM in its guest, and of its Node"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.olvm.ipAddress`,description="Address of the VM"
// +kubebuilder:printcolumn:name="VMStatus",type=string,JSONPath=`.status.olvm.virtualMachine.status`,description="Status of the VM in the engine"
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.olvm.virtualMachine.hostName`,description="Host that the VM runs on"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`,priority=2
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.virtualMachine.memory`,priority=2
// +kubebuilder:printcolumn:name="Cores",type=integer,JSONPath=`.spec.virtualMachine.cpu.topology.cores`,priority=2
// +kubebuilder:printcolumn:name="Sockets",type=integer,JSONPath=`.spec.virtualMachine.cpu.topology.sockets`,priority=2
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="metadata.name is the host name of the VM, and must have at most 63 characters",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !self.metadata.name.matches('^(.+[.])?localhost([.]localdomain)?$')",message="metadata.name is the host name of the VM, and localhost is every machine's name for itself; use another name",optionalOldSelf=true
type OLVMMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired VM of the machine.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.fromInventory) == has(oldSelf.fromInventory) && (!has(self.fromInventory) || self.fromInventory == oldSelf.fromInventory)",message="fromInventory is immutable; change the template, and let the machines be replaced"
	Spec OLVMMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what the controller has observed.
	// +optional
	Status OLVMMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (m *OLVMMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (m *OLVMMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// OLVMMachineList is a list of OLVMMachines.
// +kubebuilder:object:root=true
type OLVMMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMMachine `json:"items"`
}
