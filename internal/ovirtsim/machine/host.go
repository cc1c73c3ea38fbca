package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Check returns an error if this host cannot run machines, or if one of the programs in more is missing.
func Check(more ...string) error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("machines of simulated VMs need root on Linux")
	}

	for _, program := range append([]string{"ip", "nsenter", "cp"}, more...) {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("machines of simulated VMs need %s, which is not there: install it", program)
		}
	}

	return nil
}

// wantedInstances is the number of inotify instances that a few nodes need. A control plane node needs about 30, but by
// default a kernel allows 128 for all processes of root.
const wantedInstances = 1024

// RaiseLimits raises the host's limit of inotify instances to wantedInstances if the limit is lower.
func RaiseLimits() error {
	const path = "/proc/sys/fs/inotify/max_user_instances"

	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	if have, err := strconv.Atoi(strings.TrimSpace(string(content))); err != nil || have >= wantedInstances {
		return err
	}

	return os.WriteFile(path, []byte(strconv.Itoa(wantedInstances)), 0o600)
}
