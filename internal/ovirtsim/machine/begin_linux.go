package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// begin creates the file systems of the machine, and turns into its systemd.
func begin() error {
	runtime.LockOSThread()

	var config Config
	wait := os.NewFile(3, "configuration")
	if err := json.NewDecoder(wait).Decode(&config); err != nil {
		return fmt.Errorf("failed to read what the machine is made of: %w", err)
	}

	_ = wait.Close()

	// Only now, so that the machine's cgroup is the root of the namespace.
	list, err := hierarchies()
	if err == nil {
		err = unix.Unshare(unix.CLONE_NEWCGROUP)
	}

	if err != nil {
		return fmt.Errorf("failed to make a namespace of cgroups: %w", err)
	}

	m := &mounts{config: config, root: filepath.Join(config.Disk, "root"), hierarchies: list}
	for _, step := range []func() error{
		m.disk, m.proc, m.sys, m.groups, m.devices, m.disks, m.memory, m.drive, m.pivot,
	} {
		if err := step(); err != nil {
			return err
		}
	}

	if config.Before != "" {
		before := exec.Command(config.Before) //nolint:noctx // nothing else runs
		before.Stdout, before.Stderr = os.Stderr, os.Stderr
		if err := before.Run(); err != nil {
			return fmt.Errorf("%s: %w", config.Before, err)
		}
	}

	return syscall.Exec("/lib/systemd/systemd", []string{"/sbin/init"}, os.Environ())
}

// mounts creates the file systems of a machine.
type mounts struct {
	config      Config
	root        string
	hierarchies []hierarchy
}

func (m *mounts) at(path string) string { return filepath.Join(m.root, path) }

// restricted mounts allow no devices and no programs.
const restricted = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mount mounts a file system at a path of the machine.
func (m *mounts) mount(source, path, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, m.at(path), kind, flags, options); err != nil {
		return fmt.Errorf("failed to mount %s: %w", path, err)
	}

	return nil
}

// bind mounts a folder or a file of the host.
func (m *mounts) bind(source, path string, readOnly bool) error {
	err := m.mount(source, path, "", unix.MS_BIND, "")
	if err == nil && readOnly {
		err = m.mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}

	return err
}

// file creates a temporary file, and mounts it over an existing one for the life of the machine.
func (m *mounts) file(path, content string) error {
	temporary := filepath.Join(m.config.Disk, "file")
	if err := os.WriteFile(temporary, []byte(content), 0o444); err != nil {
		return err
	}

	// The mount keeps the file alive.
	return errors.Join(m.bind(temporary, path, true), os.Remove(temporary))
}

