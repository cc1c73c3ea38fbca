package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// configures is how long a VM may take until it uses a new configuration, of which it asks every 10 s.
	configures = time.Minute
	// maxSupportMessage bounds the message of a condition, of which the API server takes 32 KiB.
	maxSupportMessage = 4096
)

// endpointServed reports whether the control plane endpoint can be reached, as far as it is made by a service.
func (s *clusterScope) endpointServed() bool {
	for _, service := range s.support.services {
		if service.ServesEndpoint(s.olvmCluster.Spec) &&
			!slices.ContainsFunc(service.vms, func(vm vmOfService) bool { return vm.report.Ever }) {
			return false
		}
	}

	return s.support.err == nil
}

// setSupport reports how the support services are.
func setSupport(scope *clusterScope) {
	c := scope.olvmCluster
	if c.Spec.SupportServices == nil && len(scope.support.left) == 0 {
		c.Status.SupportServices = nil
		conditions.Delete(c, infrav1.SupportServicesReadyCondition)

		return
	}

	summary := metav1.Condition{
		Type:   infrav1.SupportServicesReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.SupportServicesReadyReason,
	}
	if err := scope.support.err; err != nil {
		summary.Status, summary.Reason, summary.Message = metav1.ConditionFalse, infrav1.InfraServiceFailureReason,
			err.Error()
		conditions.Set(c, summary)

		return
	}

	var messages []string
	if len(scope.support.left) > 0 {
		summary.Status, summary.Reason = metav1.ConditionFalse, infrav1.SupportServicesProgressingReason
		messages = append(messages, "VMs that are not asked for any more are being deleted: "+
			strings.Join(scope.support.left, ", "))
	}

	before := c.Status.SupportServices
	c.Status.SupportServices = nil

	for _, service := range scope.support.services {
		status := service.status(before)
		c.Status.SupportServices = append(c.Status.SupportServices, status)
		ready := conditions.Get(&status, infrav1.ReadyCondition)
		if ready.Status == metav1.ConditionTrue {
			continue
		}

		summary.Status = metav1.ConditionFalse
		if summary.Reason != infrav1.InfraServiceFailureReason {
			summary.Reason = ready.Reason
		}

		messages = append(messages, service.Name+": "+ready.Message)
	}

	summary.Message = workspace.Shorten(strings.Join(messages, "; "), maxSupportMessage)
	conditions.Set(c, summary)
}

// status of a service, with the times of the conditions that it had.
func (s *serviceFacts) status(before []infrav1.SupportServiceStatus) infrav1.SupportServiceStatus {
	out := infrav1.SupportServiceStatus{Name: s.Name}
	if s.Balancer != nil {
		out.Address = s.Balancer.VirtualIP
	}

	if at := slices.IndexFunc(before, func(b infrav1.SupportServiceStatus) bool { return b.Name == s.Name }); at >= 0 {
		out.Conditions = slices.Clone(before[at].Conditions)
	}

	for _, vm := range s.vms {
		if vm.machine == nil {
			continue
		}

		out.Machines = append(out.Machines, vm.Name)
		if address := addressOf(vm.machine); out.Address == "" && address.IsValid() {
			out.Address = address.String()
		}
	}

	condition := metav1.Condition{
		Type:   infrav1.ReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ReadyReason,
	}
	if reason, message := s.trouble(); reason != "" {
		condition.Status, condition.Reason = metav1.ConditionFalse, reason
		condition.Message = workspace.Shorten(steadytext.Of(message), maxSupportMessage)
	}

	conditions.Set(&out, condition)

	return out
}

// trouble says why a service is not ready; the reason is empty where it is.
func (s *serviceFacts) trouble() (reason, message string) {
	if s.err != nil {
		return infrav1.InfraServiceFailureReason, s.err.Error()
	}

	for _, vm := range s.vms {
		why, failed := vm.trouble()

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

// trouble says why a VM does not serve as it should, and whether that is a failure.
func (v vmOfService) trouble() (why string, failed bool) {
	if v.machine == nil {
		return "is to be made", false
	}

	ready := conditions.Get(v.machine, infrav1.ReadyCondition)

	switch {
	case !v.machine.DeletionTimestamp.IsZero() || v.outdated != "":
		return "is being replaced", false
	case ready == nil || ready.Status != metav1.ConditionTrue:
		if ready == nil {
			return "is being made", false
		}

		return "is not ready: " + ready.Message, objectstatus.IsFailure(*ready)
	case v.report.Problem != "":
		return "has refused its configuration: " + v.report.Problem, true
	case !v.report.Ever:
		return "has not used a configuration yet", false
	case !v.report.Current && v.report.Age > configures:
		return fmt.Sprintf("has not used its configuration for more than %s; look at %s/problem and the unit %s there",
			configures, support.Folder, support.FetchService), true
	}

	return "", false
}
