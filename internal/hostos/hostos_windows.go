package hostos

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// OwnGroup puts a child process into its own process group, so Ctrl-C at the terminal does not reach the child.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// OwnSession lets a child process outlive this process and its terminal.
func OwnSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// EndProcess ends a process at once, because Windows has no signal that asks a process to end.
func EndProcess(pid int) error { return KillProcess(pid) }

// KillProcess ends a process at once.
func KillProcess(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}

	return process.Kill()
}

// KeepFilesPrivate does nothing. Files have the rights of their folders, and those in a user's profile are private.
func KeepFilesPrivate() {}

// IsOwn reports whether a file is known to belong to this user. On Windows, this is never known.
func IsOwn(fs.FileInfo) bool { return false }

// FreeBytes returns the number of bytes that this user may write to the disk of a folder.
func FreeBytes(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}

	var free uint64

	return free, windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
}

// IsDiskFull reports whether an error means that the disk is full.
func IsDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// SocketPair returns an error, because child processes cannot inherit sockets.
func SocketPair() (one, other *os.File, err error) {
	return nil, nil, errors.New("the manager does not run on Windows; run it on Linux")
}
