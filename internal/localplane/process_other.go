//go:build !linux

package localplane

import "syscall"

// apart has a process be in a group of its own. It outlives this process where that is killed: other systems have
// nothing against it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
