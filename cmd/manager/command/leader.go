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
	"github.com/capolvm/cluster-api-provider-olvm/internal/fencedclient"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// podNamespace is the file with the namespace of a pod.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leadership is this process's part in the leader election: its identity, and the lease.
type leadership struct {
	identity  string
	namespace string
	name      string // name of the lease
	lock      resourcelock.Interface
	fresh     time.Duration // maximum age of an answer about the lease

	// mayAct is the fence. states is the manager's client for Terraform states. Only checkSuperseded can reject its
	// writes. Both are set when the manager is created.
	mayAct func(context.Context) error
	states client.Client
}

// newClient returns the manager's client. The client asks the fence before each write. The signature is that of
// client.NewClientFunc.
func (l *leadership) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	plain, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("failed to make the client of the manager: %w", err)
	}

	l.states = &fencedclient.Client{Client: plain, MayAct: l.checkSuperseded}

	return &fencedclient.Client{Client: plain, MayAct: func(ctx context.Context) error { return l.mayAct(ctx) }}, nil
}

// checkSuperseded returns an error if another process leads. After losing the lease, or without an answer about the
// leader, a process may still save its results. No other process has continued from the stored state yet.
func (l *leadership) checkSuperseded(ctx context.Context) error {
	err := l.mayAct(ctx)
	if errors.Is(err, engine.ErrSuperseded) && !errors.Is(err, errReleased) {
		return err
	}

	return nil
}

// newLeadership creates the lock of leader election. It also determines the identity, because the fence needs it.
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

// errLeaseLost is returned by a lock whose lease is lost.
var errLeaseLost = errors.New("the lease was not renewed in time")

// expiringLock sends no more requests after the elector has given up an unrenewed lease. The elector first tries to
// release a lost lease, and only then reports the loss. If the API server is unreachable, this attempt could last until
// the next leader acts.
type expiringLock struct {
	resourcelock.Interface
	// limit is the time after the last renewal at which the elector gives up the lease.
	limit time.Duration

	mu      sync.Mutex
	renewed time.Time // zero until the lease is acquired
}

// checkRenewed returns an error if the lease is lost.
func (l *expiringLock) checkRenewed() error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.renewed.IsZero() && time.Since(l.renewed) >= l.limit {
		return errLeaseLost
	}

	return nil
}

// Get reads the lease, unless it is lost.
func (l *expiringLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.checkRenewed(); err != nil {
		return nil, nil, err
	}

	return l.Interface.Get(ctx)
}

// Create creates the lease.
func (l *expiringLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.recordRenewal(l.Interface.Create(ctx, record))
}

// Update acquires, renews or releases the lease, unless it is lost.
func (l *expiringLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.checkRenewed(); err != nil {
		return err
	}

	return l.recordRenewal(l.Interface.Update(ctx, record))
}

// recordRenewal records the time of a successful write of the lease.
func (l *expiringLock) recordRenewal(err error) error {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()

		l.renewed = time.Now()
	}

	return err
}

// ownNamespace returns the namespace of the manager.
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

// identityNamespace returns the namespace of the Secrets and ConfigMaps named in OLVMClusterIdentities. It returns ""
// if the manager uses no identities. A manager of one namespace uses none, because identities are cluster-scoped. A
// manager also uses none if it does not know its own namespace.
func (o options) identityNamespace() string {
	own, err := o.ownNamespace()
	if err != nil || o.namespace != "" {
		return ""
	}

	return own
}

// leaseName returns the same name for all managers of the same objects. Managers with another --watch-filter or
// --namespace elect a separate leader.
func (o options) leaseName() string {
	if o.watchFilter == "" && o.namespace == "" {
		return version.LeaseName
	}

	return fmt.Sprintf("%s-%.4x", version.LeaseName,
		sha256.Sum256(fmt.Appendf(nil, "%q %q", o.watchFilter, o.namespace)))
}

// answerSpeaks is how long an answer about the lease is valid for more writes.
const answerSpeaks = time.Second

// newFence returns a function that asks the API server who leads. The view of the elector may be out of date. If a
// process is halted for longer than the lease, it continues as if nothing had happened, and acts before it checks the
// clock.
//
// The manager calls the function before each write, so an answer stays valid for a moment. An answer is never valid
// after the end of the lease, because another process may then lead.
func (l *leadership) newFence(reader client.Reader) func(context.Context) error {
	var last atomic.Pointer[leading] // the last answer of the API server

	return func(ctx context.Context) error {
		if known := last.Load(); known != nil && known.isValid(time.Now(), min(l.fresh, answerSpeaks)) {
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

			if answer := (&leading{asked: asked, until: until}); answer.isValid(time.Now(), l.fresh) {
				last.Store(answer)
				return nil
			} // otherwise this process was halted while it waited for the answer
		}
	}
}

// errReleased is returned by the fence if this process has released its lease before it ends, and no other process has
// taken the lease yet.
var errReleased = fmt.Errorf("%w: none yet", engine.ErrSuperseded)

// errNotRenewed is returned by the fence if the lease has expired, but no other process has taken it yet. The elector
// then renews the lease, or ends this process.
var errNotRenewed = errors.New("the lease has run out, and was not renewed yet")

// leading is an answer of the API server that this process leads.
type leading struct {
	asked time.Time // time of the request
	until time.Time // end of the lease in the answer
}

// isValid reports whether an answer is still valid. The monotonic clock stops on a suspended machine, and the wall
// clock can be changed. The answer must be valid by both clocks.
func (l *leading) isValid(now time.Time, within time.Duration) bool {
	wall := now.Round(0).Sub(l.asked.Round(0))

	return now.Sub(l.asked) <= within && wall >= 0 && wall <= within && now.Round(0).Before(l.until)
}

// leaseEnd returns the end of a lease. This process has written it by its own clock, and another process waits longer.
func leaseEnd(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}

	return lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
}

// lostLease is how long runs may continue after the leader has lost its lease. The next leader waits for the end of the
// lease before it acts, so all runs must end before that time. This process kills runs that do not end.
func (o options) lostLease() time.Duration { return (o.leaseDuration - o.renewDeadline) / 2 }
