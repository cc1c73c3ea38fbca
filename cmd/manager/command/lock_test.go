package command

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// hangingLock answers while the API server is reachable. Otherwise each call takes all of its time.
type hangingLock struct {
	resourcelock.Interface
	away bool
}

func (l *hangingLock) answer(ctx context.Context) error {
	if l.away {
		<-ctx.Done()
		return ctx.Err()
	}

	return nil
}

func (l *hangingLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{}, nil, l.answer(ctx)
}

func (l *hangingLock) Update(ctx context.Context, _ resourcelock.LeaderElectionRecord) error {
	return l.answer(ctx)
}

// TestALostLeaseIsNotReleased makes the API server unreachable for a leader. Once the lease is lost, the elector must
// not wait for the API server. It ends the leader's work only after its attempt to release the lease.
func TestALostLeaseIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 12 * time.Second

		server := &hangingLock{}
		lock := &expiringLock{Interface: server, limit: limit}
		ask := func() (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()

			begin := time.Now()
			_, _, err := lock.Get(ctx)

			return time.Since(begin), errors.Join(err, lock.Update(ctx, resourcelock.LeaderElectionRecord{}))
		}

		time.Sleep(2 * limit) // a standby may wait as long as necessary
		_, err := ask()
		check.Error(t, err, "")

		time.Sleep(limit - time.Second)
		_, err = ask() // the lease was renewed in time
		check.Error(t, err, "")

		server.away = true
		took, err := ask()
		check.Error(t, err, context.DeadlineExceeded.Error())
		check.Equal(t, "how long a renewal is tried", took, 10*time.Second)

		time.Sleep(2 * time.Second)
		took, err = ask()
		check.Equal(t, "how long the release of a lost lease takes", took, 0)
		check.Equal(t, "whether the lease is lost", errors.Is(err, errLeaseLost), true)

		server.away = false
		_, err = ask()
		check.Equal(t, "whether a lost lease stays lost", errors.Is(err, errLeaseLost), true)
	})
}
