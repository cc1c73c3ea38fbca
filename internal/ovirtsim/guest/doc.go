// Package guest is the inside of a simulated VM: it reads the user data as
// cloud-init or Ignition would, brings the network up, and runs kubeadm in
// spirit. A VM that initialises a cluster brings up an API server and an etcd
// member on the control plane endpoint; a VM that joins adds a Node. The
// workload clusters live in memory (Cluster API's in-memory runtime), each
// behind a TLS listener of its own, so that several can serve port 6443 on
// different loopback addresses.
//
// It knows only what the engine gives to a guest. What a real guest would
// refuse is refused here, with an error that begins with the program that
// would have said it; what it cannot know (programs of the image, what a
// command prints) is passed over.
package guest
