package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

const (
	// InventoryFinalizer lets the OLVMInventory outlive the claims on its VMs.
	InventoryFinalizer = "olvminventory.infrastructure.cluster.x-k8s.io"

	// InventoryVMFinalizer lets an OLVMInventoryVM outlive the VM that was made for it.
	InventoryVMFinalizer = "olvminventoryvm.infrastructure.cluster.x-k8s.io"

	// ReleaseClaimAnnotation on an OLVMInventoryVM asks the manager to end the claim whose ID is its value. The manager
	// does so if the machine or the Cluster that has the VM does not exist any more. It alone writes spec.claimRef.
	ReleaseClaimAnnotation = "infrastructure.cluster.x-k8s.io/olvm-release-claim"

	// InventoryLabelPrefix is before the keys of labels of OLVMInventoryVMs where an OLVMInventory does not say others.
	InventoryLabelPrefix = "inventory.infrastructure.cluster.x-k8s.io/"
	// InventoryNameLabel names the OLVMInventory of an OLVMInventoryVM.
	InventoryNameLabel = InventoryLabelPrefix + "name"
)

// The sources of labels of OLVMInventoryVMs.
const (
	LabelFromHost              = "Host"
	LabelFromHostTag           = "HostTag"
	LabelFromHostAffinityLabel = "HostAffinityLabel"
	LabelFromAffinityLabel     = "AffinityLabel"
	LabelFromVMTemplate        = "VMTemplate"
	LabelFromCustomProperty    = "CustomProperty"
	LabelFromNetworks          = "Networks"
)

// What becomes of a VM whose machine is gone.
const (
	// RecycleRebuild replaces the root disk from the VM's template.
	RecycleRebuild = "Rebuild"
	// RecycleRetain leaves the VM as it is, until a person clears it.
	RecycleRetain = "Retain"
)

// OLVMInventorySpec says which VMs of an engine are a pool that clusters claim machines from.
type OLVMInventorySpec struct {
	// olvmDatacenterName is the name of the engine's data center in which the VMs live. It cannot be changed.
	// +required
	OLVMDatacenterName EngineName `json:"olvmDatacenterName,omitempty"`

	// olvmOvirtAPIServer says how to reach the engine. Clusters that claim VMs must name the same engine. Changes take
	// effect at once; the engine behind it must remain the same.
	// +required
	OLVMOvirtAPIServer infrav1.OvirtAPIServer `json:"olvmOvirtAPIServer,omitempty,omitzero"`

	// virtualMachines are the VMs of the pool. Others are neither listed nor touched. Changes take effect at once.
	// +required
	VirtualMachines InventoryVMs `json:"virtualMachines,omitempty,omitzero"`

	// labelRules make the labels of the OLVMInventoryVMs. If omitted, each has the labels
	// inventory.infrastructure.cluster.x-k8s.io/host, .../vm-template, and .../network-NAME for each network. Changes
	// take effect at once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule=`self.all(a, self.exists_one(b, a.key == b.key))`,message="a key is there twice; remove one of the two"
	LabelRules []InventoryLabel `json:"labelRules,omitempty"`

	// recycle says what becomes of a VM whose machine is gone. Rebuild replaces its root disk from its template, so
	// that no cluster boots the node of another. Retain leaves it Ineligible until a person clears it. If omitted, it
	// is Rebuild for VMs whose template the engine knows, and Retain for others. Changes take effect at once, on VMs
	// whose machines go later.
	// +optional
	// +kubebuilder:validation:Enum=Rebuild;Retain
	Recycle string `json:"recycle,omitempty"`

	// provision says which VMs are made for the pool. They get its tag, and are not started before they are claimed.
	// If omitted, the pool has what others made. Changes take effect at once: VMs are made and deleted.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Provision []InventoryProvision `json:"provision,omitempty"`
}

