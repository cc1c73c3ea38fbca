// Package guest simulates the inside of a VM. It reads the user data like cloud-init or Ignition, brings up the
// network, and imitates kubeadm. A VM initialising a cluster brings up an API server and an etcd member on the control
// plane endpoint. A joining VM adds a Node. The workload clusters live in memory, in Cluster API's in-memory runtime.
// Each has a TLS listener of its own, so several can serve port 6443 on different loopback addresses.
//
// The package knows only the engine's data for a guest. It rejects everything a real guest would reject, and its error
// starts with the name of the responsible program. It ignores unknowable things, such as programs of the image and the
// output of commands.
package guest
