package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// OLVMMachineTemplateSpec holds the template of a machine. An admission policy keeps spec.template.spec immutable
// (config/policy): a rule here would also refuse the dry runs by which the topology controller compares templates.
type OLVMMachineTemplateSpec struct {
	// template of the OLVMMachines to create. Its spec cannot be changed: a new template is rolled out.
	// +required
	Template OLVMMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// OLVMMachineTemplateResource is metadata and spec of an OLVMMachine to create.
type OLVMMachineTemplateResource struct {
	// metadata is added to the OLVMMachine. If omitted, nothing is added.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of the OLVMMachine.
	// +required
	// +kubebuilder:validation:XValidation:rule=`!has(self.providerID) || size(self.providerID) == 0`,message="providerID names the VM of one machine, and each machine of the template would have it; remove it",fieldPath=".providerID"
	Spec OLVMMachineSpec `json:"spec,omitempty,omitzero"`
}

// OLVMMachineTemplateStatus is what a machine made from the template will be, which the cluster autoscaler must know
// before there is one.
type OLVMMachineTemplateStatus struct {
	// capacity of a machine made from the template: cpu and memory. Absent while the template does not say it.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo of a machine made from the template.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// NodeInfo describes a node before it exists, as the Cluster API contract asks.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture of the node's CPU, as Kubernetes names it.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`

	// operatingSystem of the node.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// Architecture of a CPU, as Kubernetes names it.
// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
type Architecture string

// The architectures of engines' VMs.
const (
	ArchitectureAmd64   Architecture = "amd64"
	ArchitectureArm64   Architecture = "arm64"
	ArchitectureS390x   Architecture = "s390x"
	ArchitecturePpc64le Architecture = "ppc64le"
)

// OLVMMachineTemplate is the template from which a control plane or a MachineDeployment makes OLVMMachines.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1"
// +kubebuilder:resource:path=olvmmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=olvmmt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="VMTemplate",type=string,JSONPath=`.spec.template.spec.vmTemplateName`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.template.spec.virtualMachine.memory`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OLVMMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template of OLVMMachines.
	// +required
	Spec OLVMMachineTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is what a machine made from the template will be.
	// +optional
	Status OLVMMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// OLVMMachineTemplateList is a list of OLVMMachineTemplates.
// +kubebuilder:object:root=true
type OLVMMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMMachineTemplate `json:"items"`
}
