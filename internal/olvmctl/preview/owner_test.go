package preview

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
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

// stateOf returns a state with a VM.
func stateOf(t *testing.T, id string) *tfstate.State {
	t.Helper()

	state, err := tfstate.Parse(fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"managed",`+
		`"type":"ovirt_vm","name":"this","instances":[{"attributes":{"id":%q}}]}]}`, id))
	check.Error(t, err, "")

	return state
}

// TestAPlanRefusesTheMarksThatTheControllerRefuses asks both about a VM found by its name: with a mark of each sort, with
// and without a state. What a plan accepts, the controller imports.
func TestAPlanRefusesTheMarksThatTheControllerRefuses(t *testing.T) {
	const own = "capolvm owner=ns/m uid=now"

	states, refused := []*tfstate.State{nil, stateOf(t, "vm"), stateOf(t, "another")}, 0

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

// TestAPlanRefusesAVMOfTheStateThatTheControllerRefuses has the state name a VM of an engine: with the mark of the
// machine or without it, and with the name of the machine or another one.
func TestAPlanRefusesAVMOfTheStateThatTheControllerRefuses(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{
		Inventory: ovirtsim.DefaultInventory(), Timings: ovirtsim.Timings{Clone: time.Millisecond},
	})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	session, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	dc, err := session.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	cluster, err := session.FindCluster(t.Context(), dc, "Default")
	check.Error(t, err, "")
	template, err := session.FindTemplate(t.Context(), dc, "ol9-k8s")
	check.Error(t, err, "")

	at := &infrav1.OLVMCluster{}
	at.Spec.OLVMDatacenterName = "Default"

	for i, test := range []struct {
		comment string
		renamed bool
		refused string
	}{
		{comment: "capolvm owner=ns/%s uid=now"},
		{comment: "capolvm owner=ns/%s uid=then"},
		{comment: "capolvm owner=ns/%s uid=now", renamed: true},
		{comment: "a VM of an administrator of %s", refused: "does not have the mark of this machine"},
		{comment: "a VM of an administrator of %s", renamed: true, refused: "does not have the mark of this machine"},
		{comment: "capolvm owner=other/%s uid=now", refused: "does not have the mark of this machine"},
		{comment: "capolvm inventory-vm=ns/%s uid=now", refused: "does not have the mark of this machine"},
	} {
		name := fmt.Sprintf("m%d", i)
		comment := fmt.Sprintf(test.comment, name)
		vmName := map[bool]string{false: name, true: "renamed-" + name}[test.renamed]

		vm, err := session.CreateVM(t.Context(), &engine.VM{
			Name: vmName, Comment: &comment, Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(template.ID),
		}, nil)
		check.Error(t, err, "")

		machine := &Machine{
			Namespace: "ns", Name: name, infraName: name, uid: "now", olvmCluster: at, spec: infrav1.OLVMMachineSpec{},
		}
		_, owner, err := machine.findAdopted(t.Context(), session, stateOf(t, vm.ID.String()))
		check.Error(t, err, test.refused)

		// The controller makes the same check before each run.
		check.Error(t, desired.CheckVMOwned(t.Context(), session, owner, vm.ID), test.refused)
	}

	gone := &Machine{Namespace: "ns", Name: "gone", infraName: "gone", uid: "now", olvmCluster: at}
	_, _, err = gone.findAdopted(t.Context(), session, stateOf(t, "00000000-0000-0000-0000-000000000001"))
	check.Error(t, err, "")
}
