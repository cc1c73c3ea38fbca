package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of all types in this package.
	GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&OLVMClusterIdentity{}, &OLVMClusterIdentityList{},
		&OLVMInventory{}, &OLVMInventoryList{},
		&OLVMInventoryVM{}, &OLVMInventoryVMList{},
		&OLVMRemediation{}, &OLVMRemediationList{},
		&OLVMRemediationTemplate{}, &OLVMRemediationTemplateList{},
		&OLVMSupportServices{}, &OLVMSupportServicesList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)

	return nil
}
