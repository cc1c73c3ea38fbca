package machine

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main must be the first call of programs that run machines. It returns only if this process is neither a monitor, an
// init, nor a cleaner.
func Main() {
	run := map[string]func() error{
		monitorName: runMonitor, initName: runInit, cleanerName: runCleaner,
	}[os.Args[0]]
	if run == nil {
		return
	}

	syscall.Umask(0o022) // all users of a machine may read the files

	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(0)
}

// runMonitor starts the machine whose configuration it reads from standard input, and prints the machine's ending.
func runMonitor() error {
	// The child dies with the thread that starts it.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("failed to ask to end with the simulator: %w", err)
	}

	var config Config
	if err := json.NewDecoder(os.Stdin).Decode(&config); err != nil {
		return fmt.Errorf("failed to read what the machine is made of: %w", err)
	}

	console, terminal, err := openTerminal()
	if err != nil {
		return err
	}
	defer terminal.Close() // without an open end, the console ends, and so does systemd

	log, err := os.OpenFile(config.consoleFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	go func() { _, _ = io.Copy(log, console) }()

	child, err := config.startInit(terminal)
	if err != nil {
		return err
	}

	fmt.Println(child.Process.Pid)
	fmt.Println(parseEnding(child.Wait()))

	return nil
}

func (c Config) consoleFile() string { return c.Disk + "/console.log" }

// startInit starts the init of the machine. The init waits until the machine's cgroups and links are ready.
func (c Config) startInit(terminal *os.File) (*exec.Cmd, error) {
	wait, proceed, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer wait.Close()
	defer proceed.Close()

	child := exec.Command("/proc/self/exe") //nolint:noctx // the machine ends by itself
	child.Args = []string{initName}
	child.Env = []string{"container=capolvm", "container_uuid=" + c.ID}
	child.Stdin, child.Stdout, child.Stderr = terminal, terminal, terminal
	child.ExtraFiles = []*os.File{wait}
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
		Setctty:    true,
	}
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("failed to start init: %w", err)
	}

	err = joinGroups(c.Group, child.Process.Pid)
	if err == nil {
		err = c.connectLinks(child.Process.Pid)
	}

	if err == nil {
		err = json.NewEncoder(proceed).Encode(c)
	}

	if err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
	}

	return child, err
}

// connectLinks creates the network links of a machine.
func (c Config) connectLinks(pid int) error {
	for _, nic := range c.NICs {
		_ = IP(c.NetNS, "link", "delete", nic.Port) // a link left by a killed machine
		err := IP(c.NetNS, "link", "add", nic.Port, "type", "veth", "peer", "name", nic.Name, "address", nic.MAC,
			"netns", fmt.Sprint(pid))
		if err == nil && nic.Bridge != "" {
			err = IP(c.NetNS, "link", "set", nic.Port, "master", nic.Bridge, "up")
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// parseEnding derives the ending from the death of init. The kernel ends init with a different signal for each kind of
// reboot(2).
func parseEnding(err error) Ending {
	exited, ok := err.(*exec.ExitError) //nolint:errorlint // Wait returns it as it is
	if !ok {
		return Cut
	}

	status, _ := exited.Sys().(syscall.WaitStatus)

	switch {
	case status.Signaled() && status.Signal() == syscall.SIGINT:
		return PoweredOff
	case status.Signaled() && status.Signal() == syscall.SIGHUP:
		return Reboots
	}

	return Cut
}

// openTerminal opens a new terminal. The console reads the machine's output, and the terminal is in the machine.
func openTerminal() (console, terminal *os.File, err error) {
	console, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to open a terminal: %w", err)
	}

	number, err := unix.IoctlGetInt(int(console.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(console.Fd()), unix.TIOCSPTLCK, 0)
	}

	if err != nil {
		return nil, nil, fmt.Errorf("failed to unlock a terminal: %w", err)
	}

	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)

	return console, terminal, err
}