// InventoryProvision says which VMs of one kind are made for a pool, by Terraform and from a template of machines. They
// are kept at count: one that is gone is made again, and those that are too many and that nobody has claimed are
// deleted. Where recycle is Rebuild, a VM whose machine is gone is deleted, and made again. All are deleted with the
// OLVMInventory, those that are claimed when their claims end.
// +kubebuilder:validation:XValidation:rule="has(self.count) != has(self.countPerHost)",message="set count or countPerHost"
type InventoryProvision struct {
	// name of this kind of VM. The VMs have the names INVENTORY-NAME-NUMBER, or INVENTORY-NAME-HOST-NUMBER with
	// countPerHost. Another name is another kind: VMs of the earlier one are deleted once nobody has them.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name LabelName `json:"name,omitempty"`

	// machineTemplateName is the name of the OLVMMachineTemplate in the same namespace that says what the VMs are:
	// their template, hardware, networks, and the ranges of their addresses. VMs of another one than is named here are
	// made again one after the other, once nobody has them.
	// +required
	MachineTemplateName infrav1.ObjectName `json:"machineTemplateName,omitempty"`

	// count is how many VMs there are. Omit it with countPerHost only.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Count *int32 `json:"count,omitempty"`

	// countPerHost is how many VMs there are for each host that the template's machines may run on: those of its
	// placement, or all of its cluster. Each VM is bound to its host. Omit it with count only.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	CountPerHost *int32 `json:"countPerHost,omitempty"`

	// macAddresses that the network interfaces of the VMs take: single ones, and inclusive ranges a-b. If omitted,
	// they are those of the engine's pool. Changes take effect on new VMs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule=`self.all(a, self.exists_one(b, a.lowerAscii() == b.lowerAscii()))`,message="a MAC address or a range is there twice; remove one of the two"
	MACAddresses []infrav1.MACAddressRange `json:"macAddresses,omitempty"`
}

// InventoryVMs are the VMs of a pool: those that match all that is set.
type InventoryVMs struct {
	// tag of the engine that the VMs carry themselves. It cannot be changed.
	// +required
	Tag infrav1.EngineTag `json:"tag,omitempty"`

	// olvmOvirtClusterName is the name of the engine's cluster of the VMs. If omitted, it is any of the data center.
	// +optional
	OLVMOvirtClusterName EngineName `json:"olvmOvirtClusterName,omitempty"`

	// search narrows the VMs further, in the engine's query language, such as name=pool-*. If omitted, it does not.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Search string `json:"search,omitempty"`
}

// InventoryLabel says how a label of the OLVMInventoryVMs is made. Characters that a label's value cannot have become
// dashes. A VM for which there is no value does not have the label.
// +kubebuilder:validation:XValidation:rule="(self.from == 'CustomProperty') == (has(self.property) && size(self.property) > 0)",message="set property for from: CustomProperty, and for no other"
type InventoryLabel struct {
	// key of the label. For Networks it begins the keys of one label for each network, KEY-NAME.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self != 'inventory.infrastructure.cluster.x-k8s.io/name'`,message="the manager itself has this label for the name of the inventory; write another key"
	Key infrav1.LabelKey `json:"key,omitempty"`

	// from is where the value comes from: Host (the host that the VM runs on, or the only one that it is bound to),
	// HostTag or HostAffinityLabel (of that host), AffinityLabel (of the VM), VMTemplate, CustomProperty, or Networks
	// (of the VM's network interfaces).
	// +required
	// +kubebuilder:validation:Enum=Host;HostTag;HostAffinityLabel;AffinityLabel;VMTemplate;CustomProperty;Networks
	From string `json:"from,omitempty"`

	// prefix that names must have. It is not part of the value: with the prefix rack- the tag rack-8 is the value 8. If
	// omitted, the name is the value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Prefix string `json:"prefix,omitempty"`

	// property is the name of a custom property of the VM. Omit it unless from is CustomProperty.
	// +optional
	Property EngineName `json:"property,omitempty"`
}

