package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// MachineFinalizer lets the OLVMMachine outlive its VM.
	MachineFinalizer = "olvmmachine.infrastructure.cluster.x-k8s.io"

	// IPv4AddressAnnotation records the IPv4 address that was allocated for an OLVMMachine from its ranges.
	// An annotation, because clusterctl move keeps annotations and drops status.
	IPv4AddressAnnotation = "infrastructure.cluster.x-k8s.io/olvm-ipv4-address"

	// CreateRequestedAnnotation records the name of the VM before the first run that may create it. While it is there,
	// a deletion looks for the VM in the engine, whatever else was lost.
	CreateRequestedAnnotation = "infrastructure.cluster.x-k8s.io/olvm-create-requested"
)

// OLVMMachineSpec is what an OLVMMachine asks for.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || oldSelf.providerID == \"\" || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is immutable once set: it names the VM of this machine"
type OLVMMachineSpec struct {
	// providerID is olvm://<UUID of the VM>; written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// olvmOvirtClusterName is the name of the engine's cluster in which the VM is made.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	OLVMOvirtClusterName string `json:"olvmOvirtClusterName,omitempty"`

	// vmTemplateName is the name of the engine's template from which the VM is made.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VMTemplateName string `json:"vmTemplateName,omitempty"`

	// olvmNetwork names the network and the vNIC profile of the VM's network interface.
	// +required
	OLVMNetwork OLVMNetwork `json:"olvmNetwork,omitempty,omitzero"`

	// virtualMachine sizes the VM and configures its network.
	// +required
	VirtualMachine VirtualMachine `json:"virtualMachine,omitempty,omitzero"`
}

// OLVMNetwork names a network of the data center and one of its vNIC profiles.
type OLVMNetwork struct {
	// networkName is the name of the network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	NetworkName string `json:"networkName,omitempty"`

	// vnicName is the name of the VM's network interface in the engine. Empty means nic1.
	// +optional
	// +kubebuilder:validation:MaxLength=50
	VNICName string `json:"vnicName,omitempty"`

	// vnicProfileName is the name of the vNIC profile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VNICProfileName string `json:"vnicProfileName,omitempty"`
}

// VirtualMachine sizes a VM and configures its network.
type VirtualMachine struct {
	// memory of the VM, a number with a unit: 16GB or 16GiB (both 16 * 2^30 bytes), 7680MB.
	// A value that cannot be read is reported by the InfrastructureApplied condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Memory string `json:"memory,omitempty"`

	// cpu of the VM.
	// +optional
	CPU CPU `json:"cpu,omitempty,omitzero"`

	// network configuration of the guest.
	// +required
	Network GuestNetwork `json:"network,omitempty,omitzero"`

	// placement of the VM on hosts.
	// +optional
	Placement Placement `json:"placement,omitempty,omitzero"`
}

// CPU is the virtual processor of a VM.
type CPU struct {
	// architecture of the CPU. Empty means x86_64.
	// +optional
	// +kubebuilder:validation:Enum="";x86_64;amd64;aarch64;arm64;ppc64;s390x
	Architecture string `json:"architecture,omitempty"`

	// topology of the CPU.
	// +optional
	Topology CPUTopology `json:"topology,omitempty,omitzero"`
}

// CPUTopology divides the virtual processor. Zero means the default.
type CPUTopology struct {
	// cores per socket. 0 means 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=254
	Cores int32 `json:"cores,omitempty"`

	// sockets. 0 means 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Sockets int32 `json:"sockets,omitempty"`

	// threads per core. 0 means 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	Threads int32 `json:"threads,omitempty"`
}

// GuestNetwork is the network configuration of the guest.
type GuestNetwork struct {
	// gateway is the default route. Empty means the first address of the IPv4 subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	Gateway string `json:"gateway,omitempty"`

	// interface is the guest's name of the network interface. Empty means enp1s0.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface,omitempty"`

	// interfaceType is the emulated hardware of the network interface. Empty means virtio.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	InterfaceType string `json:"interfaceType,omitempty"`

	// ipv4 is the pool of static IPv4 addresses.
	// +optional
	IPv4 *IPv4Network `json:"ipv4,omitempty"`

	// ipv6 configures IPv6.
	// +optional
	IPv6 *IPv6Network `json:"ipv6,omitempty"`
}

// IPv4Network is a subnet and the addresses in it that machines may take.
type IPv4Network struct {
	// subnet in CIDR notation, for example 10.20.30.0/24.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet,omitempty"`

	// ipAddresses that machines may take: single addresses, inclusive ranges a-b, and CIDR blocks
	// (from the address that is written to the end of its block). The subnet's network and broadcast addresses,
	// the gateway and the control plane endpoint are never given to a machine.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=91
	IPAddresses []string `json:"ipAddresses,omitempty"`
}

// IPv6Network configures IPv6 in the guest.
type IPv6Network struct {
	// autoConf lets the guest configure itself from router advertisements (SLAAC).
	// +optional
	AutoConf bool `json:"autoConf,omitempty"`

	// ipAddresses that machines may take: single addresses and inclusive ranges a-b.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=91
	IPAddresses []string `json:"ipAddresses,omitempty"`
}

// OLVMMachineStatus is what the controller saw.
type OLVMMachineStatus struct {
	// conditions of the OLVMMachine: Ready, BootstrapDataAvailable, AddressesAllocated, InfrastructureApplied,
	// VirtualMachineRunning, Paused, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the first provisioning, as the Cluster API contract asks.
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

	// terraform reports the last Terraform run for this machine.
	// +optional
	Terraform *TerraformStatus `json:"terraform,omitempty"`
}

