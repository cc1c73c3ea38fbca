// Package heartbeat shows that a long step still runs, because users take a silent one for a hanging one.
//
// Programs compiled before all others use it, so it imports little of the standard library and nothing else.
package heartbeat

import "time"

// Interval between two beats. A command with output at each beat is never silent for 15 seconds.
const Interval = 10 * time.Second

// Start calls beat at each Interval with the time since the start, until stop is called. Beats come from a separate
// goroutine, and none comes after stop has returned.
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
