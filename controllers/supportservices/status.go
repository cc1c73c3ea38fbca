package supportservices

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// configurationTimeout is the time limit for a VM to use a new configuration. A VM requests it every 10 seconds.
	configurationTimeout = time.Minute
	// maxSupportMessage limits the message of a condition in bytes. The API server accepts 32 KiB.
	maxSupportMessage = 4096
)

// updateStatus converts the facts of a pass into status.
func updateStatus(s *scope) {
	if !s.object.DeletionTimestamp.IsZero() {
		setDeleting(s)
		pass.SetReady(s.object, []string{infrav1.DeletingCondition})

		return
	}

	conditions.Set(s.object, metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionFalse,
		Reason: infrav1.NotDeletingReason,
	})
	setServices(s)
}

// setDeleting reports the progress of the deletion.
func setDeleting(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.DeletingReason,
	}

	switch {
	case workspace.IsMoving(s.object):
		condition.Message = "The object is being moved to another management cluster; its VMs stay"
	case len(s.remainingMachines) > 0:
		condition.Reason = infrav1.WaitingForMachinesDeletionReason
		condition.Message = "The cluster is being deleted; its nodes are deleted first: " +
			strings.Join(s.remainingMachines, ", ")
	case len(s.left) > 0:
		condition.Reason = infrav1.WaitingForMachinesDeletionReason
		condition.Message = "Waiting for the VMs of support services to be deleted: " + strings.Join(s.left, ", ")

		if s.olvmCluster != nil && conditions.IsFalse(s.olvmCluster, infrav1.EngineAvailableCondition) {
			condition.Reason = infrav1.UnableToDecommissionReason
			condition.Message += "; the engine is unavailable, and they are deleted when it is available again: " +
				conditions.GetMessage(s.olvmCluster, infrav1.EngineAvailableCondition)
		}
	}

	condition.Message = steadytext.Shorten(condition.Message, maxSupportMessage)
	conditions.Set(s.object, condition)
}

// setServices reports the state of the services, with Ready as their summary.
func setServices(s *scope) {
	summary := metav1.Condition{
		Type:   infrav1.ReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ReadyReason,
	}
	if s.err != nil { // keep the previous status of the services
		summary.Status = metav1.ConditionFalse
		summary.Reason, summary.Message = pass.RenderReason(s.err)
		conditions.Set(s.object, summary)

		return
	}

	var messages []string
	if len(s.left) > 0 {
		summary.Status, summary.Reason = metav1.ConditionFalse, infrav1.SupportServicesProgressingReason
		messages = append(messages, "Deleting VMs that are no longer in the spec: "+
			strings.Join(s.left, ", "))
	}

	before := s.object.Status.Services
	s.object.Status.Services = nil
	s.object.Status.ObservedGeneration = s.object.Generation

	for _, service := range s.services {
		status := service.buildStatus(before)
		s.object.Status.Services = append(s.object.Status.Services, status)
		ready := conditions.Get(&status, infrav1.ReadyCondition)
		if ready.Status == metav1.ConditionTrue {
			continue
		}

		if summary.Status = metav1.ConditionFalse; summary.Reason != infrav1.InfraServiceFailureReason {
			summary.Reason = ready.Reason
		}

		messages = append(messages, service.Name+": "+ready.Message)
	}

	summary.Message = steadytext.Shorten(strings.Join(messages, "; "), maxSupportMessage)
	conditions.Set(s.object, summary)
}

// buildStatus returns the status of a service. It keeps the transition times of earlier conditions.
func (s *serviceFacts) buildStatus(before []infrav1alpha1.SupportServiceStatus) infrav1alpha1.SupportServiceStatus {
	out := infrav1alpha1.SupportServiceStatus{Name: s.Name}
	if s.Balancer != nil {
		out.Address = s.Balancer.VirtualIP
	}

	was := func(b infrav1alpha1.SupportServiceStatus) bool { return b.Name == s.Name }
	if at := slices.IndexFunc(before, was); at >= 0 {
		out.Conditions = slices.Clone(before[at].Conditions)
	}

	for _, vm := range s.vms {
		if vm.machine == nil {
			continue
		}

		out.Machines = append(out.Machines, vm.Name)
		if vm.isReady() {
			out.ReadyMachines++
		}

		if address := getAddress(vm.machine); out.Address == "" && address.IsValid() {
			out.Address = address.String()
		}
	}

	condition := metav1.Condition{
		Type:   infrav1.ReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ReadyReason,
	}
	if reason, message := s.explainNotReady(); reason != "" {
		condition.Status, condition.Reason = metav1.ConditionFalse, reason
		condition.Message = steadytext.Shorten(message, maxSupportMessage)
	}

	conditions.Set(&out, condition)

	return out
}

// explainNotReady explains why a service is not ready. The reason is "" if it is ready.
func (s *serviceFacts) explainNotReady() (reason, message string) {
	if s.err != nil {
		return infrav1.InfraServiceFailureReason, s.err.Error()
	}

	for _, vm := range s.vms {
		why, failed := vm.explainNotServing()

		switch {
		case why == "":
			continue
		case failed:
			reason = infrav1.InfraServiceFailureReason
		case reason == "":
			reason = infrav1.SupportServicesProgressingReason
		}

		if message != "" {
			message += "; "
		}

		message += "VM " + vm.Name + " " + why
	}

	return reason, message
}

// explainNotServing explains why a VM does not serve, and reports whether this is a failure. why is "" if the VM
// serves.
func (v vmOfService) explainNotServing() (why string, failed bool) {
	if v.machine == nil {
		return "does not exist yet", false
	}

	ready := conditions.Get(v.machine, infrav1.ReadyCondition)

	switch {
	case !v.machine.DeletionTimestamp.IsZero() || v.outdated != "":
		return "is being replaced", false
	case ready == nil || ready.Status != metav1.ConditionTrue:
		if ready == nil {
			return "is being created", false
		}

		return "is not ready: " + ready.Message, pass.IsFailure(*ready)
	case v.report.Problem != "":
		return "has refused its configuration: " + v.report.Problem, true
	case !v.report.Ever:
		return "has not used a configuration yet", false
	case !v.report.Current && v.report.Age > configurationTimeout:
		return fmt.Sprintf("has not used its configuration for more than %s; on the VM, check %s/problem and the "+
			"unit %s",
			configurationTimeout, support.Folder, support.FetchService), true
	}

	return "", false
}
