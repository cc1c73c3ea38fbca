package controllers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
)

// Engines gives every OLVMCluster its engine session, and every machine its VM out of one list per engine.
type Engines struct {
	// Reader reads Secrets and ConfigMaps past the cache: the controller does not watch their contents.
	Reader client.Reader
	// Metadata is a cache of the metadata of Secrets and ConfigMaps: what was read is read again when they have
	// changed.
	Metadata client.Reader
	// Unbound has Secrets without a list of engines sent to any engine.
	Unbound bool
	// Sessions are shared with the Terraform provider.
	Sessions *engine.Sessions

	mu     sync.Mutex
	access map[types.UID]access
	used   map[types.UID]*engine.Client // by OLVMClusters
	vms    map[*engine.Client]*view[map[engine.ID]engine.VM]
	guests map[*engine.Client]*view[map[engine.ID][]engine.GuestInterface]
	groups map[groupsOf]*view[[]engine.AffinityGroup]
}

// view is an answer of an engine. Whoever finds it too old renews it for all, so that the engine sees one request per
// period, however many machines there are.
type view[T any] struct {
	mu     sync.Mutex
	answer T
	at     time.Time
	err    error // of the last try, at failed
	failed time.Time
}

// failureSpeaks is how long an engine that gave no answer is not asked again for the same: a machine that waits for its
// time-out is enough.
const failureSpeaks = 3 * time.Second

// viewOf is the view of that key, made where there is none.
func viewOf[K comparable, T any](e *Engines, views *map[K]*view[T], key K) *view[T] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *views == nil {
		*views = map[K]*view[T]{}
	}

	if (*views)[key] == nil {
		e.prune()
		(*views)[key] = &view[T]{}
	}

	return (*views)[key]
}

// prune forgets the answers of sessions that are gone; mu is held.
func (e *Engines) prune() {
	gone := func(session *engine.Client) bool { return !e.Sessions.Has(session) }
	maps.DeleteFunc(e.vms, func(session *engine.Client, _ *view[map[engine.ID]engine.VM]) bool { return gone(session) })
	maps.DeleteFunc(e.guests, func(session *engine.Client, _ *view[map[engine.ID][]engine.GuestInterface]) bool {
		return gone(session)
	})
	maps.DeleteFunc(e.groups, func(of groupsOf, _ *view[[]engine.AffinityGroup]) bool { return gone(of.session) })
}

// letGo ends a session that no OLVMCluster uses any more, and forgets its answers: whoever writes new credentials again
// and again would have the manager keep the lists of an engine for each of them. mu is held.
func (e *Engines) letGo(session *engine.Client) {
	for _, used := range e.used {
		if used == session {
			return
		}
	}

	e.Sessions.Drop(session)
	e.prune()
}

// within returns an answer that is at most maxAge old.
func (v *view[T]) within(maxAge time.Duration, ask func() (T, error)) (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.at.IsZero() && time.Since(v.at) <= maxAge {
		return v.answer, nil
	}

	if v.err != nil && time.Since(v.failed) < failureSpeaks {
		return v.answer, v.err
	}

	answer, err := ask()
	if err != nil {
		v.err, v.failed = err, time.Now()
		return answer, err
	}

	v.answer, v.at, v.err = answer, time.Now(), nil

	return v.answer, nil
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
func (e *Engines) AffinityGroups(
	ctx context.Context, session *engine.Client, clusterID engine.ID, maxAge time.Duration,
) ([]engine.AffinityGroup, error) {
	return viewOf(e, &e.groups, groupsOf{session, clusterID}).within(maxAge, func() ([]engine.AffinityGroup, error) {
		return session.AffinityGroups(ctx, clusterID)
	})
}

// VM returns the VM of that ID out of a list that is at most maxAge old, nil where there is none.
func (e *Engines) VM(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) (*engine.VM, error) {
	vms, err := e.listVMs(ctx, session, maxAge)
	if vm, ok := vms[id]; ok && err == nil {
		return &vm, nil
	}

	return nil, err
}

func (e *Engines) listVMs(
	ctx context.Context, session *engine.Client, maxAge time.Duration,
) (map[engine.ID]engine.VM, error) {
	return viewOf(e, &e.vms, session).within(maxAge, func() (map[engine.ID]engine.VM, error) {
		list, err := session.VMs(ctx)

		vms := make(map[engine.ID]engine.VM, len(list))
		for _, vm := range list {
			vms[vm.ID] = vm
		}

		return vms, err
	})
}

// Guest returns what the agent in the VM's guest reports out of a list that is at most maxAge old.
func (e *Engines) Guest(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) ([]engine.GuestInterface, error) {
	guests, err := viewOf(e, &e.guests, session).within(maxAge, func() (map[engine.ID][]engine.GuestInterface, error) {
		return session.AllGuestInterfaces(ctx)
	})

	return guests[id], err
}

// For returns the session and the way to the engine of a cluster. The error is a *resolve.Error where the user must
// act.
func (e *Engines) For(ctx context.Context, cluster *infrav1.OLVMCluster) (*engine.Client, engine.Config, error) {
	versions := e.versions(ctx, cluster)
	e.mu.Lock()
	known, ok := e.access[cluster.UID]
	e.mu.Unlock()
	if ok && versions != "" && known.versions == versions {
		session, err := e.Sessions.Get(known.config) // which keeps the session
		return session, known.config, err
	}

	session, config, err := e.read(ctx, cluster)
	if err == nil && versions != "" {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.access == nil {
			e.access = map[types.UID]access{}
		}

		e.access[cluster.UID] = access{versions: versions, config: config}
	}

	return session, config, err
}

// forget drops what is known of a cluster that is gone.
func (e *Engines) forget(cluster types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.access, cluster)
	if session := e.used[cluster]; session != nil {
		delete(e.used, cluster)
		e.letGo(session)
	}
}

