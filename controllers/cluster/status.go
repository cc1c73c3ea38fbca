package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// updateClusterStatus turns the facts of a pass into status.
func updateClusterStatus(scope *clusterScope) {
	c := scope.olvmCluster
	if c.DeletionTimestamp.IsZero() {
		conditions.Set(c, metav1.Condition{
			Type:   infrav1.DeletingCondition,
			Status: metav1.ConditionFalse,
			Reason: infrav1.NotDeletingReason,
		})
		setEndpointCondition(scope)
		setEngineCondition(scope)
		setFailureDomains(scope)
		setAffinity(scope)
		setKubeconfig(scope)
	} else {
		setClusterDeletingCondition(scope)
		if len(scope.left.machines)+len(scope.left.supportVMs) > 0 {
			setEngineCondition(scope)
		}
	}

	summary := []string{
		infrav1.EngineAvailableCondition,
		infrav1.EndpointConfiguredCondition,
		infrav1.DeletingCondition,
	}
	affinity := conditions.Get(c, infrav1.AffinitySatisfiedCondition)
	if c.DeletionTimestamp.IsZero() && affinity != nil && !slices.Contains(harmless, affinity.Reason) {
		summary = append(summary, infrav1.AffinitySatisfiedCondition)
	}

	if c.DeletionTimestamp.IsZero() && conditions.IsFalse(c, infrav1.KubeconfigAcceptedCondition) {
		summary = append(summary, infrav1.KubeconfigAcceptedCondition)
	}

	pass.SetReady(c, summary)
}

// setKubeconfig reports whether the manager accepts the kubeconfig of the workload cluster.
func setKubeconfig(scope *clusterScope) {
	c := scope.olvmCluster

	var refused *workload.RefusedError
	switch known := scope.kubeconfig; {
	case known == nil: // nothing new is known: keep the condition
	case errors.As(known.err, &refused):
		conditions.Set(c, metav1.Condition{
			Type:   infrav1.KubeconfigAcceptedCondition,
			Status: metav1.ConditionFalse,
			Reason: infrav1.KubeconfigRefusedReason,
			Message: fmt.Sprintf(
				"Secret %s: %s", workload.KubeconfigSecret(client.ObjectKeyFromObject(scope.cluster)).Name, known.err,
			),
		})
	case known.err == nil && known.exists:
		conditions.Set(c, metav1.Condition{
			Type:   infrav1.KubeconfigAcceptedCondition,
			Status: metav1.ConditionTrue,
			Reason: infrav1.KubeconfigAcceptedReason,
		})
	default:
		conditions.Delete(c, infrav1.KubeconfigAcceptedCondition)
	}
}

// harmless lists the problems of affinity groups without effect on readiness. Even a site with too few hosts can run a
// cluster.
var harmless = []string{infrav1.InsufficientHostsReason, infrav1.ApplyingReason, infrav1.WaitingForEngineReason}

// setFailureDomains lists the usable domains.
func setFailureDomains(scope *clusterScope) {
	c := scope.olvmCluster
	if scope.engine.err != nil || scope.domains.err != nil || scope.engine.session == nil {
		return // nothing new is known: keep the condition
	}

	c.Status.FailureDomains = scope.domains.usable
	if len(c.Spec.FailureDomains) == 0 {
		conditions.Delete(c, infrav1.FailureDomainsAvailableCondition)
		return
	}

	condition := metav1.Condition{
		Type:   infrav1.FailureDomainsAvailableCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.FailureDomainsAvailableReason,
	}
	if err := errors.Join(scope.domains.wrong...); err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason = infrav1.FailureDomainInvalidReason
		condition.Message = err.Error()
	}

	conditions.Set(c, condition)
}

