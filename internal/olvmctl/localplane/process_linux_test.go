package localplane

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAProcessOutlivesTheThreadThatAskedForIt ends threads such as those that confine a run of Terraform.
func TestAProcessOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	started := make(chan *Process)

	for i := range 3 { // the first thread of a program does not end
		go func() {
			runtime.LockOSThread() // never unlocked

			p, err := StartProcess(fmt.Sprintf("sleeper-%d", i), dir, "/bin/sleep", []string{"60"}, nil)
			if err != nil {
				t.Error(err)
			}

			started <- p
		}()
	}

	var all []*Process
	for range 3 {
		all = append(all, <-started)
	}

	time.Sleep(time.Second) // the signal would come when the thread ends

	for _, p := range all {
		select {
		case <-p.Done():
			check.Error(t, fmt.Errorf("%s has ended: %w", p.Name, p.err), "")
		default:
			p.Stop(time.Second)
		}
	}
}
