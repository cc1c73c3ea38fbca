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
func reconcileFailureDomains(ctx context.Context, scope *clusterScope) domainFacts {
	usable, wrong, err := placement.CheckFailureDomains(ctx, scope.engine.session, scope.olvmCluster.Spec)

	return domainFacts{usable: usable, wrong: wrong, err: err}
}

// mapStateGroups returns the groups of a state by key.
func mapStateGroups(state *tfstate.State) map[placement.GroupKey]tfstate.Instance {
	out := map[placement.GroupKey]tfstate.Instance{}
	for _, instance := range state.Instances("ovirt_affinity_group") {
		out[placement.ParseGroupKey(instance.Key)] = instance
	}

	return out
}

// reconcileGroups plans and renders the groups, and checks whether the engine still has them.
func (r *Reconciler) reconcileGroups(ctx context.Context, scope *clusterScope) groupFacts {
	var facts groupFacts

	known := mapStateGroups(scope.observed.State)
	facts.wanted, facts.incomplete, facts.err = r.planGroups(ctx, scope, known)
	if facts.err != nil || len(facts.wanted) == 0 {
		return facts
	}

	facts.rendered, facts.err = render.ClusterConfiguration(
		placement.BuildCluster(scope.engine.session, scope.engine.config,
			ownermark.NewOwner(scope.olvmCluster), facts.wanted),
	)
	if facts.err == nil {
		facts.drifted, facts.err = r.checkGroupDrift(ctx, scope, facts.wanted, known)
	}

	return facts
}

func (r *Reconciler) planGroups(
	ctx context.Context, scope *clusterScope, known map[placement.GroupKey]tfstate.Instance,
) ([]placement.Group, bool, error) {
	wanted := placement.CollectAffinityGroups(scope.olvmCluster.Spec, scope.services)
	if err := blocker.CheckTexts(infrav1.RenderFailedReason, "spec.affinityGroups", wanted); err != nil {
		return nil, false, err
	}

	members, incomplete, err := placement.ListMembers(ctx, r.Client, scope.engine.session, scope.olvmCluster,
		scope.cluster.Name)
	if err != nil {
		return nil, false, err
	}

	hosts, err := scope.engine.session.ListHostsWithin(ctx, placement.HostsAge)
	if err != nil {
		return nil, false, err
	}

	clusters, err := scope.engine.session.ListClusters(ctx, scope.engine.dataCenter)
	if err != nil {
		return nil, false, err
	}

	var existing []placement.GroupKey

	for key := range known { // the groups of a deleted engine cluster are gone, too
		if slices.ContainsFunc(clusters, func(c engine.Cluster) bool { return c.ID == key.ClusterID }) {
			existing = append(existing, key)
		}
	}

	return placement.DecideGroups(wanted, members, hosts, existing), incomplete, nil
}

// wakeMachines starts a pass for each machine of the cluster.
func (r *Reconciler) wakeMachines(ctx context.Context, scope *clusterScope) {
	machines, err := r.listMachines(ctx, scope)
	if err != nil {
		return // the next periodic pass is soon enough
	}

	for i := range machines {
		m := &machines[i]
		r.Runs.WakeObject(workspace.NewMachineKey(m))
	}
}

// checkGroupDrift reports whether someone deleted a group, or changed its rule.
func (r *Reconciler) checkGroupDrift(
	ctx context.Context, scope *clusterScope, wanted []placement.Group, known map[placement.GroupKey]tfstate.Instance,
) (bool, error) {
	short := false
	defer func() {
		if short {
			r.wakeMachines(ctx, scope) // one of them has not joined its group yet, or someone removed it
		}
	}()

	for _, g := range wanted {
		instance, ok := known[g.Key()]
		if !ok {
			continue // not created yet
		}

		existing, err := r.Engines.GetAffinityGroups(ctx, scope.engine.session, g.ClusterID, 0)
		if err != nil {
			return false, err
		}

		at := slices.IndexFunc(existing, func(a engine.AffinityGroup) bool { return a.ID.String() == instance.ID })
		if at < 0 {
			return true, nil
		}

		vms := existing[at].VMs
		short = short || vms == nil || len(vms.Items) < g.Machines
		rule := existing[at].VMsRule
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
	if scope.groups.rendered.Files != nil {
		digest = scope.groups.rendered.Files.Digest()
	}

	state := scope.observed.State
	action, err := scope.workspace.Apply(ctx, &scope.observed, workspace.Request{
		Facts: workspace.Facts{
			Ready:   scope.groups.rendered.Files != nil && scope.groups.err == nil,
			Digest:  digest,
			Drifted: scope.groups.drifted,
		},
		Engine: connection.GetEngineID(scope.olvmCluster).Key(),
		// Record possible groups before anything can create one.
		Annotations: map[string]string{infrav1.AffinityGroupsRequestedAnnotation: "true"},
		Subject:     func() workspace.Subject { return newSubject(scope) },
	})
	if scope.action = action; err != nil || action.Kind != workspace.Apply {
		return err
	}

	if scope.groups.drifted && state != nil && state.AppliedDigest == digest {
		workspace.CountDrift(workspace.DriftedGroup)
	}

	return nil
}

// reconcileDestroy removes the groups once no machine needs them. It reports whether the object may be released.
func (r *Reconciler) reconcileDestroy(
	ctx context.Context, scope *clusterScope,
) (gone bool, after time.Duration, err error) {
	if workspace.IsMoving(scope.olvmCluster) {
		scope.blocked = blocker.NewDeletionError(0,
			"The object is being moved to another management cluster; its affinity groups stay")
		return false, 0, nil
	}

	// No engine is needed without groups.
	_, requested := scope.olvmCluster.Annotations[infrav1.AffinityGroupsRequestedAnnotation]
	ready := false
	if requested || !scope.observed.State.Empty() {
		scope.engine = r.reconcileEngine(ctx, scope)
		ready = scope.engine.err == nil
	}

	action, err := scope.workspace.Destroy(ctx, scope.observed, workspace.Request{
		Facts:   workspace.Facts{Ready: ready, MayExist: requested},
		Engine:  connection.GetEngineID(scope.olvmCluster).Key(),
		Subject: func() workspace.Subject { return newSubject(scope) },
	})
	if scope.action = action; err != nil {
		return false, 0, err
	}

	if action.Kind != workspace.Release {
		return false, action.After, nil
	}

	return true, 0, scope.workspace.Remove(ctx)
}

// getClusterName returns the name of the Cluster, even if the Cluster no longer exists.
func getClusterName(scope *clusterScope) string {
	if scope.cluster != nil {
		return scope.cluster.Name
	}

	return scope.olvmCluster.Labels[clusterv1.ClusterNameLabel]
}
