package remediation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/holder"
)

// findOwners reads the object's Machine, its Cluster, and their infrastructure objects. The Machine must match the
// owner reference by name and UID.
func (r *Reconciler) findOwners(ctx context.Context, s *scope) error {
	machine := &clusterv1.Machine{}
	if found, err := fetchObject(ctx, r.APIReader, s, s.remediation.Name, machine); err != nil || !found {
		return err
	}

	for _, owner := range s.remediation.OwnerReferences {
		if owner.Kind == "Machine" && owner.UID == machine.UID &&
			strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			s.machine = machine
		}
	}

	if s.machine == nil {
		return nil
	}

	cluster := &clusterv1.Cluster{}
	if found, err := fetchObject(ctx, r.Client, s, machine.Spec.ClusterName, cluster); err != nil || !found {
		return err
	}

	s.cluster = cluster

	olvmMachine := &infrav1.OLVMMachine{}
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == "OLVMMachine" {
		found, err := fetchObject(ctx, r.Client, s, ref.Name, olvmMachine)
		if err != nil {
			return err
		}

		if found && metav1.IsControlledBy(olvmMachine, machine) {
			s.olvmMachine = olvmMachine
		}
	}

	if !holder.HasOLVMCluster(cluster) {
		return nil
	}

	olvmCluster := &infrav1.OLVMCluster{}
	if found, err := fetchObject(
		ctx, r.Client, s, cluster.Spec.InfrastructureRef.Name, olvmCluster,
	); err != nil ||
		!found {
		return err
	}

	s.olvmCluster = olvmCluster

	return nil
}

// fetchObject reads an object of the remediation's namespace, and reports whether it exists.
func fetchObject(
	ctx context.Context, from client.Reader, s *scope, name string, object client.Object,
) (bool, error) {
	key := client.ObjectKey{Namespace: s.remediation.Namespace, Name: name}
	if err := from.Get(ctx, key, object); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("failed to get %T %s: %w", object, key, err)
	}

	return true, nil
}

// explainNotRemediated explains why a machine must not be remediated, apart from reasons of its VM. It returns nil if
// it may be remediated.
func explainNotRemediated(s *scope) *blocker.Error {
	switch {
	case s.machine == nil:
		return &blocker.Error{
			Reason: infrav1.MachineNotFoundReason, Field: "metadata.ownerReferences", Message: fmt.Sprintf(
				"no Machine %s owns this object; only Cluster API creates OLVMRemediations, so delete this one",
				s.remediation.Name),
		}
	case s.olvmMachine == nil || s.olvmCluster == nil:
		return &blocker.Error{
			Reason:  infrav1.MachineNotFoundReason,
			Message: fmt.Sprintf("Machine %s has no OLVMMachine or no OLVMCluster", s.machine.Name),
		}
	case !s.machine.DeletionTimestamp.IsZero() || !s.olvmMachine.DeletionTimestamp.IsZero():
		return &blocker.Error{Reason: infrav1.WaitingForMachinesDeletionReason, Message: "The Machine is being deleted"}
	case annotations.HasPaused(s.machine) || annotations.HasPaused(s.olvmMachine) ||
		annotations.HasSkipRemediation(s.machine):
		return &blocker.Error{
			Reason: infrav1.RemediationSkippedReason,
			Message: fmt.Sprintf("The Machine or its OLVMMachine has the annotation %s or %s",
				clusterv1.PausedAnnotation, clusterv1.MachineSkipRemediationAnnotation),
		}
	case !conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition):
		return &blocker.Error{
			Reason:  infrav1.WaitingForHealthCheckReason,
			Message: "No MachineHealthCheck has found the Machine unhealthy",
		}
	}

	return nil
}

// checkTurn blocks a control plane machine while another one is being remediated, because etcd may lose its quorum if
// two machines are off. If two remediations begin at the same time, the first by name proceeds.
func (r *Reconciler) checkTurn(ctx context.Context, s *scope) error {
	if !util.IsControlPlaneMachine(s.machine) {
		return nil
	}

	var machines clusterv1.MachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(s.machine.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.machine.Spec.ClusterName},
		client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return fmt.Errorf("failed to list the Machines of Cluster %s: %w", s.machine.Spec.ClusterName, err)
	}

	var remediations infrav1alpha1.OLVMRemediationList
	if err := r.APIReader.List(ctx, &remediations, client.InNamespace(s.machine.Namespace)); err != nil {
		return fmt.Errorf("failed to list OLVMRemediations: %w", err)
	}

	for i := range machines.Items {
		other := &machines.Items[i]
		at := slices.IndexFunc(remediations.Items, func(r infrav1alpha1.OLVMRemediation) bool {
			return r.Name == other.Name && hasPriority(&r, s.remediation.Name)
		})
		if other.Name != s.machine.Name && (at >= 0 || !other.DeletionTimestamp.IsZero()) {
			s.blocked = &blocker.Error{
				Reason: infrav1.WaitingForOtherMachineReason,
				Message: fmt.Sprintf("Waiting for control plane Machine %s to become healthy or be deleted",
					other.Name),
			}
		}
	}

	return nil
}

// hasPriority reports whether a remediation is in progress, or must begin before the one with this name.
func hasPriority(other *infrav1alpha1.OLVMRemediation, name string) bool {
	if other.Status.Step == "" {
		return conditions.Get(other, infrav1.RemediatedCondition) == nil && other.Name < name
	}

	return other.Status.Step != infrav1alpha1.GivenUpStep
}
