package remediation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// updateStatus turns the facts of a pass into the Remediated condition.
func updateStatus(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.RemediatedCondition,
		Status: metav1.ConditionFalse,
		Reason: infrav1.WaitingForPowerOffReason,
	}
	status, strategy := s.remediation.Status, s.remediation.Spec.Strategy
	attempt := fmt.Sprintf("reboot %d of %d", status.Attempts, strategy.Retries())

	switch {
	case status.Step == infrav1alpha1.GivenUpStep && s.blocked != nil:
		return // the reason is final
	case status.Step == infrav1alpha1.GivenUpStep:
		condition.Reason = infrav1.RetriesExhaustedReason
		condition.Message = "The owner of the Machine replaces it: " + explainGivenUp(s)
	case s.blocked != nil:
		condition.Reason, condition.Message = s.blocked.Reason, s.blocked.Error()
	case status.Step == infrav1alpha1.StartingStep:
		condition.Reason, condition.Message = infrav1.WaitingForStartReason, "The VM is being started: "+attempt
	case status.Step == infrav1alpha1.WaitingStep:
		condition.Reason = infrav1.WaitingForHealthyNodeReason
		condition.Message = fmt.Sprintf("The VM was started; the node has %d seconds to be healthy: %s",
			int(strategy.Timeout().Seconds()), attempt)
	default:
		condition.Message = "The VM is being powered off: " + attempt
	}

	conditions.Set(s.remediation, condition)
}

// setOwnerRemediated sets the conditions of a Machine that ask its owner for a replacement.
func setOwnerRemediated(machine *clusterv1.Machine, s *scope) {
	v1beta1conditions.MarkFalse(machine, clusterv1.MachineOwnerRemediatedV1Beta1Condition,
		clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "")
	conditions.Set(machine, metav1.Condition{
		Type:    clusterv1.MachineOwnerRemediatedCondition,
		Status:  metav1.ConditionFalse,
		Reason:  clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
		Message: "OLVMRemediation " + s.remediation.Name + " has given up: " + explainGivenUp(s),
	})
}

// explainGivenUp explains why the controller does not reboot the VM again.
func explainGivenUp(s *scope) string {
	attempts := s.remediation.Status.Attempts
	switch {
	case s.session != nil && s.vm == nil:
		return "the engine does not have its VM"
	case s.remediation.Status.Step == infrav1alpha1.StartingStep:
		return "its VM cannot be started"
	case s.remediation.Status.PowerOffTime.IsZero():
		return "its VM cannot be powered off"
	}

	times := "reboots"
	if attempts == 1 {
		times = "reboot"
	}

	return fmt.Sprintf("it is still unhealthy %[3]d seconds after %[1]d %[2]s", attempts, times,
		int(s.remediation.Spec.Strategy.Timeout().Seconds()))
}
