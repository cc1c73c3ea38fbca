// Package nodes provides guests running as Linux machines. A VM starts an image with systemd, cloud-init and Kubernetes
// in kernel namespaces (internal/ovirtsim/machine), with a bridge for each network.
//
// A guest gets the engine's data only through a drive, a disk and its devices. Its agent reports the machine's real
// state.
package nodes
