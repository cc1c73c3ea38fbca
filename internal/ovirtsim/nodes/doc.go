// Package nodes are guests that are Linux machines: what starts in a VM is an image with systemd, cloud-init and
// Kubernetes, in namespaces of the kernel (internal/ovirtsim/machine), on a bridge for each network.
//
// A guest knows of the engine what a drive, a disk and its devices tell it, and nothing else; what its agent reports is
// what the machine has.
package nodes
