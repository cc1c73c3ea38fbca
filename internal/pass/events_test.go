package pass

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

func TestAnnouncements(t *testing.T) {
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{
			{Type: conditionType, Status: status, Reason: reason, Message: "message of " + reason},
		}
	}
	steps := map[string]string{infrav1.VirtualMachineRunningCondition: "it is up", infrav1.DeletingCondition: "it goes"}
	running := infrav1.VirtualMachineRunningCondition
	applied := infrav1.InfrastructureAppliedCondition
	deleting := infrav1.DeletingCondition

	tests := map[string]struct {
		before, after []metav1.Condition
		want          []announcement
	}{
		"a step that is reached": {nil, condition(running, "True", "VirtualMachineRunning"), []announcement{
			{"Normal", "VirtualMachineRunning", "it is up"},
		}},
		"a step that stays": {
			condition(running, "True", "VirtualMachineRunning"),
			condition(running, "True", "VirtualMachineRunning"),
			nil,
		},
		"what is on its way":       {nil, condition(running, "False", infrav1.VirtualMachineStartingReason), nil},
		"what is waited for":       {nil, condition(applied, "False", infrav1.WaitingForEngineReason), nil},
		"what is true and no step": {nil, condition(applied, "True", infrav1.AppliedReason), nil},
		"a VM that is gone": {
			condition(running, "True", "VirtualMachineRunning"),
			condition(running, "False", infrav1.VirtualMachineNotFoundReason),
			[]announcement{
				{"Warning", infrav1.VirtualMachineNotFoundReason, "message of VirtualMachineNotFound"},
			},
		},
		"another problem": {
			condition(applied, "False", infrav1.VMTemplateNotFoundReason),
			condition(applied, "False", infrav1.InvalidMemoryReason),
			[]announcement{
				{"Warning", infrav1.InvalidMemoryReason, "message of InvalidMemory"},
			},
		},
		"the same problem again": {
			condition(applied, "False", infrav1.VMTemplateNotFoundReason),
			condition(applied, "False", infrav1.VMTemplateNotFoundReason),
			nil,
		},
		"a group that is soft while a rollout has one machine more than there are hosts": {
			condition(infrav1.AffinitySatisfiedCondition, "True", infrav1.AffinitySatisfiedReason),
			condition(infrav1.AffinitySatisfiedCondition, "False", infrav1.InsufficientHostsReason),
			[]announcement{
				{"Normal", infrav1.InsufficientHostsReason, "message of InsufficientHosts"},
			},
		},
		"a group that must be hard and cannot": {
			condition(infrav1.AffinitySatisfiedCondition, "True", infrav1.AffinitySatisfiedReason),
			condition(infrav1.AffinitySatisfiedCondition, "False", infrav1.EnforcementImpossibleReason),
			[]announcement{
				{"Warning", infrav1.EnforcementImpossibleReason, "message of EnforcementImpossible"},
			},
		},
		"a run that failed": {nil, condition(applied, "False", infrav1.ApplyFailedReason), nil},
		"a deletion that begins": {
			condition(deleting, "False", infrav1.NotDeletingReason),
			condition(deleting, "True", infrav1.DeletingReason),
			[]announcement{
				{"Normal", infrav1.DeletingReason, "it goes"},
			},
		},
		"a deletion that is held": {
			condition(deleting, "True", infrav1.DeletingReason),
			condition(deleting, "True", infrav1.DeletionBlockedReason),
			[]announcement{
				{"Warning", infrav1.DeletionBlockedReason, "message of DeletionBlocked"},
			},
		},
		"the summary says it already": {
			nil,
			condition(infrav1.ReadyCondition, "False", infrav1.VMTemplateNotFoundReason),
			nil,
		},
	}
	for name, test := range tests {
		if got := announcements(test.before, test.after, steps); !slices.Equal(got, test.want) {
			t.Errorf("%s: told %v, want %v", name, got, test.want)
		}
	}
}