// setAffinity lists the groups of the Terraform state, and reports their condition.
func setAffinity(scope *clusterScope) {
	c := scope.olvmCluster
	if scope.engine.err != nil || scope.engine.session == nil {
		return // nothing new is known: keep the condition
	}

	if scope.groups.err == nil && scope.observed.StateErr == nil {
		c.Status.AffinityGroups = buildGroupStatus(scope)
	}

	condition := metav1.Condition{Type: infrav1.AffinitySatisfiedCondition, Status: metav1.ConditionFalse}

	switch {
	case scope.observed.StateErr != nil:
		condition.Reason = infrav1.StateInvalidReason
		condition.Message = scope.observed.StateErr.Error() +
			"; repair that Secret, or delete it and remove its finalizer: the controller then finds the groups in " +
			"the engine"
	case scope.groups.err != nil:
		condition.Reason, condition.Message = pass.RenderReason(scope.groups.err)
	case scope.observed.Failure.Count > 0 && len(scope.groups.wanted) > 0:
		condition.Reason = scope.observed.Failure.Reason()
		condition.Message = scope.observed.Failure.Message() +
			"; to use no affinity groups, set spec.affinityGroups to []"
	default:
		condition.Status, condition.Reason, condition.Message = computeGroupsCondition(scope.groups.wanted)
		if scope.action.Kind == workspace.Apply || scope.action.Reason == infrav1.ApplyingReason {
			condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.ApplyingReason
		}
	}

	conditions.Set(c, condition)
}

// buildGroupStatus lists the groups with their properties in the state.
func buildGroupStatus(scope *clusterScope) []infrav1.AffinityGroupStatus {
	known := mapStateGroups(scope.observed.State)
	var out []infrav1.AffinityGroupStatus

	for _, g := range scope.groups.wanted {
		instance, ok := known[g.Key()]
		if !ok || g.Off {
			continue
		}

		out = append(out, infrav1.AffinityGroupStatus{
			Name:               g.Name,
			OLVMOvirtClusterID: g.ClusterID.String(),
			ID:                 instance.ID,
			Enforced:           ptr.To(instance.Enforcing),
			MachineCount:       int32(g.Machines),
			HostCount:          int32(g.Hosts),
		})
	}

	return out
}

// computeGroupsCondition reports whether all groups are enforced as requested. The message has the counts of the other
// groups.
func computeGroupsCondition(groups []placement.Group) (metav1.ConditionStatus, string, string) {
	status, reason := metav1.ConditionTrue, infrav1.AffinitySatisfiedReason
	var messages []string
	active := 0

	for _, g := range groups {
		if !g.Off {
			active++
		}

		if !g.Short {
			continue
		}

		status = metav1.ConditionFalse
		if g.Hard {
			reason = infrav1.EnforcementImpossibleReason
			messages = append(
				messages,
				fmt.Sprintf(
					"affinity group %s always separates %d machines, but only %d hosts of its cluster are up, so "+
						"these machines are not created: %s. Add hosts, lower the replicas, or set enforcing to Auto",
					g.Name,
					g.Machines,
					g.Hosts,
					strings.Join(g.Waiting, ", "),
				),
			)
			continue
		}

		if reason == infrav1.AffinitySatisfiedReason {
			reason = infrav1.InsufficientHostsReason
		}

		messages = append(
			messages,
			fmt.Sprintf(
				"affinity group %s is not enforced: it has %d machines, but only %d hosts of its cluster are up. "+
					"Machines may share a host until you add hosts",
				g.Name, g.Machines, g.Hosts,
			),
		)
	}

	if active == 0 {
		reason = infrav1.NoAffinityGroupsReason
	}

	return status, reason, strings.Join(messages, "; ")
}

// deleteEndpointCondition removes the condition of an OLVMCluster without a Cluster.
func deleteEndpointCondition(scope *clusterScope) {
	conditions.Delete(scope.olvmCluster, infrav1.EndpointConfiguredCondition)
}

func setEndpointCondition(scope *clusterScope) {
	c := scope.olvmCluster
	condition := metav1.Condition{
		Type:   infrav1.EndpointConfiguredCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.EndpointConfiguredReason,
	}

	unchecked := isCheckDue(c) && !scope.addressesChecked
	known := conditions.GetReason(c, condition.Type)

	switch {
	case scope.claims.IsShared():
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = pass.RenderReason(scope.claims.ToError())
	case !isEndpointReady(c):
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.EndpointMissingReason
		condition.Message = "spec.controlPlaneEndpoint.host: it is empty; set it to the virtual IP address or the " +
			"load balancer of the API server"
	case scope.endpointErr != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = pass.RenderReason(scope.endpointErr)
	case scope.servicesErr != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = pass.RenderReason(scope.servicesErr)
	case !ptr.Deref(c.Status.Initialization.Provisioned, false) && !scope.isEndpointServed():
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.WaitingForLoadBalancerReason
		condition.Message = "Waiting for a load balancer of OLVMSupportServices " + scope.services.Name + " to serve " +
			"the endpoint; see its status"
	case unchecked && (known == infrav1.EndpointInUseReason || known == infrav1.EndpointConfiguredReason):
		return // keep the observed generation, so the next pass repeats the check
	}

	conditions.Set(c, condition)
}

