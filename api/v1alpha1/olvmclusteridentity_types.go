package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// OLVMClusterIdentity lets OLVMClusters of several namespaces use the credentials of one Secret, which those who write
// them cannot read. It is for administrators: it belongs to no namespace.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:resource:path=olvmclusteridentities,scope=Cluster,categories=cluster-api,shortName=olvmci
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True if what it names can be used"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it can or cannot be used"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.spec.credentialsSecret.name`,description="Secret with the credentials"
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.credentialsSecret.namespace`,description="Namespace of the Secret"
// +kubebuilder:printcolumn:name="Engines",type=string,JSONPath=`.spec.allowedServerURLs`,description="Engines that the credentials are for",priority=10
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type OLVMClusterIdentity struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says what the identity is, and who may use it.
	// +required
	Spec OLVMClusterIdentitySpec `json:"spec,omitempty,omitzero"`

	// status is what the controller has observed of what the identity names.
	// +optional
	Status OLVMClusterIdentityStatus `json:"status,omitempty,omitzero"`
}

// OLVMClusterIdentityStatus is what the controller has observed.
type OLVMClusterIdentityStatus struct {
	// conditions of the OLVMClusterIdentity: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (i *OLVMClusterIdentity) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (i *OLVMClusterIdentity) SetConditions(conditions []metav1.Condition) {
	i.Status.Conditions = conditions
}

// OLVMClusterIdentitySpec is an identity and its users.
type OLVMClusterIdentitySpec struct {
	// credentialsSecret names the Secret with the keys username (with its @domain) and password. It is in the
	// namespace of the controller, and is kept from deletion while an OLVMCluster or an OLVMInventory uses it. Its
	// annotations and its key allowedServerURLs do not count here. Changes take effect at once.
	// +required
	CredentialsSecret ObjectOfNamespace `json:"credentialsSecret,omitempty,omitzero"`

	// caConfigMap names the ConfigMap whose values are PEM certificates that sign the certificates of the engines. It
	// is in the namespace of the controller, too. If omitted, the trust store of the controller's image is used.
	// Changes take effect at once.
	// +optional
	CAConfigMap *ObjectOfNamespace `json:"caConfigMap,omitempty"`

	// allowedServerURLs are the engines to which the credentials may be sent: the serverURL of an OLVMCluster has the
	// host, the port and the path of one of them. Changes take effect at once.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AllowedServerURLs []infrav1.EngineURL `json:"allowedServerURLs,omitempty"`

	// allowedNamespaces are those whose OLVMClusters and OLVMInventories may use the identity. If omitted, none may;
	// selector: {} means all. Changes take effect at once.
	// +optional
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`
}

// ObjectOfNamespace names an object of a namespace.
type ObjectOfNamespace struct {
	// namespace of the object.
	// +required
	Namespace infrav1.NamespaceName `json:"namespace,omitempty"`

	// name of the object.
	// +required
	Name infrav1.ObjectName `json:"name,omitempty"`
}

// AllowedNamespaces are namespaces by their names or their labels. One that either has is allowed. What is emptied is
// refused, because who takes the last namespace out does not mean all.
// +kubebuilder:validation:MinProperties=1
type AllowedNamespaces struct {
	// list of names. If omitted, selector alone chooses.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:XValidation:rule=`!('*' in self)`,message="* is no namespace; write selector: {} to allow all namespaces, and remove it"
	List []infrav1.NamespaceName `json:"list,omitempty"`

	// selector chooses by labels. selector: {} chooses all; if it is omitted, it chooses none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || size(self.matchLabels) > 0) && (!has(self.matchExpressions) || size(self.matchExpressions) > 0)",message="matchLabels and matchExpressions must not be empty; write selector: {} to allow all namespaces, or remove selector"
	Selector *infrav1.LabelSelector `json:"selector,omitempty"`
}

// OLVMClusterIdentityList is a list of OLVMClusterIdentities.
// +kubebuilder:object:root=true
type OLVMClusterIdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []OLVMClusterIdentity `json:"items"`
}
