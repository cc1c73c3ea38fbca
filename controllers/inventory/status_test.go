package inventory

import (
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatIsWrongWithAClaim covers each problem of a claim, and the precedence of the problems.
func TestWhatIsWrongWithAClaim(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change          func(*scope, *entry)
		reason, message string
	}{
		"nothing": {func(*scope, *entry) {}, "", ""},
		"the engine does not have the mark yet": {
			func(_ *scope, e *entry) { e.confirmed = false },
			"NotMarkedYet", "Waiting for the engine to record the claim",
		},
		"the engine does not have the mark yet, and a person can do something": {
			func(_ *scope, e *entry) { e.confirmed, e.waiting = false, "The VM is up; power it off" },
			"NotMarkedYet", "The VM is up; power it off",
		},
		"the Cluster is gone": {
			func(s *scope, e *entry) { s.clusters.all, e.confirmed = nil, false },
			"ClaimantGone", "Cluster prod does not exist, but OLVMMachine one has its VM",
		},
		"the Cluster of a reserved VM is gone": {
			func(s *scope, e *entry) { s.clusters.all, e.object.Spec.ClaimRef.MachineName = nil, "" },
			"ClaimantGone",
			"set the annotation infrastructure.cluster.x-k8s.io/olvm-release-claim of this object to c-1",
		},
		"the release of a VM that a machine has is asked for": {
			func(_ *scope, e *entry) {
				e.object.Annotations = map[string]string{infrav1alpha1.ReleaseClaimAnnotation: "c-1"}
			},
			"", "requests the release of the VM of OLVMMachine one. To release the VM, delete its Machine",
		},
		"the release of an earlier claim is asked for": {
			func(_ *scope, e *entry) {
				e.object.Annotations = map[string]string{infrav1alpha1.ReleaseClaimAnnotation: "c-0"}
			},
			"", "",
		},
		"the OLVMMachine is gone": {
			func(s *scope, e *entry) { s.machines, s.clusters.all = nil, nil },
			"ClaimantGone", "OLVMMachine one does not exist",
		},
		"the VM is gone": {
			func(s *scope, e *entry) { e.vm, s.machines = nil, nil },
			"NotInEngine", "no longer has this VM",
		},
		"another cluster claimed the VM": {
			func(_ *scope, e *entry) { e.lost, e.vm = &inventory.Mark{Cluster: "other"}, nil },
			"ClaimedByAnother", "OLVMMachine one uses the VM",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := &scope{
				clusters: clusterFacts{all: map[string]bool{"prod": true}},
				machines: map[string]*infrav1.OLVMMachine{"one": {}},
			}
			e := &entry{object: &infrav1alpha1.OLVMInventoryVM{}, vm: &engine.DescribedVM{}, confirmed: true}
			e.object.Spec.ClaimRef = &infrav1alpha1.InventoryClaim{ID: "c-1", ClusterName: "prod", MachineName: "one"}
			test.change(s, e)

			reason, message := s.findClaimProblem(e)
			check.Equal(t, "reason", reason, test.reason)
			check.Contains(t, "message", message, test.message)
		})
	}
}

// TestWhatAStatusListsFits exceeds the API's limits for groups, networks, addresses, and message lengths.
func TestWhatAStatusListsFits(t *testing.T) {
	t.Parallel()

	groups := make([]infrav1alpha1.UnschedulableGroup, 300)
	groups[0].Message = strings.Repeat("x", 2000)
	listed, count := limitUnschedulable(groups)
	check.Length(t, "groups", listed, 256)
	check.Equal(t, "the count", int(count), 300)
	check.Equal(t, "the length of a message", len(listed[0].Message), 1024)
	check.Equal(t, "what was decided stays", len(groups[0].Message), 2000)

	all := make([]infrav1alpha1.InventoryNetwork, 100)
	all[0].IPAddresses = make([]string, 100)
	kept := limitNetworks(all)
	check.Length(t, "networks", kept, 64)
	check.Length(t, "addresses", kept[0].IPAddresses, 64)
}
