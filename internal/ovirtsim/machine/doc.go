// Package machine runs Linux machines in kernel namespaces: an unmodified systemd as PID 1, its own processes, mounts,
// network and cgroups, and a persistent disk. They stand in for virtual machines.
//
// Each machine has a monitor, a process of this program, like a virtual machine has QEMU: killing it is a power cut. A
// program running machines must call Main first, because the program is started again as the monitor, and as the
// process turning into systemd.
//
// systemd-nspawn does not replace this package: it adds no block devices to a running machine, and a disk may be attached
// while the VM is up. It also expects systemd on the host. Test hosts are often containers without it, some with cgroup
// v1.
//
// A machine is no security boundary: its root is the host's root.
package machine
