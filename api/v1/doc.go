// Package v1 holds the API types of Cluster API Provider OLVM: OLVMCluster,
// OLVMClusterTemplate, OLVMMachine and OLVMMachineTemplate.
//
// The spec fields and status.olvm have the names of Oracle's provider.
// Manifests for that provider therefore apply unchanged. Oracle's CLI writes
// an empty string or a zero for an unset field. Both mean "use the default"
// here, too. All fields that this provider adds are optional.
//
// The only logic of the types is the defaults of absent values. OpenAPI and
// CEL validate the objects.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1
