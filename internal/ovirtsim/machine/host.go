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

// Check says why this host cannot run machines, or has not more programs that are needed; nil where it can and has.
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

// wantedInstances are how many users of inotify a few nodes need: about 30 for each of a control plane, where a kernel
// gives 128 to all of root.
const wantedInstances = 1024

// RaiseLimits gives the host as many instances of inotify as machines need, where it has fewer.
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
