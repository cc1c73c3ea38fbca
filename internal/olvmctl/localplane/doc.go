// Package localplane runs a Cluster API management plane as local processes on loopback: etcd and kube-apiserver
// (through controller-runtime's envtest), kube-controller-manager, the managers of Cluster API, and our own manager.
// `olvmctl local`, the demo and the end-to-end tests use it.
//
// A plane is an ordered list of steps, undone backwards. Every process is a child of this one and is stopped by its ID.
// All except etcd and kube-apiserver, started by envtest, also die if this process is killed.
package localplane
