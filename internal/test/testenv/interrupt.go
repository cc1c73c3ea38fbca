package testenv

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// tidiers are the functions passed to OnInterrupt.
var tidiers struct {
	sync.Mutex
	list []func()
}

// OnInterrupt calls tidy and ends the process if the user interrupts the tests. Otherwise, the servers of the tests
// would keep running. Several functions run in reverse order.
func OnInterrupt(tidy func()) {
	tidiers.Lock()
	defer tidiers.Unlock()

	tidiers.list = append(tidiers.list, tidy)
	if len(tidiers.list) > 1 {
		return
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)

	go func() {
		<-signals
		tidiers.Lock()

		for _, tidy := range slices.Backward(tidiers.list) {
			tidy()
		}

		os.Exit(1)
	}()
}