// OLVMInventoryStatus is what the controller has observed.
type OLVMInventoryStatus struct {
	// conditions of the OLVMInventory: Ready, EngineAvailable, Provisioned, Scheduled, Paused, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// serverURL is the engine that let the inventory in with its credentials; empty before.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	ServerURL string `json:"serverURL,omitempty"`

	// engineID identifies the installation of the engine on which the VMs are. Another engine is refused.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	EngineID string `json:"engineID,omitempty"`

	// lastEvent of the engine that was recorded, as in an OLVMCluster.
	// +optional
	LastEvent *infrav1.EngineEvent `json:"lastEvent,omitempty"`

	// total counts the VMs of the pool.
	// +optional
	Total int32 `json:"total"`
	// available counts those that can be claimed.
	// +optional
	Available int32 `json:"available"`
	// claimed counts those that a cluster has.
	// +optional
	Claimed int32 `json:"claimed"`
	// recycling counts those that are made ready for the next claim.
	// +optional
	Recycling int32 `json:"recycling"`
	// ineligible counts those that cannot be claimed; each says why.
	// +optional
	Ineligible int32 `json:"ineligible"`

	// unschedulable are the groups of machines for which there are not enough VMs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Unschedulable []UnschedulableGroup `json:"unschedulable,omitempty"`

	// unschedulableCount is how many such groups there are; unschedulable has the first of them.
	// +optional
	UnschedulableCount int32 `json:"unschedulableCount,omitempty"`
}

// UnschedulableGroup is a group of machines for which there are not enough VMs; none was claimed for it.
type UnschedulableGroup struct {
	// clusterName is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`
	// group of machines, as in claims.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	Group string `json:"group,omitempty"`
	// role of the machines: ControlPlane or Worker.
	// +required
	// +kubebuilder:validation:Enum=ControlPlane;Worker
	Role string `json:"role,omitempty"`
	// wanted is how many VMs the group needs beside those that it has.
	// +required
	Wanted int32 `json:"wanted"`
	// found is how many of them could have been claimed.
	// +required
	Found int32 `json:"found"`
	// message says why others were passed over.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	Message string `json:"message,omitempty"`
}

// OLVMInventory is a pool of VMs that were made ahead, and that clusters claim machines from. It belongs to no Cluster,
// so a label of its CRD has clusterctl move it, and what it owns.
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:resource:path=olvminventories,scope=Namespaced,categories=cluster-api,shortName=olvmi
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if the pool is known"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not ready"
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`,description="VMs of the pool"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.available`,description="VMs that can be claimed"
// +kubebuilder:printcolumn:name="Claimed",type=integer,JSONPath=`.status.claimed`,description="VMs that clusters have"
// +kubebuilder:printcolumn:name="Recycling",type=integer,JSONPath=`.status.recycling`,description="VMs that are made ready for the next claim"
// +kubebuilder:printcolumn:name="Ineligible",type=integer,JSONPath=`.status.ineligible`,description="VMs that cannot be claimed"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`!has(self.spec.provision) || oldSelf.hasValue() && has(oldSelf.value().spec.provision) && oldSelf.value().spec.provision == self.spec.provision || self.spec.provision.all(p, size(self.metadata.name) + size(p.name) <= 58)`,message="VMs have the names INVENTORY-NAME-NUMBER, which are host names of at most 63 characters; shorten the name of the provision, or that of the inventory",fieldPath=".spec.provision",optionalOldSelf=true
type OLVMInventory struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired pool: which VMs of the engine it has, and which are made for it.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.olvmDatacenterName == oldSelf.olvmDatacenterName && self.virtualMachines.tag == oldSelf.virtualMachines.tag",message="olvmDatacenterName and virtualMachines.tag are immutable: claims are on the VMs that they choose; make another inventory"
	Spec OLVMInventorySpec `json:"spec,omitempty,omitzero"`

	// status is what the controller has observed.
	// +optional
	Status OLVMInventoryStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (i *OLVMInventory) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (i *OLVMInventory) SetConditions(conditions []metav1.Condition) {
	i.Status.Conditions = conditions
}

