package controllers

import (
	"errors"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

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

func TestBegun(t *testing.T) {
	runs := workspace.NewRuns(1, time.Hour)
	machines := workspace.NewKind(workspace.Kind{Name: machineKind, Runs: runs})
	scopeOf := func(name string, machine *infrav1.OLVMMachine) *machineScope {
		machine.Namespace, machine.Name = "ns", name
		return &machineScope{olvmMachine: machine, workspace: machines.Open(machine, "")}
	}
	withVM := func(provisioned bool) *infrav1.OLVMMachine {
		m := &infrav1.OLVMMachine{
			Spec: infrav1.OLVMMachineSpec{ProviderID: "olvm://01939bb4-0000-4000-8000-000000000001"},
		}
		m.Status.Initialization.Provisioned = ptr.To(provisioned)

		return m
	}

	tests := map[string]struct {
		machine *infrav1.OLVMMachine
		want    bool
	}{
		"nothing yet":           {&infrav1.OLVMMachine{}, false},
		"a VM that is not up":   {withVM(false), true},
		"all there since a day": {withVM(true), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := begun(scopeOf("m", test.machine)); got != test.want {
				t.Errorf("begun is %t", got)
			}
		})
	}
}
