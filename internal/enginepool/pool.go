// Package enginepool shares engines among the objects that use them: one session per credentials, one list of VMs per
// engine and period, one watcher of VMs, and a limit of the reconciles that use an engine at once.
package enginepool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Pool gives each OLVMCluster its engine session, and every machine its VM out of one list per engine.
type Pool struct {
	// Reader reads Secrets and ConfigMaps past the cache: the controller does not watch their contents.
	Reader client.Reader
	// Metadata is a cache of the metadata of Secrets and ConfigMaps: what was read is read again when they have
	// changed.
	Metadata client.Reader
	// NoIdentities refuses OLVMClusterIdentities, which a manager of one namespace may not read.
	NoIdentities bool
	// Policy says which credentials may be used for which engines.
	Policy connection.Policy
	// Sessions are shared with the Terraform provider.
	Sessions *engine.Sessions

	mu     sync.Mutex
	access map[client.ObjectKey]access         // by OLVMCluster
	used   map[client.ObjectKey]*engine.Client // by OLVMCluster
	vms    map[*engine.Client]*vmView
	guests map[*engine.Client]*cachedAnswer[map[engine.ID][]engine.GuestInterface]
	groups map[groupsOf]*cachedAnswer[[]engine.AffinityGroup]
	now    func() time.Time // of the views; nil means time.Now
}

// prune forgets the answers of sessions that are gone; mu is held.
func (p *Pool) prune() {
	for session := range p.vms {
		if !p.Sessions.Has(session) {
			delete(p.vms, session)
		}
	}

	for session := range p.guests {
		if !p.Sessions.Has(session) {
			delete(p.guests, session)
		}
	}

	for of := range p.groups {
		if !p.Sessions.Has(of.session) {
			delete(p.groups, of)
		}
	}
}

// endUnused ends a session that no OLVMCluster uses any more, and forgets its answers: with a user who writes new
// credentials again and again the manager would keep the lists of an engine for each of them. mu is held.
func (p *Pool) endUnused(session *engine.Client) {
	for _, used := range p.used {
		if used == session {
			return
		}
	}

	p.Sessions.Drop(session)
	p.prune()
}

// access is what was read of an OLVMCluster's way to its engine, and out of which versions of the objects.
type access struct {
	versions string
	config   engine.Config
}

type groupsOf struct {
	session   *engine.Client
	clusterID engine.ID
}

// AffinityGroups lists the groups of a cluster out of a list that is at most maxAge old. A cluster that does not exist
// has none.
func (p *Pool) AffinityGroups(
	ctx context.Context, session *engine.Client, clusterID engine.ID, maxAge time.Duration,
) ([]engine.AffinityGroup, error) {
	return listOf(p, &p.groups, groupsOf{session, clusterID}).within(maxAge, func() ([]engine.AffinityGroup, error) {
		return session.AffinityGroups(ctx, clusterID)
	})
}

// VM returns the VM of that ID as it was at most maxAge ago, nil where there is none.
func (p *Pool) VM(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) (*engine.VM, error) {
	return p.view(session).get(ctx, session, id, maxAge)
}

// view is what is known of the VMs of an engine.
func (p *Pool) view(session *engine.Client) *vmView {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.vms == nil {
		p.vms = map[*engine.Client]*vmView{}
	}

	if p.vms[session] == nil {
		p.prune()
		p.vms[session] = &vmView{now: p.now}
	}

	return p.vms[session]
}

// Guest returns what the agent in the VM's guest reports out of a list that is at most maxAge old.
func (p *Pool) Guest(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) ([]engine.GuestInterface, error) {
	guests, err := listOf(p, &p.guests, session).within(maxAge, func() (map[engine.ID][]engine.GuestInterface, error) {
		return session.AllGuestInterfaces(ctx)
	})

	return guests[id], err
}

