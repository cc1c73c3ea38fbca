// Package localplane runs a Cluster API management plane as local processes on loopback. They are etcd and
// kube-apiserver (with controller-runtime's envtest), kube-controller-manager, the managers of Cluster API, and this
// provider's manager. `olvmctl local`, the demo and the end-to-end tests use this package.
//
// A start is a list of steps, and a stop undoes them in reverse order. Every process is a child of this process, and is
// stopped by its process ID. envtest starts etcd and kube-apiserver. All other processes also end if this process is
// killed.
package localplane
