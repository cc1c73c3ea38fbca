package preview

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// TestAPlanAcceptsTheMarksThatTheControllerAccepts has a VM marked with the machine's name. The UID in the mark is that
// of the object or of an earlier one.
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
		comment := test.marked.Comment()
		_, owner, err := machine.adopts(&desired.Existing{
			VM: engine.VM{ID: "vm", Comment: &comment}, Owner: test.marked,
		}, test.state)
		check.Equal(t, name+": it conflicts", err != nil, test.conflict)

		if !test.conflict {
			check.Equal(t, name+": the mark that it keeps", owner.UID, test.keeps)
		}
	}
}

// TestAPlanRefusesTheMarksThatTheControllerRefuses asks both about the same VM: with a mark of each sort, with and
// without a state. What a plan accepts, the controller imports.
func TestAPlanRefusesTheMarksThatTheControllerRefuses(t *testing.T) {
	const own = "capolvm owner=ns/m uid=now"

	parse := func(id string) *tfstate.State {
		state, err := tfstate.Parse(fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"managed",`+
			`"type":"ovirt_vm","name":"this","instances":[{"attributes":{"id":%q}}]}]}`, id))
		check.Error(t, err, "")

		return state
	}
	states, refused := []*tfstate.State{nil, parse("vm"), parse("another")}, 0

	for _, comment := range []string{
		"", own, " " + own + "\n", own + " and more", "mine: " + own, "capolvm owner=ns/m uid=then", "capolvm owner=ns/m",
		"capolvm owner=ns/m uid=", "capolvm owner=other/m uid=now", "capolvm owner=ns/other uid=now",
		"capolvm inventory-vm=ns/m uid=now", "capolvm inventory-vm=ns/m uid=then", "capolvm inventory-vm=ns/other uid=now",
		"a VM of an administrator", "CAPOLVM OWNER=ns/m uid=now",
	} {
		for _, pool := range []*infrav1alpha1.OLVMInventory{nil, {}} {
			for _, known := range states {
				vm := engine.VM{ID: "vm", Name: "m", Comment: &comment}
				existing := &desired.Existing{VM: vm}
				existing.Owner, _ = ownermark.ParseOwner(comment)

				marker := ownermark.Owner{Namespace: "ns", Name: "m", UID: "now"}.Comment()
				if pool != nil {
					marker = ownermark.Owner{Namespace: "ns", Name: "m", UID: "now"}.InventoryComment()
				}

				adopted, ofController := existing.FilterOwned(marker, engine.ID(known.VMID()))
				machine := &Machine{Namespace: "ns", Name: "m", infraName: "m", uid: "now", pool: pool}
				planned, _, ofPlan := machine.adopts(existing, known)
				what := fmt.Sprintf("%q, for a pool %t, with VM %q in the state", comment, pool != nil, known.VMID())
				check.Equal(t, what+": the plan refuses", ofPlan != nil, ofController != nil)
				check.Equal(t, what+": the plan adopts", planned != nil, adopted != nil)

				if ofPlan != nil {
					refused++
					check.Error(t, ofPlan, ofController.Error())
				}
			}
		}
	}

	check.Equal(t, "some are refused", refused > 10, true)
}