// For returns the session and the connection to the engine of a cluster. The error is a *blocker.Error where the user
// must act, such as for another engine than the one on which the machines of the cluster are.
func (p *Pool) For(ctx context.Context, of connection.Engine) (*engine.Client, engine.Config, error) {
	session, config, err := p.connect(ctx, of)
	if err != nil {
		return nil, engine.Config{}, err
	}

	if recorded := of.Recorded; recorded == nil || recorded.EngineID == "" {
		return session, config, nil
	}

	seen, err := connection.Identify(ctx, session, of)
	if err == nil {
		err = connection.CheckEngine(of, "", seen)
	}

	if err != nil {
		return nil, engine.Config{}, err
	}

	return session, config, nil
}

// ForMachine is For of the engine of a machine's cluster, and the engine's ID of itself. An OLVMCluster that others
// manage has no record of its engine: then the one that its machine has recorded counts.
func (p *Pool) ForMachine(
	ctx context.Context, of connection.Engine, m *infrav1.OLVMMachine,
) (session *engine.Client, config engine.Config, installation string, err error) {
	session, config, err = p.For(ctx, of)
	if err != nil {
		return nil, engine.Config{}, "", err
	}

	seen, err := session.Identity(ctx)
	if err == nil {
		err = connection.CheckEngine(of, connection.EngineOfMachine(m).Installation, seen)
	}

	if err != nil {
		return nil, engine.Config{}, "", err
	}

	return session, config, seen.Installation, nil
}

const (
	// recordPeriod is how often the newest event of an engine is recorded: each record is a write to the API server,
	// and wakes the machines. recordAfterRun is how often if runs have changed what is on the engine.
	recordPeriod   = time.Hour
	recordAfterRun = time.Minute
)

// LastEvent returns what a cluster that uses an engine is to record as the engine's last event. lastRun is when the
// last run for an object of the cluster ended; zero if none has.
func LastEvent(
	ctx context.Context, session *engine.Client, of connection.Engine, lastRun, now time.Time,
) (*infrav1.EngineEvent, error) {
	seen, err := connection.Identify(ctx, session, of)
	if err != nil {
		return nil, err
	}

	var recorded *infrav1.EngineEvent
	if status := of.Recorded; status != nil && status.EngineID == seen.Installation {
		recorded = status.LastEvent
	}

	restored := connection.IsRestored(of, seen) // and accepted
	if recorded != nil && !restored && !isRecordDue(recorded, lastRun, now) {
		return recorded, nil
	}

	before := infrav1.EngineEvent{}
	if recorded != nil && !restored {
		before = *recorded
	}

	if seen, err = session.FetchIdentity(ctx, before.ID, before.Time.Time); err != nil || seen.NewestEvent == 0 {
		return recorded, err
	}

	if seen.Forgot {
		return recorded, connection.CheckEngine(of, "", seen)
	}

	return &infrav1.EngineEvent{
		ID: seen.NewestEvent, Time: metav1.NewTime(seen.NewestTime), Recorded: metav1.NewTime(now),
	}, nil
}

// isRecordDue reports whether a newer event is to be recorded. What a run made is known only to an engine that has the
// events of that run.
func isRecordDue(recorded *infrav1.EngineEvent, lastRun, now time.Time) bool {
	age := now.Sub(recorded.Recorded.Time)

	return age >= recordPeriod || age >= recordAfterRun && !lastRun.Before(recorded.Recorded.Time)
}

// MarkRestored notes on the last event that its engine has forgotten it, if that is the error. The engine may have as
// many events again before it is looked at next.
func MarkRestored(last *infrav1.EngineEvent, err error) {
	var blocked *blocker.Error
	if last != nil && errors.As(err, &blocked) && blocked.Reason == infrav1.EngineRestoredReason {
		last.Gone = true
	}
}

