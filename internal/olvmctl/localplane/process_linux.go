package localplane

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// apart has a process be in a group of its own, so that Ctrl-C at the terminal does not reach it before the steps are
// undone in order; and it must not outlive this process, however that ends.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// starts has the thread that starts all processes. It ends with this process.
var starts = sync.OnceValue(func() chan<- func() {
	queue := make(chan func())

	go func() {
		runtime.LockOSThread()

		for next := range queue {
			next()
		}
	}()

	return queue
})

// start starts a process. Linux ends it with the thread that has started it, and a thread ends with the goroutine that
// was locked to it, as those do that confine a run of Terraform.
func start(command *exec.Cmd) error {
	done := make(chan error)
	starts() <- func() { done <- command.Start() }

	return <-done
}
