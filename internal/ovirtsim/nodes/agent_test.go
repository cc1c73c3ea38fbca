package nodes

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestNodeFrom(t *testing.T) {
	for name, test := range map[string]struct {
		output string
		want   *api.GuestNode
	}{
		"no kubelet yet": {"", nil},
		"a kubelet without an API server that answers": {"vm\n10.0.0.5:6443\nno\n", &api.GuestNode{
			Name: "vm", Endpoint: "10.0.0.5:6443", Ready: "Unknown",
		}},
		"a control plane": {"vm\n10.0.0.5:6443\nyes\nTrue", &api.GuestNode{
			Name: "vm", Endpoint: "10.0.0.5:6443", ControlPlane: true, Ready: "True",
		}},
	} {
		t.Run(name, func(t *testing.T) { check.Equal(t, "the node", parseNode(test.output), test.want) })
	}
}
