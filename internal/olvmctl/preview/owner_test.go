package preview

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// TestAPlanAcceptsTheMarksThatTheControllerAccepts has a VM marked with the machine's name, and with the UID of its own
// object or an earlier one.
func TestAPlanAcceptsTheMarksThatTheControllerAccepts(t *testing.T) {
	withVM, err := tfstate.Parse([]byte(`{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"managed",` +
		`"type":"ovirt_vm","name":"this","instances":[{"attributes":{"id":"vm"}}]}]}`))
	check.Error(t, err, "")

	for name, test := range map[string]struct {
		uid      types.UID
		marked   ownermark.Owner
		state    *tfstate.State
		conflict bool
		keeps    string
	}{
		"its own": {
			uid: "now", marked: ownermark.Owner{Namespace: "ns", Name: "m", UID: "now"}, keeps: "now",
		},
		"of an earlier object": {
			uid: "now", marked: ownermark.Owner{Namespace: "ns", Name: "m", UID: "then"}, conflict: true,
		},
		"of an earlier object, and the state has the VM": {
			uid: "now", marked: ownermark.Owner{Namespace: "ns", Name: "m", UID: "then"}, state: withVM, keeps: "then",
		},
		"of manifests, which have no UID": {
			marked: ownermark.Owner{Namespace: "ns", Name: "m", UID: "then"}, keeps: "then",
		},
		"of another": {
			uid: "now", marked: ownermark.Owner{Namespace: "ns", Name: "other", UID: "now"}, conflict: true,
		},
	} {
		machine := &Machine{Namespace: "ns", Name: "m", infraName: "m", uid: test.uid}
		owner, err := machine.owner(&desired.Existing{Owner: test.marked}, test.state)
		check.Equal(t, name+": it conflicts", err != nil, test.conflict)

		if !test.conflict {
			check.Equal(t, name+": the mark that it keeps", owner.UID, test.keeps)
		}
	}
}
