package mgmtcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
)

// This file reports when and why a local management cluster has ended by itself.

// endFile is the file with the reason why the process has ended by itself.
func (l Local) endFile() string { return filepath.Join(l.dir, "ended") }

// End describes the end of a local management cluster that no user has stopped.
type End struct {
	// At is the time when its process was last seen.
	At  time.Time
	Why string
}

func (e *End) String() string {
	return fmt.Sprintf("stopped unexpectedly on %s (%s): %s", e.At.Local().Format(time.DateTime),
		humanize.Time(e.At), e.Why)
}

// DetectEnd returns when and why the local management cluster has ended. It returns nil if the cluster is running, or
// if a user has stopped it.
func (l Local) DetectEnd() *End {
	if !l.Exists() || l.PID() != 0 {
		return nil
	}

	if why, err := os.ReadFile(l.endFile()); err == nil {
		return &End{At: modificationTime(l.endFile()), Why: strings.TrimSpace(string(why))}
	}

	content, err := os.ReadFile(l.pidFile())
	pid := strings.TrimSpace(string(content))
	if err != nil || pid == "" { // a user has stopped it
		return nil
	}

	at := modificationTime(l.pidFile())
	if up := bootTime(); up.After(at) {
		return &End{At: at, Why: "the machine lost power or was reset; it has been up since " +
			up.Local().Format(time.DateTime)}
	}

	return &End{At: at, Why: fmt.Sprintf("its process %s was killed; check %s, and the kernel log for out of memory",
		pid, l.LogFile())}
}

// recordSeen records that the process is running now.
func (l Local) recordSeen() {
	now := time.Now()
	_ = os.Chtimes(l.pidFile(), now, now)
}

// noteEnd records why the process ends, or that a user has stopped it.
func (l Local) noteEnd(lock *os.File, why error) {
	l.recordSeen()

	if why != nil {
		_ = atomicfile.Write(l.endFile(), fmt.Appendln(nil, why), 0o600)
		return
	}

	_ = errors.Join(lock.Truncate(0), lock.Sync())
}

// modificationTime returns the modification time of a file, or the zero time if it does not exist.
func modificationTime(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}

	return info.ModTime()
}

// bootTime returns the boot time of this machine, or the zero time if it is unknown.
func bootTime() time.Time {
	content, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(seconds, 0)
			}
		}
	}

	return time.Time{}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return nil
}
