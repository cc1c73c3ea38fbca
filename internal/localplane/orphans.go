package localplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// orphanGrace is how long a process that outlived its plane may take to end.
const orphanGrace = 10 * time.Second

// endOrphans ends the processes of an earlier plane in a folder that was killed: they hold locks and ports. A process
// is one of them if it runs one of the programs and an argument names the folder. It returns their number.
func endOrphans(programs, dir string) (int, error) {
	found := orphans(programs, dir)

	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}

	for begin := time.Now(); time.Since(begin) < orphanGrace; time.Sleep(100 * time.Millisecond) {
		if len(orphans(programs, dir)) == 0 {
			return len(found), nil
		}
	}

	for _, pid := range orphans(programs, dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}

	time.Sleep(100 * time.Millisecond)

	if left := orphans(programs, dir); len(left) > 0 {
		return 0, fmt.Errorf("processes %v of an earlier start do not end; end them with kill -9", left)
	}

	return len(found), nil
}

// orphans are the IDs of such processes; none where there is no /proc.
func orphans(programs, dir string) []int {
	var out []int

	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}

		arguments := strings.Split(strings.TrimRight(string(content), "\x00"), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() || filepath.Dir(arguments[0]) != programs {
			continue
		}

		if slices.ContainsFunc(arguments[1:], func(argument string) bool {
			_, value, _ := strings.Cut(argument, "=")
			return strings.HasPrefix(value, dir+string(filepath.Separator))
		}) {
			out = append(out, pid)
		}
	}

	return out
}
