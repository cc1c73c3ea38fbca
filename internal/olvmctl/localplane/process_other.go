//go:build !linux

package localplane

import (
	"os/exec"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// apart gives a process its own group. If this process is killed, the other process continues, because other systems
// cannot prevent this.
func apart() *syscall.SysProcAttr { return hostos.OwnGroup() }

func start(command *exec.Cmd) error { return command.Start() }