// OLVMInventoryList is a list of OLVMInventories.
// +kubebuilder:object:root=true
type OLVMInventoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMInventory `json:"items"`
}

// The phases of an OLVMInventoryVM.
const (
	InventoryVMAvailable  = "Available"
	InventoryVMClaimed    = "Claimed"
	InventoryVMRecycling  = "Recycling"
	InventoryVMIneligible = "Ineligible"
)

// OLVMInventoryVMSpec names a VM and who has it. The controller writes it; spec, because clusterctl move drops status.
type OLVMInventoryVMSpec struct {
	// inventoryName is the name of the OLVMInventory. It cannot be changed.
	// +required
	InventoryName infrav1.ObjectName `json:"inventoryName,omitempty"`

	// vmID is the engine's UUID of the VM. Omitted while the VM is still to be made. It cannot be changed once it is
	// set.
	// +optional
	VMID infrav1.EngineUUID `json:"vmID,omitempty"`

	// fromProvision says what the VM is made of; omitted for a VM that somebody else made. It cannot be changed.
	// +optional
	FromProvision *ProvisionedVM `json:"fromProvision,omitempty"`

	// claimRef is who has the VM; omitted while nobody has. Only the manager writes it, and who may write it
	// everywhere: an administrator who moves or restores clusters (config/policy). Changes take effect at once.
	// +optional
	ClaimRef *InventoryClaim `json:"claimRef,omitempty"`
}

// ProvisionedVM is what was decided for a VM before it was made.
type ProvisionedVM struct {
	// provisionName is the name of the provision of the OLVMInventory.
	// +required
	// +kubebuilder:validation:MaxLength=40
	ProvisionName LabelName `json:"provisionName,omitempty"`

	// machineTemplateName is the name of the OLVMMachineTemplate that the VM is made of.
	// +required
	MachineTemplateName infrav1.ObjectName `json:"machineTemplateName,omitempty"`

	// hostName is the name of the only host of the VM; omitted if it may run on several.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	HostName string `json:"hostName,omitempty"`

	// nics are the network interfaces of the VM for which something was decided; omitted if nothing was.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	NICs []ProvisionedNIC `json:"nics,omitempty"`
}

// ProvisionedNIC is what was decided for a network interface of a VM.
type ProvisionedNIC struct {
	// name of the network interface in the engine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	Name string `json:"name,omitempty"`

	// networkName is the network of the interface, as the template names it; omitted if the template does not name it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	NetworkName string `json:"networkName,omitempty"`

	// macAddress of the network interface; omitted if it is one of the engine's pool.
	// +optional
	MACAddress infrav1.MACAddress `json:"macAddress,omitempty"`

	// ipAddresses that the guest gets; omitted if the template says where they come from.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=45
	IPAddresses []string `json:"ipAddresses,omitempty"`
}

// InventoryClaim is the claim on a VM.
type InventoryClaim struct {
	// id of the claim, which the engine's tag of the VM has too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9_-]+$')`,message="write the id of a claim: letters, digits, dashes and underscores"
	ID string `json:"id,omitempty"`

	// clusterName is the name of the Cluster in the same namespace.
	// +required
	ClusterName infrav1.ObjectName `json:"clusterName,omitempty"`

	// role is ControlPlane or Worker.
	// +required
	// +kubebuilder:validation:Enum=ControlPlane;Worker
	Role string `json:"role,omitempty"`

	// group of machines for which the VM was claimed: kind and name of what makes them, such as
	// MachineSet/demo-md-0-x7k2p.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	Group string `json:"group,omitempty"`

	// machineName is the name of the OLVMMachine; omitted while the VM is reserved for one that does not exist yet.
	// +optional
	MachineName infrav1.ObjectName `json:"machineName,omitempty"`

	// released is true once the machine has let the VM go: it is recycled, and the claim ends. Only the manager writes
	// it; the annotation infrastructure.cluster.x-k8s.io/olvm-release-claim asks it to. Omitted before.
	// +optional
	Released bool `json:"released,omitempty"`
}

