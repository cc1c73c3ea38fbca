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
	// Addresses are the current or future addresses of the machine. For an address that is not known yet, it has a
	// description.
	Addresses []string `json:"addresses"`
	// VM is the OLVMInventoryVM claimed by the machine or chosen for it. It is empty if the machine gets a new VM.
	VM string `json:"vm,omitempty"`
	// Refused is the reason why the machine cannot be created as requested. It is empty if it can be created.
	Refused string `json:"refused,omitempty"`
	// Replaced is the reason why a rollout replaces the machine. Replaces is the name of the machine replaced by this
	// one.
	Replaced string `json:"replaced,omitempty"`
	Replaces string `json:"replaces,omitempty"`
	// Destroyed is the reason why the machine is deleted. MayGo is the reason why the machine is one of several
	// candidates for deletion. If the machine is deleted, Disks are deleted with it.
	Destroyed string   `json:"destroyed,omitempty"`
	MayGo     string   `json:"mayGo,omitempty"`
	Disks     []string `json:"disks,omitempty"`
	// Gone reports whether somebody has deleted the VM in the engine. The controllers create no new VM.
	Gone bool `json:"gone,omitempty"`
	// Changes are the changes to resources. It is empty if the machine is already as requested.
	Changes []terraform.Change `json:"changes"`
	// Outside are the changes in the engine made by others since the last apply.
	Outside []terraform.Drift `json:"outside,omitempty"`
	// Text is the plan for users.
	Text string `json:"-"`
	// Plan is the plan in Terraform's own format, for programs.
	Plan *tfjson.Plan `json:"plan,omitempty"`

	// IsNew reports whether the machine does not exist yet. Compared reports whether the plan has read a management
	// cluster to find out.
	IsNew    bool `json:"-"`
	Compared bool `json:"-"`
}

// IsChanged reports whether the machine changes.
func (r *Result) IsChanged() bool {
	return len(r.Changes) > 0 || r.Replaced != "" || r.Replaces != "" || r.Destroyed != "" || r.MayGo != "" ||
		r.verdict() == toCreate
}

// AddsVM reports whether the plan creates a VM.
func (r *Result) AddsVM() bool {
	return slices.ContainsFunc(r.Changes, func(c terraform.Change) bool {
		return c.Type == "ovirt_vm" && c.Action == "create"
	})
}
