package machine

import (
	"errors"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
)

func TestCheckGroups(t *testing.T) {
	self := placement.Member{Name: "m", Groups: []string{"g"}, ClusterID: "c"}
	wanted := func(hard bool, waiting ...string) []placement.Group {
		return []placement.Group{
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
		wanted []placement.Group
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
		err := checkGroups(self, infrav1.ControlPlaneRole, test.wanted, test.there)
		var field *blocker.Error
		if errors.As(err, &field) != (test.reason != "") || field != nil && field.Reason != test.reason {
			t.Errorf("%s: %v, want %q", name, err, test.reason)
		}
	}
}
