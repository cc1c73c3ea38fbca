package v1

// AffinityEnforcing reports whether a VM that cannot keep the rule of its affinity group may run.
// +kubebuilder:validation:Enum=Auto;Always;Never
type AffinityEnforcing string

// The ways to enforce an affinity group.
const (
	// AffinityAuto is hard while there is a host for each machine, and soft otherwise.
	AffinityAuto AffinityEnforcing = "Auto"
	// AffinityAlways is hard: a machine for which there is no host is not created.
	AffinityAlways AffinityEnforcing = "Always"
	// AffinityNever is soft: the engine keeps the rule as far as it can.
	AffinityNever AffinityEnforcing = "Never"
)

// The roles of machines, as untyped text.
const (
	RoleControlPlane = "ControlPlane"
	RoleWorker       = "Worker"
)

// MachineRole is what a machine is in its cluster.
// +kubebuilder:validation:Enum=ControlPlane;Worker
type MachineRole string

// The roles of machines.
const (
	ControlPlaneRole MachineRole = "ControlPlane"
	WorkerRole       MachineRole = "Worker"
)

// AffinityGroup keeps VMs of a cluster on different hosts, or together on one. The engine gets one group of it in each
// of its clusters in which machines of the group live.
type AffinityGroup struct {
	// name of the group; unique within the OLVMCluster. In the engine it is called NAMESPACE_CLUSTER_NAME_ID: ID is the
	// first eight characters of the UUID of the engine's cluster.
	// +required
	Name LabelName `json:"name,omitempty"`

	// role of the machines that are in the group without naming it. If omitted, only machines that name the group in
	// spec.virtualMachine.placement.affinityGroupNames are in it.
	// +optional
	Role MachineRole `json:"role,omitempty"`

	// priority of the group among others, the higher the more important. If omitted, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`

	// enforcing of the rule. Auto is hard while every machine of the group has a host of its own, and soft with a
	// condition when hosts are too few. It changes as hosts and machines come and go, without restarting a VM. A
	// positive group is soft with Auto: whether one host has room for all is not known beforehand. If omitted, it is
	// Auto.
	// +optional
	Enforcing AffinityEnforcing `json:"enforcing,omitempty"`

	// positive keeps the machines together on one host. If omitted or false, they are kept apart.
	// +optional
	Positive bool `json:"positive,omitempty"`

	// description of the group in the engine; the mark of its owner is added. If omitted, the mark is all of it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
}

// AffinityGroupStatus is an affinity group in the engine.
type AffinityGroupStatus struct {
	// name of the group in the spec, or of a default one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// olvmOvirtClusterID is the engine's UUID of the cluster in which the group is.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	OLVMOvirtClusterID string `json:"olvmOvirtClusterID,omitempty"`
	// id is the engine's UUID of the group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
	// enforced is true while the rule is hard.
	// +optional
	Enforced *bool `json:"enforced,omitempty"`
	// machineCount counts the machines of the group.
	// +optional
	MachineCount int32 `json:"machineCount,omitempty"`
	// hostCount counts the hosts of the engine's cluster that are up.
	// +optional
	HostCount int32 `json:"hostCount,omitempty"`
}

// OLVMFailureDomain is a part of the engine's site that fails independently of others: a cluster of hosts, or some of
// its hosts.
type OLVMFailureDomain struct {
	// name of the domain, as machines name it in spec.failureDomain.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// controlPlane says whether control plane machines are spread over this domain. If omitted, they are. Changes take
	// effect at once.
	// +optional
	ControlPlane *bool `json:"controlPlane,omitempty"`

	// olvmOvirtClusterName is the name of the engine's cluster. If omitted, it is the one that the machine names in
	// olvmOvirtClusterName.
	// +optional
	OLVMOvirtClusterName EngineName `json:"olvmOvirtClusterName,omitempty"`

	// storageDomainName is the storage domain of the disks of the domain's machines that do not name one. Disks of a
	// template that are on another storage domain are copied. If omitted, disks are where the template's are. Changes
	// take effect on new machines.
	// +optional
	StorageDomainName EngineName `json:"storageDomainName,omitempty"`

	// hosts of that cluster on which the VMs of the domain run. If omitted, they run on any. Changes take effect at
	// once.
	// +optional
	Hosts FailureDomainHosts `json:"hosts,omitempty,omitzero"`
}

// IsForControlPlane reports whether control plane machines are spread over this domain.
func (d OLVMFailureDomain) IsForControlPlane() bool { return d.ControlPlane == nil || *d.ControlPlane }

// FailureDomainHosts are hosts by their names or by an affinity label that they have.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.affinityLabel)",message="name the hosts either by names or by affinityLabel"
type FailureDomainHosts struct {
	// names of the hosts. If omitted, affinityLabel says which they are.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	Names []EngineName `json:"names,omitempty"`

	// affinityLabel is the name of an affinity label of the engine. Hosts that get it later belong to the domain too.
	// If omitted, names says which they are.
	// +optional
	// +kubebuilder:validation:MinLength=1
	AffinityLabel EngineName `json:"affinityLabel,omitempty"`
}

// Placement says where a VM runs.
// +kubebuilder:validation:MinProperties=1
type Placement struct {
	// hostNames are the hosts on which the VM may run. They exclude a failure domain that names hosts. If omitted, it
	// runs on any host of its cluster or its failure domain.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	HostNames []EngineName `json:"hostNames,omitempty"`

	// affinityGroupNames are groups of OLVMCluster spec.affinityGroups in which the VM is, besides those of its role.
	// If omitted, it is in those of its role alone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AffinityGroupNames []LabelName `json:"affinityGroupNames,omitempty"`
}
