package workspace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

func TestApplyRules(t *testing.T) {
	now := time.Now()
	run := func(operation terraform.Operation, phase terraform.Phase) *terraform.Status {
		return &terraform.Status{Operation: operation, Phase: phase}
	}

	tests := map[string]struct {
		observed observed
		kind     ActionKind
		reason   string
	}{
		"everything is there and nothing was applied": {observed{
			Facts: Facts{Ready: true, Digest: "a"},
		}, Apply, infrav1.ApplyingReason},
		"bootstrap data, address or engine are missing": {observed{Facts: Facts{Digest: ""}}, Wait, ""},
		"what was applied is what is asked for": {observed{
			Facts:   Facts{Ready: true, Digest: "a"},
			applied: "a",
		}, None, infrav1.AppliedReason},
		"the configuration changed": {observed{
			Facts:   Facts{Ready: true, Digest: "b"},
			applied: "a",
		}, Apply, infrav1.ApplyingReason},
		"the engine has something else than was applied": {observed{
			Facts:   Facts{Ready: true, Digest: "a", Drifted: true},
			applied: "a",
		}, Apply, infrav1.ApplyingReason},
		"a run is queued": {observed{
			Facts: Facts{Ready: true, Digest: "b"},
			run:   run(terraform.Apply, terraform.Queued),
		}, Wait, infrav1.ApplyingReason},
		"a run ended and nobody took notice": {observed{
			Facts: Facts{Ready: true, Digest: "b"},
			run:   run(terraform.Apply, terraform.Done),
		}, Wait, infrav1.ApplyingReason},
		"the state cannot be used, whatever is asked": {observed{
			Facts:        Facts{Ready: true, Digest: "b"},
			stateInvalid: true,
		}, Block, infrav1.StateInvalidReason},
		"the VM is lost: it is not made again": {observed{
			Facts: Facts{Ready: true, Digest: "b", MayExist: true, Lost: true},
		}, Block, infrav1.VirtualMachineNotFoundReason},
		"the VM is lost, also where nothing changed": {observed{
			Facts:   Facts{Ready: true, Digest: "a", MayExist: true, Lost: true},
			applied: "a",
		}, Block, infrav1.VirtualMachineNotFoundReason},
		"the last try just failed": {observed{
			Facts:   Facts{Ready: true, Digest: "b"},
			now:     now,
			failure: Failure{Count: 3, At: now.Add(-time.Second), Digest: "b"},
		}, Wait, infrav1.ApplyFailedReason},
		"the last try failed long ago": {observed{
			Facts:   Facts{Ready: true, Digest: "b"},
			now:     now,
			failure: Failure{Count: 3, At: now.Add(-time.Hour), Digest: "b"},
		}, Apply, infrav1.ApplyingReason},
		"a changed input does not wait for the backoff": {observed{
			Facts:   Facts{Ready: true, Digest: "c"},
			now:     now,
			failure: Failure{Count: 3, At: now, Digest: "b"},
		}, Apply, infrav1.ApplyingReason},
		"a lost VM outweighs that inputs are missing": {observed{
			Facts: Facts{MayExist: true, Lost: true},
		}, Block, infrav1.VirtualMachineNotFoundReason},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := chooseAction(applyRules, test.observed)
			if diff := cmp.Diff(
				[]string{string(test.kind), test.reason},
				[]string{string(got.Kind), got.Reason},
			); diff != "" {
				t.Errorf("the action is not the one wanted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDestroyRules(t *testing.T) {
	now := time.Now()
	applying := &terraform.Status{Operation: terraform.Apply, Phase: terraform.Running}
	destroying := &terraform.Status{Operation: terraform.Destroy, Phase: terraform.Running}

	tests := map[string]struct {
		observed observed
		kind     ActionKind
	}{
		"a creation is interrupted first": {observed{
			Facts:      Facts{Ready: true},
			run:        applying,
			stateEmpty: true,
		}, Cancel},
		"a destruction is waited for": {observed{
			Facts: Facts{Ready: true},
			run:   destroying,
		}, Wait},
		"nothing was ever created, and no engine is needed": {observed{stateEmpty: true}, Release},
		"the state is empty and a VM may exist": {observed{
			Facts:      Facts{Ready: true, MayExist: true, Digest: destroyDigest},
			stateEmpty: true,
		}, Destroy},
		"the state describes something": {observed{Facts: Facts{Ready: true, Digest: destroyDigest}}, Destroy},
		"the engine is away":            {observed{}, Wait},
		"the state cannot be used":      {observed{Facts: Facts{Ready: true}, stateInvalid: true}, Block},
		"the last try just failed": {observed{
			Facts:   Facts{Ready: true, Digest: destroyDigest},
			now:     now,
			failure: Failure{Count: 1, At: now, Digest: destroyDigest},
		}, Wait},
		"a failed creation does not delay the destruction": {observed{
			Facts:   Facts{Ready: true, Digest: destroyDigest},
			now:     now,
			failure: Failure{Count: 9, At: now, Digest: "a"},
		}, Destroy},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chooseAction(destroyRules, test.observed); got.Kind != test.kind {
				t.Errorf("the action is %s, want %s", got.Kind, test.kind)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	last := time.Duration(0)

	for _, failures := range []int{0, 1, 2, 5, 30, 64, 1000, 1 << 40} {
		got := computeBackoff(failures)
		if got < last {
			t.Errorf("got < last: %v", got)
		}

		if got < 5*time.Second {
			t.Errorf("got < 5*time.Second: %v", got)
		}

		if got > 5*time.Minute {
			t.Errorf("got > 5*time.Minute: %v", got)
		}

		last = got
	}
}
