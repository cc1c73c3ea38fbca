package localplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// orphanGrace is the time an orphaned process of a plane gets to end. killGrace is the time the system gets to end a
// killed process.
const (
	orphanGrace = 10 * time.Second
	killGrace   = 5 * time.Second
)

// servers are the programs with the plane's objects. They end last, because managers save their states in them.
var servers = []string{"etcd", "kube-apiserver"}

// endOrphans ends the processes of an earlier, killed plane in a folder, because they hold locks and ports. It returns
// the number of ended processes.
func endOrphans(dir string) (int, error) {
	all := func(string) bool { return true }
	managers := func(program string) bool { return !slices.Contains(servers, program) }
	count := len(findOrphans(dir, all))

	if err := endProcesses(dir, managers, stopGrace); err != nil {
		return 0, err
	}

	return count, endProcesses(dir, all, orphanGrace)
}

// endProcesses asks selected orphans to end, and kills them after the grace period.
func endProcesses(dir string, meant func(program string) bool, grace time.Duration) error {
	for _, pid := range findOrphans(dir, meant) {
		_ = hostos.EndProcess(pid)
	}

	if waitForOrphans(dir, meant, grace) {
		return nil
	}

	for _, pid := range findOrphans(dir, meant) {
		_ = hostos.KillProcess(pid)
	}

	if waitForOrphans(dir, meant, killGrace) {
		return nil
	}

	return fmt.Errorf("processes %v of an earlier start are still running; end them with kill -9", findOrphans(dir,
		meant))
}

// waitForOrphans waits for selected orphans, and reports whether they have ended in time.
func waitForOrphans(dir string, meant func(program string) bool, limit time.Duration) bool {
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(100 * time.Millisecond) {
		if len(findOrphans(dir, meant)) == 0 {
			return true
		}
	}

	return false
}

// findOrphans returns the process IDs of selected programs. Without /proc, it returns none.
func findOrphans(dir string, meant func(program string) bool) []int {
	var out []int

	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}

		arguments := strings.Split(strings.TrimRight(string(content), "\x00"), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() || !isOf(dir, arguments) || !meant(filepath.Base(arguments[0])) {
			continue
		}

		out = append(out, pid)
	}

	return out
}

// isOf reports whether a command line belongs to a plane in a folder. It is either a program of planes, in any version,
// with a file in the folder, or this provider's manager with its working directory there.
func isOf(dir string, arguments []string) bool {
	if slices.Contains(arguments[1:], "--work-dir="+workDirIn(dir)) {
		return true
	}

	program := filepath.Base(arguments[0])
	if !slices.Contains(Programs, program) && !slices.Contains(otherPrograms, program) {
		return false
	}

	return slices.ContainsFunc(arguments[1:], func(argument string) bool {
		_, value, _ := strings.Cut(argument, "=")
		return strings.HasPrefix(value, dir+string(filepath.Separator))
	})
}
