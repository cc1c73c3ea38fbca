package v1

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// ReadyCondition summarises every other condition of an object. Cluster API
// mirrors it: to Cluster.status InfrastructureReady, and to Machine.status
// InfrastructureReady.
const ReadyCondition = clusterv1.ReadyCondition

// DeletingCondition is true while an object is being deleted; its message
// says what the deletion waits for. Negative polarity.
const (
	DeletingCondition = clusterv1.DeletingCondition

	// NotDeletingReason surfaces when the object is not being deleted.
	NotDeletingReason = clusterv1.NotDeletingReason
	// DeletingReason surfaces when the deletion goes its way.
	DeletingReason = clusterv1.DeletingReason
	// WaitingForMachinesDeletionReason surfaces when an OLVMCluster waits for its machines to go first.
	WaitingForMachinesDeletionReason = "WaitingForMachinesDeletion"
	// WaitingForTerraformReason surfaces when a run must end before the deletion can go on.
	WaitingForTerraformReason = "WaitingForTerraform"
	// WaitingForGuestShutdownReason surfaces while the guest shuts down by itself, as spec.virtualMachine.shutdown
	// asks.
	WaitingForGuestShutdownReason = "WaitingForGuestShutdown"
	// DeletionFailedReason surfaces when the last attempt to delete the VM failed; it is tried again.
	DeletionFailedReason = "DeletionFailed"
	// DeletionBlockedReason surfaces when deleting would touch what is not ours; a person must look.
	DeletionBlockedReason = "DeletionBlocked"
)

// EngineAvailableCondition is true if the last call to the engine named by
// the OLVMCluster succeeded with its credentials, and its data center exists.
const (
	EngineAvailableCondition = "EngineAvailable"

	// EngineAvailableReason surfaces when the engine answers and the data center exists.
	EngineAvailableReason = "EngineAvailable"
	// CredentialsNotFoundReason surfaces when the credentials Secret is missing or lacks a key.
	CredentialsNotFoundReason = "CredentialsNotFound"
	// CredentialsNotAllowedReason surfaces when the credentials Secret of another namespace does not allow this one.
	CredentialsNotAllowedReason = "CredentialsNotAllowed"
	// EngineNotAllowedReason surfaces when the credentials Secret does not name the engine among those to which it may
	// be sent.
	EngineNotAllowedReason = "EngineNotAllowed"
	// NoNamespaceAllowedReason surfaces on an OLVMClusterIdentity that allows no namespace, or has an invalid selector.
	NoNamespaceAllowedReason = "NoNamespaceAllowed"
	// CAConfigMapInvalidReason surfaces when the CA ConfigMap is missing or holds no certificate.
	CAConfigMapInvalidReason = "CAConfigMapInvalid"
	// AuthenticationFailedReason surfaces when the engine refuses the user name or password.
	AuthenticationFailedReason = "AuthenticationFailed"
	// NotAnAdministratorReason surfaces when the engine's user has no administrator role.
	NotAnAdministratorReason = "NotAnAdministrator"
	// UntrustedCertificateReason surfaces when the engine's certificate is refused; the message says why.
	UntrustedCertificateReason = "UntrustedCertificate"
	// EngineUnreachableReason surfaces when the engine cannot be reached or answers with an error of its own.
	EngineUnreachableReason = "EngineUnreachable"
	// EngineChangedReason surfaces when serverURL leads to another engine, or olvmDatacenterName to another data
	// center, than the one on which the machines are.
	EngineChangedReason = "EngineChanged"
	// EngineRestoredReason surfaces when the engine has forgotten events that were seen: its database was restored.
	EngineRestoredReason = "EngineRestored"
	// DataCenterNotFoundReason surfaces when the engine has no data center of that name.
	DataCenterNotFoundReason = "DataCenterNotFound"
)