// OLVMInventoryVMStatus is what the engine has of the VM.
type OLVMInventoryVMStatus struct {
	// conditions of the VM: Ready, which is true if the VM can be claimed or serves who has claimed it, with the reason
	// of the phase; and of a VM that is made for the pool: InfrastructureApplied, Paused, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// terraform is about the runs that make and delete the VM.
	// +optional
	Terraform *infrav1.TerraformStatus `json:"terraform,omitempty"`

	// phase is Available, Claimed, Recycling or Ineligible.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Phase string `json:"phase,omitempty"`
	// reason of the phase, in one word; empty where it needs none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// message says more.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
	// claimID is the id of the claim that the engine has confirmed; empty before.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`
	// vmName is the name of the VM in the engine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VMName string `json:"vmName,omitempty"`
	// vmStatus is the VM's status as the engine spells it, such as down.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VMStatus string `json:"vmStatus,omitempty"`
	// hostName is the name of the host that the VM runs on, or the only one that it is bound to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	HostName string `json:"hostName,omitempty"`
	// vmTemplateName is the name of the VM's template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VMTemplateName string `json:"vmTemplateName,omitempty"`
	// networks of the VM, with the addresses that it is configured with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []InventoryNetwork `json:"networks,omitempty"`
}

// InventoryNetwork is a network of a VM.
type InventoryNetwork struct {
	// name of the network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// ipAddresses of the VM on it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	IPAddresses []string `json:"ipAddresses,omitempty"`
}

// OLVMInventoryVM is one VM of an OLVMInventory. Its labels say what and where it is.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:resource:path=olvminventoryvms,scope=Namespaced,shortName=olvmivm
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Inventory",type=string,JSONPath=`.spec.inventoryName`,description="OLVMInventory that lists it"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if it can be claimed or serves who has claimed it"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Available, Claimed, Recycling or Ineligible"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,description="Why"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.claimRef.clusterName`,description="Cluster that has it"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.claimRef.machineName`,description="OLVMMachine that has it"
// +kubebuilder:printcolumn:name="VMStatus",type=string,JSONPath=`.status.vmStatus`,description="Status of the VM in the engine"
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.hostName`,description="Host that it runs on or is bound to"
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.status.vmName`,description="Name of the VM in the engine",priority=2
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OLVMInventoryVM struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec names the VM and who has it.
	// +required
	// +kubebuilder:validation:XValidation:rule="(!has(oldSelf.vmID) || has(self.vmID) && self.vmID == oldSelf.vmID) && self.inventoryName == oldSelf.inventoryName",message="vmID and inventoryName are immutable"
	// +kubebuilder:validation:XValidation:rule="has(oldSelf.fromProvision) == has(self.fromProvision) && (!has(self.fromProvision) || self.fromProvision == oldSelf.fromProvision)",message="fromProvision is immutable: a VM that was made is made again when the object is deleted, and one that others made is never the manager's to delete"
	// +kubebuilder:validation:XValidation:rule="has(self.vmID) || has(self.fromProvision)",message="vmID says which VM it is"
	Spec OLVMInventoryVMSpec `json:"spec,omitempty,omitzero"`

	// status is what the controller has observed.
	// +optional
	Status OLVMInventoryVMStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (v *OLVMInventoryVM) GetConditions() []metav1.Condition { return v.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (v *OLVMInventoryVM) SetConditions(conditions []metav1.Condition) {
	v.Status.Conditions = conditions
}

// OLVMInventoryVMList is a list of OLVMInventoryVMs.
// +kubebuilder:object:root=true
type OLVMInventoryVMList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMInventoryVM `json:"items"`
}
