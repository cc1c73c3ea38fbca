package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ClusterFinalizer lets the OLVMCluster outlive its machines.
const ClusterFinalizer = "olvmcluster.infrastructure.cluster.x-k8s.io"

// AccessFinalizer lets the credentials and the CA that an OLVMCluster names outlive it.
const AccessFinalizer = "olvmcluster.infrastructure.cluster.x-k8s.io/access"

// AllowedServerURLsKey of a credentials Secret lists, separated by commas or line breaks, the engines to which the
// credentials may be sent, as serverURL has them. The key ovirt_url of OpenShift's format does too.
const AllowedServerURLsKey = "allowedServerURLs"

// AllowedNamespacesAnnotation on a credentials Secret lists, separated by commas, the namespaces other than its own
// whose OLVMClusters may use it; * means all. Without it a Secret is for its own namespace: otherwise a user who may
// create an OLVMCluster could use the credentials of everybody else.
const AllowedNamespacesAnnotation = "infrastructure.cluster.x-k8s.io/olvm-allowed-namespaces"

// RouterIDsAnnotation records the virtual router IDs of an OLVMCluster: a JSON object with those of api, ingress and
// each load balancer of its OLVMSupportServices, as lb/NAME. An annotation, because clusterctl move keeps annotations
// and drops status, and nodes that run have them.
const RouterIDsAnnotation = "infrastructure.cluster.x-k8s.io/olvm-virtual-router-ids"

// AcceptEngineAnnotation on an OLVMCluster or an OLVMInventory has the UUID of an engine that may replace the recorded
// one, after a deliberate rebuild; or the UUID, a slash and the ID of the recorded event, for an engine whose database
// was restored to an earlier time.
const AcceptEngineAnnotation = "infrastructure.cluster.x-k8s.io/olvm-accept-engine"

// AffinityGroupsRequestedAnnotation is on an OLVMCluster before the first run that may create affinity groups. While it
// is there, a deletion looks for groups in the engine, whatever else was lost.
const AffinityGroupsRequestedAnnotation = "infrastructure.cluster.x-k8s.io/olvm-affinity-groups-requested"

