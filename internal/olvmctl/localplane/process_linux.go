package localplane

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// apart gives a process its own group, so Ctrl-C in the terminal does not reach it before the steps are undone in
// order. The process also ends if this process ends for any reason.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// starts passes functions to the only thread that starts processes. This thread ends with this process.
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

// start starts a process. Linux ends a process when the thread that started it ends. A thread ends together with a
// goroutine locked to it, such as a goroutine that confines a run of Terraform.
func start(command *exec.Cmd) error {
	done := make(chan error)
	starts() <- func() { done <- command.Start() }

	return <-done
}
