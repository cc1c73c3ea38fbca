package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// SupportServicesFinalizer lets the OLVMSupportServices outlive the VMs of its services.
const SupportServicesFinalizer = "olvmsupportservices.infrastructure.cluster.x-k8s.io"

// SupportServiceLabel is on the OLVMMachines of support services, which no Machine owns, and names their service as
// status.services of the OLVMSupportServices does.
const SupportServiceLabel = "infrastructure.cluster.x-k8s.io/support-service"

// SupportDomainAnnotation is on an OLVMMachine of a support service: the failure domain in which it is made.
const SupportDomainAnnotation = "infrastructure.cluster.x-k8s.io/support-failure-domain"

// OLVMSupportServicesSpec says which support services a cluster has.
// +kubebuilder:validation:XValidation:rule=`!has(self.loadBalancers) || self.loadBalancers.all(a, !has(a.virtualIP) || !isIP(a.virtualIP) || self.loadBalancers.exists_one(b, has(b.virtualIP) && isIP(b.virtualIP) && ip(a.virtualIP) == ip(b.virtualIP)))`,message="two load balancers have the same virtualIP; give each its own",fieldPath=".loadBalancers"
// +kubebuilder:validation:XValidation:rule=`!has(self.loadBalancers) || self.loadBalancers.all(a, !has(a.virtualRouterID) || a.virtualRouterID == 0 || self.loadBalancers.exists_one(b, has(b.virtualRouterID) && a.virtualRouterID == b.virtualRouterID))`,message="two load balancers have the same virtualRouterID; routers of one network have different ones: change or remove one",fieldPath=".loadBalancers"
// +kubebuilder:validation:XValidation:rule=`!has(self.loadBalancers) || self.loadBalancers.all(b, size(self.clusterName) + size(b.name) <= 57)`,message="the VMs have the names CLUSTER-lb-NAME-NUMBER, which are host names of at most 63 characters; shorten the name",fieldPath=".loadBalancers"
// +kubebuilder:validation:XValidation:rule=`!has(self.jumpHost) || size(self.clusterName) <= 51`,message="the VM has the name CLUSTER-jump-host-0, which is a host name of at most 63 characters; remove the jump host, or name the Cluster shorter",fieldPath=".jumpHost"
// +kubebuilder:validation:XValidation:rule=`!has(self.oidc) || size(self.clusterName) <= 56`,message="the VM has the name CLUSTER-oidc-0, which is a host name of at most 63 characters; remove oidc, or name the Cluster shorter",fieldPath=".oidc"
type OLVMSupportServicesSpec struct {
	// clusterName is the Cluster in the same namespace, whose infrastructureRef names an OLVMCluster. It is the name
	// of this object, too, so that a cluster has one OLVMSupportServices. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterName is immutable: the VMs are those of that Cluster; create another OLVMSupportServices"
	ClusterName string `json:"clusterName,omitempty"`

	// loadBalancers spread connections over the machines of a role, with haproxy. If omitted, there are none. Changes
	// take effect at once: the VMs fetch their configuration again.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	LoadBalancers []SupportLoadBalancer `json:"loadBalancers,omitempty"`

	// jumpHost is a VM from which people reach the nodes. If omitted, there is none. Changes take effect at once: the
	// VMs fetch their configuration again.
	// +optional
	JumpHost *SupportJumpHost `json:"jumpHost,omitempty"`

	// oidc is a VM with Dex, whose tokens the API servers of the cluster can accept. If omitted, there is none.
	// Changes take effect at once: the VMs fetch their configuration again.
	// +optional
	OIDC *SupportOIDC `json:"oidc,omitempty"`
}

// SupportOIDC is a provider of OpenID Connect on a VM of its own. It is called CLUSTER-oidc-0.
type SupportOIDC struct {
	// issuer is its URL, such as https://10.20.30.9:5556/dex. The host is the address of the VM, or a name that leads
	// there.
	// +required
	Issuer infrav1.IssuerURL `json:"issuer,omitempty"`

	// clients that ask for tokens. They have no secret, as programs on people's machines have none.
	// +required
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Clients []SupportOIDCClient `json:"clients,omitempty"`

	// connectorsSecretName is a Secret of the namespace with Dex's connectors, which say who people are, as a YAML list
	// in its key connectors.yaml.
	// +required
	ConnectorsSecretName infrav1.ObjectName `json:"connectorsSecretName,omitempty"`

	// caSecretName is a Secret of the namespace with the certificate and the key of an authority in its keys tls.crt
	// and tls.key. It signs the certificate of the issuer.
	// +required
	CASecretName infrav1.ObjectName `json:"caSecretName,omitempty"`

	SupportVM `json:",inline"`
}

