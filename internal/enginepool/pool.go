// Package enginepool shares engines among the objects that use them. It has one session per set of credentials, and one
// list of VMs per engine and period. It has one watcher of VMs, and limits the concurrent reconciles per engine.
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

// Registry provides each OLVMCluster with its engine session, and each machine with its VM from one list per engine.
type Registry struct {
	// Reader reads Secrets and ConfigMaps without the cache, because the controller does not watch their contents.
	Reader client.Reader
	// Metadata is a cache of the metadata of Secrets and ConfigMaps. The registry reads their contents again only after
	// a change.
	Metadata client.Reader
	// NoIdentities refuses OLVMClusterIdentities, because a manager limited to one namespace may not read them.
	NoIdentities bool
	// Policy decides which credentials are allowed for which engines.
	Policy connection.Policy
	// Sessions are the sessions with the engines. The Terraform provider uses the same sessions.
	Sessions *engine.Sessions

	mu       sync.Mutex
	access   map[client.ObjectKey]access         // by OLVMCluster
	sessions map[client.ObjectKey]*engine.Client // by OLVMCluster
	vms      map[*engine.Client]*vmView
	guests   map[*engine.Client]*cachedAnswer[map[engine.ID][]engine.GuestInterface]
	groups   map[groupsOf]*cachedAnswer[[]engine.AffinityGroup]
	now      func() time.Time // for the views; nil means time.Now
}

// pruneEnded drops the answers of ended sessions. The caller holds mu.
func (r *Registry) pruneEnded() {
	for session := range r.vms {
		if !r.Sessions.HasClient(session) {
			delete(r.vms, session)
		}
	}

	for session := range r.guests {
		if !r.Sessions.HasClient(session) {
			delete(r.guests, session)
		}
	}

	for of := range r.groups {
		if !r.Sessions.HasClient(of.session) {
			delete(r.groups, of)
		}
	}
}

// endUnused ends the session unless an OLVMCluster uses it, and drops its answers. Otherwise, a user could fill the
// memory with lists of an engine by changing the credentials again and again. The caller holds mu.
func (r *Registry) endUnused(session *engine.Client) {
	for _, used := range r.sessions {
		if used == session {
			return
		}
	}

	r.Sessions.Drop(session)
	r.pruneEnded()
}

// access is the connection of an OLVMCluster to its engine. It records the versions of the objects it was read from.
type access struct {
	versions string
	config   engine.Config
}

type groupsOf struct {
	session   *engine.Client
	clusterID engine.ID
}

// GetAffinityGroups returns the groups of a cluster, from a list at most maxAge old. A missing cluster has no groups.
func (r *Registry) GetAffinityGroups(
	ctx context.Context, session *engine.Client, clusterID engine.ID, maxAge time.Duration,
) ([]engine.AffinityGroup, error) {
	return ensureAnswer(
		r, &r.groups, groupsOf{session, clusterID},
	).getWithin(maxAge, func() ([]engine.AffinityGroup, error) {
		return session.ListAffinityGroups(ctx, clusterID)
	})
}

// GetVM returns the VM with this ID, from data at most maxAge old. It returns nil if the engine has no such VM.
func (r *Registry) GetVM(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) (*engine.VM, error) {
	return r.ensureView(session).getVM(ctx, session, id, maxAge)
}

// ensureView returns the view of an engine's VMs.
func (r *Registry) ensureView(session *engine.Client) *vmView {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.vms == nil {
		r.vms = map[*engine.Client]*vmView{}
	}

	if r.vms[session] == nil {
		r.pruneEnded()
		r.vms[session] = &vmView{now: r.now}
	}

	return r.vms[session]
}

// GetGuestInterfaces returns what the guest agent in a VM reports, from a list at most maxAge old.
func (r *Registry) GetGuestInterfaces(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) ([]engine.GuestInterface, error) {
	guests, err := ensureAnswer(
		r, &r.guests, session,
	).getWithin(maxAge, func() (map[engine.ID][]engine.GuestInterface, error) {
		return session.ListAllGuestInterfaces(ctx)
	})

	return guests[id], err
}

// OpenSession returns the session and the connection for a cluster's engine. The error is a *blocker.Error if a user
// must act, for example because the engine is not the one with the cluster's machines.
func (r *Registry) OpenSession(ctx context.Context, of connection.Engine) (*engine.Client, engine.Config, error) {
	session, config, err := r.connectUnchecked(ctx, of)
	if err != nil {
		return nil, engine.Config{}, err
	}

	if recorded := of.Recorded; recorded == nil || recorded.EngineID == "" {
		return session, config, nil
	}

	seen, err := connection.LoadIdentity(ctx, session, of)
	if err == nil {
		err = connection.CheckEngine(of, "", seen)
	}

	if err != nil {
		return nil, engine.Config{}, err
	}

	return session, config, nil
}

// OpenMachineSession is OpenSession for the engine of a machine's cluster. It also returns the engine's installation
// ID. An externally managed OLVMCluster has no record of its engine, so the record of the machine counts.
func (r *Registry) OpenMachineSession(
	ctx context.Context, of connection.Engine, m *infrav1.OLVMMachine,
) (session *engine.Client, config engine.Config, installation string, err error) {
	session, config, err = r.OpenSession(ctx, of)
	if err != nil {
		return nil, engine.Config{}, "", err
	}

	seen, err := session.LoadIdentity(ctx)
	if err == nil {
		err = connection.CheckEngine(of, connection.GetMachineEngineID(m).Installation, seen)
	}

	if err != nil {
		return nil, engine.Config{}, "", err
	}

	return session, config, seen.Installation, nil
}

const (
	// recordPeriod is the interval for recording the newest event of an engine. Each record is a write to the API
	// server, and wakes the machines. recordAfterRun is the shorter interval after a run has changed the engine.
	recordPeriod   = time.Hour
	recordAfterRun = time.Minute
)

