package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// This file has the phases and runs for what the machines of a cluster share: their affinity groups.

// statePrefix keeps the state of an OLVMCluster apart from that of an OLVMMachine of the same name.
const statePrefix = "olvmcluster."

func clusterOwner(c *infrav1.OLVMCluster) resolve.Owner {
	return resolve.Owner{Namespace: c.Namespace, Name: c.Name, UID: string(c.UID)}
}

// groupMembers lists the machines of a cluster as affinity groups see them. A machine that cannot be placed is none:
// its own conditions say why. incomplete says that a machine has an owner that the cache does not have yet.
func groupMembers(
	ctx context.Context, reader client.Reader, session *engine.Client, cluster *infrav1.OLVMCluster, clusterName string,
) (members []resolve.Member, incomplete bool, err error) {
	inCluster := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterName,
	}}
	var owners clusterv1.MachineList
	if err := reader.List(ctx, &owners, inCluster...); err != nil {
		return nil, false, fmt.Errorf("failed to list the Machines of Cluster %s/%s: %w", cluster.Namespace,
			clusterName, err)
	}

	byName := map[string]*clusterv1.Machine{}
	for i := range owners.Items {
		byName[owners.Items[i].Name] = &owners.Items[i]
	}

	var machines infrav1.OLVMMachineList
	if err := reader.List(ctx, &machines, inCluster...); err != nil {
		return nil, false, fmt.Errorf("failed to list the OLVMMachines of Cluster %s/%s: %w", cluster.Namespace,
			clusterName, err)
	}

	asked := resolve.AffinityGroups(cluster.Spec)

	for i := range machines.Items {
		m := &machines.Items[i]
		name := ownerMachine(m)
		if name == "" {
			continue // the Machine is not there yet; it wakes the cluster by becoming the owner
		}

		owner := byName[name]
		if owner == nil {
			incomplete = incomplete || m.DeletionTimestamp.IsZero()
			continue
		}

		member, err := memberOf(ctx, session, cluster, asked, m, owner)
		var field *resolve.Error
		if errors.As(err, &field) {
			continue
		}

		if err != nil {
			return nil, false, err
		}

		members = append(members, member)
	}

	return members, incomplete, nil
}

// ownerMachine is the name of the Machine that owns the object.
func ownerMachine(m *infrav1.OLVMMachine) string {
	for _, ref := range m.OwnerReferences {
		if ref.Kind == "Machine" {
			return ref.Name
		}
	}

	return ""
}

func memberOf(
	ctx context.Context,
	session *engine.Client,
	cluster *infrav1.OLVMCluster,
	asked []infrav1.AffinityGroup,
	m *infrav1.OLVMMachine,
	owner *clusterv1.Machine,
) (resolve.Member, error) {
	names, err := resolve.GroupNames(asked, m.Spec, util.IsControlPlaneMachine(owner))
	if err != nil {
		return resolve.Member{}, err
	}

	place, err := resolve.Place(ctx, session, m.Spec, cluster.Spec, owner.Spec.FailureDomain)
	if err != nil {
		return resolve.Member{}, err
	}

	return resolve.Member{
		Name:      m.Name,
		Groups:    names,
		ClusterID: place.Cluster.ID,
		HostIDs:   place.HostIDs,
		HasVM:     m.Spec.ProviderID != "",
		Created:   m.CreationTimestamp.Time,
	}, nil
}

// reconcileFailureDomains checks the domains against the engine.
func (r *OLVMClusterReconciler) reconcileFailureDomains(ctx context.Context, scope *clusterScope) {
	scope.domains, scope.wrongDomains, scope.domainsErr = resolve.FailureDomains(ctx, scope.session,
		scope.olvmCluster.Spec)
}

// reconcileState reads the state of what the cluster's machines share, and keeps it the object's own.
func (r *OLVMClusterReconciler) reconcileState(ctx context.Context, scope *clusterScope) error {
	state, err := r.states.Hold(ctx, scope.olvmCluster, clusterNameOf(scope))
	var invalid *tfstate.InvalidError
	if errors.As(err, &invalid) {
		scope.stateErr = invalid
		return nil
	}

	if err != nil {
		return err
	}

	scope.stateErr = noteState(&scope.olvmCluster.Status.Terraform, r.states.SecretName(scope.olvmCluster), state)
	if scope.stateErr == nil {
		scope.state = state
	}

	return nil
}

// stateGroups are the groups that a state has, with their IDs.
func stateGroups(state *tfstate.State) map[resolve.GroupKey]tfstate.Instance {
	out := map[resolve.GroupKey]tfstate.Instance{}
	for _, instance := range state.Instances("ovirt_affinity_group") {
		out[resolve.ParseGroupKey(instance.Key)] = instance
	}

	return out
}