// EndpointConfiguredCondition is true if the OLVMCluster has a usable control
// plane endpoint.
const (
	EndpointConfiguredCondition = "ControlPlaneEndpointConfigured"

	// EndpointConfiguredReason surfaces when host and port are set.
	EndpointConfiguredReason = "ControlPlaneEndpointConfigured"
	// EndpointMissingReason surfaces when neither the OLVMCluster nor the Cluster names an endpoint.
	EndpointMissingReason = "ControlPlaneEndpointMissing"
	// EndpointsDifferReason surfaces when the Cluster and the OLVMCluster name different endpoints.
	EndpointsDifferReason = "ControlPlaneEndpointsDiffer"
	// EndpointInUseReason surfaces when a virtual address of the cluster is that of another cluster or machine.
	EndpointInUseReason = "ControlPlaneEndpointInUse"
	// WaitingForLoadBalancerReason surfaces before the OLVMCluster is provisioned, when a load balancer of its
	// OLVMSupportServices has the endpoint and none of its VMs serves it yet.
	WaitingForLoadBalancerReason = "WaitingForLoadBalancer"
	// SharedByClustersReason surfaces when several Clusters name the OLVMCluster in spec.infrastructureRef. The
	// admission policy capolvm-shared-olvmcluster refuses the deletion of an OLVMCluster with this reason.
	SharedByClustersReason = "SharedByClusters"
	// ControlPlaneServicesInvalidReason surfaces when controlPlaneServices cannot make the endpoint.
	ControlPlaneServicesInvalidReason = "ControlPlaneServicesInvalid"
	// VirtualRouterIDInUseReason surfaces when another cluster of the engine has the virtual router ID that is asked
	// for.
	VirtualRouterIDInUseReason = "VirtualRouterIDInUse"
)

// KubeconfigAcceptedCondition is true if the manager uses the kubeconfig
// Secret of the cluster: it has the cluster's endpoint and its credentials in
// it, and names no files, programs or proxies. It is absent while there is no
// such Secret.
const (
	KubeconfigAcceptedCondition = "KubeconfigAccepted"

	// KubeconfigAcceptedReason surfaces when the kubeconfig is used.
	KubeconfigAcceptedReason = "KubeconfigAccepted"
	// KubeconfigRefusedReason surfaces when the kubeconfig is not used; the message names the field.
	KubeconfigRefusedReason = "KubeconfigRefused"
)

// AffinitySatisfiedCondition is true if every affinity group exists in the
// engine and is as hard as it is meant to be. Too few hosts for a group that
// may be soft is no reason for the OLVMCluster not to be ready.
const (
	AffinitySatisfiedCondition = "AffinitySatisfied"

	// AffinitySatisfiedReason surfaces when all groups are as they are meant to be.
	AffinitySatisfiedReason = "AffinitySatisfied"
	// NoAffinityGroupsReason surfaces when the OLVMCluster asks for no groups, or no machine is in one yet.
	NoAffinityGroupsReason = "NoAffinityGroups"
	// InsufficientHostsReason surfaces when a group with enforcing Auto is soft because hosts are too few.
	InsufficientHostsReason = "InsufficientHosts"
	// EnforcementImpossibleReason surfaces when a group with enforcing Always has more machines than hosts. On an
	// OLVMMachine it reports that the VM is not created because of that.
	EnforcementImpossibleReason = "EnforcementImpossible"
	// AffinityGroupConflictReason surfaces when the engine has a group of our name that is not ours.
	AffinityGroupConflictReason = "AffinityGroupConflict"
	// AffinityGroupNotFoundReason surfaces when a machine names a group that the OLVMCluster does not have.
	AffinityGroupNotFoundReason = "AffinityGroupNotFound"
	// WaitingForAffinityGroupReason surfaces when a machine waits for its affinity group to be made, or to make room.
	WaitingForAffinityGroupReason = "WaitingForAffinityGroup"
)

// FailureDomainsAvailableCondition is true if the cluster and the hosts of
// every failure domain exist in the engine.
const (
	FailureDomainsAvailableCondition = "FailureDomainsAvailable"

	// FailureDomainsAvailableReason surfaces when all domains can be used.
	FailureDomainsAvailableReason = "FailureDomainsAvailable"
	// FailureDomainInvalidReason surfaces when the cluster or the hosts of a domain do not exist.
	FailureDomainInvalidReason = "FailureDomainInvalid"
	// FailureDomainNotFoundReason surfaces when a Machine names a domain that the OLVMCluster does not have.
	FailureDomainNotFoundReason = "FailureDomainNotFound"
	// HostNotFoundReason surfaces when the engine's cluster has no host of that name.
	HostNotFoundReason = "HostNotFound"
	// PlacementInvalidReason surfaces when the places that are asked for exclude each other.
	PlacementInvalidReason = "PlacementInvalid"
)

