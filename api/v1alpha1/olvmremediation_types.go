package v1alpha1

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemediationFinalizer keeps an OLVMRemediation until the VM that it powered off is started again.
const RemediationFinalizer = "olvmremediation.infrastructure.cluster.x-k8s.io"

// OLVMRemediationStrategyType is a way to remediate a machine.
// +kubebuilder:validation:Enum=Reboot
type OLVMRemediationStrategyType string

// RebootStrategy powers the VM off and starts it again.
const RebootStrategy OLVMRemediationStrategyType = "Reboot"

// OLVMRemediationStrategy says how a machine is remediated.
type OLVMRemediationStrategy struct {
	// type of the strategy. Reboot powers the VM off through the engine and starts it again. Changes take effect
	// at once.
	// +required
	Type OLVMRemediationStrategyType `json:"type,omitempty"`

	// retryLimit is how many times the VM is rebooted, 1 to 10, before the owner of the Machine replaces it. If
	// omitted, it is 1. Changes take effect at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	RetryLimit int32 `json:"retryLimit,omitempty"`

	// timeoutSeconds is how many seconds the node may take to be healthy after its VM was started, 60 to 86400. The
	// engine may refuse to power the VM off for as long. If omitted, it is 600. Changes take effect at once.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// Retries returns retryLimit or its default.
func (s OLVMRemediationStrategy) Retries() int32 { return cmp.Or(s.RetryLimit, 1) }

// Timeout returns timeoutSeconds, or its default, as a duration.
func (s OLVMRemediationStrategy) Timeout() time.Duration {
	return time.Duration(cmp.Or(s.TimeoutSeconds, 600)) * time.Second
}

// OLVMRemediationSpec says how the machine is remediated.
type OLVMRemediationSpec struct {
	// strategy of the remediation. Changes take effect at once.
	// +required
	Strategy OLVMRemediationStrategy `json:"strategy,omitempty,omitzero"`
}

// RemediationStep is what the controller does to the VM.
// +kubebuilder:validation:Enum=PoweringOff;Starting;Waiting;GivenUp
type RemediationStep string

// The steps of a remediation, in their order.
const (
	// PoweringOffStep lasts from before the VM is powered off until the engine says that it is down.
	PoweringOffStep RemediationStep = "PoweringOff"
	// StartingStep lasts until the VM starts.
	StartingStep RemediationStep = "Starting"
	// WaitingStep lasts until the machine is healthy, or until the time of the reboot is over.
	WaitingStep RemediationStep = "Waiting"
	// GivenUpStep is the last one: the owner of the Machine replaces it.
	GivenUpStep RemediationStep = "GivenUp"
)

// OLVMRemediationStatus says how far the remediation is.
// +kubebuilder:validation:MinProperties=1
type OLVMRemediationStatus struct {
	// conditions of the OLVMRemediation: Remediated, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// step is what the controller does to the VM. It is omitted until the first reboot begins.
	// +optional
	Step RemediationStep `json:"step,omitempty"`

	// attempts is how many reboots have begun.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// stepTime is when the step began. The time during which the cluster was paused does not count.
	// +optional
	StepTime metav1.Time `json:"stepTime,omitempty,omitzero"`

	// powerOffTime is when the engine agreed to power the VM off for this reboot. It is omitted until then.
	// +optional
	PowerOffTime metav1.Time `json:"powerOffTime,omitempty,omitzero"`
}

// OLVMRemediation is the request of a MachineHealthCheck to remediate one machine. Cluster API makes it from an
// OLVMRemediationTemplate when the machine becomes unhealthy, with the name of the Machine, and deletes it when the
// machine is healthy again.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:resource:path=olvmremediations,scope=Namespaced,categories=cluster-api,shortName=olvmr
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`,description="What the controller does to the VM"
// +kubebuilder:printcolumn:name="Attempts",type=integer,JSONPath=`.status.attempts`,description="Reboots that have begun"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Remediated")].reason`,description="Why the machine is not remediated yet"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type OLVMRemediation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says how the machine is remediated.
	// +required
	Spec OLVMRemediationSpec `json:"spec,omitempty,omitzero"`

	// status says how far the remediation is.
	// +optional
	Status OLVMRemediationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, as Cluster API's helpers expect.
func (r *OLVMRemediation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's helpers expect.
func (r *OLVMRemediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// OLVMRemediationList is a list of OLVMRemediations.
// +kubebuilder:object:root=true
type OLVMRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMRemediation `json:"items"`
}

// OLVMRemediationTemplateSpec has what OLVMRemediations are made from.
type OLVMRemediationTemplateSpec struct {
	// template of the OLVMRemediations.
	// +required
	Template OLVMRemediationTemplateResource `json:"template,omitempty,omitzero"`
}

// OLVMRemediationTemplateResource is an OLVMRemediation without a name.
type OLVMRemediationTemplateResource struct {
	// spec of the OLVMRemediations.
	// +required
	Spec OLVMRemediationSpec `json:"spec,omitempty,omitzero"`
}

// OLVMRemediationTemplate is what the field spec.remediation.templateRef of a MachineHealthCheck names, so that
// unhealthy machines are rebooted before they are replaced. A change applies to remediations that begin later.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=olvmremediationtemplates,scope=Namespaced,categories=cluster-api,shortName=olvmrt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Retries",type=integer,JSONPath=`.spec.template.spec.strategy.retryLimit`,description="Reboots before a machine is replaced"
// +kubebuilder:printcolumn:name="Timeout",type=integer,JSONPath=`.spec.template.spec.strategy.timeoutSeconds`,description="Seconds that one reboot may take"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type OLVMRemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec has what OLVMRemediations are made from.
	// +required
	Spec OLVMRemediationTemplateSpec `json:"spec,omitempty,omitzero"`
}

// OLVMRemediationTemplateList is a list of OLVMRemediationTemplates.
// +kubebuilder:object:root=true
type OLVMRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OLVMRemediationTemplate `json:"items"`
}
