package cluster

import (
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAnAffinityGroupThatXMLCannotCarryIsNamed(t *testing.T) {
	olvmCluster := &infrav1.OLVMCluster{Spec: infrav1.OLVMClusterSpec{AffinityGroups: []infrav1.AffinityGroup{
		{Name: "good"}, {Name: "a\x1bb"},
	}}}
	groups, _, err := (&Reconciler{}).planGroups(t.Context(), &clusterScope{olvmCluster: olvmCluster}, nil)
	check.Length(t, "groups", groups, 0)

	reason, message := pass.RenderReason(err)
	check.Equal(t, "the condition", reason+": "+message, "RenderFailed: spec.affinityGroups[1].name: character 2 of "+
		"line 1 is U+001B (escape), which XML cannot carry to the engine; remove it")
}
