// Package machine runs Linux machines in namespaces of the kernel: an unmodified systemd as PID 1, its own processes,
// mounts, network and cgroups, and a disk that outlives it. They stand in for virtual machines where there is none.
//
// Each machine has a monitor, a process of this program, as a virtual machine has QEMU: its death is a power cut. A
// program that runs machines calls Main first, for it is started again as monitor, and as what becomes systemd.
//
// A machine is no boundary of security: its root is that of the host.
package machine
