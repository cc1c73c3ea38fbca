package tfprovider_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// This file runs the life of each resource with the executable, driven by HashiCorp's library for the tests of
// providers. The library is a foreign judge: after each step it expects an empty plan, before and after a
// refresh, and it compares an import with the state.

// notImported are the attributes with another value after an import: the engine does not report them, or they change by
// themselves. An import of attachments also has the boot disk, and an empty description is null.
var notImported = map[string][]string{
	"ovirt_adopted_vm":       {"previous"},
	"ovirt_disk_attachments": {"attachment"},
	"ovirt_template":         {"vm_id"},
	"ovirt_vm":               {"description", "status"},
	"ovirt_vm_start":         {"stop_behavior"},
	"ovirt_vm_template_nics": {"kept"},
}

// byHand are the changes made by hand if the configuration of before leaves the attribute to the engine.
var byHand = map[string]set{
	"ovirt_affinity_label": {"implicit_affinity_group": false},
	"ovirt_nic":            {"interface": "virtio"},
	"ovirt_vm":             {"description": "by hand"},
}

// hasNoDrift are the resources whose changed attribute can differ from the engine without a plan. The values are the
// reasons.
var hasNoDrift = map[string]string{
	"ovirt_disk":             "a larger disk is as it was asked for",
	"ovirt_disk_resize":      "a larger disk is as it was asked for",
	"ovirt_vm_disks_resize":  "larger disks are as they were asked for",
	"ovirt_vm_start":         "the engine does not know how a VM will be stopped",
	"ovirt_vm_template_nics": "only a create removes network interfaces",
	"ovirt_disk_from_image":  "it has no import for a second copy of the state",
}

// TestEachResourceLivesAsTheTestingLibraryWantsIt creates, plans, imports, changes, finds drift of and destroys each
// resource.
func TestEachResourceLivesAsTheTestingLibraryWantsIt(t *testing.T) {
	testenv.SkipInShort(t, "twenty runs of the executable for each resource")
	t.Setenv("TF_ACC_TERRAFORM_PATH", testenv.FindExecutable(t).Path)
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "ovirt")
	t.Setenv("CHECKPOINT_DISABLE", "1")

	cases := lostCases()
	for typeName := range configured(t, newSite(t, quick)).schemas.ResourceSchemas {
		check.Equal(t, typeName+" has a case", cases[typeName].prepare != nil, true)
	}

	for typeName, c := range cases {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			newTested(t, typeName, c).runSteps()
		})
	}
}

// tested is a resource in the hands of the library.
type tested struct {
	d        *direct
	typeName string
	c        lostCase
	of       set
	// id is the import ID of the object.
	id string
}

func newTested(t *testing.T, typeName string, c lostCase) *tested {
	t.Helper()
	d := newDirect(t, newSite(t, quick))
	of := c.prepare(d)
	d.begin()

	return &tested{d: d, typeName: typeName, c: c, of: of}
}

func (r *tested) resourceAddress() string { return r.typeName + ".x" }

