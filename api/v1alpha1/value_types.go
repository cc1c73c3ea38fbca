package v1alpha1

// The types here are those of api/v1 that fields bound further: controller-gen bounds types of the same package alone.

// EngineName is the name of an object of the engine.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule=`!self.startsWith(' ') && !self.endsWith(' ') && !self.endsWith('\n')`,message="write a name without spaces and line breaks at its ends"
type EngineName = string

// LabelName is a name that becomes part of names of VMs and of objects.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="write lower case letters, digits and dashes, with a letter or digit at both ends"
type LabelName = string