// OLVMMachineInitializationStatus reports the first provisioning.
// +kubebuilder:validation:MinProperties=1
type OLVMMachineInitializationStatus struct {
	// provisioned is true once the VM was up with its address; it never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// OLVMStatus is the engine's view of a machine.
type OLVMStatus struct {
	// clusterID is the engine's UUID of the cluster.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// clusterName is the name of the engine's cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
	// ipAddress is the IPv4 address of the machine.
	// +optional
	IPAddress string `json:"ipAddress,omitempty"`
	// networkID is the engine's UUID of the network.
	// +optional
	NetworkID string `json:"networkID,omitempty"`
	// networkName is the name of the network.
	// +optional
	NetworkName string `json:"networkName,omitempty"`
	// vmTemplateID is the engine's UUID of the template.
	// +optional
	VMTemplateID string `json:"vmTemplateID,omitempty"`
	// vmTemplateName is the name of the template.
	// +optional
	VMTemplateName string `json:"vmTemplateName,omitempty"`
	// vnicID is the engine's UUID of the VM's network interface.
	// +optional
	VNICID string `json:"vnicID,omitempty"`
	// vnicName is the name of the VM's network interface.
	// +optional
	VNICName string `json:"vnicName,omitempty"`
	// vnicProfileID is the engine's UUID of the vNIC profile.
	// +optional
	VNICProfileID string `json:"vnicProfileID,omitempty"`
	// vnicProfileName is the name of the vNIC profile.
	// +optional
	VNICProfileName string `json:"vnicProfileName,omitempty"`
	// virtualMachine is the VM.
	// +optional
	VirtualMachine VirtualMachineStatus `json:"virtualMachine,omitempty,omitzero"`
}

// VirtualMachineStatus is the engine's view of a VM.
type VirtualMachineStatus struct {
	// vmID is the engine's UUID of the VM.
	// +optional
	VMID string `json:"vmID,omitempty"`
	// vmName is its name.
	// +optional
	VMName string `json:"vmName,omitempty"`
	// status is the VM's status as the engine spells it, for example up.
	// +optional
	Status string `json:"status,omitempty"`
	// creationStatus is Requested, Created or Failed.
	// +optional
	CreationStatus string `json:"creationStatus,omitempty"`
	// creationError is the error of the last attempt to create the VM.
	// +optional
	CreationError string `json:"creationError,omitempty"`
	// createRequestSubmitted is true once a run that creates the VM was started.
	// +optional
	CreateRequestSubmitted bool `json:"createRequestSubmitted,omitempty"`
	// lastGeneration is the generation of the spec that was applied last.
	// +optional
	LastGeneration string `json:"lastGeneration,omitempty"`
}

// TerraformStatus reports the Terraform runs of a machine.
type TerraformStatus struct {
	// stateSecret is the name of the Secret that holds the Terraform state.
	// +optional
	StateSecret string `json:"stateSecret,omitempty"`
	// runs counts the runs since the object was created or moved here.
	// +optional
	Runs int64 `json:"runs,omitempty"`
	// failures counts the runs that failed since the last one that succeeded.
	// +optional
	Failures int64 `json:"failures,omitempty"`
	// lastRun is the run that ended last.
	// +optional
	LastRun *TerraformRun `json:"lastRun,omitempty"`
}

// TerraformRun is one execution of Terraform.
type TerraformRun struct {
	// operation is Apply or Destroy.
	// +required
	Operation string `json:"operation,omitempty"`
	// result is Succeeded, Failed or Refused.
	// +required
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
}

// OLVMMachine is a VM on Oracle Linux Virtualization Manager or oVirt that becomes a node.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=olvmmachines,scope=Namespaced,categories=cluster-api,shortName=olvmm
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if the VM runs"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not ready"
// +kubebuilder:printcolumn:name="VMIPAddress",type=string,JSONPath=`.status.olvm.ipAddress`,description="Address of the VM"
// +kubebuilder:printcolumn:name="VMStatus",type=string,JSONPath=`.status.olvm.virtualMachine.status`,description="Status of the VM in the engine"
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.virtualMachine.memory`,priority=2
// +kubebuilder:printcolumn:name="Cores",type=integer,JSONPath=`.spec.virtualMachine.cpu.topology.cores`,priority=2
// +kubebuilder:printcolumn:name="Sockets",type=integer,JSONPath=`.spec.virtualMachine.cpu.topology.sockets`,priority=2
type OLVMMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is asked for.
	// +required
	Spec OLVMMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what was seen.
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

// OLVMMachineTemplateSpec holds the template of a machine.
// +kubebuilder:validation:XValidation:rule="self.template.spec == oldSelf.template.spec",message="spec.template.spec is immutable: create a new OLVMMachineTemplate and refer to it, then the machines roll out"
type OLVMMachineTemplateSpec struct {
	// template of the OLVMMachines to create.
	// +required
	Template OLVMMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// OLVMMachineTemplateResource is metadata and spec of an OLVMMachine to create.
type OLVMMachineTemplateResource struct {
	// metadata is added to the OLVMMachine.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of the OLVMMachine.
	// +required
	Spec OLVMMachineSpec `json:"spec,omitempty,omitzero"`
}

// OLVMMachineTemplate is the template from which a control plane or a MachineDeployment makes OLVMMachines.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=olvmmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=olvmmt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.spec.vmTemplateName`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.template.spec.virtualMachine.memory`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OLVMMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is asked for.
	// +required
	Spec OLVMMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// OLVMMachineTemplateList is a list of OLVMMachineTemplates.
// +kubebuilder:object:root=true
type OLVMMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMMachineTemplate `json:"items"`
}
