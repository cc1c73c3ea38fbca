package v1

// ControlPlaneServices are what the nodes do for the endpoints of their cluster.
// +kubebuilder:validation:XValidation:rule="!has(self.additionalVirtualIP) || size(self.additionalVirtualIP) == 0 || (has(self.virtualIPProvider) && self.virtualIPProvider in ['KubeVIP', 'Keepalived'])",message="additionalVirtualIP needs virtualIPProvider KubeVIP or Keepalived"
// +kubebuilder:validation:XValidation:rule="!has(self.additionalIngressVirtualIP) || size(self.additionalIngressVirtualIP) == 0 || (has(self.ingressVirtualIP) && size(self.ingressVirtualIP) > 0)",message="additionalIngressVirtualIP needs ingressVirtualIP"
// +kubebuilder:validation:XValidation:rule="!(has(self.loadBalancerProvider) && size(self.loadBalancerProvider) > 0 && self.loadBalancerProvider != 'None') || (has(self.virtualIPProvider) && self.virtualIPProvider == 'Keepalived')",message="loadBalancerProvider needs virtualIPProvider Keepalived"
// +kubebuilder:validation:XValidation:rule="!has(self.apiServerPort) || self.apiServerPort == 0 || (has(self.loadBalancerProvider) && size(self.loadBalancerProvider) > 0 && self.loadBalancerProvider != 'None')",message="apiServerPort is where API servers listen behind a load balancer; set loadBalancerProvider, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.nginxImage) || size(self.nginxImage) == 0 || (has(self.loadBalancerProvider) && self.loadBalancerProvider == 'Nginx')",message="nginxImage needs loadBalancerProvider Nginx"
// +kubebuilder:validation:XValidation:rule="!has(self.kubeVIPImage) || size(self.kubeVIPImage) == 0 || (has(self.virtualIPProvider) && self.virtualIPProvider == 'KubeVIP')",message="kubeVIPImage needs virtualIPProvider KubeVIP"
// +kubebuilder:validation:XValidation:rule=`!has(self.kubeVIPLease) || (has(self.virtualIPProvider) && self.virtualIPProvider == 'KubeVIP')`,message="kubeVIPLease needs virtualIPProvider KubeVIP"
// +kubebuilder:validation:XValidation:rule=`!has(self.virtualRouterID) || self.virtualRouterID == 0 || !has(self.ingressVirtualRouterID) || self.virtualRouterID != self.ingressVirtualRouterID`,message="virtualRouterID and ingressVirtualRouterID are the same; routers of one network have different ones: change or remove one",fieldPath=".ingressVirtualRouterID"
// +kubebuilder:validation:XValidation:rule=`!has(self.ingressVirtualRouterID) || self.ingressVirtualRouterID == 0 || has(self.ingressVirtualIP)`,message="ingressVirtualRouterID needs ingressVirtualIP",fieldPath=".ingressVirtualRouterID"
// +kubebuilder:validation:XValidation:rule=`!has(self.ingressVirtualIP) || !has(self.additionalIngressVirtualIP) || !isIP(self.ingressVirtualIP) || !isIP(self.additionalIngressVirtualIP) || ip(self.ingressVirtualIP).family() != ip(self.additionalIngressVirtualIP).family()`,message="additionalIngressVirtualIP is of the same family as ingressVirtualIP; write an address of the other family, or remove it",fieldPath=".additionalIngressVirtualIP"
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalVirtualIP) || !isIP(self.additionalVirtualIP) || (!has(self.ingressVirtualIP) || self.ingressVirtualIP.lowerAscii() != self.additionalVirtualIP.lowerAscii()) && (!has(self.additionalIngressVirtualIP) || self.additionalIngressVirtualIP.lowerAscii() != self.additionalVirtualIP.lowerAscii())`,message="additionalVirtualIP is an address of ingress, too; they need addresses of their own",fieldPath=".additionalVirtualIP"
type ControlPlaneServices struct {
	// virtualIPProvider says who holds controlPlaneEndpoint.host, which is an IP address then: KubeVIP, a static pod on
	// the nodes of the control plane, which elect its holder with a lease; Keepalived, which must be in the image, as
	// it is in Oracle's; or External. If omitted, it is External.
	// +optional
	// +kubebuilder:validation:Enum=External;KubeVIP;Keepalived
	VirtualIPProvider string `json:"virtualIPProvider,omitempty"`

	// additionalVirtualIP is an IP address of the other family, for dual stack. The node with controlPlaneEndpoint.host
	// has it, too. API servers need it in apiServer.certSANs of the KubeadmControlPlane. If omitted, there is none.
	// +optional
	AdditionalVirtualIP IPAddress `json:"additionalVirtualIP,omitempty"`

	// loadBalancerProvider on each node of the control plane spreads connections over all API servers: HAProxy or
	// Nginx, which must be in the image; or None, with which the node that holds the address serves all. If omitted, it
	// is None.
	// +optional
	// +kubebuilder:validation:Enum=None;HAProxy;Nginx
	LoadBalancerProvider string `json:"loadBalancerProvider,omitempty"`

	// apiServerPort is the port of the API servers behind the load balancer. If omitted or 0, it is 6444.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule=`!(self in [22, 2379, 2380, 2381, 10248, 10249, 10250, 10256, 10257, 10259])`,message="ssh or a component of Kubernetes listens at this port of each node; choose another, such as 6444"
	APIServerPort int32 `json:"apiServerPort,omitempty"`

	// virtualRouterID of VRRP for the control plane endpoint. If omitted or 0, it is one that no other cluster of the
	// engine has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	VirtualRouterID int32 `json:"virtualRouterID,omitempty"`

	// ingressVirtualIP is an IP address that keepalived, which must be in the image, gives to a node on which something
	// answers at the ports 443 or 80. If omitted, there is none.
	// +optional
	IngressVirtualIP IPAddress `json:"ingressVirtualIP,omitempty"`

	// additionalIngressVirtualIP is an IP address of the other family, for dual stack, which the same node has. If
	// omitted, there is none.
	// +optional
	AdditionalIngressVirtualIP IPAddress `json:"additionalIngressVirtualIP,omitempty"`

	// ingressVirtualRouterID of VRRP for ingressVirtualIP. If omitted or 0, it is one that no other cluster of the
	// engine has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	IngressVirtualRouterID int32 `json:"ingressVirtualRouterID,omitempty"`

	// nginxImage is a container image with which podman runs nginx. If omitted, it is the nginx of the VM's image.
	// +optional
	NginxImage ContainerImage `json:"nginxImage,omitempty"`

	// kubeVIPImage is the container image of kube-vip. If omitted, it is ghcr.io/kube-vip/kube-vip:v0.9.1.
	// +optional
	KubeVIPImage ContainerImage `json:"kubeVIPImage,omitempty"`

	// kubeVIPLease is how nodes elect the one that holds the address with kube-vip. If omitted, each part has its
	// default.
	// +optional
	KubeVIPLease *KubeVIPLease `json:"kubeVIPLease,omitempty"`

	// dns has each node answer for the names of the cluster, for a site without a DNS that knows them. Nodes ask
	// themselves first, then the DNS servers of their network. If omitted, they ask those servers alone.
	// +optional
	DNS *ClusterDNS `json:"dns,omitempty"`
}

// KubeVIPLease is how long the holder of the endpoint's address may be silent. Shorter times move the address sooner
// when a node dies. If etcd stalls for longer, as it may on shared storage, they move it although no node died.
// +kubebuilder:validation:XValidation:rule=`(has(self.durationSeconds) && self.durationSeconds != 0 ? self.durationSeconds : 15) > (has(self.renewDeadlineSeconds) && self.renewDeadlineSeconds != 0 ? self.renewDeadlineSeconds : 10)`,message="durationSeconds must be longer than renewDeadlineSeconds; they are 15 and 10 if they are not set",fieldPath=".durationSeconds"
// +kubebuilder:validation:XValidation:rule=`5 * (has(self.renewDeadlineSeconds) && self.renewDeadlineSeconds != 0 ? self.renewDeadlineSeconds : 10) > 6 * (has(self.retryPeriodSeconds) && self.retryPeriodSeconds != 0 ? self.retryPeriodSeconds : 2)`,message="renewDeadlineSeconds must be longer than 1.2 times retryPeriodSeconds; they are 10 and 2 if they are not set",fieldPath=".renewDeadlineSeconds"
type KubeVIPLease struct {
	// durationSeconds is after how many seconds another node takes the address. If omitted or 0, it is 15. It is longer
	// than renewDeadlineSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	DurationSeconds int32 `json:"durationSeconds,omitempty"`

	// renewDeadlineSeconds is after how many seconds a holder that cannot renew its lease lets the address go. If
	// omitted or 0, it is 10. It is longer than 1.2 times retryPeriodSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	RenewDeadlineSeconds int32 `json:"renewDeadlineSeconds,omitempty"`

	// retryPeriodSeconds is how many seconds nodes wait between two tries. If omitted or 0, it is 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	RetryPeriodSeconds int32 `json:"retryPeriodSeconds,omitempty"`
}

// ClusterDNS are the names of a cluster: api and api-int are the control plane endpoint, all names below apps the
// ingress address, and each node has its own.
type ClusterDNS struct {
	// domain of the cluster, below which the names are; all of it is the cluster's own. api.DOMAIN and api-int.DOMAIN
	// need to be in apiServer.certSANs of the KubeadmControlPlane.
	// +required
	// +kubebuilder:validation:XValidation:rule=`size(self) <= 200`,message="the names of the cluster are below the domain; write one of at most 200 characters"
	Domain DomainName `json:"domain,omitempty"`

	// image is the container image of CoreDNS. If omitted, it is registry.k8s.io/coredns/coredns:v1.12.1.
	// +optional
	Image ContainerImage `json:"image,omitempty"`
}