// OLVMClusterSpec is the desired infrastructure of a cluster.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.host) || oldSelf.controlPlaneEndpoint.host == \"\" || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && self.controlPlaneEndpoint.host in [oldSelf.controlPlaneEndpoint.host, \"\"])",message="controlPlaneEndpoint.host is immutable once set: nodes and kubeconfigs hold it; create a new cluster instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.port) || oldSelf.controlPlaneEndpoint.port == 0 || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.port) && self.controlPlaneEndpoint.port in [oldSelf.controlPlaneEndpoint.port, 0]) || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && self.controlPlaneEndpoint.host == \"\")",message="controlPlaneEndpoint.port is immutable once set: nodes and kubeconfigs hold it; create a new cluster instead"
// +kubebuilder:validation:XValidation:rule=`!(has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && size(self.controlPlaneEndpoint.host) > 0) || !has(self.controlPlaneServices) || !has(self.controlPlaneServices.virtualIPProvider) || !(self.controlPlaneServices.virtualIPProvider in ['KubeVIP', 'Keepalived']) || isIP(self.controlPlaneEndpoint.host)`,message="a node can hold an IP address alone; write one, or set controlPlaneServices.virtualIPProvider to External",fieldPath=".controlPlaneEndpoint.host"
// +kubebuilder:validation:XValidation:rule=`!(has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && size(self.controlPlaneEndpoint.host) > 0) || !has(self.controlPlaneServices) || !has(self.controlPlaneServices.dns) || isIP(self.controlPlaneEndpoint.host)`,message="controlPlaneServices.dns resolves names to an IP address; write one, or remove controlPlaneServices.dns",fieldPath=".controlPlaneEndpoint.host"
// +kubebuilder:validation:XValidation:rule=`!(has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && size(self.controlPlaneEndpoint.host) > 0) || !has(self.controlPlaneServices) || !isIP(self.controlPlaneEndpoint.host) || !has(self.controlPlaneServices.additionalVirtualIP) || !isIP(self.controlPlaneServices.additionalVirtualIP) || ip(self.controlPlaneEndpoint.host).family() != ip(self.controlPlaneServices.additionalVirtualIP).family()`,message="additionalVirtualIP is of the same family as controlPlaneEndpoint.host; write an address of the other family, or remove it",fieldPath=".controlPlaneServices.additionalVirtualIP"
// +kubebuilder:validation:XValidation:rule=`!(has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && size(self.controlPlaneEndpoint.host) > 0) || !has(self.controlPlaneServices) || !isIP(self.controlPlaneEndpoint.host) || (!has(self.controlPlaneServices.ingressVirtualIP) || self.controlPlaneServices.ingressVirtualIP.lowerAscii() != self.controlPlaneEndpoint.host.lowerAscii()) && (!has(self.controlPlaneServices.additionalIngressVirtualIP) || self.controlPlaneServices.additionalIngressVirtualIP.lowerAscii() != self.controlPlaneEndpoint.host.lowerAscii())`,message="an address of ingress is the control plane endpoint, too; they need addresses of their own",fieldPath=".controlPlaneServices"
// +kubebuilder:validation:XValidation:rule=`!has(self.controlPlaneServices) || !has(self.controlPlaneServices.loadBalancerProvider) || !(self.controlPlaneServices.loadBalancerProvider in ['HAProxy', 'Nginx']) || (has(self.controlPlaneServices.apiServerPort) && self.controlPlaneServices.apiServerPort != 0 ? self.controlPlaneServices.apiServerPort : 6444) != (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.port) && self.controlPlaneEndpoint.port != 0 ? self.controlPlaneEndpoint.port : 6443)`,message="the load balancer listens at the port of the endpoint itself; choose another apiServerPort",fieldPath=".controlPlaneServices.apiServerPort"
type OLVMClusterSpec struct {
	// controlPlaneEndpoint is the virtual IP address (or the name of an external load balancer) and the port at which
	// the API server of the workload cluster is reached. It must lie outside the machine address ranges. If omitted,
	// others set it before there are machines, such as a load balancer of the cluster. Host and port cannot be changed
	// once they are set.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// olvmDatacenterName is the name of the engine's data center in which all VMs of the cluster live. It cannot be
	// changed once the data center was found.
	// +required
	// +kubebuilder:validation:MinLength=1
	OLVMDatacenterName EngineName `json:"olvmDatacenterName,omitempty"`

	// olvmOvirtAPIServer says how to reach the engine. Changes take effect at once; the engine behind it must remain
	// the same.
	// +required
	OLVMOvirtAPIServer OvirtAPIServer `json:"olvmOvirtAPIServer,omitempty,omitzero"`

	// defaultAffinityGroups are two groups that keep control plane machines, and worker machines, on different hosts
	// while there are enough: control-plane (priority 5) and workers (priority 3), both with enforcing Auto. Enabled
	// makes both beside affinityGroups, except one whose name is in that list. Disabled makes neither. If omitted,
	// it is Enabled if affinityGroups is omitted, and else Disabled. Changes take effect at once.
	// +optional
	// +kubebuilder:validation:Enum=Enabled;Disabled
	DefaultAffinityGroups DefaultAffinityGroups `json:"defaultAffinityGroups,omitempty"`

	// affinityGroups keep VMs apart, or together. An empty list means none, and also disables defaultAffinityGroups if
	// that is omitted. Changes take effect at once.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	AffinityGroups []AffinityGroup `json:"affinityGroups,omitzero"`

	// ipProfiles name where machines get their addresses from, so that machine templates need not say it. If omitted,
	// there are none. Changes take effect on new machines.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	IPProfiles []IPProfile `json:"ipProfiles,omitempty"`

	// failureDomains over which machines can be spread. Those that exist in the engine are in status.failureDomains. If
	// omitted, there are none. Changes take effect at once.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []OLVMFailureDomain `json:"failureDomains,omitempty"`

	// controlPlaneServices are what the nodes themselves do for the control plane endpoint. If omitted, others make the
	// endpoint: a load balancer, or static pods of the KubeadmControlPlane. Changes take effect on new machines.
	// +optional
	ControlPlaneServices *ControlPlaneServices `json:"controlPlaneServices,omitempty"`

	// userData is added to the bootstrap data of all machines. If omitted, nothing is added. Changes take effect on new
	// machines.
	// +optional
	UserData *UserData `json:"userData,omitempty"`

	// standby are VMs of inventories that the cluster keeps claimed and powered off. A new machine of their role that
	// wants such a VM takes one of them first, as a rollout does, and another VM is claimed in its place. If omitted,
	// it keeps none. Changes take effect at once.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Standby []Standby `json:"standby,omitempty"`
}

// Standby are VMs of an inventory that a cluster keeps for later.
type Standby struct {
	// name of the entry, unique within the cluster.
	// +required
	Name LabelName `json:"name,omitempty"`

	// role of the machines that take the VMs: ControlPlane or Worker.
	// +required
	// +kubebuilder:validation:Enum=ControlPlane;Worker
	Role string `json:"role,omitempty"`

	// count is how many VMs are kept.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Count *int32 `json:"count,omitempty"`

	FromInventory `json:",inline"`
}

// DefaultAffinityGroups says whether the default affinity groups are made.
type DefaultAffinityGroups string

