package command

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// podNamespace is where a pod finds the name of its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leadership is this process's part in the election: who it is, and which lease it is about.
type leadership struct {
	identity  string
	namespace string
	name      string // of the lease
	lock      resourcelock.Interface
	fresh     time.Duration // how old an answer about the lease may be

	// mayAct is the fence. states is the manager's client for states, which checkSuperseded alone keeps from writing.
	// Both are set with the manager.
	mayAct func(context.Context) error
	states client.Client
}

// newClient is the client of the manager, which asks the fence before it writes. It has the signature of
// client.NewClientFunc.
func (l *leadership) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	plain, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("failed to make the client of the manager: %w", err)
	}

	l.states = &fencedClient{Client: plain, mayAct: l.checkSuperseded}

	return &fencedClient{Client: plain, mayAct: func(ctx context.Context) error { return l.mayAct(ctx) }}, nil
}

// checkSuperseded returns an error if another process leads. One that has lost its lease, or cannot see who leads, may
// still save what it has made: nobody has gone on from the state that is stored.
func (l *leadership) checkSuperseded(ctx context.Context) error {
	err := l.mayAct(ctx)
	if errors.Is(err, engine.ErrSuperseded) && !errors.Is(err, errReleased) {
		return err
	}

	return nil
}

// newLeadership makes the lock that leader election works with. Beside it the identity must be known, for the fence.
func newLeadership(config *rest.Config, o options) (*leadership, error) {
	namespace, err := o.ownNamespace()
	if err != nil {
		return nil, err
	}

	l := &leadership{namespace: namespace, name: o.leaseName(), fresh: o.leaseDuration - o.renewDeadline}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("failed to get the host name: %w", err)
	}

	l.identity = host + "_" + uuid.NewString()
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, l.namespace, l.name,
		resourcelock.ResourceLockConfig{
			Identity: l.identity,
		},
		config,
		o.renewDeadline,
	)
	if err != nil {
		return nil, fmt.Errorf("failed to make the lock of the leader election: %w", err)
	}

	l.lock = &expiringLock{Interface: lock, limit: o.renewDeadline + o.retryPeriod}

	return l, nil
}

// errLeaseLost is what a lock answers whose lease has been lost.
var errLeaseLost = errors.New("the lease was not renewed in time")

// expiringLock asks the API server nothing more when its lease has not been renewed for so long that the elector gives
// up. The elector tries to release a lease that it has lost, before it says that it has lost it. If the API server is
// unreachable, that takes until the next leader acts.
type expiringLock struct {
	resourcelock.Interface
	// limit is how long after its last renewal the elector gives a lease up.
	limit time.Duration

	mu      sync.Mutex
	renewed time.Time // zero until the lease is acquired
}

// checkRenewed returns an error if the lease has been lost.
func (l *expiringLock) checkRenewed() error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.renewed.IsZero() && time.Since(l.renewed) >= l.limit {
		return errLeaseLost
	}

	return nil
}

// Get reads the lease, unless it has been lost.
func (l *expiringLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.checkRenewed(); err != nil {
		return nil, nil, err
	}

	return l.Interface.Get(ctx)
}

// Create makes the lease.
func (l *expiringLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.keep(l.Interface.Create(ctx, record))
}

// Update acquires, renews or releases the lease, unless it has been lost.
func (l *expiringLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.checkRenewed(); err != nil {
		return err
	}

	return l.keep(l.Interface.Update(ctx, record))
}

// keep remembers when a write of the lease succeeded.
func (l *expiringLock) keep(err error) error {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()

		l.renewed = time.Now()
	}

	return err
}

// ownNamespace is that of the manager.
func (o options) ownNamespace() (string, error) {
	if o.leaderNamespace != "" {
		return o.leaderNamespace, nil
	}

	content, err := os.ReadFile(podNamespace)
	if err != nil {
		return "", fmt.Errorf("--leader-elect-namespace is empty, and this is not a pod: %w", err)
	}

	return strings.TrimSpace(string(content)), nil
}

// identityNamespace is the namespace of what OLVMClusterIdentities name. It is empty if the manager uses no identities,
// because it watches one namespace, and identities belong to none, or because it does not know its own namespace.
func (o options) identityNamespace() string {
	own, err := o.ownNamespace()
	if err != nil || o.namespace != "" {
		return ""
	}

	return own
}

// leaseName is the same for all managers that could work on the same objects: those with another --watch-filter or
// --namespace elect a leader of their own.
func (o options) leaseName() string {
	if o.watchFilter == "" && o.namespace == "" {
		return version.LeaseName
	}

	return fmt.Sprintf("%s-%.4x", version.LeaseName,
		sha256.Sum256(fmt.Appendf(nil, "%q %q", o.watchFilter, o.namespace)))
}

// answerSpeaks is how long an answer about the lease speaks for other writes.
const answerSpeaks = time.Second

// fence asks the API server who leads. The elector's own view may be old: a process that was halted for longer than the
// lease goes on as if nothing had been, and acts before it looks at the clock.
//
// It is asked before each write, so that an answer speaks for a moment, and never for longer than the lease that it
// shows: from then on somebody else may lead.
func (l *leadership) fence(reader client.Reader) func(context.Context) error {
	var last atomic.Pointer[leading] // what the API server said last

	return func(ctx context.Context) error {
		if known := last.Load(); known != nil && known.speaks(time.Now(), min(l.fresh, answerSpeaks)) {
			return nil
		}

		for {
			var lease coordinationv1.Lease
			asked := time.Now()
			if err := reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: l.name}, &lease); err != nil {
				return fmt.Errorf("failed to see who leads: %w", err)
			}

			switch holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder {
			case l.identity:
			case "":
				return errReleased
			default:
				return fmt.Errorf("%w: %s", engine.ErrSuperseded, holder)
			}

			until := leaseEnd(&lease)
			if !time.Now().Before(until) {
				return errNotRenewed
			}

			if answer := (&leading{asked: asked, until: until}); answer.speaks(time.Now(), l.fresh) {
				last.Store(answer)
				return nil
			} // else this process was halted while it waited for the answer
		}
	}
}

// errReleased is the answer of a fence whose lease this process has released at its end, and that nobody has taken yet.
var errReleased = fmt.Errorf("%w: none yet", engine.ErrSuperseded)

// errNotRenewed is the answer of a fence whose lease has run out, and that nobody else has yet. The elector renews it,
// or ends this process.
var errNotRenewed = errors.New("the lease has run out, and was not renewed yet")

// leading is an answer of the API server that this process leads.
type leading struct {
	asked time.Time // when it was asked for
	until time.Time // when the lease runs out that it shows
}

// speaks reports whether an answer still says who leads. A machine that is suspended stops its monotonic clock, and a
// clock that is set moves the other one: both must agree.
func (l *leading) speaks(now time.Time, within time.Duration) bool {
	wall := now.Round(0).Sub(l.asked.Round(0))

	return now.Sub(l.asked) <= within && wall >= 0 && wall <= within && now.Round(0).Before(l.until)
}

// leaseEnd is when a lease runs out. This process wrote it, by its own clock; another one waits for longer.
func leaseEnd(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}

	return lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
}

// lostLease is how long the runs of a leader may go on that has lost its lease: the next leader waits out the lease
// before it acts, so all must be over in between. What has not ended is killed with this process.
func (o options) lostLease() time.Duration { return (o.leaseDuration - o.renewDeadline) / 2 }
