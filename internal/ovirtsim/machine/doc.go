// Package machine runs Linux machines in kernel namespaces: an unmodified systemd as PID 1, its own processes, mounts,
// network and cgroups, and a persistent disk. They stand in for virtual machines.
//
// Each machine has a monitor, a process of this program, like a virtual machine has QEMU: killing it is a power cut. A
// program running machines must call Main first, because the program is started again as the monitor, and as the
// process turning into systemd.
//
// A machine is no security boundary: its root is the host's root.
package machine