// reconcileGroups decides on the groups and renders them, and looks whether the engine still has them.
func (r *OLVMClusterReconciler) reconcileGroups(ctx context.Context, scope *clusterScope) {
	known := stateGroups(scope.state)
	scope.groups, scope.incomplete, scope.groupsErr = r.decideGroups(ctx, scope, known)
	if scope.groupsErr != nil || len(scope.groups) == 0 {
		return
	}

	scope.rendered, scope.groupsErr = render.ClusterFiles(
		resolve.Cluster(scope.session, scope.config, clusterOwner(scope.olvmCluster), scope.groups),
	)
	if scope.groupsErr == nil {
		scope.drifted, scope.groupsErr = r.groupsDrifted(ctx, scope, known)
	}
}

func (r *OLVMClusterReconciler) decideGroups(
	ctx context.Context, scope *clusterScope, known map[resolve.GroupKey]tfstate.Instance,
) ([]resolve.Group, bool, error) {
	members, incomplete, err := groupMembers(ctx, r.Client, scope.session, scope.olvmCluster, scope.cluster.Name)
	if err != nil {
		return nil, false, err
	}

	hosts, err := scope.session.HostsWithin(ctx, resolve.HostsAge)
	if err != nil {
		return nil, false, err
	}

	clusters, err := scope.session.Clusters(ctx, scope.dataCenter)
	if err != nil {
		return nil, false, err
	}

	var existing []resolve.GroupKey

	for key := range known { // a group went with its cluster
		if slices.ContainsFunc(clusters, func(c engine.Cluster) bool { return c.ID == key.ClusterID }) {
			existing = append(existing, key)
		}
	}

	return resolve.Groups(resolve.AffinityGroups(scope.olvmCluster.Spec), members, hosts, existing), incomplete, nil
}

// wakeMachines has the cluster's machines look at the engine.
func (r *OLVMClusterReconciler) wakeMachines(ctx context.Context, scope *clusterScope) {
	var machines infrav1.OLVMMachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(scope.olvmCluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterNameOf(scope),
	})
	if err != nil {
		return // the next look is soon enough
	}

	for i := range machines.Items {
		r.Runs.wake(client.ObjectKeyFromObject(&machines.Items[i]).String())
	}
}

