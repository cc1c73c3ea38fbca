package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// OLVMMachineTemplateSpec holds the template of a machine. An admission policy keeps spec.template.spec immutable
// (config/policy): a rule here would also refuse the dry runs by which the topology controller compares templates.
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
