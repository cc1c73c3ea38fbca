// Package nodeimage builds the boot image of simulated machines: Debian with systemd and cloud-init, and the programs
// of a Kubernetes node. All of it is unmodified and from Debian's packages or Go modules.
//
// An image is a folder. rootfs is the root file system, shared by machines and never written. store is the content of
// /var/lib/containerd, with the container images of kubeadm. Each step is cached by its inputs, so that a new version
// of a program does not unpack Debian again.
package nodeimage
