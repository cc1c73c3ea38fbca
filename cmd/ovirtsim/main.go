// Command ovirtsim runs the engine simulator.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simcommand"
)

func main() {
	machine.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := simcommand.New("ovirtsim", os.Stdout).ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}
