// Package guest simulates the inside of a VM. It reads the user data like cloud-init or Ignition, brings up the
// network, and imitates kubeadm. A VM that initializes a cluster brings up an API server and an etcd member at the
// control plane endpoint. A VM that joins a cluster adds a Node. The workload clusters live in memory, in Cluster API's
// in-memory runtime. Each cluster has its own TLS listener, so several clusters can serve port 6443 on different
// loopback addresses.
//
// The package receives only the data that an engine passes to a guest. It rejects everything that a real guest rejects.
// Its errors start with the name of the responsible program. It ignores everything that it cannot know, such as the
// programs of an image and the output of commands.
package guest
