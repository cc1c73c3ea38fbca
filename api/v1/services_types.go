package v1

// ControlPlaneServices are what the nodes do for the endpoints of their cluster.
// +kubebuilder:validation:XValidation:rule="!has(self.additionalVirtualIP) || size(self.additionalVirtualIP) == 0 || (has(self.virtualIP) && self.virtualIP in ['KubeVIP', 'Keepalived'])",message="additionalVirtualIP needs virtualIP KubeVIP or Keepalived"
// +kubebuilder:validation:XValidation:rule="!has(self.additionalIngressVirtualIP) || size(self.additionalIngressVirtualIP) == 0 || (has(self.ingressVirtualIP) && size(self.ingressVirtualIP) > 0)",message="additionalIngressVirtualIP needs ingressVirtualIP"
// +kubebuilder:validation:XValidation:rule="!(has(self.loadBalancer) && size(self.loadBalancer) > 0 && self.loadBalancer != 'None') || (has(self.virtualIP) && self.virtualIP == 'Keepalived')",message="loadBalancer needs virtualIP Keepalived"
// +kubebuilder:validation:XValidation:rule="!has(self.apiServerPort) || self.apiServerPort == 0 || (has(self.loadBalancer) && size(self.loadBalancer) > 0 && self.loadBalancer != 'None')",message="apiServerPort is where API servers listen behind a load balancer; set loadBalancer, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.nginxImage) || size(self.nginxImage) == 0 || (has(self.loadBalancer) && self.loadBalancer == 'Nginx')",message="nginxImage needs loadBalancer Nginx"
// +kubebuilder:validation:XValidation:rule="!has(self.kubeVIPImage) || size(self.kubeVIPImage) == 0 || (has(self.virtualIP) && self.virtualIP == 'KubeVIP')",message="kubeVIPImage needs virtualIP KubeVIP"
type ControlPlaneServices struct {
	// virtualIP says who holds controlPlaneEndpoint.host, which is an IP address then: KubeVIP, a static pod on the
	// nodes of the control plane, which elect its holder with a lease; Keepalived, which must be in the image, as it is
	// in Oracle's; or External. Empty means External.
	// +optional
	// +kubebuilder:validation:Enum="";External;KubeVIP;Keepalived
	VirtualIP string `json:"virtualIP,omitempty"`

	// additionalVirtualIP is an IP address of the other family, for dual stack. The node with controlPlaneEndpoint.host
	// has it, too. API servers need it in apiServer.certSANs of the KubeadmControlPlane.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	AdditionalVirtualIP string `json:"additionalVirtualIP,omitempty"`

	// loadBalancer on each node of the control plane spreads connections over all API servers: HAProxy or Nginx, which
	// must be in the image; or None, with which the node that holds the address serves all. Empty means None.
	// +optional
	// +kubebuilder:validation:Enum="";None;HAProxy;Nginx
	LoadBalancer string `json:"loadBalancer,omitempty"`

	// apiServerPort is the port of the API servers behind the load balancer. 0 means 6444.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	APIServerPort int32 `json:"apiServerPort,omitempty"`

	// virtualRouterID of VRRP for the control plane endpoint. 0 means one that no other cluster of the engine has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	VirtualRouterID int32 `json:"virtualRouterID,omitempty"`

	// ingressVirtualIP is an IP address that keepalived, which must be in the image, gives to a node on which something
	// answers at the ports 443 or 80.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	IngressVirtualIP string `json:"ingressVirtualIP,omitempty"`

	// additionalIngressVirtualIP is an IP address of the other family, for dual stack, which the same node has.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	AdditionalIngressVirtualIP string `json:"additionalIngressVirtualIP,omitempty"`

	// ingressVirtualRouterID of VRRP for ingressVirtualIP. 0 means one that no other cluster of the engine has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	IngressVirtualRouterID int32 `json:"ingressVirtualRouterID,omitempty"`

	// nginxImage is a container image with which podman runs nginx. Empty means the nginx of the VM's image.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	NginxImage string `json:"nginxImage,omitempty"`

	// kubeVIPImage is the container image of kube-vip. Empty means ghcr.io/kube-vip/kube-vip:v0.9.1.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	KubeVIPImage string `json:"kubeVIPImage,omitempty"`

	// kubeVIPLease is how nodes elect the one that holds the address with kube-vip.
	// +optional
	KubeVIPLease *KubeVIPLease `json:"kubeVIPLease,omitempty"`

	// dns has each node answer for the names of the cluster, where the site has no DNS that knows them. Nodes ask
	// themselves first, then the DNS servers of their network.
	// +optional
	DNS *ClusterDNS `json:"dns,omitempty"`
}

// KubeVIPLease is how long the holder of the endpoint's address may be silent. Shorter times move the address sooner
// when a node dies. If etcd stalls for longer, as it may on shared storage, they move it although no node died.
type KubeVIPLease struct {
	// durationSeconds after which another node takes the address. 0 means 15. It is longer than renewDeadlineSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	DurationSeconds int32 `json:"durationSeconds,omitempty"`

	// renewDeadlineSeconds after which a holder that cannot renew its lease lets the address go. 0 means 10. It is
	// longer than 1.2 times retryPeriodSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	RenewDeadlineSeconds int32 `json:"renewDeadlineSeconds,omitempty"`

	// retryPeriodSeconds is how long nodes wait between two tries. 0 means 2.
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
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`
	Domain string `json:"domain,omitempty"`

	// image is the container image of CoreDNS. Empty means registry.k8s.io/coredns/coredns:v1.12.1.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
}
