package testenv

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// tidiers are the functions given to OnInterrupt.
var tidiers struct {
	sync.Mutex
	list []func()
}

// OnInterrupt calls tidy, and ends the process, if the tests are interrupted. Otherwise, the tests' servers would
// outlive them. The functions run in reverse order.
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
