//go:build unix

package hostos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OwnGroup puts a child process into its own process group, so Ctrl-C at the terminal does not reach the child.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// OwnSession lets a child process outlive this process and its terminal.
func OwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// EndProcess asks a process to end.
func EndProcess(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// KillProcess ends a process at once.
func KillProcess(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// KeepFilesPrivate makes all files that this process creates accessible only to its user.
func KeepFilesPrivate() { syscall.Umask(0o077) }

// IsOwn reports whether a file belongs to this user.
func IsOwn(info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && int(owner.Uid) == os.Getuid()
}

// FreeBytes returns the number of bytes that this user may write to the disk of a folder.
func FreeBytes(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}

	return disk.Bavail * uint64(disk.Bsize), nil
}

// IsDiskFull reports whether an error means that the disk, or this user's share of it, is full.
func IsDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// SocketPair returns two connected sockets. Child processes inherit them only if this is requested.
func SocketPair() (one, other *os.File, err error) {
	syscall.ForkLock.RLock()

	both, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(both[0])
		syscall.CloseOnExec(both[1])
	}

	syscall.ForkLock.RUnlock()

	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a pair of sockets: %w", err)
	}

	return os.NewFile(uintptr(both[0]), "own"), os.NewFile(uintptr(both[1]), "theirs"), nil
}