// disk mounts the disk over the image.
func (m *mounts) disk() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("failed to make mounts private: %w", err)
	}

	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", m.config.RootFS,
		filepath.Join(m.config.Disk, "upper"), filepath.Join(m.config.Disk, "work"))
	if err := m.mount("overlay", "/", "overlay", 0, options); err != nil {
		return err
	}

	for _, path := range plain {
		err := os.MkdirAll(m.at(path), 0o711)
		if err == nil {
			err = m.bind(m.config.plainFolder(path), path, false)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// settings are required by a kubelet. They belong to the whole host, so the machine sees these values, but changes
// none.
var settings = map[string]string{
	"/proc/sys/vm/overcommit_memory":      "1\n",
	"/proc/sys/vm/panic_on_oom":           "0\n",
	"/proc/sys/kernel/panic":              "10\n",
	"/proc/sys/kernel/panic_on_oops":      "1\n",
	"/proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000\n",
}

// proc mounts /proc. The machine may only write the settings of its own network.
func (m *mounts) proc() error {
	const spare = "/mnt" // of the image, used temporarily
	net := spare + "/sys/net"

	err := errors.Join(
		m.mount("proc", "/proc", "proc", restricted, ""),
		m.mount("proc", spare, "proc", restricted, ""),
		m.bind(m.at("/proc/sys"), "/proc/sys", true),
		m.bind(m.at(net), "/proc/sys/net", false),
		unix.Unmount(m.at(spare), unix.MNT_DETACH),
	)
	if _, there := os.Stat(m.at("/proc/sysrq-trigger")); there == nil {
		err = errors.Join(err, m.bind("/dev/null", "/proc/sysrq-trigger", false))
	}

	for path, value := range settings {
		err = errors.Join(err, m.file(path, value))
	}

	return err
}

// sys mounts /sys, with the machine's UUID in the place of its firmware.
func (m *mounts) sys() error {
	const (
		classes  = "/sys/class"
		firmware = classes + "/dmi/id"
		uuid     = firmware + "/product_uuid"
	)

	if err := m.mount("sysfs", "/sys", "sysfs", restricted, ""); err != nil {
		return err
	}

	if _, err := os.Stat(m.at(uuid)); err != nil {
		if err := m.addFirmware(classes); err != nil {
			return err
		}

		if err := os.MkdirAll(m.at(firmware), 0o755); err != nil {
			return err
		}

		if err := os.WriteFile(m.at(uuid), []byte(m.config.ID+"\n"), 0o400); err != nil {
			return err
		}
	} else if err := m.file(uuid, m.config.ID+"\n"); err != nil {
		return err
	}

	return m.mount("", "/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|restricted, "")
}

// addFirmware replaces /sys/class by a writable folder with the same contents, because this host has no firmware data.
func (m *mounts) addFirmware(classes string) error {
	entries, err := os.ReadDir(m.at(classes))
	if err != nil {
		return err
	}

	opened := map[string]*os.File{}
	for _, entry := range entries {
		if opened[entry.Name()], err = os.Open(m.at(filepath.Join(classes, entry.Name()))); err != nil {
			return err
		}
	}

	if err := m.mount("tmpfs", classes, "tmpfs", restricted, "mode=755"); err != nil {
		return err
	}

	for name, folder := range opened {
		path := filepath.Join(classes, name)
		err := os.Mkdir(m.at(path), 0o755)
		if err == nil {
			err = m.bind(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), path, false)
		}

		_ = folder.Close()

		if err != nil {
			return err
		}
	}

	return nil
}

// groups mounts the cgroup hierarchies.
func (m *mounts) groups() error {
	if len(m.hierarchies) == 1 && m.hierarchies[0].folder == "" {
		return m.mount("cgroup", groupRoot, "cgroup2", restricted, "")
	}

	if err := m.mount("tmpfs", groupRoot, "tmpfs", restricted, "mode=755"); err != nil {
		return err
	}

	for _, h := range m.hierarchies {
		path, kind, options := filepath.Join(groupRoot, h.folder), "cgroup", h.options

		switch {
		case h.options == "":
			kind = "cgroup2"
		case strings.HasPrefix(h.options, "name="):
			options = "none," + h.options
		}

		err := os.Mkdir(m.at(path), 0o755)
		if err == nil {
			err = m.mount("cgroup", path, kind, restricted, options)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// devices creates /dev.
func (m *mounts) devices() error {
	err := m.mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755")

	for name, number := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0},
		"kmsg": {1, 11}, "fuse": {10, 229},
	} {
		path := m.at("/dev/" + name)
		err = errors.Join(err, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(number[0], number[1]))),
			unix.Chmod(path, 0o666)) // regardless of the umask
	}

	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"core": "/proc/kcore", "ptmx": "pts/ptmx",
	} {
		err = errors.Join(err, os.Symlink(target, m.at("/dev/"+name)))
	}

	for _, name := range []string{"pts", "shm", "mqueue"} {
		err = errors.Join(err, os.Mkdir(m.at("/dev/"+name), 0o755))
	}

	terminal, failed := os.Readlink("/proc/self/fd/0")

	return errors.Join(err, failed,
		m.mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
			"newinstance,ptmxmode=0666,mode=620,gid=5"),
		m.mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		m.mount("mqueue", "/dev/mqueue", "mqueue", restricted, ""),
		os.WriteFile(m.at("/dev/console"), nil, 0o600),
		m.bind(terminal, "/dev/console", false),
	)
}

// memory mounts the file systems kept in memory.
func (m *mounts) memory() error {
	return errors.Join(
		m.mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
		m.mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
	)
}

// drive mounts the config drive where cloud-init looks for one in the form of a folder.
func (m *mounts) drive() error {
	const path = "/var/lib/cloud/seed/config_drive"
	if m.config.Drive == "" {
		return nil
	}

	if err := os.MkdirAll(m.at(path), 0o755); err != nil {
		return err
	}

	return m.bind(m.config.Drive, path, true)
}

// pivot switches to the machine's own file systems, and leaves the host's.
func (m *mounts) pivot() error {
	const old = "/mnt"
	if err := unix.PivotRoot(m.root, m.at(old)); err != nil {
		return fmt.Errorf("failed to change the root: %w", err)
	}

	return errors.Join(unix.Chdir("/"), unix.Unmount(old, unix.MNT_DETACH),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
}
