// Package heartbeat shows that a long step still runs, because users think that a silent step hangs.
//
// Programs that are compiled before all others use it. Therefore, it imports only a little of the standard library.
package heartbeat

import "time"

// Interval is the time between two beats. A command with output at each beat is never silent for 15 seconds.
const Interval = 10 * time.Second

// Start calls beat at each Interval with the time since the start, until stop is called. The beats come from a separate
// goroutine. No beat comes after stop has returned.
func Start(beat func(since time.Duration)) (stop func()) {
	begin, ended, done := time.Now(), make(chan struct{}), make(chan struct{})

	go func() {
		defer close(done)

		ticker := time.NewTicker(Interval)
		defer ticker.Stop()

		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				beat(time.Since(begin))
			}
		}
	}()

	return func() {
		close(ended)
		<-done
	}
}
