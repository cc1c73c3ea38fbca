package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// mostEvents is the maximum number of events on the page. The latest are shown.
const mostEvents = 200

// Ref names an object, or another target of a wait: an engine or a guest.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// State is the content of the page about a management cluster.
type State struct {
	// Version is the version of olvmctl.
	Version string `json:"version"`
	// Server is the URL of the API server.
	Server string `json:"server"`
	// Namespace is the namespace shown on the page, or "" for all.
	Namespace string    `json:"namespace,omitempty"`
	Clusters  []Cluster `json:"clusters"`
	// Events are the latest events, newest first.
	Events []Event `json:"events"`
	// Problems explain why the page is incomplete or outdated.
	Problems []string `json:"problems,omitempty"`
	// Manager explains why nothing changes if no manager of this provider is running. It is empty if a manager is
	// running.
	Manager string `json:"manager,omitempty"`
	// Engines are the engines, if the page asks them.
	Engines []Engine `json:"engines,omitempty"`
	// Away explains why the API server is unreachable, and AwaySince is the time since then. Away is empty if the
	// server is reachable.
	Away      string    `json:"away,omitempty"`
	AwaySince time.Time `json:"awaySince,omitzero"`
	// Watches are the watches of all kinds on the page.
	Watches []Watch `json:"watches"`
	// Troubles are those of all clusters, and of the services they need.
	Troubles []Trouble `json:"troubles"`
	// Counts is the number of clusters by state, and Machines the number of their machines by state.
	Counts   Count `json:"counts"`
	Machines Count `json:"machines"`
}

// Cluster is a cluster with its parts.
type Cluster struct {
	clustertree.Overview

	// Kind is the kind of the state: bad, busy, off or ok. State is a word for the state.
	Kind   string `json:"kind"`
	State  string `json:"state"`
	Paused bool   `json:"paused,omitempty"`
	// Engine is the URL of the engine, or "" if it is not known.
	Engine string            `json:"engine,omitempty"`
	Tree   *clustertree.Node `json:"tree"`
	Waits  []Wait            `json:"waits,omitempty"`
	// Kinds are the kinds of the states of the machines, by KIND/NAME.
	Kinds map[string]string `json:"kinds"`
	// Machines counts the nodes among Kinds.
	Machines Count     `json:"machines"`
	Troubles []Trouble `json:"troubles,omitempty"`
}

// Event is a Kubernetes event.
type Event struct {
	Time    time.Time `json:"time"`
	About   Ref       `json:"about"`
	Warning bool      `json:"warning,omitempty"`
	Reason  string    `json:"reason"`
	Note    string    `json:"note"`
}

func (w *watcher) buildState(ctx context.Context) State {
	out := State{
		Version:   version.Version,
		Server:    w.server,
		Namespace: w.Namespace,
		Clusters:  []Cluster{},
		Events:    []Event{},
		Troubles:  []Trouble{},
		Watches:   w.listWatches(),
	}
	out.Away, out.AwaySince = w.explainAway()

	note := func(what string, err error) { out.Problems = append(out.Problems, fmt.Sprintf("%s: %v", what, err)) }
	if err := w.watchError(); err != nil && out.Away == "" {
		note("Some watches fail, so the page may be out of date", err)
	}

	out.Problems = append(out.Problems, w.unknownWatchProblems()...)

	for _, name := range slices.Sorted(maps.Keys(w.unseen)) {
		out.Problems = append(out.Problems, fmt.Sprintf("No %s: %s", name, w.unseen[name]))
	}

	clusters, err := w.listClusters(ctx)
	if err != nil {
		note("Clusters", err)
	}

	out.Clusters = append(out.Clusters, clusters...)

	events, err := w.listEvents(ctx)
	if err != nil {
		note("Events", err)
	}

	out.Manager = w.managerTrouble()
	out.Events = append(out.Events, events[:min(len(events), mostEvents)]...)

	if w.engines != nil {
		out.Engines = w.engines.lastAnswers()
	}

	out.setTotals()

	return out
}

// unknownWatchProblems returns the problems with watches of unknown types.
func (w *watcher) unknownWatchProblems() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, of := range slices.Sorted(maps.Keys(w.strange)) {
		out = append(out, fmt.Sprintf("The watch of %s has ended: %s", of, w.strange[of]))
	}

	return out
}

// listClusters returns all clusters with their trees. Clusters in trouble come first.
func (w *watcher) listClusters(ctx context.Context) ([]Cluster, error) {
	overviews, err := clustertree.List(ctx, w.reader, client.InNamespace(w.Namespace))
	if err != nil {
		return nil, err
	}

	var out []Cluster

	for _, overview := range overviews {
		var cluster clusterv1.Cluster
		key := client.ObjectKey{Namespace: overview.Namespace, Name: overview.Name}
		if err := w.reader.Get(ctx, key, &cluster); client.IgnoreNotFound(err) != nil {
			return nil, err
		} else if err != nil {
			continue // the Cluster was just deleted
		}

		tree, err := clustertree.Discover(ctx, w.reader, &cluster)
		if err != nil {
			return nil, err
		}

		waits, err := waitsOf(ctx, w.reader, &cluster, tree)
		if err != nil {
			return nil, err
		}

		next := Cluster{
			Overview: overview,
			Paused:   cluster.Spec.Paused != nil && *cluster.Spec.Paused,
			Engine:   w.engineOf(ctx, &cluster),
			Tree:     tree,
			Waits:    waits,
		}
		next.assessState()
		out = append(out, next)
	}

	sortByTrouble(out)

	return out, nil
}

// engineOf returns the normalized URL of a cluster's engine, or "" if it is not known.
func (w *watcher) engineOf(ctx context.Context, cluster *clusterv1.Cluster) string {
	var infra infrav1.OLVMCluster
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}

	err := w.reader.Get(ctx, key, &infra)
	if cluster.Spec.InfrastructureRef.Kind != "OLVMCluster" || err != nil {
		return ""
	}

	return engine.RedactURL(infra.Spec.OLVMOvirtAPIServer.ServerURL)
}

// listEvents returns all events, newest first.
func (w *watcher) listEvents(ctx context.Context) ([]Event, error) {
	var list eventsv1.EventList
	if err := w.reader.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
		return nil, err
	}

	out := make([]Event, 0, len(list.Items))

	for i := range list.Items {
		e := &list.Items[i]
		out = append(out, Event{
			Time:    mgmtcluster.TimeOf(e),
			About:   Ref{Kind: e.Regarding.Kind, Namespace: e.Regarding.Namespace, Name: e.Regarding.Name},
			Warning: e.Type == "Warning",
			Reason:  e.Reason,
			Note:    e.Note,
		})
	}

	slices.SortStableFunc(out, func(a, b Event) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.About.Name, b.About.Name), cmp.Compare(a.Reason, b.Reason))
	})

	return out, nil
}

// kindOf returns the kind of a watched object. Objects in a cache do not contain their kind.
func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }
