package localplane

import "syscall"

// apart has a process be in a group of its own, so that Ctrl-C at the terminal does not reach it before the steps are
// undone in order; and it must not outlive this process, however that ends.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
