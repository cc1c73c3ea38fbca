package testenv

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// tidiers are what OnInterrupt was given.
var tidiers struct {
	sync.Mutex
	list []func()
}

// OnInterrupt calls tidy, and ends the process, if somebody interrupts the tests. The servers that tests start would
// outlive them otherwise. The last one that was given is called first.
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
