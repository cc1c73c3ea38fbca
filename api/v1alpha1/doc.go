// Package v1alpha1 holds the kinds that Oracle's provider does not have: OLVMClusterIdentity, OLVMInventory,
// OLVMInventoryVM, OLVMRemediation and its template, and OLVMSupportServices. They are young: a later version may
// change them, with a conversion.
//
// Validation is OpenAPI and CEL, as in package v1.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1alpha1
