package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
)

// Engines gives every OLVMCluster its engine session, and every machine its VM out of one list per engine.
type Engines struct {
	// Reader reads Secrets and ConfigMaps past the cache: the controller does not watch their contents.
	Reader client.Reader
	// Sessions are shared with the Terraform provider.
	Sessions *engine.Sessions

	mu    sync.Mutex
	views map[*engine.Client]*vmView
	// groups are the last lists of affinity groups, by engine and its cluster.
	groups map[groupsOf]*groupsView
}

type groupsOf struct {
	session   *engine.Client
	clusterID string
}

type groupsView struct {
	mu     sync.Mutex
	groups []engine.AffinityGroup
	at     time.Time
}

// AffinityGroups lists the groups of a cluster out of a list that is at most maxAge old, which whoever finds it too old
// renews for all. A cluster that does not exist has none.
func (e *Engines) AffinityGroups(ctx context.Context, session *engine.Client, clusterID string, maxAge time.Duration) ([]engine.AffinityGroup, error) {
	e.mu.Lock()
	if e.groups == nil {
		e.groups = map[groupsOf]*groupsView{}
	}
	key := groupsOf{session, clusterID}
	view := e.groups[key]
	if view == nil {
		view = &groupsView{}
		e.groups[key] = view
	}
	e.mu.Unlock()

	view.mu.Lock()
	defer view.mu.Unlock()
	if view.at.IsZero() || time.Since(view.at) > maxAge {
		groups, err := session.AffinityGroups(ctx, clusterID)
		if err != nil && !engine.IsNotFound(err) {
			return nil, err
		}
		view.groups, view.at = groups, time.Now()
	}
	return view.groups, nil
}

// For returns the session and the way to the engine of a cluster. The error is a *resolve.Error where the user must act.
func (e *Engines) For(ctx context.Context, cluster *infrav1.OLVMCluster) (*engine.Client, engine.Config, error) {
	server := cluster.Spec.OLVMOvirtAPIServer
	secret := &corev1.Secret{}
	if err := e.get(ctx, resolve.Key(server.CredentialsSecret, cluster), secret); err != nil {
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
	config, err := resolve.EngineConfig(cluster, secret, ca)
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

// vmView is the last list of an engine's VMs.
type vmView struct {
	mu  sync.Mutex
	vms map[string]engine.VM
	at  time.Time
}

// VM returns the VM of that ID out of a list that is at most maxAge old, nil where there is none. Whoever finds the list
// too old renews it for all, so that the engine sees one request per period, however many machines there are.
func (e *Engines) VM(ctx context.Context, session *engine.Client, id string, maxAge time.Duration) (*engine.VM, error) {
	e.mu.Lock()
	if e.views == nil {
		e.views = map[*engine.Client]*vmView{}
	}
	view := e.views[session]
	if view == nil {
		view = &vmView{}
		e.views[session] = view
	}
	e.mu.Unlock()

	view.mu.Lock()
	defer view.mu.Unlock()
	if time.Since(view.at) > maxAge {
		list, err := session.VMs(ctx)
		if err != nil {
			return nil, err
		}
		view.vms, view.at = make(map[string]engine.VM, len(list)), time.Now()
		for _, vm := range list {
			view.vms[vm.ID] = vm
		}
	}
	if vm, ok := view.vms[id]; ok {
		return &vm, nil
	}
	return nil, nil
}
