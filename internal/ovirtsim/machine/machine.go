package machine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// These names are the arguments with which this program is started again.
const (
	monitorName = "capolvm-machine"
	initName    = "capolvm-machine-init"
	cleanerName = "capolvm-machine-cleaner"
)

// Config configures a machine.
type Config struct {
	// Name is the name of the machine in logs. ID is a UUID: its firmware UUID and its machine ID.
	Name, ID string
	// RootFS is the root file system of the image; the machine does not write to it. Store is the initial content of
	// containerd's folder; "" means none.
	RootFS, Store string
	// Disk is the folder with everything that the machine writes. It outlives the machine.
	Disk string
	// Disks are the initial disks in addition to the machine's own disk.
	Disks []Disk
	// Drive is the folder of the config drive; "" means no drive.
	Drive string
	// Before is a program of the image that runs before systemd; "" means none.
	Before string
	// Group is the name of the machine's cgroup, with slashes.
	Group string
	// NICs are the network interfaces of the machine. Their bridges are in the network namespace NetNS.
	NetNS string
	NICs  []NIC
}

// NIC is a network interface.
type NIC struct {
	// Name is the name in the machine, and MAC is the MAC address.
	Name, MAC string
	// Bridge is the bridge of the NIC, and Port is the NIC's other end at the bridge; "" means no bridge.
	Bridge, Port string
}

// Ending is the way in which a machine has ended.
type Ending string

// The machine has powered off by itself, or it wants to reboot. Any other ending is a power cut.
const (
	PoweredOff Ending = "off"
	Reboots    Ending = "reboot"
	Cut        Ending = "cut"
)

// Machine is a running machine.
type Machine struct {
	config  Config
	monitor *exec.Cmd
	// pid is the PID of the machine's init in the host's namespace.
	pid   int
	ended chan struct{}
	how   Ending
}

// Start powers on a machine. The machine's monitor ends with this process.
func Start(config Config) (*Machine, error) {
	if err := config.prepareDisk(); err != nil {
		return nil, err
	}

	input, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}

	log, err := os.OpenFile(config.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", config.Name, err)
	}
	defer log.Close()

	monitor := exec.Command("/proc/self/exe") //nolint:noctx // it is ended by Cut
	monitor.Args = []string{monitorName}
	monitor.Stdin, monitor.Stderr = bytes.NewReader(input), log
	monitor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	events, err := monitor.StdoutPipe()
	if err == nil {
		err = monitor.Start()
	}

	if err != nil {
		return nil, fmt.Errorf("machine %s: failed to start its monitor: %w", config.Name, err)
	}

	m := &Machine{config: config, monitor: monitor, ended: make(chan struct{}), how: Cut}
	lines := bufio.NewScanner(events)

	if !lines.Scan() {
		ended := monitor.Wait()
		config.cleanUp()

		return nil, errors.Join(fmt.Errorf("machine %s did not start; see %s", config.Name, config.logFile()), ended)
	}

	if m.pid, err = strconv.Atoi(lines.Text()); err != nil {
		return nil, fmt.Errorf("machine %s did not start: %s", config.Name, lines.Text())
	}

	go m.waitForEnd(lines)

	return m, nil
}

// waitForEnd waits for the end of the machine.
func (m *Machine) waitForEnd(lines *bufio.Scanner) {
	for lines.Scan() {
		m.how = Ending(lines.Text())
	}

	_ = m.monitor.Wait()
	m.config.cleanUp()
	close(m.ended)
}

// Ended returns a channel that closes after the machine has ended. Then only its disk is left.
func (m *Machine) Ended() <-chan struct{} { return m.ended }

// How returns the way in which the machine has ended.
func (m *Machine) How() Ending { return m.how }

// PID returns the PID of the machine's init.
func (m *Machine) PID() int { return m.pid }

// PowerOff asks systemd to end the machine. The channel of Ended reports the end. PowerOff fails until init has become
// systemd, because an earlier init ignores the signal.
func (m *Machine) PowerOff() error {
	const halt = 4 // offset from SIGRTMIN, which is 34 for the C library

	if !m.hasSystemd() {
		return fmt.Errorf("machine %s has not started yet", m.config.Name)
	}

	return syscall.Kill(m.pid, syscall.Signal(34+halt))
}

