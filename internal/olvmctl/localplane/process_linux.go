package localplane

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// apart gives a process its own group, so Ctrl-C at the terminal does not reach it before the steps are undone in
// order. The process also ends with this one, however this one ends.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// starts feeds the only thread starting processes. It ends with this process.
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

// start starts a process. Linux ends a process together with the thread that started it. A thread ends with a goroutine
// locked to it, such as one confining a run of Terraform.
func start(command *exec.Cmd) error {
	done := make(chan error)
	starts() <- func() { done <- command.Start() }

	return <-done
}
