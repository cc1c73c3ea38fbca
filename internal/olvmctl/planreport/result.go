package planreport

import (
	"slices"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// Result is the plan of one machine.
type Result struct {
	Cluster   string `json:"cluster"`
	From      string `json:"from"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Addresses of the machine, present or future. Words describe addresses not known yet.
	Addresses []string `json:"addresses"`
	// VM is its OLVMInventoryVM, claimed or chosen; empty if a VM is created for the machine.
	VM string `json:"vm,omitempty"`
	// Refused says why the machine cannot be made as requested; empty if it can.
	Refused string `json:"refused,omitempty"`
	// Replaced says why a rollout replaces the machine. Replaces names the machine replaced by this one.
	Replaced string `json:"replaced,omitempty"`
	Replaces string `json:"replaces,omitempty"`
	// Destroyed says why the machine is deleted. MayGo says that it is one of several candidates for deletion. Disks
	// are certainly or possibly deleted with it.
	Destroyed string   `json:"destroyed,omitempty"`
	MayGo     string   `json:"mayGo,omitempty"`
	Disks     []string `json:"disks,omitempty"`
	// Gone reports whether somebody has deleted the VM in the engine; no other one is created in its place.
	Gone bool `json:"gone,omitempty"`
	// Changes to resources; empty if the machine matches the request.
	Changes []terraform.Change `json:"changes"`
	// Outside lists changes in the engine since the last apply, by anybody.
	Outside []terraform.Drift `json:"outside,omitempty"`
	// Text of the plan, for users.
	Text string `json:"-"`
	// Plan in Terraform's own format, for programs.
	Plan *tfjson.Plan `json:"plan,omitempty"`

	// IsNew reports whether the machine does not exist yet, and Compared whether this comes from a management cluster.
	IsNew    bool `json:"-"`
	Compared bool `json:"-"`
}

// IsChanged reports whether the machine would change.
func (r *Result) IsChanged() bool {
	return len(r.Changes) > 0 || r.Replaced != "" || r.Replaces != "" || r.Destroyed != "" || r.MayGo != "" ||
		r.verdict() == toCreate
}

// AddsVM reports whether a VM would be created.
func (r *Result) AddsVM() bool {
	return slices.ContainsFunc(r.Changes, func(c terraform.Change) bool {
		return c.Type == "ovirt_vm" && c.Action == "create"
	})
}
