package terraform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockVersion is that of the kernel's Landlock for an executable, 0 where runs of it cannot be confined.
func landlockVersion(executable string) int {
	if !isBinary(executable) {
		return 0
	}

	version, err := landlock.LandlockGetABIVersion()
	if err != nil { // an old kernel, one without Landlock, or a filter of system calls
		return 0
	}

	return version
}

// confined has do start its processes on a thread whose children can use dir and the executor, and nothing else. The
// thread ends with do, and its restrictions with it: no other thread of this process is restricted.
func (x *Executor) confined(dir string, do func() error) error {
	if x.landlock == 0 {
		return do()
	}

	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that no other goroutine gets this thread
		defer func() {
			if problem := recover(); problem != nil { // the runner's guard is on another goroutine
				done <- fmt.Errorf("the run panicked: %v\n%s", problem, debug.Stack())
			}
		}()
		if err := restrictThread(x.landlock, x.executable.Path, dir); err != nil {
			done <- fmt.Errorf("failed to confine the executor to its working directory: %w", err)
			return
		}

		done <- do()
	}()

	return <-done
}

// Rights to files.
const (
	mayRead    = landlock.AccessFSReadFile | landlock.AccessFSReadDir
	mayExecute = landlock.AccessFSExecute | mayRead
	// mayWork is all that a run does in its working directory. It executes nothing there, and makes no links, which
	// others would follow to where it may not go.
	mayWork = mayRead | landlock.AccessFSWriteFile | landlock.AccessFSTruncate | landlock.AccessFSRemoveDir |
		landlock.AccessFSRemoveFile |
		landlock.AccessFSMakeDir | landlock.AccessFSMakeReg
	mayUse = landlock.AccessFSReadFile | landlock.AccessFSWriteFile

	// ofFiles are the rights that a rule for a file, and not for a folder, can have.
	ofFiles = landlock.AccessFSExecute | landlock.AccessFSReadFile | landlock.AccessFSWriteFile |
		landlock.AccessFSTruncate
)

// libraries are where programs that are not static find what they are linked with. There are no secrets.
var libraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}

// handled are the rights that a kernel with that version of Landlock can deny.
func handled(version int) landlock.RulesetAttr {
	attr := landlock.RulesetAttr{HandledAccessFS: landlock.AccessFSMakeSym<<1 - 1}
	if version >= 2 {
		attr.HandledAccessFS |= landlock.AccessFSRefer
	}

	if version >= 3 {
		attr.HandledAccessFS |= landlock.AccessFSTruncate
	}

	if version >= 4 {
		attr.HandledAccessNet = landlock.AccessNetBindTCP | landlock.AccessNetConnectTCP
	}

	if version >= 5 {
		attr.HandledAccessFS |= landlock.AccessFSIoctlDev
	}

	if version >= 6 {
		// Signals are not scoped: go-plugin sends signal 0 to the process of the provider, which is this one, to see
		// whether it lives, and gives the provider up where it may not.
		attr.Scoped = landlock.ScopeAbstractUnixSocket
	}

	return attr
}

// restrictThread takes rights from the calling thread, for good.
func restrictThread(version int, executable, dir string) error {
	attr := handled(version)
	ruleset, err := landlock.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return fmt.Errorf("failed to make the rules: %w", err)
	}

	defer func() { _ = unix.Close(ruleset) }()

	rules := map[string]uint64{executable: mayExecute, dir: mayWork, os.DevNull: mayUse}
	for _, library := range libraries {
		rules[library] = mayExecute
	}

	for path, rights := range rules {
		if err := allow(ruleset, path, rights&attr.HandledAccessFS); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("failed to give new privileges up: %w", err)
	}

	if err := landlock.LandlockRestrictSelf(ruleset, 0); err != nil {
		return fmt.Errorf("failed to apply the rules: %w", err)
	}

	return nil
}

// allow gives rights to what is at a path, and below it.
func allow(ruleset int, path string, rights uint64) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("failed to find %s: %w", path, err)
	}

	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("failed to open %s: %w", path, err)
	}

	defer func() { _ = unix.Close(at) }()
	var status unix.Stat_t
	if err := unix.Fstat(at, &status); err != nil {
		return fmt.Errorf("failed to look at %s: %w", path, err)
	}

	if status.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}

	rule := landlock.PathBeneathAttr{AllowedAccess: rights, ParentFd: at}
	if err := landlock.LandlockAddPathBeneathRule(ruleset, &rule, 0); err != nil {
		return fmt.Errorf("failed to allow %s: %w", path, err)
	}

	return nil
}
