// Package v1alpha1 holds the kinds that Oracle's provider does not have: OLVMClusterIdentity, OLVMInventory,
// OLVMInventoryVM, OLVMRemediation and its template, and OLVMSupportServices. A later version may change them, with a
// conversion.
//
// OpenAPI and CEL validate the objects, as in package v1.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1alpha1
