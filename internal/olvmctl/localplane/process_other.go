//go:build !linux

package localplane

import (
	"os/exec"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// apart gives a process its own group. The process outlives this one if this one is killed, because other systems
// cannot prevent it.
func apart() *syscall.SysProcAttr { return hostos.OwnGroup() }

func start(command *exec.Cmd) error { return command.Start() }
