// Command ovirtsim runs the engine simulator.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
)

func main() {
	machine.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout).ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}