// SupportOIDCClient is a program that asks for tokens.
type SupportOIDCClient struct {
	// id as which it asks, and which the API servers expect as --oidc-client-id.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-~]+$')`,message="write the ID of a client without spaces and line breaks"
	ID string `json:"id,omitempty"`

	// redirectURIs to which people may come back. If omitted, they are all ports of localhost.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	RedirectURIs []infrav1.RedirectURI `json:"redirectURIs,omitempty"`
}

// SupportJumpHost is a VM from which people reach the nodes of a cluster: with ssh, with kubectl, and with the command
// host, which lists machines, reboots them and opens their consoles. It is called CLUSTER-jump-host-0.
type SupportJumpHost struct {
	// authorizedKeys log in: lines as in authorized_keys. Nobody else does.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AuthorizedKeys []infrav1.AuthorizedKey `json:"authorizedKeys,omitempty"`

	// user as whom they log in. If omitted, it is jump.
	// +optional
	User infrav1.UserName `json:"user,omitempty"`

	// nodeKeysSecretName is a Secret of the namespace, each value of which is a private key for the nodes, without a
	// passphrase. If omitted, there is none: people bring their own, as with an agent.
	// +optional
	NodeKeysSecretName infrav1.ObjectName `json:"nodeKeysSecretName,omitempty"`

	// nodeUser is the user of the nodes. If omitted, it is userData.ssh.user of the cluster, else core.
	// +optional
	NodeUser infrav1.UserName `json:"nodeUser,omitempty"`

	// kubeconfigSecretName is a Secret of the namespace with a kubeconfig in its key value. If omitted,
	// it is CLUSTER-kubeconfig, which makes everybody who logs in an administrator of the cluster.
	// +optional
	KubeconfigSecretName infrav1.ObjectName `json:"kubeconfigSecretName,omitempty"`

	// engineCredentialsSecretName is a Secret of the namespace with the username and password of an engine's user, as
	// credentialsSecret has them, as whom the command host reboots machines and opens consoles: never as the manager.
	// The manager does it for the machines of the cluster alone, and the VM does not have the password. If omitted,
	// host only lists.
	// +optional
	EngineCredentialsSecretName infrav1.ObjectName `json:"engineCredentialsSecretName,omitempty"`

	SupportVM `json:",inline"`
}

// SupportLoadBalancer is a load balancer on VMs of its own.
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas < 2 || (has(self.virtualIP) && size(self.virtualIP) > 0)",message="replicas 2 needs virtualIP, which one of the two holds"
// +kubebuilder:validation:XValidation:rule="self.role == 'ControlPlane' || (has(self.ports) && size(self.ports) > 0)",message="ports must be set for the role Worker"
// +kubebuilder:validation:XValidation:rule="!has(self.backendPort) || self.backendPort == 0 || self.role == 'ControlPlane'",message="backendPort is for the role ControlPlane; a worker is reached at the port of the connection"
// +kubebuilder:validation:XValidation:rule=`!has(self.virtualRouterID) || self.virtualRouterID == 0 || has(self.virtualIP)`,message="virtualRouterID needs virtualIP",fieldPath=".virtualRouterID"
type SupportLoadBalancer struct {
	// name of the load balancer, unique within the cluster. Its VMs are called CLUSTER-lb-NAME-NUMBER. Another name is
	// another load balancer.
	// +required
	// +kubebuilder:validation:MaxLength=20
	Name LabelName `json:"name,omitempty"`

	// role of the machines that get the connections: ControlPlane, whose API servers are asked for /readyz with TLS; or
	// Worker, whose ports are tried.
	// +required
	// +kubebuilder:validation:Enum=ControlPlane;Worker
	Role infrav1.MachineRole `json:"role,omitempty"`

	// ports at which it listens: numbers, or ranges such as 30002-30011. A worker gets a connection at the same port.
	// The role Worker needs some. If omitted, it is the port of the control plane endpoint.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule=`!self.all(p, p.matches('^[0-9]{1,5}(-[0-9]{1,5})?$')) || self.all(a, self.exists_one(b, int(a.find('^[0-9]+')) <= int(b.find('[0-9]+$')) && int(b.find('^[0-9]+')) <= int(a.find('[0-9]+$'))) || int(a.find('^[0-9]+')) > int(a.find('[0-9]+$')))`,message="two of the ports and ranges have a port in common; have each port once"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(p, p.matches('^[0-9]{1,5}(-[0-9]{1,5})?$') && int(p.find('^[0-9]+')) <= 1936 && int(p.find('[0-9]+$')) >= 1936)`,message="the VM uses port 1936 itself; remove it"
	// +kubebuilder:validation:XValidation:rule=`!self.all(p, p.matches('^[0-9]{1,5}(-[0-9]{1,5})?$')) || self.map(p, int(p.find('[0-9]+$')) - int(p.find('^[0-9]+')) + 1).sum() <= 256`,message="a load balancer has at most 256 ports; spread them over several"
	Ports []infrav1.PortRange `json:"ports,omitempty"`

	// backendPort is the port of the API servers. If omitted or 0, it is controlPlaneServices.apiServerPort if the
	// nodes have load balancers themselves, else 6443.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	BackendPort int32 `json:"backendPort,omitempty"`

	// virtualIP is an address that keepalived gives to one of the VMs whose haproxy answers. It may be the control
	// plane endpoint, and becomes it if that is not set and this is the only one with the role ControlPlane. If
	// omitted, the load balancer has the address of its VM.
	// +optional
	VirtualIP infrav1.IPAddress `json:"virtualIP,omitempty"`

	// virtualRouterID of VRRP for virtualIP. If omitted or 0, it is one that no other cluster of the engine has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	VirtualRouterID int32 `json:"virtualRouterID,omitempty"`

	// replicas is how many VMs it has: 1, or 2, which are kept on different hosts while there are enough. If
	// omitted or 0, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2
	Replicas int32 `json:"replicas,omitempty"`

	SupportVM `json:",inline"`
}

