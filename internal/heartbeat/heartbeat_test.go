package heartbeat

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestBeats(t *testing.T) {
	for name, test := range map[string]struct {
		step time.Duration
		want []time.Duration
	}{
		"a short step has none":                 {9 * time.Second, nil},
		"a long one has one at each interval":   {35 * time.Second, []time.Duration{10e9, 20e9, 30e9}},
		"a beat is never further than 15 s off": {14 * time.Second, []time.Duration{10e9}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []time.Duration

				stop := Start(func(since time.Duration) { got = append(got, since) })
				time.Sleep(test.step)
				stop()
				time.Sleep(time.Minute) // no beat comes after the end

				if !slices.Equal(got, test.want) {
					t.Errorf("beats at %v, want %v", got, test.want)
				}
			})
		})
	}
}
