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

// runInit creates the file systems of the machine, and then executes its systemd.
func runInit() error {
	runtime.LockOSThread()

	var config Config
	wait := os.NewFile(3, "configuration")
	if err := json.NewDecoder(wait).Decode(&config); err != nil {
		return fmt.Errorf("failed to read what the machine is made of: %w", err)
	}

	_ = wait.Close()

	// This step comes late, so that the machine's cgroup is the root of the namespace.
	list, err := readHierarchies()
	if err == nil {
		err = unix.Unshare(unix.CLONE_NEWCGROUP)
	}

	if err != nil {
		return fmt.Errorf("failed to make a namespace of cgroups: %w", err)
	}

	m := &mounts{config: config, root: filepath.Join(config.Disk, "root"), hierarchies: list}
	for _, step := range []func() error{
		m.mountDisk, m.mountProc, m.mountSys, m.mountGroups, m.createDevices, m.createDisks, m.mountTmpfs,
		m.mountDrive, m.pivotRoot,
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

func (m *mounts) hostPath(path string) string { return filepath.Join(m.root, path) }

// restricted are flags for mounts without devices and programs.
const restricted = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountAt mounts a file system at a path of the machine.
func (m *mounts) mountAt(source, path, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, m.hostPath(path), kind, flags, options); err != nil {
		return fmt.Errorf("failed to mount %s: %w", path, err)
	}

	return nil
}

// bindMount mounts a folder or a file of the host.
func (m *mounts) bindMount(source, path string, readOnly bool) error {
	err := m.mountAt(source, path, "", unix.MS_BIND, "")
	if err == nil && readOnly {
		err = m.mountAt("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}

	return err
}

// mountFile creates a temporary file, and mounts it over an existing file as long as the machine runs.
func (m *mounts) mountFile(path, content string) error {
	temporary := filepath.Join(m.config.Disk, "file")
	if err := os.WriteFile(temporary, []byte(content), 0o444); err != nil {
		return err
	}

	// The mount keeps the file alive.
	return errors.Join(m.bindMount(temporary, path, true), os.Remove(temporary))
}

// mountDisk mounts the disk over the image.
func (m *mounts) mountDisk() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("failed to make mounts private: %w", err)
	}

	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", m.config.RootFS,
		filepath.Join(m.config.Disk, "upper"), filepath.Join(m.config.Disk, "work"))
	if err := m.mountAt("overlay", "/", "overlay", 0, options); err != nil {
		return err
	}

	for _, path := range plain {
		err := os.MkdirAll(m.hostPath(path), 0o711)
		if err == nil {
			err = m.bindMount(m.config.plainFolder(path), path, false)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// settings are the kernel settings that a kubelet requires. They belong to the whole host. Therefore, the machine sees
// these values but does not change them.
var settings = map[string]string{
	"/proc/sys/vm/overcommit_memory":      "1\n",
	"/proc/sys/vm/panic_on_oom":           "0\n",
	"/proc/sys/kernel/panic":              "10\n",
	"/proc/sys/kernel/panic_on_oops":      "1\n",
	"/proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000\n",
}

// mountProc mounts /proc. The machine may write only the settings of its own network.
func (m *mounts) mountProc() error {
	const spare = "/mnt" // a folder of the image, used temporarily
	net := spare + "/sys/net"

	err := errors.Join(
		m.mountAt("proc", "/proc", "proc", restricted, ""),
		m.mountAt("proc", spare, "proc", restricted, ""),
		m.bindMount(m.hostPath("/proc/sys"), "/proc/sys", true),
		m.bindMount(m.hostPath(net), "/proc/sys/net", false),
		unix.Unmount(m.hostPath(spare), unix.MNT_DETACH),
	)
	if _, there := os.Stat(m.hostPath("/proc/sysrq-trigger")); there == nil {
		err = errors.Join(err, m.bindMount("/dev/null", "/proc/sysrq-trigger", false))
	}

	for path, value := range settings {
		err = errors.Join(err, m.mountFile(path, value))
	}

	return err
}

// mountSys mounts /sys, with the machine's UUID in place of the firmware's.
func (m *mounts) mountSys() error {
	const (
		classes  = "/sys/class"
		firmware = classes + "/dmi/id"
		uuid     = firmware + "/product_uuid"
	)

	if err := m.mountAt("sysfs", "/sys", "sysfs", restricted, ""); err != nil {
		return err
	}

	if _, err := os.Stat(m.hostPath(uuid)); err != nil {
		if err := m.addFirmware(classes); err != nil {
			return err
		}

		if err := os.MkdirAll(m.hostPath(firmware), 0o755); err != nil {
			return err
		}

		if err := os.WriteFile(m.hostPath(uuid), []byte(m.config.ID+"\n"), 0o400); err != nil {
			return err
		}
	} else if err := m.mountFile(uuid, m.config.ID+"\n"); err != nil {
		return err
	}

	return m.mountAt("", "/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|restricted, "")
}

// addFirmware replaces /sys/class by a writable folder with the same contents, because the host may have no firmware
// data.
func (m *mounts) addFirmware(classes string) error {
	entries, err := os.ReadDir(m.hostPath(classes))
	if err != nil {
		return err
	}

	opened := map[string]*os.File{}
	for _, entry := range entries {
		if opened[entry.Name()], err = os.Open(m.hostPath(filepath.Join(classes, entry.Name()))); err != nil {
			return err
		}
	}

	if err := m.mountAt("tmpfs", classes, "tmpfs", restricted, "mode=755"); err != nil {
		return err
	}

	for name, folder := range opened {
		path := filepath.Join(classes, name)
		err := os.Mkdir(m.hostPath(path), 0o755)
		if err == nil {
			err = m.bindMount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), path, false)
		}

		_ = folder.Close()

		if err != nil {
			return err
		}
	}

	return nil
}

// mountGroups mounts the cgroup hierarchies.
func (m *mounts) mountGroups() error {
	if len(m.hierarchies) == 1 && m.hierarchies[0].folder == "" {
		return m.mountAt("cgroup", groupRoot, "cgroup2", restricted, "")
	}

	if err := m.mountAt("tmpfs", groupRoot, "tmpfs", restricted, "mode=755"); err != nil {
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

		err := os.Mkdir(m.hostPath(path), 0o755)
		if err == nil {
			err = m.mountAt("cgroup", path, kind, restricted, options)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// createDevices creates /dev.
func (m *mounts) createDevices() error {
	err := m.mountAt("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755")

	for name, number := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0},
		"kmsg": {1, 11}, "fuse": {10, 229},
	} {
		path := m.hostPath("/dev/" + name)
		err = errors.Join(err, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(number[0], number[1]))),
			unix.Chmod(path, 0o666)) // regardless of the umask
	}

	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"core": "/proc/kcore", "ptmx": "pts/ptmx",
	} {
		err = errors.Join(err, os.Symlink(target, m.hostPath("/dev/"+name)))
	}

	for _, name := range []string{"pts", "shm", "mqueue"} {
		err = errors.Join(err, os.Mkdir(m.hostPath("/dev/"+name), 0o755))
	}

	terminal, failed := os.Readlink("/proc/self/fd/0")

	return errors.Join(err, failed,
		m.mountAt("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
			"newinstance,ptmxmode=0666,mode=620,gid=5"),
		m.mountAt("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		m.mountAt("mqueue", "/dev/mqueue", "mqueue", restricted, ""),
		os.WriteFile(m.hostPath("/dev/console"), nil, 0o600),
		m.bindMount(terminal, "/dev/console", false),
	)
}

// mountTmpfs mounts the file systems that are in memory.
func (m *mounts) mountTmpfs() error {
	return errors.Join(
		m.mountAt("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
		m.mountAt("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
	)
}

// mountDrive mounts the config drive at the place where cloud-init looks for a drive in the form of a folder.
func (m *mounts) mountDrive() error {
	const path = "/var/lib/cloud/seed/config_drive"
	if m.config.Drive == "" {
		return nil
	}

	if err := os.MkdirAll(m.hostPath(path), 0o755); err != nil {
		return err
	}

	return m.bindMount(m.config.Drive, path, true)
}

// pivotRoot switches to the machine's own file systems, and leaves those of the host.
func (m *mounts) pivotRoot() error {
	const old = "/mnt"
	if err := unix.PivotRoot(m.root, m.hostPath(old)); err != nil {
		return fmt.Errorf("failed to change the root: %w", err)
	}

	return errors.Join(unix.Chdir("/"), unix.Unmount(old, unix.MNT_DETACH),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
}
