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
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
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
		if len(scope.machines)+len(scope.supportVMs) > 0 {
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

	objectstatus.SetReady(c, summary)
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
			Message: fmt.Sprintf("Secret %s: %s", workload.SecretOf(client.ObjectKeyFromObject(scope.cluster)).Name,
				known.err),
		})
	case known.err == nil && known.there:
		conditions.Set(c, metav1.Condition{
			Type:   infrav1.KubeconfigAcceptedCondition,
			Status: metav1.ConditionTrue,
			Reason: infrav1.KubeconfigAcceptedReason,
		})
	default:
		conditions.Delete(c, infrav1.KubeconfigAcceptedCondition)
	}
}

// harmless are problems of affinity groups without effect on readiness. Even a site with too few hosts can run a
// cluster.
var harmless = []string{infrav1.InsufficientHostsReason, infrav1.ApplyingReason, infrav1.WaitingForEngineReason}

// setFailureDomains lists the usable domains.
func setFailureDomains(scope *clusterScope) {
	c := scope.olvmCluster
	if scope.engineErr != nil || scope.domainsErr != nil || scope.session == nil {
		return // nothing new is known: keep the condition
	}

	c.Status.FailureDomains = scope.domains
	if len(c.Spec.FailureDomains) == 0 {
		conditions.Delete(c, infrav1.FailureDomainsAvailableCondition)
		return
	}

	condition := metav1.Condition{
		Type:   infrav1.FailureDomainsAvailableCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.FailureDomainsAvailableReason,
	}
	if err := errors.Join(scope.wrongDomains...); err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason = infrav1.FailureDomainInvalidReason
		condition.Message = err.Error()
	}

	conditions.Set(c, condition)
}

// setAffinity lists the groups of the Terraform state, and reports their condition.
func setAffinity(scope *clusterScope) {
	c, ws := scope.olvmCluster, scope.workspace
	if scope.engineErr != nil || scope.session == nil {
		return // nothing new is known: keep the condition
	}

	if scope.groupsErr == nil && ws.StateErr == nil {
		c.Status.AffinityGroups = groupStatus(scope)
	}

	condition := metav1.Condition{Type: infrav1.AffinitySatisfiedCondition, Status: metav1.ConditionFalse}

	switch {
	case ws.StateErr != nil:
		condition.Reason = infrav1.StateInvalidReason
		condition.Message = ws.StateErr.Error() + "; repair that Secret, or delete it and remove its finalizer: " +
			"the groups are found in the engine"
	case scope.groupsErr != nil:
		condition.Reason, condition.Message = objectstatus.RenderReason(scope.groupsErr)
	case ws.Failure.Count > 0 && len(scope.groups) > 0:
		condition.Reason = ws.Failure.Reason()
		condition.Message = ws.Failure.Message() + "; to do without affinity groups set " +
			"spec.affinityGroups to []"
	default:
		condition.Status, condition.Reason, condition.Message = groupsCondition(scope.groups)
		if ws.Action.Kind == workspace.Apply || ws.Action.Reason == infrav1.ApplyingReason {
			condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.ApplyingReason
		}
	}

	conditions.Set(c, condition)
}

// groupStatus lists the groups with their properties in the state.
func groupStatus(scope *clusterScope) []infrav1.AffinityGroupStatus {
	known := stateGroups(scope.workspace.State)
	var out []infrav1.AffinityGroupStatus

	for _, g := range scope.groups {
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

// groupsCondition reports whether all groups are enforced as requested, with the counts of the others.
func groupsCondition(groups []placement.Group) (metav1.ConditionStatus, string, string) {
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
					"affinity group %s keeps apart %d machines, always, and only %d hosts of its cluster are up, so "+
						"that these are not created: %s; add hosts, lower the replicas, or set enforcing to Auto",
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
				"affinity group %s is not enforced: it has %d machines, for which %d hosts of its cluster that are "+
					"up are not enough; machines may share a host until hosts are added",
				g.Name, g.Machines, g.Hosts,
			),
		)
	}

	if active == 0 {
		reason = infrav1.NoAffinityGroupsReason
	}

	return status, reason, strings.Join(messages, "; ")
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
	case scope.claims.Shared():
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = objectstatus.RenderReason(scope.claims.Problem())
	case !endpointReady(c):
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.EndpointMissingReason
		condition.Message = "spec.controlPlaneEndpoint.host: it is empty; set it to the virtual IP address or the " +
			"load balancer of the API server"
	case scope.endpointErr != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = objectstatus.RenderReason(scope.endpointErr)
	case scope.servicesErr != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = objectstatus.RenderReason(scope.servicesErr)
	case !ptr.Deref(c.Status.Initialization.Provisioned, false) && !scope.endpointServed():
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.WaitingForLoadBalancerReason
		condition.Message = "Waiting for a load balancer of OLVMSupportServices " + scope.services.Name + " to serve " +
			"the endpoint; see its status"
	case unchecked && (known == infrav1.EndpointInUseReason || known == infrav1.EndpointConfiguredReason):
		return // keep the generation of the last check, to have it repeated
	}

	conditions.Set(c, condition)
}

