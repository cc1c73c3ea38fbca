package v1

// UserData is what is added to the bootstrap data of machines. What the bootstrap data says already is never
// overwritten: where both say different things, the machine is not made, and the BootstrapDataAvailable condition names
// both.
type UserData struct {
	// proxy that the container runtime and the kubelet use. A machine's replaces its cluster's. If omitted, there is
	// none.
	// +optional
	Proxy *ProxySettings `json:"proxy,omitempty"`

	// ssh lets users log in, in addition to those that the bootstrap data lets in. A machine's replaces its cluster's.
	// If omitted, it lets nobody else in.
	// +optional
	SSH *SSHAccess `json:"ssh,omitempty"`

	// bootstrapDelivery is how VMs get their user data. Inline: from the engine, which has all of it. Pointer, for
	// images with Ignition on networks with DHCP: the engine has a token alone, with which the VM fetches the data
	// once, over TLS, from the manager; that needs its flag --bootstrap-url. If omitted, it is Inline. A machine's
	// replaces its cluster's.
	// +optional
	// +kubebuilder:validation:Enum=Inline;Pointer
	BootstrapDelivery string `json:"bootstrapDelivery,omitempty"`

	// extra are configurations to merge: cloud-config if the bootstrap data is cloud-config; Ignition (any version) or
	// Butane if it is Ignition. A machine's come after its cluster's. If omitted, there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Extra []ExtraUserData `json:"extra,omitempty"`
}

// ProxySettings are those of an HTTP proxy.
// +kubebuilder:validation:XValidation:rule="has(self.httpProxy) || has(self.httpsProxy)",message="set httpProxy, httpsProxy or both"
type ProxySettings struct {
	// httpProxy is the URL of the proxy for http. If omitted, http goes to no proxy.
	// +optional
	HTTPProxy ProxyURL `json:"httpProxy,omitempty"`

	// httpsProxy is the URL of the proxy for https. If omitted, https goes to no proxy.
	// +optional
	HTTPSProxy ProxyURL `json:"httpsProxy,omitempty"`

	// noProxy are names, domains, addresses and networks that are asked directly, beside the cluster's own: its
	// networks, its endpoint, the machine's subnets, localhost, and the names of services. If omitted, those are all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	NoProxy []NoProxyEntry `json:"noProxy,omitempty"`
}

// SSHAccess is a user of the guest and the keys with which to log in.
type SSHAccess struct {
	// user to log in as. If omitted, it is the image's default user, which is core if Ignition reads the data.
	// +optional
	User UserName `json:"user,omitempty"`

	// authorizedKeys are public keys, as in the file authorized_keys. If omitted or empty, nobody else may log in.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AuthorizedKeys []AuthorizedKey `json:"authorizedKeys,omitempty"`
}

// ExtraUserData is a configuration to merge.
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.configMapKeyRef), has(self.secretKeyRef)].filter(x, x).size() == 1",message="set exactly one of inline, configMapKeyRef and secretKeyRef"
type ExtraUserData struct {
	// inline is the configuration. Omit it if it is in a ConfigMap or a Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Inline string `json:"inline,omitempty"`

	// configMapKeyRef names the ConfigMap of the same namespace that has the configuration. Omit it if it is inline or
	// in a Secret.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef names the Secret of the same namespace that has the configuration. Omit it if it is inline or in a
	// ConfigMap.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
}

// KeyReference names a key of a ConfigMap or Secret.
type KeyReference struct {
	// name of the object.
	// +required
	Name ObjectName `json:"name,omitempty"`

	// key in its data.
	// +required
	Key DataKey `json:"key,omitempty"`
}