// runSteps runs the steps. The library destroys the resource at the end.
func (r *tested) runSteps() {
	r.d.t.Helper()
	steps := []resource.TestStep{{Config: r.configText(r.of), Check: r.rememberID}}

	if r.typeName != "ovirt_disk_from_image" { // it has no import
		steps = append(steps, resource.TestStep{
			ResourceName: r.resourceAddress(), ImportState: true, ImportStateVerify: true,
			ImportStateIdFunc:                    func(*terraform.State) (string, error) { return r.id, nil },
			ImportStateVerifyIdentifierAttribute: slices.Concat(r.idAttribute(), tfprovider.ImportParts(r.typeName))[0],
			ImportStateVerifyIgnore:              notImported[r.typeName],
		})
	}

	if r.c.change != nil {
		changed := with(r.of, r.c.change(r.d))
		steps = append(steps, resource.TestStep{Config: r.configText(changed), ConfigPlanChecks: r.expectUpdate()})

		if hasNoDrift[r.typeName] == "" {
			steps = append(steps, resource.TestStep{
				PreConfig: func() { r.changeByHand(with(r.of, byHand[r.typeName])) },
				Config:    r.configText(changed), ConfigPlanChecks: r.expectUpdate(),
			})
		}
	}

	resource.Test(r.d.t, resource.TestCase{
		IsUnitTest: true, Steps: steps,
		ProtoV5ProviderFactories: map[string]func() (tfprotov5.ProviderServer, error){
			"ovirt": func() (tfprotov5.ProviderServer, error) {
				return providerserver.NewProtocol5(tfprovider.New(tfprovider.Options{}))(), nil
			},
		},
		CheckDestroy: func(*terraform.State) error {
			if r.c.count == nil {
				return nil
			}

			if left := r.c.count(r.d, r.of); left != 0 {
				return fmt.Errorf("%d objects are left", left)
			}

			return nil
		},
	})
}

// idAttribute returns the attribute id, if the resource has it.
func (r *tested) idAttribute() []string {
	for _, attribute := range r.d.schemas.ResourceSchemas[r.typeName].Block.Attributes {
		if attribute.Name == "id" {
			return []string{"id"}
		}
	}

	return nil
}

// expectUpdate expects an update in place.
func (r *tested) expectUpdate() resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
		plancheck.ExpectResourceAction(r.resourceAddress(), plancheck.ResourceActionUpdate),
	}}
}

// rememberID notes the import ID, and looks for the object in the engine.
func (r *tested) rememberID(state *terraform.State) error {
	var parts []string
	for _, name := range tfprovider.ImportParts(r.typeName) {
		parts = append(parts, state.RootModule().Resources[r.resourceAddress()].Primary.Attributes[name])
	}

	r.id = strings.Join(parts, "/")

	if r.c.count == nil {
		return nil
	}

	if made := r.c.count(r.d, r.of); made != 1 {
		return fmt.Errorf("there are %d objects", made)
	}

	return nil
}

// changeByHand changes the object without this state.
func (r *tested) changeByHand(to set) {
	r.d.t.Helper()
	r.d.begin()
	other := r.d.resource(r.typeName)
	check.Equal(r.d.t, "the problems of the import", strings.Join(other.imports(r.id), "\n"), "")
	check.Equal(r.d.t, "the problems of the change by hand", strings.Join(other.apply(to), "\n"), "")
}

// configText returns a configuration in HCL.
func (r *tested) configText(of set) string {
	sim := r.d.site.sim
	header := fmt.Sprintf(`
terraform {
  required_providers {
    ovirt = {
      source = "ovirt/ovirt"
    }
  }
}
provider "ovirt" {
  url           = %q
  username      = %q
  password      = %q
  tls_ca_bundle = %q
}
`, sim.URL()+"/api", sim.Username(), sim.Password(), sim.CA())
	body := blockText(r.d.schemas.ResourceSchemas[r.typeName].Block, of)

	return header + fmt.Sprintf("resource %q \"x\" {\n%s}\n", r.typeName, body)
}

// blockText returns the attributes and blocks of a set in HCL. Values are as in JSON.
func blockText(block *tfprotov5.SchemaBlock, of set) string {
	blocks := map[string]*tfprotov5.SchemaBlock{}
	for _, nested := range block.BlockTypes {
		blocks[nested.TypeName] = nested.Block
	}

	var out strings.Builder

	for _, name := range slices.Sorted(maps.Keys(of)) {
		if blocks[name] == nil {
			value, _ := json.Marshal(of[name])
			fmt.Fprintf(&out, "%s = %s\n", name, value)

			continue
		}

		several, _ := of[name].([]set)
		if one, isOne := of[name].(set); isOne {
			several = []set{one}
		}

		for _, one := range several {
			fmt.Fprintf(&out, "%s {\n%s}\n", name, blockText(blocks[name], one))
		}
	}

	return out.String()
}
