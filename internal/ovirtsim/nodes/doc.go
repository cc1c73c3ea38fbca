// Package nodes provides guests that run as Linux machines. A VM starts an image with systemd, cloud-init and
// Kubernetes in kernel namespaces (internal/ovirtsim/machine). Each network has a bridge.
//
// A guest gets the engine's data only from its drive, its disk and its devices. Its agent reports the machine's real
// state.
package nodes
