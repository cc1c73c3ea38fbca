// Package v1 holds the API types of Cluster API Provider OLVM: OLVMCluster,
// OLVMClusterTemplate, OLVMMachine and OLVMMachineTemplate.
//
// The spec fields and status.olvm have the names of Oracle's provider, so
// that manifests written for it apply unchanged. Its CLI writes an empty
// string or a zero for a field that is not set; both mean "use the default"
// here too. Everything this provider adds is optional.
//
// The types hold no logic but defaults of absent values; validation is
// OpenAPI and CEL.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1