// The values of DefaultAffinityGroups.
const (
	DefaultAffinityGroupsEnabled  DefaultAffinityGroups = "Enabled"
	DefaultAffinityGroupsDisabled DefaultAffinityGroups = "Disabled"
)

// APIEndpoint is host and port of an API server.
// +kubebuilder:validation:XValidation:rule="!has(self.host) || size(self.host) == 0 || self.host.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*)$')",message="host must be an IP address or a DNS name, without scheme, port, path or brackets; the port has a field of its own"
// +kubebuilder:validation:XValidation:rule=`!has(self.host) || !self.host.matches('^[0-9.]+$') || isIP(self.host)`,message="host looks like an IP address and is none; write one such as 10.20.30.160, or a DNS name",fieldPath=".host"
// +kubebuilder:validation:XValidation:rule=`!has(self.host) || !isIP(self.host) || !ip(self.host).isUnspecified() && !cidr('224.0.0.0/3').containsIP(self.host) && !cidr('ff00::/8').containsIP(self.host)`,message="no machine can have this address; write that at which the API server is reached",fieldPath=".host"
// +kubebuilder:validation:XValidation:rule=`!has(self.host) || self.host.contains(':') || !self.host.contains('..') && !self.host.matches('[^.]{64}')`,message="a DNS name has parts of 1 to 63 characters between its dots; correct it",fieldPath=".host"
type APIEndpoint struct {
	// host is an IP address or a DNS name. If omitted or empty, it is not set yet.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is the TCP port. If omitted or 0, it is 6443 when a host is given.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// OvirtAPIServer names an engine, its credentials and its CA.
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecret) != has(self.identityRef)",message="set credentialsSecret for a Secret, or identityRef for an OLVMClusterIdentity, and not both"
// +kubebuilder:validation:XValidation:rule="!has(self.identityRef) || (!has(self.caConfigMap) && (!has(self.insecureSkipTLSVerify) || !self.insecureSkipTLSVerify))",message="an OLVMClusterIdentity has the CA of its engines, whose certificates are always verified; remove caConfigMap and insecureSkipTLSVerify"
type OvirtAPIServer struct {
	// serverURL is the base URL of the engine, for example https://engine.example.com/ovirt-engine (without /api). The
	// URL of a page of the engine, a query, a user or http:// is refused, with the URL to write.
	// +required
	ServerURL EngineURL `json:"serverURL,omitempty"`

	// insecureSkipTLSVerify turns the verification of the engine's certificate off. Never use it in production. If
	// omitted, the certificate is verified.
	// +optional
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`

	// credentialsSecret names the Secret with the keys username (with its @domain), password and scope (or
	// ovirt_username and ovirt_password). A Secret of another namespace must allow this one, by its annotation
	// infrastructure.cluster.x-k8s.io/olvm-allowed-namespaces. The key ovirt_ca_bundle replaces caConfigMap.
	// ovirt_insecure and ovirt_cafile are refused if they are set. Omit it with identityRef only.
	// +optional
	CredentialsSecret NamespacedName `json:"credentialsSecret,omitempty,omitzero"`

	// identityRef names an OLVMClusterIdentity, which has credentials and CA, instead of credentialsSecret and
	// caConfigMap. If omitted, those say both.
	// +optional
	IdentityRef *OLVMClusterIdentityReference `json:"identityRef,omitempty"`

	// caConfigMap names the ConfigMap whose values are PEM certificates that sign the engine's certificate (by custom
	// the keys ca.crt, ca.crt1, ...). If omitted, the trust store of the controller's image is used.
	// +optional
	CAConfigMap *NamespacedName `json:"caConfigMap,omitempty"`
}

// OLVMClusterIdentityReference names an OLVMClusterIdentity.
type OLVMClusterIdentityReference struct {
	// name of the OLVMClusterIdentity.
	// +required
	Name ObjectName `json:"name,omitempty"`
}

// NamespacedName names an object.
type NamespacedName struct {
	// name of the object.
	// +required
	Name ObjectName `json:"name,omitempty"`

	// namespace of the object. If omitted, it is the namespace of the referring object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="write the name of a namespace: lower case letters, digits and dashes, with a letter or digit at both ends"
	Namespace string `json:"namespace,omitempty"`
}

// OLVMClusterStatus is what the controller has observed.
type OLVMClusterStatus struct {
	// conditions of the OLVMCluster: Ready, EngineAvailable, ControlPlaneEndpointConfigured, AffinitySatisfied,
	// FailureDomainsAvailable, KubeconfigAccepted, Paused, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization says whether the first provisioning is done, as the Cluster API contract asks.
	// +optional
	Initialization OLVMClusterInitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains is the list of failure domains that machines can be placed in.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// affinityGroups are the affinity groups in the engine.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=olvmOvirtClusterID
	// +kubebuilder:validation:MaxItems=1000
	AffinityGroups []AffinityGroupStatus `json:"affinityGroups,omitempty"`

	// terraform says what the last Terraform run did for what the machines of the cluster share.
	// +optional
	Terraform *TerraformStatus `json:"terraform,omitempty"`

	// olvmDatacenter is the data center that the cluster's name was resolved to.
	// +optional
	OLVMDatacenter *OLVMDatacenterStatus `json:"olvmDatacenter,omitempty"`
}

// OLVMClusterInitializationStatus says whether the first provisioning is done.
// +kubebuilder:validation:MinProperties=1
type OLVMClusterInitializationStatus struct {
	// provisioned is true once the infrastructure of the cluster is there; it never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// EngineEvent is an entry of the engine's log of events.
type EngineEvent struct {
	// id of the event. Later events have greater ones.
	// +optional
	ID int64 `json:"id,omitempty"`
	// time of the event. A restored engine gives the same IDs again, at other times.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
	// recorded is when it was the newest event.
	// +optional
	Recorded metav1.Time `json:"recorded,omitempty,omitzero"`
	// gone is true once the engine did not have the event any more.
	// +optional
	Gone bool `json:"gone,omitempty"`
}

// OLVMDatacenterStatus describes a data center and its engine.
type OLVMDatacenterStatus struct {
	// engineID identifies the installation of the engine on which the machines are. Another engine is refused.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	EngineID string `json:"engineID,omitempty"`

	// lastEvent is the last recorded event of the engine. It is at most about an hour old while the engine answers, and
	// two minutes after a run for a machine. An engine without it was restored to an earlier time, and is refused.
	// +optional
	LastEvent *EngineEvent `json:"lastEvent,omitempty"`

	// dataCenterID is the engine's UUID of the data center.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DataCenterID string `json:"dataCenterID,omitempty"`

	// dataCenterName is its name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	DataCenterName string `json:"dataCenterName,omitempty"`

	// serverURL of the engine that has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	ServerURL string `json:"serverURL,omitempty"`

	// release is the product and version that the engine says it is.
	// +optional
	Release *OLVMRelease `json:"release,omitempty"`
}

// OLVMRelease is the product behind an engine URL.
type OLVMRelease struct {
	// name of the product.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`

	// version of the product.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Version string `json:"version,omitempty"`
}

