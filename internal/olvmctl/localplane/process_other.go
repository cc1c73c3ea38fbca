//go:build !linux

package localplane

import (
	"os/exec"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// apart has a process be in a group of its own. It outlives this process where that is killed: other systems have
// nothing against it.
func apart() *syscall.SysProcAttr { return hostos.OwnGroup() }

func start(command *exec.Cmd) error { return command.Start() }