// hasSystemd reports whether the machine's init is already systemd.
func (m *Machine) hasSystemd() bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", m.pid))
	return err == nil && strings.TrimSpace(string(name)) == "systemd"
}

// CutPower cuts the power unless the machine has ended, and waits until only the disk is left.
func (m *Machine) CutPower() {
	_ = m.monitor.Process.Kill()
	<-m.ended
}

// RunCommand runs a command in the machine without this process's environment, and returns the command's standard
// output. The command ends with ctx.
func (m *Machine) RunCommand(ctx context.Context, command ...string) (string, error) {
	args := append([]string{
		"--target", strconv.Itoa(m.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd=/",
	}, command...)
	var output, problems bytes.Buffer
	run := exec.CommandContext(ctx, "nsenter", args...)
	run.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C"}
	run.Stdout, run.Stderr = &output, &problems
	// The command is a child of nsenter, and must end with nsenter.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	run.WaitDelay = time.Second

	if err := run.Run(); err != nil {
		return output.String(), fmt.Errorf("%s: %w: %s%s", strings.Join(command, " "), err, &output, &problems)
	}

	return output.String(), nil
}

func (c Config) logFile() string { return filepath.Join(c.Disk, "monitor.log") }

// plain are folders outside of the overlay. containerd creates overlays itself, and an overlay cannot be on another
// overlay.
var plain = []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd"}

// plainFolder returns the disk's folder for one of the paths in plain.
func (c Config) plainFolder(path string) string {
	return filepath.Join(c.Disk, strings.ReplaceAll(strings.Trim(path, "/"), "/", "-"))
}

// prepareDisk creates the contents of a new disk. If the disk and the store are on the same file system, it creates
// hard links to the store's files. It copies databases, because the machine modifies them.
func (c Config) prepareDisk() error {
	if _, err := os.Stat(filepath.Join(c.Disk, "ready")); err == nil {
		return nil
	}

	for _, name := range []string{"upper", "work", "root"} {
		if err := makeFolder(filepath.Join(c.Disk, name), 0o755); err != nil {
			return fmt.Errorf("the disk of machine %s: %w", c.Name, err)
		}
	}

	for _, path := range plain {
		if err := makeFolder(c.plainFolder(path), 0o711); err != nil {
			return fmt.Errorf("the disk of machine %s: %w", c.Name, err)
		}
	}

	if c.Store != "" {
		if err := c.copyStore(); err != nil {
			return fmt.Errorf("the disk of machine %s: %w", c.Name, err)
		}
	}

	return os.WriteFile(filepath.Join(c.Disk, "ready"), nil, 0o600)
}

// makeFolder creates a folder with the given mode, regardless of the umask.
func makeFolder(path string, mode os.FileMode) error {
	return errors.Join(os.MkdirAll(path, mode), os.Chmod(path, mode))
}

func (c Config) copyStore() error {
	to := c.plainFolder(plain[0])
	how := "--reflink=auto"
	if sameFileSystem(c.Store, to) {
		how = "--link"
	}

	command := exec.Command("cp", "--archive", how, c.Store+"/.", to) //nolint:noctx // at once
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}

	databases, err := filepath.Glob(filepath.Join(to, "*", "*.db"))
	if err != nil {
		return err
	}

	for _, path := range databases {
		content, err := os.ReadFile(path)
		if err == nil {
			err = errors.Join(os.Remove(path), os.WriteFile(path, content, 0o600))
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// sameFileSystem reports whether two folders can share files by hard links.
func sameFileSystem(one, other string) bool {
	var a, b syscall.Stat_t

	return syscall.Stat(one, &a) == nil && syscall.Stat(other, &b) == nil && a.Dev == b.Dev
}

// cleanLimit limits the wait until the kernel has ended the contents of a machine.
const cleanLimit = 10 * time.Second

// cleanUp removes the kernel's remains of a machine: the ends of its links, and its cgroups.
func (c Config) cleanUp() {
	for _, nic := range c.NICs {
		_ = IP(c.NetNS, "link", "delete", nic.Port)
	}

	removeGroups(c.Group, time.Now().Add(cleanLimit))
}

// IP runs the command ip in a named network namespace; "" means the namespace of this process.
func IP(namespace string, args ...string) error {
	if namespace != "" {
		args = append([]string{"-netns", namespace}, args...)
	}

	output, err := exec.Command("ip", args...).CombinedOutput() //nolint:noctx // at once
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, output)
	}

	return nil
}
