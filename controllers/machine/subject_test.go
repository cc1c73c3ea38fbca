package machine

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

func TestGuardLiveMachine(t *testing.T) {
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

func TestBegun(t *testing.T) {
	runs := workspace.NewRunQueue(1, time.Hour)
	machines := workspace.NewKind(workspace.Kind{Name: workspace.MachineKind, Runs: runs})
	scopeOf := func(name string, machine *infrav1.OLVMMachine) *machineScope {
		machine.Namespace, machine.Name = "ns", name
		return &machineScope{olvmMachine: machine, workspace: machines.Open(nil, machine, "")}
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
