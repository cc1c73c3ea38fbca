package cluster

import (
	"context"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// This file contains the phases and runs for the affinity groups, shared by the machines of a cluster.

// statePrefix separates the state of an OLVMCluster from the state of an OLVMMachine with the same name.
const statePrefix = "olvmcluster."

// reconcileFailureDomains checks the domains against the engine.
func (r *Reconciler) reconcileFailureDomains(ctx context.Context, scope *clusterScope) {
	scope.domains, scope.wrongDomains, scope.domainsErr = placement.FailureDomains(ctx, scope.session,
		scope.olvmCluster.Spec)
}

// stateGroups returns the groups of a state by key.
func stateGroups(state *tfstate.State) map[placement.GroupKey]tfstate.Instance {
	out := map[placement.GroupKey]tfstate.Instance{}
	for _, instance := range state.Instances("ovirt_affinity_group") {
		out[placement.ParseGroupKey(instance.Key)] = instance
	}

	return out
}

// reconcileGroups plans and renders the groups, and checks whether the engine still has them.
func (r *Reconciler) reconcileGroups(ctx context.Context, scope *clusterScope) {
	known := stateGroups(scope.workspace.State)
	scope.groups, scope.incomplete, scope.groupsErr = r.decideGroups(ctx, scope, known)
	if scope.groupsErr != nil || len(scope.groups) == 0 {
		return
	}

	scope.rendered, scope.groupsErr = render.ClusterConfiguration(
		placement.Cluster(scope.session, scope.config, ownermark.Of(scope.olvmCluster), scope.groups),
	)
	if scope.groupsErr == nil {
		scope.drifted, scope.groupsErr = r.groupsDrifted(ctx, scope, known)
	}
}

func (r *Reconciler) decideGroups(
	ctx context.Context, scope *clusterScope, known map[placement.GroupKey]tfstate.Instance,
) ([]placement.Group, bool, error) {
	wanted := placement.AffinityGroups(scope.olvmCluster.Spec, scope.services)
	if err := blocker.CheckTexts(infrav1.RenderFailedReason, "spec.affinityGroups", wanted); err != nil {
		return nil, false, err
	}

	members, incomplete, err := placement.Members(ctx, r.Client, scope.session, scope.olvmCluster, scope.cluster.Name)
	if err != nil {
		return nil, false, err
	}

	hosts, err := scope.session.HostsWithin(ctx, placement.HostsAge)
	if err != nil {
		return nil, false, err
	}

	clusters, err := scope.session.Clusters(ctx, scope.dataCenter)
	if err != nil {
		return nil, false, err
	}

	var existing []placement.GroupKey

	for key := range known { // a missing engine cluster took its groups with it
		if slices.ContainsFunc(clusters, func(c engine.Cluster) bool { return c.ID == key.ClusterID }) {
			existing = append(existing, key)
		}
	}

	return placement.Groups(wanted, members, hosts, existing), incomplete, nil
}

// wakeMachines starts a pass for each machine of the cluster.
func (r *Reconciler) wakeMachines(ctx context.Context, scope *clusterScope) {
	machines, err := r.machinesOf(ctx, scope)
	if err != nil {
		return // the next periodic pass is soon enough
	}

	for i := range machines {
		m := &machines[i]
		r.Runs.Wake(workspace.MachineKey(m))
	}
}

// groupsDrifted reports whether someone deleted a group, or changed its rule.
func (r *Reconciler) groupsDrifted(
	ctx context.Context, scope *clusterScope, known map[placement.GroupKey]tfstate.Instance,
) (bool, error) {
	short := false
	defer func() {
		if short {
			r.wakeMachines(ctx, scope) // one of them was removed from a group, or has not joined yet
		}
	}()

	for _, g := range scope.groups {
		instance, ok := known[g.Key()]
		if !ok {
			continue // not created yet
		}

		there, err := r.Engines.AffinityGroups(ctx, scope.session, g.ClusterID, 0)
		if err != nil {
			return false, err
		}

		at := slices.IndexFunc(there, func(a engine.AffinityGroup) bool { return a.ID.String() == instance.ID })
		if at < 0 {
			return true, nil
		}

		vms := there[at].VMs
		short = short || vms == nil || len(vms.Items) < g.Machines
		rule := there[at].VMsRule
		if rule != nil &&
			(rule.Enabled == g.Off || rule.Enabled && (rule.Enforcing != g.Hard || rule.Positive != g.Positive)) {
			return true, nil
		}
	}

	return false, nil
}

// reconcileRun submits a run if needed.
func (r *Reconciler) reconcileRun(ctx context.Context, scope *clusterScope) error {
	digest := ""
	if scope.rendered.Files != nil {
		digest = scope.rendered.Files.Digest()
	}

	state := scope.workspace.State
	err := scope.workspace.Apply(ctx, workspace.Request{
		Facts: workspace.Facts{
			Ready:   scope.rendered.Files != nil && scope.groupsErr == nil,
			Digest:  digest,
			Drifted: scope.drifted,
		},
		Engine: connection.EngineOf(scope.olvmCluster).Key(),
		// Record possible groups before anything can create one.
		Annotations: map[string]string{infrav1.AffinityGroupsRequestedAnnotation: "true"},
		Subject:     func() workspace.Subject { return subjectOf(scope) },
	})
	if err != nil || scope.workspace.Action.Kind != workspace.Apply {
		return err
	}

	if scope.drifted && state != nil && state.AppliedDigest == digest {
		workspace.CountDrift(workspace.DriftedGroup)
	}

	return nil
}

// reconcileDestroy removes the groups once no machine needs them. It reports whether the object may be released.
func (r *Reconciler) reconcileDestroy(
	ctx context.Context, scope *clusterScope,
) (gone bool, after time.Duration, err error) {
	if workspace.Moving(scope.olvmCluster) {
		scope.blocked = blocker.Deletion(0,
			"The object is being moved to another management cluster; its affinity groups stay")
		return false, 0, nil
	}

	// No engine is needed without groups.
	_, requested := scope.olvmCluster.Annotations[infrav1.AffinityGroupsRequestedAnnotation]
	ready := false
	if requested || !scope.workspace.State.Empty() {
		r.reconcileEngine(ctx, scope)
		ready = scope.engineErr == nil
	}

	err = scope.workspace.Destroy(ctx, workspace.Request{
		Facts:   workspace.Facts{Ready: ready, MayExist: requested},
		Engine:  connection.EngineOf(scope.olvmCluster).Key(),
		Subject: func() workspace.Subject { return subjectOf(scope) },
	})
	if err != nil {
		return false, 0, err
	}

	action := scope.workspace.Action
	if action.Kind != workspace.Release {
		return false, action.After, nil
	}

	return true, 0, scope.workspace.Remove(ctx)
}

// clusterNameOf returns the name of the Cluster, even if the Cluster no longer exists.
func clusterNameOf(scope *clusterScope) string {
	if scope.cluster != nil {
		return scope.cluster.Name
	}

	return scope.olvmCluster.Labels[clusterv1.ClusterNameLabel]
}