// groupsDrifted says whether a group was deleted, or its rule changed, behind our back.
func (r *OLVMClusterReconciler) groupsDrifted(
	ctx context.Context, scope *clusterScope, known map[resolve.GroupKey]tfstate.Instance,
) (bool, error) {
	short := false
	defer func() {
		if short {
			r.wakeMachines(ctx, scope) // one of them was taken out of a group, or is not in it yet
		}
	}()

	for _, g := range scope.groups {
		instance, ok := known[g.Key()]
		if !ok {
			continue // it is still to be made
		}

		there, err := r.Engines.AffinityGroups(ctx, scope.session, g.ClusterID, 0)
		if err != nil {
			return false, err
		}

		at := slices.IndexFunc(there, func(a engine.AffinityGroup) bool { return a.ID.String() == instance.Text("id") })
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

// observe collects what decide needs.
func (r *OLVMClusterReconciler) observe(scope *clusterScope) observed {
	o := observed{
		now:           time.Now(),
		failures:      scope.attempt.failures,
		lastFailure:   scope.attempt.at,
		lastAttempted: scope.attempt.digest,
		stateInvalid:  scope.stateErr != nil,
		stateEmpty:    scope.state.Empty(),
		ready:         scope.rendered != nil && scope.groupsErr == nil,
		drifted:       scope.drifted,
	}
	if status, ok := r.Runs.runner.Observe(scope.key); ok && (!scope.noticed || status.Phase != terraform.Done) {
		o.run = &status
	}

	if scope.rendered != nil {
		o.digest = scope.rendered.Digest()
	}

	if scope.state != nil {
		o.applied = scope.state.AppliedDigest
	}

	return o
}

// reconcileRun decides, and submits a run where one is needed.
func (r *OLVMClusterReconciler) reconcileRun(ctx context.Context, scope *clusterScope) error {
	o := r.observe(scope)
	scope.action = decide(normalRules, o)
	if scope.action.kind != actionApply {
		return nil
	}

	if o.drifted && o.digest == o.applied {
		driftTotal.WithLabelValues(driftGroup).Inc()
	}

	// That groups may exist must be known before anything can create one.
	return r.Runs.submit(ctx, r.Client, scope.olvmCluster, map[string]string{
		infrav1.GroupsRequestedAnnotation: "true",
	}, func() terraform.Job {
		return terraform.Job{
			Key:       scope.key,
			Tenant:    scope.olvmCluster.Namespace,
			Engine:    resolve.EngineOf(scope.olvmCluster),
			Operation: terraform.Apply,
			Digest:    o.digest,
			Run:       r.applyJob(scope, o.digest),
		}
	})
}

// stillWanted reads object and Cluster anew when a job's turn has come, and again when its plan is to be applied. A
// destruction does not need the Cluster.
func (r *OLVMClusterReconciler) stillWanted(
	ctx context.Context, owner *infrav1.OLVMCluster, clusterName string, operation terraform.Operation,
) error {
	if err := r.Runs.mayAct(ctx); err != nil {
		return err
	}

	current := &infrav1.OLVMCluster{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(owner), current); err != nil {
		return fmt.Errorf("failed to get the OLVMCluster before the run: %w", err)
	}

	cluster := &clusterv1.Cluster{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: clusterName}, cluster)
	if err != nil && (operation == terraform.Apply || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("failed to get the Cluster before the run: %w", err)
	}

	_, moving := current.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	if current.UID != owner.UID || moving || annotations.IsPaused(cluster,
		current) || operation == terraform.Apply && !current.DeletionTimestamp.IsZero() {
		return terraform.ErrCancelled
	}

	return nil
}

// applyJob is one run. It works on copies: the scope belongs to the reconcile that ends before the run begins.
func (r *OLVMClusterReconciler) applyJob(
	scope *clusterScope, digest string,
) func(context.Context) (terraform.Summary, error) {
	owner, session, clusterName := scope.olvmCluster.DeepCopy(), scope.session, scope.cluster.Name
	files, groups, secrets := scope.rendered, scope.groups, []string{scope.config.Password}

	return func(ctx context.Context) (terraform.Summary, error) {
		if err := r.stillWanted(ctx, owner, clusterName, terraform.Apply); err != nil {
			return terraform.Summary{}, err
		}

		state, err := r.states.Load(ctx, owner)
		if err != nil {
			return terraform.Summary{}, err
		}

		var inState []resolve.GroupKey
		for key := range stateGroups(state) {
			inState = append(inState, key)
		}

		imports, err := resolve.FindGroups(ctx, session, clusterOwner(owner), groups, inState)
		if err != nil {
			return terraform.Summary{}, err
		}

		summary, err := r.Executor.Apply(ctx, terraform.Request{
			Dir:         r.workDir(owner),
			Files:       files.Adopting(imports),
			SecretFiles: []string{render.SecretsFile},
			Secrets:     secrets,
			State:       state.Bytes(),
			Guard:       guardGroups,
			Confirm: func(ctx context.Context) error {
				return r.stillWanted(ctx, owner, clusterName,
					terraform.Apply)
			},
			SaveState: func(ctx context.Context, state []byte) error {
				return r.states.Save(ctx, owner, clusterName,
					state)
			},
		})
		if err != nil {
			return summary, err
		}

		return summary, r.states.MarkApplied(ctx, owner, digest)
	}
}

// guardGroups refuses to delete a group while the OLVMCluster lives: its members would lose it.
func guardGroups(change terraform.Change) string {
	if change.Action == "delete" || change.Action == "replace" {
		return change.Action
	}

	return ""
}

// reconcileDestroy removes the groups, once no machine is left that needs them. It reports whether the object may go.
func (r *OLVMClusterReconciler) reconcileDestroy(
	ctx context.Context, scope *clusterScope,
) (gone bool, after time.Duration, err error) {
	c := scope.olvmCluster
	if _, moving := c.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moving {
		scope.blocked = "The object is being moved to another management cluster; its affinity groups stay"
		return false, 0, nil
	}

	if err := r.reconcileState(ctx, scope); err != nil {
		return false, 0, err
	}

	if scope.stateErr != nil {
		givenUp, err := r.states.GivenUp(ctx, c)
		if err != nil {
			return false, 0, err
		}

		if givenUp {
			scope.stateErr = nil
		}
	}

	o := r.observe(scope)
	_, requested := c.Annotations[infrav1.GroupsRequestedAnnotation]
	o.digest, o.hadVM = destroyDigest, requested && !scope.destroyed
	if o.hadVM || !o.stateEmpty {
		scope.engineErr = nil
		r.reconcileEngine(ctx, scope)
		o.ready = scope.engineErr == nil
	}

	scope.action = decide(deleteRules, o)
	switch scope.action.kind {
	case actionCancel:
		r.Runs.runner.Cancel(scope.key)
	case actionDestroy:
		err := r.Runs.submit(ctx, r.Client, c, nil, func() terraform.Job {
			return terraform.Job{
				Key:       scope.key,
				Tenant:    c.Namespace,
				Engine:    resolve.EngineOf(c),
				Operation: terraform.Destroy,
				Digest:    destroyDigest,
				Run:       r.destroyJob(scope),
			}
		})
		if err != nil {
			return false, 0, err
		}
	case actionRelease:
		if err := r.states.Delete(ctx, c); err != nil {
			return false, 0, err
		}

		if err := os.RemoveAll(r.workDir(c)); err != nil {
			return false, 0, fmt.Errorf("failed to remove the working directory: %w", err)
		}

		r.Runs.forget(scope.key)

		return true, 0, nil
	}

	return false, scope.action.after, nil
}

// destroyJob destroys what the state describes, and then what a run made that was cut off before it recorded it.
func (r *OLVMClusterReconciler) destroyJob(scope *clusterScope) func(context.Context) (terraform.Summary, error) {
	owner, session, config := scope.olvmCluster.DeepCopy(), scope.session, scope.config
	dc, clusterName := scope.dataCenter, clusterNameOf(scope)

	return func(ctx context.Context) (terraform.Summary, error) {
		if err := r.stillWanted(ctx, owner, clusterName, terraform.Destroy); err != nil {
			return terraform.Summary{}, err
		}

		state, err := r.states.Load(ctx, owner)
		if err != nil {
			return terraform.Summary{}, err
		}

		var summary terraform.Summary
		if !state.Empty() {
			files, err := render.DestroyFiles(resolve.RenderEngine(session, config))
			if err != nil {
				return summary, err
			}

			summary, err = r.Executor.Apply(ctx, terraform.Request{
				Dir:         r.workDir(owner),
				Files:       files,
				SecretFiles: []string{render.SecretsFile},
				Secrets:     []string{config.Password},
				State:       state.Bytes(), Destroy: true,
				Confirm: func(ctx context.Context) error {
					return r.stillWanted(ctx, owner, clusterName,
						terraform.Destroy)
				},
				SaveState: func(ctx context.Context, state []byte) error {
					return r.states.Save(ctx, owner, clusterName,
						state)
				},
			})
			if err != nil {
				return summary, err
			}
		}

		return summary, removeOrphanGroups(ctx, session, dc, clusterOwner(owner))
	}
}

// removeOrphanGroups deletes groups with our whole mark natively: there is no state from which Terraform could do it.
func removeOrphanGroups(ctx context.Context, session *engine.Client, dc *engine.DataCenter, owner resolve.Owner) error {
	clusters, err := session.Clusters(ctx, dc)
	if err != nil {
		return err
	}

	for _, cluster := range clusters {
		groups, err := session.AffinityGroups(ctx, cluster.ID)
		if err != nil {
			return err
		}

		for _, g := range groups {
			if found, ok := resolve.GroupOwner(g.DescriptionText()); !ok || found != owner {
				continue
			}

			if err := session.DeleteAffinityGroup(ctx, cluster.ID, g.ID); err != nil && !engine.IsNotFound(err) {
				return err
			}
		}
	}

	return nil
}

// clusterNameOf is the name of the Cluster, also where it does not exist any more.
func clusterNameOf(scope *clusterScope) string {
	if scope.cluster != nil {
		return scope.cluster.Name
	}

	return scope.olvmCluster.Labels[clusterv1.ClusterNameLabel]
}

// workDir is the cluster's working directory, apart from those of machines.
func (r *OLVMClusterReconciler) workDir(c *infrav1.OLVMCluster) string {
	return filepath.Join(r.WorkDir, c.Namespace, workFolder(statePrefix+c.Name, c.UID))
}

// takeNotice records the end of a run.
func (r *OLVMClusterReconciler) takeNotice(ctx context.Context, scope *clusterScope) {
	status, ok := r.Runs.runner.Observe(scope.key)
	if !ok || status.Phase != terraform.Done {
		scope.attempt = r.Runs.attempt(scope.key)
		return
	}

	scope.noticed, scope.noticedRun = true, status.Ended
	if errors.Is(status.Err, terraform.ErrCancelled) || errors.Is(status.Err, terraform.ErrShuttingDown) {
		scope.attempt = r.Runs.attempt(scope.key)
		return // nobody's failure
	}

	report := recordTerraform(&scope.olvmCluster.Status.Terraform, r.states.SecretName(scope.olvmCluster), status)
	observeRun(status, report.Result)
	scope.attempt = r.Runs.note(scope.key, status)
	if status.Err != nil {
		ctrl.LoggerFrom(ctx).Error(status.Err, "Terraform run failed", "operation", status.Operation)
		r.Recorder.Eventf(scope.olvmCluster, nil, corev1.EventTypeWarning, "Failed"+string(status.Operation),
			string(status.Operation), "%s", shorten(status.Err.Error(), 900))

		return
	}

	scope.destroyed = status.Operation == terraform.Destroy
	ctrl.LoggerFrom(ctx).Info("Terraform run succeeded", "operation", status.Operation, "added", report.Added,
		"changed", report.Changed, "destroyed", report.Destroyed)
}
