package inventory

import (
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatIsWrongWithAClaim has each reason that a claim shows, and the order in which they count.
func TestWhatIsWrongWithAClaim(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change          func(*scope, *entry)
		reason, message string
	}{
		"nothing": {func(*scope, *entry) {}, "", ""},
		"the engine does not have the mark yet": {
			func(_ *scope, e *entry) { e.confirmed = false },
			"NotMarkedYet", "Waiting for the engine to have the claim",
		},
		"the engine does not have the mark yet, and a person can do something": {
			func(_ *scope, e *entry) { e.confirmed, e.waiting = false, "The VM is up; power it off" },
			"NotMarkedYet", "The VM is up; power it off",
		},
		"the Cluster is gone": {
			func(s *scope, e *entry) { s.clusters, e.confirmed = nil, false },
			"ClaimantGone", "Cluster prod does not exist",
		},
		"the OLVMMachine is gone": {
			func(s *scope, e *entry) { s.machines, s.clusters = nil, nil },
			"ClaimantGone", "OLVMMachine one does not exist",
		},
		"the VM is gone": {
			func(s *scope, e *entry) { e.vm, s.machines = nil, nil },
			"NotInEngine", "has no such VM",
		},
		"another cluster claimed the VM": {
			func(_ *scope, e *entry) { e.lost, e.vm = &inventory.Mark{Cluster: "other"}, nil },
			"ClaimedByAnother", "OLVMMachine one uses it",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := &scope{
				clusters: map[string]bool{"prod": true},
				machines: map[string]*infrav1.OLVMMachine{"one": {}},
			}
			e := &entry{object: &infrav1alpha1.OLVMInventoryVM{}, vm: &engine.DescribedVM{}, confirmed: true}
			e.object.Spec.ClaimRef = &infrav1alpha1.InventoryClaim{ClusterName: "prod", MachineName: "one"}
			test.change(s, e)

			reason, message := s.claimProblem(e)
			check.Equal(t, "reason", reason, test.reason)
			check.Contains(t, "message", message, test.message)
		})
	}
}
