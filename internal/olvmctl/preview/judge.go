package preview

import (
	"fmt"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// applyRefusals replaces the changes that the controllers refuse by what the controllers do instead.
func applyRefusals(r *planreport.Result, machine Machine) {
	if machine.provisioned && r.AddsVM() {
		r.Changes, r.Text, r.Gone = []terraform.Change{}, planreport.Gone+".", true

		return
	}

	for _, change := range r.Changes {
		refused := desired.FindRefusedAction(change.Action, change.Type, machine.provisioned, machine.undoes)
		if refused != "" && r.Refused == "" {
			r.Refused = fmt.Sprintf("machine %s/%s (%s): the plan would %s %s, which the controllers refuse "+
				"(ReplaceRefused); put the change in a new OLVMMachineTemplate, which rolls out the machines",
				r.Namespace, r.Name, r.From, refused, change.Address)
		}
	}
}