// These reasons are of the Ready condition of an OLVMSupportServices, and of each of its services.
const (
	// SupportServicesProgressingReason surfaces while VMs are made or replaced, or have not used the latest
	// configuration yet.
	SupportServicesProgressingReason = "Progressing"
	// InfraServiceFailureReason surfaces when a service cannot be made as it is asked for, or its VM has refused a
	// configuration.
	InfraServiceFailureReason = "InfraServiceFailure"
	// NoClusterReason surfaces when there is no Cluster of that name.
	NoClusterReason = "NoCluster"
	// ClusterOfOtherProviderReason surfaces when the Cluster has other infrastructure than an OLVMCluster.
	ClusterOfOtherProviderReason = "ClusterOfOtherProvider"
)

// ScheduledCondition is true if an OLVMInventory has VMs for all machines that
// want one of it.
const (
	ScheduledCondition = "Scheduled"

	// ScheduledReason surfaces when each machine has its VM.
	ScheduledReason = "Scheduled"
	// UnschedulableReason surfaces when a group of machines wants more VMs than can be claimed. None is claimed for it.
	UnschedulableReason = "Unschedulable"
	// WaitingForClaimsReason surfaces when the deletion of an OLVMInventory, or of an OLVMCluster with VMs of one,
	// waits for the claims on VMs to end.
	WaitingForClaimsReason = "WaitingForClaims"
)

// ProvisionedCondition is true if an OLVMInventory has all VMs that it makes.
// One that makes none does not have the condition.
const (
	ProvisionedCondition = "Provisioned"

	// ProvisionedReason surfaces when all VMs are made.
	ProvisionedReason = "Provisioned"
	// ProvisioningReason surfaces while VMs are made or deleted.
	ProvisioningReason = "Provisioning"
	// ProvisionFailedReason surfaces when a VM could not be made or deleted, or the engine refused what VMs need.
	ProvisionFailedReason = "ProvisionFailed"
	// ProvisionInvalidReason surfaces when VMs cannot be made as spec.provision and its templates say.
	ProvisionInvalidReason = "ProvisionInvalid"
	// MachineTemplateNotFoundReason surfaces when there is no OLVMMachineTemplate of that name.
	MachineTemplateNotFoundReason = "MachineTemplateNotFound"
	// MACAddressesExhaustedReason surfaces when all MAC addresses of a provision are in use.
	MACAddressesExhaustedReason = "MACAddressesExhausted"
	// WaitingForMoveReason surfaces while a Cluster of the namespace is paused, as clusterctl move has it: VMs are
	// neither made nor deleted then.
	WaitingForMoveReason = "WaitingForMove"
)

// VirtualMachineClaimedCondition is true if an OLVMMachine that takes its VM
// from an OLVMInventory has one. Other machines do not have the condition.
const (
	VirtualMachineClaimedCondition = "VirtualMachineClaimed"

	// VirtualMachineClaimedReason surfaces when the machine has its VM.
	VirtualMachineClaimedReason = "VirtualMachineClaimed"
	// WaitingForClaimReason surfaces when the inventory has not decided yet, or the engine has not confirmed it.
	WaitingForClaimReason = "WaitingForClaim"
	// UnableToDecommissionReason surfaces when a machine or an inventory that is deleted cannot give a VM back, because
	// the engine is away. It goes on when the engine is back.
	UnableToDecommissionReason = "UnableToDecommission"
	// InventoryNotFoundReason surfaces when there is no OLVMInventory of that name.
	InventoryNotFoundReason = "InventoryNotFound"
	// InventoryInvalidReason surfaces when the OLVMInventory cannot be used, or is of another engine.
	InventoryInvalidReason = "InventoryInvalid"
)

