// Command pause is the process of a pod's sandbox: it waits until it is stopped.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)

	for what := range told {
		if what != syscall.SIGCHLD {
			return
		}

		// As the first process of its namespace, it inherits orphaned child processes.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