// DetermineLastEvent returns the event that a cluster should record as its engine's last one. lastRun is the end of the
// last run for an object of the cluster, or zero.
func DetermineLastEvent(
	ctx context.Context, session *engine.Client, of connection.Engine, lastRun, now time.Time,
) (*infrav1.EngineEvent, error) {
	seen, err := connection.LoadIdentity(ctx, session, of)
	if err != nil {
		return nil, err
	}

	var recorded *infrav1.EngineEvent
	if status := of.Recorded; status != nil && status.EngineID == seen.Installation {
		recorded = status.LastEvent
	}

	restored := connection.IsRestored(of, seen) // and the user has accepted the restore
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

// isRecordDue reports whether to record a newer event. It is due soon after a run: an engine that still has the run's
// events also has its resources.
func isRecordDue(recorded *infrav1.EngineEvent, lastRun, now time.Time) bool {
	age := now.Sub(recorded.Recorded.Time)

	return age >= recordPeriod || age >= recordAfterRun && !lastRun.Before(recorded.Recorded.Time)
}

// MarkRestored marks the last event as gone if err reports that the engine has forgotten it. The mark is necessary
// because the engine may soon have as many events again.
func MarkRestored(last *infrav1.EngineEvent, err error) {
	var blocked *blocker.Error
	if last != nil && errors.As(err, &blocked) && blocked.Reason == infrav1.EngineRestoredReason {
		last.Gone = true
	}
}

// connectUnchecked is OpenSession without the check that the same engine answers.
func (r *Registry) connectUnchecked(ctx context.Context, of connection.Engine) (*engine.Client, engine.Config, error) {
	key, versions := of.Key, r.readVersions(ctx, of)
	r.mu.Lock()
	known, ok := r.access[key]
	r.mu.Unlock()
	if ok && versions != "" && known.versions == versions {
		session, err := r.Sessions.Get(known.config) // Get also marks the session as used
		return session, known.config, err
	}

	session, config, err := r.openConnection(ctx, of)

	var refused *blocker.Error
	if errors.As(err, &refused) {
		r.DropCluster(key) // a withdrawn permission takes effect at once
	}

	if err == nil && versions != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.access == nil {
			r.access = map[client.ObjectKey]access{}
		}

		r.access[key] = access{versions: versions, config: config}
	}

	return session, config, err
}

// DropCluster drops all data of a deleted OLVMCluster, including the password for its engine. It ends the session
// unless another OLVMCluster uses it.
func (r *Registry) DropCluster(cluster client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.access, cluster)
	if session := r.sessions[cluster]; session != nil {
		delete(r.sessions, cluster)
		r.endUnused(session)
	}
}

// RecordSession records the session of a cluster, and reports whether it replaces another one.
func (r *Registry) RecordSession(cluster client.ObjectKey, session *engine.Client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = map[client.ObjectKey]*engine.Client{}
	}

	before := r.sessions[cluster]
	r.sessions[cluster] = session
	if before == nil || before == session {
		return false
	}

	r.endUnused(before)

	return true
}

// readVersions returns the versions of all objects that the connection depends on, or "" if one is unknown.
func (r *Registry) readVersions(ctx context.Context, of connection.Engine) string {
	if r.Metadata == nil {
		return ""
	}

	out := fmt.Sprint(of.UID, of.Generation)
	note := func(kind string, key client.ObjectKey) bool {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		if err := r.Metadata.Get(ctx, key, object); err != nil {
			return false
		}

		out += " " + object.ResourceVersion

		return true
	}

	var identity *infrav1alpha1.OLVMClusterIdentity

	if name := connection.GetIdentityName(of); name != "" {
		identity = &infrav1alpha1.OLVMClusterIdentity{}
		if r.NoIdentities || r.Metadata.Get(ctx, client.ObjectKey{Name: name}, identity) != nil ||
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

// openConnection reads the connection to the engine, and returns it with its session.
func (r *Registry) openConnection(ctx context.Context, of connection.Engine) (*engine.Client, engine.Config, error) {
	config, err := r.readConfig(ctx, of)
	if err != nil {
		return nil, engine.Config{}, err
	}

	session, err := r.Sessions.Get(config)
	if err != nil {
		return nil, engine.Config{}, err
	}

	return session, config, nil
}

// OpenSessionAs returns a session with the engine of a cluster for another user. The session sees only objects that the
// user has rights for. The error is a *blocker.Error if a user must act.
func (r *Registry) OpenSessionAs(ctx context.Context, of connection.Engine, secret string) (*engine.Client, error) {
	if err := r.checkIdentity(of); err != nil {
		return nil, err
	}

	config, err := connection.ReadConfigForUser(ctx, r.Reader, of, secret, r.Policy)
	if err != nil {
		return nil, err
	}

	config.Filtered = true

	return r.Sessions.Get(config)
}

// readConfig reads the connection to the engine of a cluster.
func (r *Registry) readConfig(ctx context.Context, of connection.Engine) (engine.Config, error) {
	if err := r.checkIdentity(of); err != nil {
		return engine.Config{}, err
	}

	return connection.ReadConfig(ctx, r.Reader, of, r.Policy)
}

// checkIdentity refuses an identity if this process must not read any.
func (r *Registry) checkIdentity(of connection.Engine) error {
	if !r.NoIdentities || connection.GetIdentityName(of) == "" {
		return nil
	}

	return blocker.New(infrav1.CredentialsNotAllowedReason, "spec.olvmOvirtAPIServer.identityRef",
		"the manager watches only one namespace, or does not know its own, so it reads no OLVMClusterIdentity; set "+
			"credentialsSecret")
}
