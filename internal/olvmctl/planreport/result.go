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
	// Addresses that it has or would get; what is not known yet is said in words.
	Addresses []string `json:"addresses"`
	// VM is the OLVMInventoryVM that it has or would take; empty for a machine whose VM is made.
	VM string `json:"vm,omitempty"`
	// Refused says why the machine cannot be made as it is asked for; empty where it can.
	Refused string `json:"refused,omitempty"`
	// Replaced says why a rollout replaces the machine, Replaces which one this one replaces.
	Replaced string `json:"replaced,omitempty"`
	Replaces string `json:"replaces,omitempty"`
	// Destroyed says why the machine is deleted, MayGo that it is one of several of which some are. Disks are those
	// that go with it, or may.
	Destroyed string   `json:"destroyed,omitempty"`
	MayGo     string   `json:"mayGo,omitempty"`
	Disks     []string `json:"disks,omitempty"`
	// Gone reports that somebody has deleted the VM in the engine, and that none is made in its place.
	Gone bool `json:"gone,omitempty"`
	// Changes to resources; empty when the machine is as asked for.
	Changes []terraform.Change `json:"changes"`
	// Outside is what was changed in the engine since it was applied, whoever did it.
	Outside []terraform.Drift `json:"outside,omitempty"`
	// Text of the plan, for people.
	Text string `json:"-"`
	// Plan in Terraform's own format, for programs.
	Plan *tfjson.Plan `json:"plan,omitempty"`

	// IsNew reports that the machine is still to be made, and Compared that a management cluster says so.
	IsNew    bool `json:"-"`
	Compared bool `json:"-"`
}

// Changed reports whether something would become of the machine.
func (r *Result) Changed() bool {
	return len(r.Changes) > 0 || r.Replaced != "" || r.Replaces != "" || r.Destroyed != "" || r.MayGo != "" ||
		r.verdict() == toCreate
}

// AddsVM reports whether a VM would be made.
func (r *Result) AddsVM() bool {
	return slices.ContainsFunc(r.Changes, func(c terraform.Change) bool {
		return c.Type == "ovirt_vm" && c.Action == "create"
	})
}
