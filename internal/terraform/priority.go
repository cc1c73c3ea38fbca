package terraform

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// niceness of executors: the manager has to see what the engine does also while many of them work.
const niceness = 10

// yielding does what starts a process, which then leaves the CPU to the manager where both want it. On Linux the niceness is the
// thread's, and a process inherits that of the thread that starts it. The thread is not given back: it ends with the goroutine.
func yielding(do func() error) error {
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil { // the caller's would not see it
				ended <- fmt.Errorf("the run panicked: %v", p)
			}
		}()
		runtime.LockOSThread()
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // only a wish
		ended <- do()
	}()
	return <-ended
}
