//go:build !linux

package localplane

import (
	"os/exec"
	"syscall"
)

// apart has a process be in a group of its own. It outlives this process where that is killed: other systems have
// nothing against it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func start(command *exec.Cmd) error { return command.Start() }