// replaced notes the session of a cluster, and says whether it had another one.
func (e *Engines) replaced(cluster types.UID, session *engine.Client) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.used == nil {
		e.used = map[types.UID]*engine.Client{}
	}

	before := e.used[cluster]
	e.used[cluster] = session
	if before == nil || before == session {
		return false
	}

	e.letGo(before)

	return true
}

// versions of all that decides the way to the engine; empty where they are not known.
func (e *Engines) versions(ctx context.Context, cluster *infrav1.OLVMCluster) string {
	if e.Metadata == nil {
		return ""
	}

	out := fmt.Sprint(cluster.Generation)
	for _, named := range []struct {
		kind string
		of   reference
	}{{"Secret", credentialsOf}, {"ConfigMap", caOf}} {
		key, ok := named.of(cluster)
		if !ok {
			continue
		}

		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(named.kind))
		if err := e.Metadata.Get(ctx, key, object); err != nil {
			return ""
		}

		out += " " + object.ResourceVersion
	}

	return out
}

// reference is an object that an OLVMCluster names as a part of the way to its engine; false where it names none.
type reference func(*infrav1.OLVMCluster) (client.ObjectKey, bool)

// credentialsOf is the Secret with the credentials.
func credentialsOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	return resolve.Key(c.Spec.OLVMOvirtAPIServer.CredentialsSecret,
		c), c.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name != ""
}

// caOf is the ConfigMap with the CA.
func caOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	name := c.Spec.OLVMOvirtAPIServer.CAConfigMap
	if name == nil {
		return client.ObjectKey{}, false
	}

	return resolve.Key(*name, c), name.Name != ""
}

// read reads the way to the engine.
func (e *Engines) read(ctx context.Context, cluster *infrav1.OLVMCluster) (*engine.Client, engine.Config, error) {
	server := cluster.Spec.OLVMOvirtAPIServer
	secret := &corev1.Secret{}
	key, _ := credentialsOf(cluster)
	if err := e.get(ctx, key, secret); err != nil {
		return nil, engine.Config{}, err
	} else if secret.Name == "" {
		secret = nil
	}

	var ca *corev1.ConfigMap
	if server.CAConfigMap != nil {
		ca = &corev1.ConfigMap{}
		if err := e.get(ctx, resolve.Key(*server.CAConfigMap, cluster), ca); err != nil {
			return nil, engine.Config{}, err
		} else if ca.Name == "" {
			ca = nil
		}
	}

	config, err := resolve.EngineConfig(cluster, secret, ca, e.Unbound)
	if err != nil {
		return nil, engine.Config{}, err
	}

	session, err := e.Sessions.Get(config)
	if err != nil {
		return nil, engine.Config{}, err
	}

	return session, config, nil
}

// get reads an object, and leaves it empty where it does not exist.
func (e *Engines) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	if err := e.Reader.Get(ctx, key, object); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to get %T %s: %w", object, key, err)
	}

	return nil
}
