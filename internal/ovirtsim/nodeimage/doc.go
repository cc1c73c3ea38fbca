// Package nodeimage builds the boot image of simulated machines. It contains Debian with systemd and cloud-init, and
// the programs of a Kubernetes node. All of them are unmodified, and come from Debian's packages or from Go modules.
//
// An image is a folder. In it, rootfs is the root file system; machines share it and never write to it. The folder
// store is the content of /var/lib/containerd, with kubeadm's container images. The cache stores the result of each
// step by the step's inputs, so a new version of a program does not unpack Debian again.
package nodeimage