// SupportVM says what the VMs of a support service are.
type SupportVM struct {
	// machineTemplateName is an OLVMMachineTemplate of the namespace: image, hardware, placement and networks of the
	// VMs. Changes take effect on new machines: the VMs are replaced, one at a time.
	// +required
	MachineTemplateName infrav1.ObjectName `json:"machineTemplateName,omitempty"`

	// failureDomains of the cluster in which the VMs are: the first VM is in the first one, the second in the second.
	// If omitted, the template says where they are. Changes take effect on new machines: the VMs are replaced, one at
	// a time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// SupportServiceStatus is the state of a support service.
type SupportServiceStatus struct {
	// name of the service: lb-NAME for a load balancer, jump-host, oidc.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// address at which it is reached: its virtualIP, or that of its VM; empty where it is not known yet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address,omitempty"`

	// machines are its OLVMMachines.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Machines []string `json:"machines,omitempty"`

	// readyMachines is how many of them are up and use a configuration.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyMachines int32 `json:"readyMachines,omitempty"`

	// conditions of the service: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (s *SupportServiceStatus) GetConditions() []metav1.Condition { return s.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (s *SupportServiceStatus) SetConditions(conditions []metav1.Condition) {
	s.Conditions = conditions
}

// OLVMSupportServicesStatus is what the controller saw.
type OLVMSupportServicesStatus struct {
	// conditions of the OLVMSupportServices: Ready, Paused, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec for which services was written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// services are the support services of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Services []SupportServiceStatus `json:"services,omitempty"`
}

// OLVMSupportServices are the support services of a Cluster on Oracle Linux Virtualization Manager or oVirt: VMs beside
// its nodes. They need the flag --bootstrap-url of the manager, from which they get what they serve, and images with
// cloud-init.
//
// The object has the name of its Cluster, which owns it; it owns the OLVMMachines of the services. The deletion of the
// cluster deletes it once the nodes are gone. Deleting it alone deletes the VMs of a cluster that goes on.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:resource:path=olvmsupportservices,singular=olvmsupportservices,scope=Namespaced,categories=cluster-api,shortName=olvmss
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name == self.spec.clusterName",message="metadata.name must be that of the Cluster, as spec.clusterName is: a cluster has one OLVMSupportServices",optionalOldSelf=true
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if all services are usable"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why they are or are not ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OLVMSupportServices struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec has the support services of the Cluster.
	// +required
	Spec OLVMSupportServicesSpec `json:"spec,omitempty,omitzero"`

	// status says which services run, and where.
	// +optional
	Status OLVMSupportServicesStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (s *OLVMSupportServices) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (s *OLVMSupportServices) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}

// OLVMSupportServicesList is a list of OLVMSupportServices.
// +kubebuilder:object:root=true
type OLVMSupportServicesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMSupportServices `json:"items"`
}