func setEngineCondition(scope *clusterScope) {
	c := scope.olvmCluster
	if scope.engine.err == nil && scope.engine.dataCenter == nil {
		return // this pass did not ask the engine: keep the condition
	}

	condition := metav1.Condition{
		Type:   infrav1.EngineAvailableCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.EngineAvailableReason,
	}
	if scope.engine.err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = blocker.ExplainEngineError(scope.engine.err)
		if c.Status.OLVMDatacenter != nil {
			enginepool.MarkRestored(c.Status.OLVMDatacenter.LastEvent, scope.engine.err)
		}
	} else {
		c.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{
			DataCenterID:   scope.engine.dataCenter.ID.String(),
			DataCenterName: scope.engine.dataCenter.Name,
			ServerURL:      c.Spec.OLVMOvirtAPIServer.ServerURL,
			Release: &infrav1.OLVMRelease{
				Name: scope.engine.product.Name, Version: scope.engine.product.Version,
			},
		}
		if scope.engine.idConfirmed {
			c.Status.OLVMDatacenter.EngineID = scope.engine.product.InstanceID
			c.Status.OLVMDatacenter.LastEvent = scope.engine.lastEvent
		}
	}

	conditions.Set(c, condition)
}

// destroying lists the actions of a deletion in progress.
var destroying = []workspace.ActionKind{workspace.Destroy, workspace.Wait, workspace.Cancel}

func setClusterDeletingCondition(scope *clusterScope) {
	condition := metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.DeletingReason,
	}
	if len(scope.left.machines) > 0 {
		condition.Reason = infrav1.WaitingForMachinesDeletionReason
		condition.Message = fmt.Sprintf("Waiting for %s to be deleted: %s",
			english.Plural(len(scope.left.machines), "machine", ""), strings.Join(scope.left.machines, ", "))
		if len(scope.left.unowned) > 0 {
			condition.Message += fmt.Sprintf(
				". Without an owning Machine, no controller deletes %s. Run: kubectl -n %s delete olvmmachine %s",
				strings.Join(scope.left.unowned, ", "), scope.olvmCluster.Namespace,
				strings.Join(scope.left.unowned, " "))
		}
	} else {
		switch {
		case len(scope.left.supportVMs) > 0 || scope.services != nil:
			condition.Reason = infrav1.WaitingForMachinesDeletionReason
			condition.Message = "Waiting for OLVMSupportServices " + getClusterName(scope) + " to be deleted"
			if len(scope.left.supportVMs) > 0 {
				condition.Message += ", with its VMs: " + strings.Join(scope.left.supportVMs, ", ")
			}

			if scope.engine.err != nil {
				_, problem := blocker.ExplainEngineError(scope.engine.err)
				condition.Reason = infrav1.UnableToDecommissionReason
				condition.Message += "; the engine is unavailable, and they are deleted when it is available again: " +
					problem
			}
		case len(scope.left.inventoryVMs) > 0:
			condition.Reason = infrav1.WaitingForClaimsReason
			condition.Message = "Waiting for the inventory to recycle VMs: " +
				strings.Join(scope.left.inventoryVMs, ", ")
		case scope.blocked != nil:
			condition.Reason, condition.Message = scope.blocked.Reason, scope.blocked.Message
		case scope.observed.StateErr != nil:
			condition.Reason = infrav1.DeletionBlockedReason
			condition.Message = scope.observed.StateErr.Error() +
				"; repair that Secret, or delete it: the controller then finds the affinity groups by their mark"
		case scope.engine.err != nil:
			_, condition.Message = blocker.ExplainEngineError(scope.engine.err)
			condition.Reason = infrav1.WaitingForEngineReason
		case scope.observed.Failure.IsDestroyFailure():
			condition.Reason, condition.Message = infrav1.DeletionFailedReason, scope.observed.Failure.Message()
		case slices.Contains(destroying, scope.action.Kind):
			condition.Reason = infrav1.WaitingForTerraformReason
			condition.Message = "Waiting for the affinity groups to be deleted"
		}
	}

	conditions.Set(scope.olvmCluster, condition)
}
