package confine

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

// Version returns the version of the kernel's Landlock. It returns 0 if the kernel has no Landlock, or if a filter of
// system calls denies it.
func Version() int {
	version, err := landlock.LandlockGetABIVersion()
	if err != nil {
		return 0
	}

	return version
}

// Start calls start on a thread with permanent restrictions. Processes that start creates inherit these restrictions.
// Other threads are not affected. The restricted thread ends afterwards. If the restriction fails, Start does not call
// start.
func Start(rules Rules, start func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so no other goroutine gets this thread
		defer func() {
			if problem := recover(); problem != nil { // a recover in the caller does not protect this goroutine
				done <- fmt.Errorf("starting the process panicked: %v\n%s", problem, debug.Stack())
			}
		}()
		if err := restrictThread(Version(), rules); err != nil {
			done <- fmt.Errorf("failed to confine the process: %w", err)
			return
		}

		done <- start()
	}()

	return <-done
}

// These constants are rights to files.
const (
	mayRead = landlock.AccessFSReadFile | landlock.AccessFSReadDir
	mayRun  = landlock.AccessFSExecute | mayRead
	mayWork = mayRead | landlock.AccessFSWriteFile | landlock.AccessFSTruncate | landlock.AccessFSRemoveDir |
		landlock.AccessFSRemoveFile | landlock.AccessFSMakeDir | landlock.AccessFSMakeReg
	mayServe = mayWork | landlock.AccessFSMakeSock
	mayUse   = landlock.AccessFSReadFile | landlock.AccessFSWriteFile

	// ofFiles are the rights that a rule for a file can grant, in contrast to a rule for a folder.
	ofFiles = landlock.AccessFSExecute | landlock.AccessFSReadFile | landlock.AccessFSWriteFile |
		landlock.AccessFSTruncate
)

// handledRights returns the rights that a kernel with the given version of Landlock can deny.
func handledRights(version int, signals bool) landlock.RulesetAttr {
	attr := landlock.RulesetAttr{HandledAccessFS: landlock.AccessFSMakeSym<<1 - 1}
	if version >= 2 {
		attr.HandledAccessFS |= landlock.AccessFSRefer
	}

	if version >= 3 {
		attr.HandledAccessFS |= landlock.AccessFSTruncate
	}

	if version >= PortsVersion {
		attr.HandledAccessNet = landlock.AccessNetBindTCP | landlock.AccessNetConnectTCP
	}

	if version >= 5 {
		attr.HandledAccessFS |= landlock.AccessFSIoctlDev
	}

	if version >= 6 {
		attr.Scoped = landlock.ScopeAbstractUnixSocket
		if !signals {
			attr.Scoped |= landlock.ScopeSignal
		}
	}

	return attr
}

// restrictThread permanently removes rights from the calling thread.
func restrictThread(version int, rules Rules) error {
	attr := handledRights(version, rules.Signals)
	ruleset, err := landlock.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return fmt.Errorf("failed to make the rules: %w", err)
	}

	defer func() { _ = unix.Close(ruleset) }()

	for _, some := range []struct {
		paths  []string
		rights uint64
		// optional reports that paths are skipped if this process cannot open them. Access to them is then not allowed,
		// without an error.
		optional bool
	}{
		{rules.Run, mayRun, false},
		{rules.Read, mayRead, true},
		{rules.Work, mayWork, false},
		{rules.Sockets, mayServe, false},
		{[]string{os.DevNull}, mayUse, false},
	} {
		for _, path := range some.paths {
			err := allowPath(ruleset, path, some.rights&attr.HandledAccessFS)
			skipped := errors.Is(err, fs.ErrNotExist) ||
				some.optional && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR))

			if err != nil && !skipped {
				return err
			}
		}
	}

	if attr.HandledAccessNet != 0 {
		for _, port := range rules.Connect {
			rule := landlock.NetPortAttr{AllowedAccess: landlock.AccessNetConnectTCP, Port: uint64(port)}
			if err := landlock.LandlockAddNetPortRule(ruleset, &rule, 0); err != nil {
				return fmt.Errorf("failed to allow port %d: %w", port, err)
			}
		}
	}

	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("failed to set no_new_privs: %w", err)
	}

	if err := landlock.LandlockRestrictSelf(ruleset, 0); err != nil {
		return fmt.Errorf("failed to apply the rules: %w", err)
	}

	return nil
}

// allowPath grants the rights to a path and to everything below it.
func allowPath(ruleset int, path string, rights uint64) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("failed to resolve %s: %w", path, err)
	}

	at, err := unix.Open(resolved, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("failed to open %s: %w", path, err)
	}

	defer func() { _ = unix.Close(at) }()
	var status unix.Stat_t
	if err := unix.Fstat(at, &status); err != nil {
		return fmt.Errorf("failed to stat %s: %w", path, err)
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
