// Package machine runs Linux machines in kernel namespaces: an unmodified systemd as PID 1, its own processes, mounts,
// network and cgroups, and a persistent disk. These machines take the place of virtual machines.
//
// Each machine has a monitor, which is a process of this program, like QEMU for a virtual machine. Killing the monitor
// cuts the machine's power. A program that runs machines must call Main first. The program is started again as the
// monitor, and as the process that becomes systemd.
//
// systemd-nspawn does not replace this package: it adds no block devices to a running machine, and a disk may be
// attached while the VM is up. It also expects systemd on the host. Test hosts are often containers without it, some
// with cgroup v1.
//
// A machine is not a security boundary: root in the machine is root on the host.
package machine
