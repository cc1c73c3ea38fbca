// Package nodeimage makes the image that simulated machines boot from: Debian with systemd and cloud-init, and what a
// node of Kubernetes needs, all of it unmodified and from Debian's packages or Go modules.
//
// An image is a folder: rootfs is the root file system, which machines share and do not write to, and store what
// containerd has in /var/lib/containerd, with the container images of kubeadm. Each step is kept by what goes into it,
// so that another version of a program does not unpack Debian again.
package nodeimage
