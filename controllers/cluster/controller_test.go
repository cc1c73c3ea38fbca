package cluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// TestNextTry plays the tries of a cluster whose engine is away.
func TestNextTry(t *testing.T) {
	for away, most := range map[time.Duration]int{time.Minute: 12, time.Hour: 75, 24 * time.Hour: 1500} {
		tries, down := 0, time.Duration(0)
		for down < away {
			pause := wait.Jitter(nextTry(down), jitter)
			if pause < 5*time.Second || pause > 72*time.Second {
				t.Fatalf("after %s the next try is in %s", down, pause)
			}

			down += pause
			tries++
		}

		if tries > most {
			t.Errorf("%d tries in %s", tries, away)
		}
	}
}