// BootstrapDataAvailableCondition is true if the bootstrap provider has made
// the data with which the VM becomes a node.
const (
	BootstrapDataAvailableCondition = "BootstrapDataAvailable"

	// BootstrapDataAvailableReason surfaces when the bootstrap Secret can be read.
	BootstrapDataAvailableReason = "BootstrapDataAvailable"
	// NoMachineReason surfaces when no Machine of an existing Cluster owns the OLVMMachine.
	NoMachineReason = "NoMachine"
	// WaitingForClusterInfrastructureReason surfaces when the OLVMCluster is not provisioned yet.
	WaitingForClusterInfrastructureReason = clusterv1.WaitingForClusterInfrastructureReadyReason
	// WaitingForBootstrapDataReason surfaces when the Machine has no bootstrap Secret yet.
	WaitingForBootstrapDataReason = clusterv1.WaitingForBootstrapDataReason
	// BootstrapDataInvalidReason surfaces when the bootstrap data cannot be used for this VM.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"
)

// AddressesAllocatedCondition is true if the addresses of the machine are known.
const (
	AddressesAllocatedCondition = "AddressesAllocated"

	// AddressesAllocatedReason surfaces when they are recorded on the OLVMMachine, or reported by its guest.
	AddressesAllocatedReason = "AddressesAllocated"
	// AddressRangeInvalidReason surfaces when subnet, gateway or a range cannot be parsed or contradict each other.
	AddressRangeInvalidReason = "AddressRangeInvalid"
	// AddressRangeExhaustedReason surfaces when every address of the ranges is in use.
	AddressRangeExhaustedReason = "AddressRangeExhausted"
	// IPProfileNotFoundReason surfaces when the OLVMCluster has no IP profile of that name.
	IPProfileNotFoundReason = "IPProfileNotFound"
	// WaitingForIPAddressesReason surfaces when an IPAM provider has not given an address yet. In InfrastructureApplied
	// it surfaces when not all addresses are there; AddressesAllocated has the cause.
	WaitingForIPAddressesReason = "WaitingForIPAddresses"
	// WaitingForGuestAddressesReason surfaces when the guest has not reported an address that it gets by DHCP or SLAAC.
	WaitingForGuestAddressesReason = "WaitingForGuestAddresses"
	// IPAddressConflictReason surfaces when an IPAM provider gave an address that another machine, or the control plane
	// endpoint, has.
	IPAddressConflictReason = "IPAddressConflict"
	// EndpointInAddressRangeReason surfaces when the control plane endpoint lies inside the machine ranges.
	EndpointInAddressRangeReason = "ControlPlaneEndpointInAddressRange"
)

// UpToDateCondition is true if the VM is what the spec of its OLVMMachine asks for. It is no part of Ready: an edit
// that is invalid, that is refused or that waits leaves a healthy node as it is. Before the VM is made, it has the
// reason of InfrastructureApplied; after that, it has the reasons of an edit that is not applied.
const (
	UpToDateCondition = "UpToDate"

	// UpToDateReason surfaces when the VM is what the spec asks for. The message says if a later change could not be
	// applied, because the engine has lost a name of the spec.
	UpToDateReason = "UpToDate"
	// WaitingForRestartReason surfaces when the engine keeps settings of the spec for the next start of the VM.
	WaitingForRestartReason = "WaitingForRestart"
)