func setEngineCondition(scope *clusterScope) {
	c := scope.olvmCluster
	if scope.engineErr == nil && scope.dataCenter == nil {
		return // this pass did not ask the engine: keep the condition
	}

	condition := metav1.Condition{
		Type:   infrav1.EngineAvailableCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.EngineAvailableReason,
	}
	if scope.engineErr != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = blocker.EngineReason(scope.engineErr)
		if c.Status.OLVMDatacenter != nil {
			enginepool.MarkRestored(c.Status.OLVMDatacenter.LastEvent, scope.engineErr)
		}
	} else {
		c.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{
			DataCenterID:   scope.dataCenter.ID.String(),
			DataCenterName: scope.dataCenter.Name,
			ServerURL:      c.Spec.OLVMOvirtAPIServer.ServerURL,
			Release:        &infrav1.OLVMRelease{Name: scope.product.Name, Version: scope.product.Version},
		}
		if scope.engineKnown {
			c.Status.OLVMDatacenter.EngineID = scope.product.InstanceID
			c.Status.OLVMDatacenter.LastEvent = scope.lastEvent
		}
	}

	conditions.Set(c, condition)
}

// destroying are the actions of a deletion in progress.
var destroying = []workspace.ActionKind{workspace.Destroy, workspace.Wait, workspace.Cancel}

func setClusterDeletingCondition(scope *clusterScope) {
	ws := scope.workspace
	condition := metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.DeletingReason,
	}
	if len(scope.machines) > 0 {
		condition.Reason = infrav1.WaitingForMachinesDeletionReason
		condition.Message = fmt.Sprintf("Waiting for %s to be deleted: %s",
			english.Plural(len(scope.machines), "machine", ""), strings.Join(scope.machines, ", "))
		if len(scope.unowned) > 0 {
			condition.Message += fmt.Sprintf(
				". No Machine owns %s, so nobody deletes it: kubectl -n %s delete olvmmachine %s",
				strings.Join(scope.unowned, ", "), scope.olvmCluster.Namespace, strings.Join(scope.unowned, " "))
		}
	} else {
		switch {
		case len(scope.supportVMs) > 0 || scope.services != nil:
			condition.Reason = infrav1.WaitingForMachinesDeletionReason
			condition.Message = "Waiting for OLVMSupportServices " + clusterNameOf(scope) + " to be deleted"
			if len(scope.supportVMs) > 0 {
				condition.Message += ", with its VMs: " + strings.Join(scope.supportVMs, ", ")
			}

			if scope.engineErr != nil {
				_, problem := blocker.EngineReason(scope.engineErr)
				condition.Reason = infrav1.UnableToDecommissionReason
				condition.Message += "; the engine cannot be used, and they are deleted when it is back: " + problem
			}
		case len(scope.kept) > 0:
			condition.Reason = infrav1.WaitingForClaimsReason
			condition.Message = "Waiting for the inventory to take VMs back: " + strings.Join(scope.kept, ", ")
		case scope.blocked != nil:
			condition.Reason, condition.Message = scope.blocked.Reason, scope.blocked.Message
		case ws.StateErr != nil:
			condition.Reason = infrav1.DeletionBlockedReason
			condition.Message = ws.StateErr.Error() + "; repair that Secret, or delete it: then the affinity " +
				"groups are looked for by their mark"
		case scope.engineErr != nil:
			_, condition.Message = blocker.EngineReason(scope.engineErr)
			condition.Reason = infrav1.WaitingForEngineReason
		case ws.Failure.OfDestroy():
			condition.Reason, condition.Message = infrav1.DeletionFailedReason, ws.Failure.Message()
		case slices.Contains(destroying, ws.Action.Kind):
			condition.Reason = infrav1.WaitingForTerraformReason
			condition.Message = "Waiting for the affinity groups to be deleted"
		}
	}

	conditions.Set(scope.olvmCluster, condition)
}
