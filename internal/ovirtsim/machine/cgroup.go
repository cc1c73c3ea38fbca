package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groupRoot is the mount point of the cgroup hierarchies.
const groupRoot = "/sys/fs/cgroup"

// hierarchy is a hierarchy of cgroup v1, or the single hierarchy of cgroup2.
type hierarchy struct {
	// folder is the hierarchy's folder below groupRoot; "" means that cgroup2 is the only hierarchy.
	folder string
	// options are the mount options of the hierarchy; "" means cgroup2.
	options string
	// own is the group of this process in the hierarchy.
	own string
}

// readHierarchies returns the mounted hierarchies.
func readHierarchies() ([]hierarchy, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("failed to read the cgroups of this process: %w", err)
	}

	var out []hierarchy

	for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 {
			continue
		}

		one := hierarchy{folder: strings.TrimPrefix(fields[1], "name="), options: fields[1], own: fields[2]}
		if fields[1] == "" {
			one.folder = "unified"
		}

		if _, err := os.Stat(filepath.Join(groupRoot, one.folder)); err != nil {
			if fields[1] != "" {
				continue // this hierarchy is not mounted
			}

			one.folder = ""
		}

		out = append(out, one)
	}

	return out, nil
}

func (h hierarchy) groupPath(group string) string {
	return filepath.Join(groupRoot, h.folder, h.own, group)
}

// joinGroups creates the cgroups of a machine, and adds a process to them.
func joinGroups(group string, pid int) error {
	list, err := readHierarchies()
	if err != nil {
		return err
	}

	for _, h := range list {
		path := h.groupPath(group)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("failed to make a cgroup: %w", err)
		}

		if err := h.copyCPUs(group); err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return fmt.Errorf("failed to join a cgroup: %w", err)
		}
	}

	return nil
}

// copyCPUs copies the processors of the parent to each group of a path. A group without processors accepts no
// processes.
func (h hierarchy) copyCPUs(group string) error {
	if !slices.Contains(strings.Split(h.options, ","), "cpuset") {
		return nil
	}

	path := h.groupPath("")

	for _, part := range strings.Split(group, "/") {
		above := path
		path = filepath.Join(path, part)

		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(above, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(path, name), content, 0o600)
			}

			if err != nil {
				return fmt.Errorf("failed to give a cgroup its processors: %w", err)
			}
		}
	}

	return nil
}

// removeGroups removes a group and its descendants as soon as they are empty. It reports whether all are removed by the
// deadline.
func removeGroups(group string, deadline time.Time) bool {
	for !tryRemoveGroups(group) {
		if time.Now().After(deadline) {
			return false
		}

		time.Sleep(20 * time.Millisecond)
	}

	return true
}

// tryRemoveGroups removes empty groups, from the leaves up. It reports whether all are removed.
func tryRemoveGroups(group string) bool {
	list, err := readHierarchies()
	if err != nil {
		return false
	}

	gone := true

	for _, h := range list {
		var folders []string

		err := filepath.WalkDir(h.groupPath(group), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}

			return nil
		})
		if err != nil {
			continue
		}

		for _, path := range slices.Backward(folders) {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				gone = false
			}
		}
	}

	return gone
}