// InfrastructureAppliedCondition is true if a Terraform run has applied a spec in full. Its observedGeneration is that
// of the last spec that was applied; UpToDate says whether this is the spec of now.
const (
	InfrastructureAppliedCondition = "InfrastructureApplied"

	// AppliedReason surfaces when a spec of the machine has been applied.
	AppliedReason = "Applied"
	// ApplyingReason surfaces while a run is queued or going.
	ApplyingReason = "Applying"
	// ApplyFailedReason surfaces when the last run failed; it is tried again with a growing delay.
	ApplyFailedReason = "ApplyFailed"
	// WaitingForEngineReason surfaces when the OLVMCluster's engine is not available; see its conditions.
	WaitingForEngineReason = "WaitingForEngine"
	// InvalidMemoryReason surfaces when spec.virtualMachine.memory is not a quantity such as 16GB.
	InvalidMemoryReason = "InvalidMemory"
	// InvalidHardwareReason surfaces when options of spec.virtualMachine contradict each other or the template.
	InvalidHardwareReason = "InvalidHardware"
	// OperatingSystemNotFoundReason surfaces when the engine has no operating system of that name; it would make the VM
	// with another.
	OperatingSystemNotFoundReason = "OperatingSystemNotFound"
	// InstanceTypeNotFoundReason surfaces when the engine has no instance type of that name.
	InstanceTypeNotFoundReason = "InstanceTypeNotFound"
	// StorageDomainInactiveReason surfaces when a storage domain takes no disks, because it is in maintenance or fails.
	StorageDomainInactiveReason = "StorageDomainInactive"
	// StorageDomainNotFoundReason surfaces when the data center has no storage domain for disks of that name.
	StorageDomainNotFoundReason = "StorageDomainNotFound"
	// TagNotFoundReason surfaces when the engine has no tag of that name.
	TagNotFoundReason = "TagNotFound"
	// VMTemplateNotFoundReason surfaces when the engine has no template of that name.
	VMTemplateNotFoundReason = "VMTemplateNotFound"
	// OvirtClusterNotFoundReason surfaces when the engine has no cluster of that name in the data center.
	OvirtClusterNotFoundReason = "OvirtClusterNotFound"
	// NetworkNotFoundReason surfaces when the data center has no network of that name.
	NetworkNotFoundReason = "NetworkNotFound"
	// VNICProfileNotFoundReason surfaces when the network has no vNIC profile of that name.
	VNICProfileNotFoundReason = "VNICProfileNotFound"
	// VMNameConflictReason surfaces when the engine has a VM of our name that is not ours.
	VMNameConflictReason = "VMNameConflict"
	// VMNotOwnedReason surfaces when the provider ID, the state or the claim names a VM without the mark of the
	// machine, or when they name different VMs. The controller does not change these VMs.
	VMNotOwnedReason = "VMNotOwned"
	// ReplaceRefusedReason surfaces in UpToDate when the spec asks to delete or replace the VM of a live machine.
	ReplaceRefusedReason = "ReplaceRefused"
	// StateInvalidReason surfaces when the Terraform state cannot be used; it is never overwritten.
	StateInvalidReason = "StateInvalid"
	// StateTooLargeReason surfaces when the state does not fit into a Secret.
	StateTooLargeReason = "StateTooLarge"
	// TimedOutReason surfaces when a run was interrupted because it took longer than --terraform-timeout.
	TimedOutReason = "TimedOut"
	// WorkDirFullReason surfaces when the disk of the working directories is full.
	WorkDirFullReason = "WorkDirFull"
	// ExecutorKilledReason surfaces when Terraform was killed, most often because memory ran out.
	ExecutorKilledReason = "ExecutorKilled"
	// RenderFailedReason surfaces when no configuration can be rendered from the spec.
	RenderFailedReason = "RenderFailed"
)

// DriftDetectedCondition is true if the engine has something else than was applied. It is only there where checks are
// made, and nothing is undone because of it.
const (
	DriftDetectedCondition = "DriftDetected"

	// DriftDetectedReason surfaces when a check found differences.
	DriftDetectedReason = "DriftDetected"
	// NoDriftReason surfaces when a check found none.
	NoDriftReason = "NoDrift"
	// DriftCheckFailedReason surfaces when the check could not be made; it is tried again.
	DriftCheckFailedReason = "DriftCheckFailed"
)

// UserDataRemovedCondition is true if the user data of a VM, with its keys and tokens, was taken out of the engine and
// of the Terraform state, once its node had joined. It is no part of Ready. It is absent where user data is kept.
const (
	UserDataRemovedCondition = "UserDataRemoved"

	// UserDataRemovedReason surfaces when neither the engine nor the state has it any more.
	UserDataRemovedReason = "UserDataRemoved"
	// WaitingForNodeReason surfaces while the VM may still need its user data: it is no node yet.
	WaitingForNodeReason = "WaitingForNode"
	// UserDataNotRemovedReason surfaces when the engine or the API server refused; it is tried again.
	UserDataNotRemovedReason = "UserDataNotRemoved"
)