// connect is For, whatever engine answers.
func (p *Pool) connect(ctx context.Context, of connection.Engine) (*engine.Client, engine.Config, error) {
	key, versions := of.Key, p.versions(ctx, of)
	p.mu.Lock()
	known, ok := p.access[key]
	p.mu.Unlock()
	if ok && versions != "" && known.versions == versions {
		session, err := p.Sessions.Get(known.config) // Get also marks the session as used
		return session, known.config, err
	}

	session, config, err := p.read(ctx, of)

	var refused *blocker.Error
	if errors.As(err, &refused) {
		p.Forget(key) // what was allowed before must not be used any longer
	}

	if err == nil && versions != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.access == nil {
			p.access = map[client.ObjectKey]access{}
		}

		p.access[key] = access{versions: versions, config: config}
	}

	return session, config, err
}

// Forget drops what is known of an OLVMCluster that is gone: the password of its engine, and the session where no other
// OLVMCluster uses it.
func (p *Pool) Forget(cluster client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.access, cluster)
	if session := p.used[cluster]; session != nil {
		delete(p.used, cluster)
		p.endUnused(session)
	}
}

// Replaced records the session of a cluster, and reports whether it had another one before.
func (p *Pool) Replaced(cluster client.ObjectKey, session *engine.Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == nil {
		p.used = map[client.ObjectKey]*engine.Client{}
	}

	before := p.used[cluster]
	p.used[cluster] = session
	if before == nil || before == session {
		return false
	}

	p.endUnused(before)

	return true
}

// versions of all that decides the connection to the engine; empty where they are not known.
func (p *Pool) versions(ctx context.Context, of connection.Engine) string {
	if p.Metadata == nil {
		return ""
	}

	out := fmt.Sprint(of.UID, of.Generation)
	note := func(kind string, key client.ObjectKey) bool {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		if err := p.Metadata.Get(ctx, key, object); err != nil {
			return false
		}

		out += " " + object.ResourceVersion

		return true
	}

	var identity *infrav1alpha1.OLVMClusterIdentity

	if name := connection.IdentityOf(of); name != "" {
		identity = &infrav1alpha1.OLVMClusterIdentity{}
		if p.NoIdentities || p.Metadata.Get(ctx, client.ObjectKey{Name: name}, identity) != nil ||
			!note("Namespace", client.ObjectKey{Name: of.Key.Namespace}) {
			return ""
		}

		out += " " + identity.ResourceVersion
	}

	if key, ok := connection.CredentialsKey(of, identity); ok && !note("Secret", key) {
		return ""
	}

	if key, ok := connection.CAKey(of, identity); ok && !note("ConfigMap", key) {
		return ""
	}

	return out
}

// read reads the connection to the engine.
func (p *Pool) read(ctx context.Context, of connection.Engine) (*engine.Client, engine.Config, error) {
	config, err := p.config(ctx, of)
	if err != nil {
		return nil, engine.Config{}, err
	}

	session, err := p.Sessions.Get(config)
	if err != nil {
		return nil, engine.Config{}, err
	}

	return session, config, nil
}

// As returns a session with the engine of a cluster of another user, who sees what that user has rights for. The error
// is a *blocker.Error where somebody must act.
func (p *Pool) As(ctx context.Context, of connection.Engine, secret string) (*engine.Client, error) {
	if err := p.checkIdentity(of); err != nil {
		return nil, err
	}

	config, err := connection.ConfigAs(ctx, p.Reader, of, secret, p.Policy)
	if err != nil {
		return nil, err
	}

	config.Filtered = true

	return p.Sessions.Get(config)
}

// config reads the connection to the engine of a cluster.
func (p *Pool) config(ctx context.Context, of connection.Engine) (engine.Config, error) {
	if err := p.checkIdentity(of); err != nil {
		return engine.Config{}, err
	}

	return connection.ReadConfig(ctx, p.Reader, of, p.Policy)
}

// checkIdentity refuses an identity where this process reads none.
func (p *Pool) checkIdentity(of connection.Engine) error {
	if !p.NoIdentities || connection.IdentityOf(of) == "" {
		return nil
	}

	return blocker.New(infrav1.CredentialsNotAllowedReason, "spec.olvmOvirtAPIServer.identityRef",
		"the manager watches one namespace or does not know its own, and reads no OLVMClusterIdentity; name a Secret "+
			"in credentialsSecret")
}