// OLVMCluster is the infrastructure of a Cluster on Oracle Linux Virtualization Manager or oVirt.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1"
// +kubebuilder:resource:path=olvmclusters,scope=Namespaced,categories=cluster-api,shortName=olvmc
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if the infrastructure is usable"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not ready"
// +kubebuilder:printcolumn:name="DataCenter",type=string,JSONPath=`.status.olvmDatacenter.dataCenterName`,description="Data center of the VMs"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Control plane endpoint"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="OLVMServerURL",type=string,JSONPath=`.spec.olvmOvirtAPIServer.serverURL`,priority=2
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.olvmDatacenter) || self.spec.olvmDatacenterName == oldSelf.spec.olvmDatacenterName",message="spec.olvmDatacenterName is immutable once the engine's data center was found: the machines are there; write the name that it had, or create a new cluster"
type OLVMCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired infrastructure of the cluster: the engine, and what its machines share.
	// +required
	Spec OLVMClusterSpec `json:"spec,omitempty,omitzero"`

	// status is what the controller has observed.
	// +optional
	Status OLVMClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (c *OLVMCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (c *OLVMCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// OLVMClusterList is a list of OLVMClusters.
// +kubebuilder:object:root=true
type OLVMClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMCluster `json:"items"`
}

// OLVMClusterTemplateSpec holds the template of a ClusterClass. An admission policy keeps spec.template.spec immutable
// (config/policy).
type OLVMClusterTemplateSpec struct {
	// template of the OLVMClusters to create. Its spec cannot be changed: a new template takes its place.
	// +required
	Template OLVMClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// OLVMClusterTemplateResource is metadata and spec of an OLVMCluster to create.
type OLVMClusterTemplateResource struct {
	// metadata is added to the OLVMCluster. If omitted, nothing is added.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of the OLVMCluster.
	// +required
	Spec OLVMClusterSpec `json:"spec,omitempty,omitzero"`
}

// OLVMClusterTemplate is the infrastructure cluster template of a ClusterClass.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1"
// +kubebuilder:resource:path=olvmclustertemplates,scope=Namespaced,categories=cluster-api,shortName=olvmct
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="DataCenter",type=string,JSONPath=`.spec.template.spec.olvmDatacenterName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OLVMClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template of OLVMClusters.
	// +required
	Spec OLVMClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// OLVMClusterTemplateList is a list of OLVMClusterTemplates.
// +kubebuilder:object:root=true
type OLVMClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMClusterTemplate `json:"items"`
}