// VirtualMachineRunningCondition is true if the engine reports the VM as up.
const (
	VirtualMachineRunningCondition = "VirtualMachineRunning"

	// VirtualMachineRunningReason surfaces when the VM is up.
	VirtualMachineRunningReason = "VirtualMachineRunning"
	// WaitingForVirtualMachineReason surfaces before the VM exists.
	WaitingForVirtualMachineReason = "WaitingForVirtualMachine"
	// VirtualMachineStartingReason surfaces while the VM boots.
	VirtualMachineStartingReason = "VirtualMachineStarting"
	// VirtualMachineOutOfSightReason surfaces when the engine does not reach the VM or its host, so that the VM may
	// run.
	VirtualMachineOutOfSightReason = "VirtualMachineOutOfSight"
	// VirtualMachineNotRunningReason surfaces when the VM exists and is not up.
	VirtualMachineNotRunningReason = "VirtualMachineNotRunning"
	// VirtualMachineFailedReason surfaces when the engine proves that the VM cannot run: it is down, nobody shut it
	// down, and the engine does not start it again.
	VirtualMachineFailedReason = "VirtualMachineFailed"
	// VirtualMachineNotFoundReason surfaces when the VM was deleted behind the controller's back.
	// It is never created again under the same Machine: remediation replaces the Machine.
	VirtualMachineNotFoundReason = "VirtualMachineNotFound"
)

// Reasons of events on OLVMMachines that concern their Nodes.
const (
	// NodeNotRecognizedReason surfaces when a Node has the host name of a machine, no provider ID, and other addresses.
	NodeNotRecognizedReason = "NodeNotRecognized"
	// NodeFencedReason surfaces when a Node gets the taint out-of-service, and while a VM is not started because its
	// Node has it.
	NodeFencedReason = "NodeFenced"
	// NodeReleasedReason surfaces when a Node loses that taint.
	NodeReleasedReason = "NodeReleased"
	// ServingCertificateApprovedReason surfaces when the kubelet's request for a serving certificate was approved.
	ServingCertificateApprovedReason = "ServingCertificateApproved"
	// ServingCertificateNotApprovedReason surfaces when such a request is left to others.
	ServingCertificateNotApprovedReason = "ServingCertificateNotApproved"
)

// RemediatedCondition says how far the remediation of a machine is. It is never true: Cluster API deletes the
// OLVMRemediation of a machine when the machine is healthy again.
const RemediatedCondition = "Remediated"

// The reasons of the Remediated condition. Others are those of the OLVMMachine, such as VMNotOwned.
const (
	// MachineNotFoundReason surfaces if no Machine of the object's name owns it, or if the Machine has no OLVMMachine.
	MachineNotFoundReason = "MachineNotFound"
	// WaitingForHealthCheckReason surfaces if no MachineHealthCheck has found the Machine unhealthy.
	WaitingForHealthCheckReason = "WaitingForHealthCheck"
	// WaitingForPowerOffReason surfaces while the VM is being powered off.
	WaitingForPowerOffReason = "WaitingForPowerOff"
	// WaitingForStartReason surfaces while the VM is being started.
	WaitingForStartReason = "WaitingForStart"
	// WaitingForHealthyNodeReason surfaces from the start of the VM until the Machine is healthy or the time is over.
	WaitingForHealthyNodeReason = "WaitingForHealthyNode"
	// WaitingForOtherMachineReason surfaces while another machine of the control plane is remediated or deleted.
	WaitingForOtherMachineReason = "WaitingForOtherMachine"
	// RemediationSkippedReason surfaces if an annotation pauses the machine, or excludes it from remediation.
	RemediationSkippedReason = "RemediationSkipped"
	// RetriesExhaustedReason surfaces if the reboots did not help: the owner of the Machine replaces it.
	RetriesExhaustedReason = "RetriesExhausted"
)
