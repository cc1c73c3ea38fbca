package controllers

import (
	"errors"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

func TestNormalRulesInTheirOrder(t *testing.T) {
	now := time.Now()
	run := func(operation terraform.Operation, phase terraform.Phase) *terraform.Status {
		return &terraform.Status{Operation: operation, Phase: phase}
	}

	tests := map[string]struct {
		observed observed
		kind     actionKind
		reason   string
	}{
		"everything is there and nothing was applied": {observed{
			ready:  true,
			digest: "a",
		}, actionApply, infrav1.ApplyingReason},
		"bootstrap data, address or engine are missing": {observed{digest: ""}, actionWait, ""},
		"what was applied is what is asked for": {observed{
			ready:   true,
			digest:  "a",
			applied: "a",
		}, actionNone, infrav1.AppliedReason},
		"the configuration changed": {observed{
			ready:   true,
			digest:  "b",
			applied: "a",
		}, actionApply, infrav1.ApplyingReason},
		"the engine has something else than was applied": {observed{
			ready:   true,
			digest:  "a",
			applied: "a",
			drifted: true,
		}, actionApply, infrav1.ApplyingReason},
		"a run is queued": {observed{
			ready:  true,
			digest: "b",
			run:    run(terraform.Apply, terraform.Queued),
		}, actionWait, infrav1.ApplyingReason},
		"a run ended and nobody took notice": {observed{
			ready:  true,
			digest: "b",
			run:    run(terraform.Apply, terraform.Done),
		}, actionWait, infrav1.ApplyingReason},
		"the state cannot be used, whatever is asked": {observed{
			ready:        true,
			digest:       "b",
			stateInvalid: true,
		}, actionBlock, infrav1.StateInvalidReason},
		"the VM is lost: it is not made again": {observed{
			ready:     true,
			digest:    "b",
			hadVM:     true,
			vmMissing: true,
		}, actionBlock, infrav1.VirtualMachineNotFoundReason},
		"the VM is lost, also where nothing changed": {observed{
			ready:     true,
			digest:    "a",
			applied:   "a",
			hadVM:     true,
			vmMissing: true,
		}, actionBlock, infrav1.VirtualMachineNotFoundReason},
		"the last try just failed": {observed{
			now:           now,
			ready:         true,
			digest:        "b",
			failures:      3,
			lastFailure:   now.Add(-time.Second),
			lastAttempted: "b",
		}, actionWait, infrav1.ApplyFailedReason},
		"the last try failed long ago": {observed{
			now:           now,
			ready:         true,
			digest:        "b",
			failures:      3,
			lastFailure:   now.Add(-time.Hour),
			lastAttempted: "b",
		}, actionApply, infrav1.ApplyingReason},
		"a changed input does not wait for the backoff": {observed{
			now:           now,
			ready:         true,
			digest:        "c",
			failures:      3,
			lastFailure:   now,
			lastAttempted: "b",
		}, actionApply, infrav1.ApplyingReason},
		"a lost VM outweighs that inputs are missing": {observed{
			hadVM:     true,
			vmMissing: true,
		}, actionBlock, infrav1.VirtualMachineNotFoundReason},
	}
	for name, test := range tests {
		if got := decide(normalRules, test.observed); got.kind != test.kind || got.reason != test.reason {
			t.Errorf("%s: %+v, want %s %s", name, got, test.kind, test.reason)
		}
	}
}

func TestDeleteRulesInTheirOrder(t *testing.T) {
	now := time.Now()
	applying := &terraform.Status{Operation: terraform.Apply, Phase: terraform.Running}
	destroying := &terraform.Status{Operation: terraform.Destroy, Phase: terraform.Running}

	tests := map[string]struct {
		observed observed
		kind     actionKind
	}{
		"a creation is interrupted first": {observed{
			ready:      true,
			run:        applying,
			stateEmpty: true,
		}, actionCancel},
		"a destruction is waited for":                       {observed{ready: true, run: destroying}, actionWait},
		"nothing was ever created, and no engine is needed": {observed{stateEmpty: true}, actionRelease},
		"the state is empty and a VM may exist": {observed{
			ready:      true,
			stateEmpty: true,
			hadVM:      true,
			digest:     destroyDigest,
		}, actionDestroy},
		"the state describes something": {observed{
			ready:  true,
			digest: destroyDigest,
		}, actionDestroy},
		"the engine is away":       {observed{}, actionWait},
		"the state cannot be used": {observed{ready: true, stateInvalid: true}, actionBlock},
		"the last try just failed": {observed{
			now:           now,
			ready:         true,
			digest:        destroyDigest,
			failures:      1,
			lastFailure:   now,
			lastAttempted: destroyDigest,
		}, actionWait},
		"a failed creation does not delay the destruction": {observed{
			now:           now,
			ready:         true,
			digest:        destroyDigest,
			failures:      9,
			lastFailure:   now,
			lastAttempted: "a",
		}, actionDestroy},
	}
	for name, test := range tests {
		if got := decide(deleteRules, test.observed); got.kind != test.kind {
			t.Errorf("%s: %+v, want %s", name, got, test.kind)
		}
	}
}

func TestBackoffGrowsToItsLimitAndNeverOverflows(t *testing.T) {
	last := time.Duration(0)

	for _, failures := range []int{0, 1, 2, 5, 30, 64, 1000, 1 << 40} {
		got := backoff(failures)
		if got < last || got < 5*time.Second || got > 5*time.Minute {
			t.Errorf("%d failures: %s after %s", failures, got, last)
		}

		last = got
	}
}

func TestTheGuardOfALiveMachine(t *testing.T) {
	tests := map[string]struct {
		hadVM   bool
		change  terraform.Change
		refused bool
	}{
		"the first creation":            {false, terraform.Change{Type: "ovirt_vm", Action: "create"}, false},
		"a second creation":             {true, terraform.Change{Type: "ovirt_vm", Action: "create"}, true},
		"a NIC that is still missing":   {true, terraform.Change{Type: "ovirt_nic", Action: "create"}, false},
		"an update":                     {true, terraform.Change{Type: "ovirt_vm", Action: "update"}, false},
		"a replacement":                 {true, terraform.Change{Type: "ovirt_vm", Action: "replace"}, true},
		"a restart by a replaced start": {true, terraform.Change{Type: "ovirt_vm_start", Action: "replace"}, true},
		"another affinity group": {true, terraform.Change{
			Type:   "ovirt_vm_affinity_group",
			Action: "replace",
		}, false},
		"leaving an affinity group": {true, terraform.Change{
			Type:   "ovirt_vm_affinity_group",
			Action: "delete",
		}, false},
		"a deletion":  {true, terraform.Change{Type: "ovirt_nic", Action: "delete"}, true},
		"an adoption": {true, terraform.Change{Type: "ovirt_vm", Action: "import"}, false},
	}
	for name, test := range tests {
		if refusal := guardLiveMachine(test.hadVM)(test.change); (refusal != "") != test.refused {
			t.Errorf("%s: %q", name, refusal)
		}
	}
}

func TestTheGuardOfAffinityGroups(t *testing.T) {
	for action, refused := range map[string]bool{
		"create":  false,
		"update":  false,
		"import":  false,
		"delete":  true,
		"replace": true,
	} {
		refusal := guardGroups(terraform.Change{Type: "ovirt_affinity_group", Action: action})
		if (refusal != "") != refused {
			t.Errorf("%s: %q", action, refusal)
		}
	}
}

func TestWhenAMachineMayJoinItsGroups(t *testing.T) {
	self := resolve.Member{Name: "m", Groups: []string{"g"}, ClusterID: "c"}
	wanted := func(hard bool, waiting ...string) []resolve.Group {
		return []resolve.Group{
			{
				AffinityGroup: infrav1.AffinityGroup{Name: "g"},
				ClusterID:     "c",
				Hard:          hard,
				Waiting:       waiting,
				Machines:      3,
				Hosts:         2,
			},
		}
	}
	there := func(cluster string, hard bool) []infrav1.AffinityGroupStatus {
		return []infrav1.AffinityGroupStatus{{Name: "g", ClusterID: cluster, ID: "x", Enforcing: &hard}}
	}

	tests := map[string]struct {
		wanted []resolve.Group
		there  []infrav1.AffinityGroupStatus
		reason string
	}{
		"the group is hard and has room":     {wanted(true), there("c", true), ""},
		"the group is soft":                  {wanted(false), there("c", false), ""},
		"the group is soft and becomes hard": {wanted(true), there("c", false), ""},
		"the group is not made yet":          {wanted(true), nil, infrav1.WaitingForAffinityGroupReason},
		"it is made in another cluster only": {
			wanted(true),
			there("d", true),
			infrav1.WaitingForAffinityGroupReason,
		},
		"it is hard and is to become soft": {
			wanted(false),
			there("c", true),
			infrav1.WaitingForAffinityGroupReason,
		},
		"there is never room": {
			wanted(true, "m"),
			there("c", true),
			infrav1.EnforcementImpossibleReason,
		},
		"there is no room, and no group either":    {wanted(true, "m"), nil, infrav1.EnforcementImpossibleReason},
		"there is no room for another, but for it": {wanted(true, "n"), there("c", true), ""},
	}
	for name, test := range tests {
		err := mayJoin(self, true, test.wanted, test.there)
		var field *resolve.Error
		if errors.As(err, &field) != (test.reason != "") || field != nil && field.Reason != test.reason {
			t.Errorf("%s: %v, want %q", name, err, test.reason)
		}
	}
}
