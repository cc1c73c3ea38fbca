package tfprovider

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// An engine replaces an empty alias with its own, so a plan of "" would never become empty. The test covers all texts
// with an engine default.
func TestATextThatTheEngineFillsInIsNotEmpty(t *testing.T) {
	mayBeEmpty := []string{
		"ovirt_vm.description",             // the engine keeps an empty description
		"ovirt_vm.lease_storage_domain_id", // empty means no lease

		// An empty text means no script, as in the released provider.
		"ovirt_vm.initialization_custom_script", "ovirt_adopted_vm.initialization_custom_script",
		// The provider computes these, regardless of the configuration.
		"ovirt_disk_resize.id", "ovirt_vm_disks_resize.id",
	}
	server := providerserver.NewProtocol5(New(Options{}))()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")

	seen := 0

	for kind, schema := range schemas.ResourceSchemas {
		object, isObject := schema.ValueType().(tftypes.Object)
		check.Equal(t, kind+" is an object", isObject, true)

		for _, attribute := range schema.Block.Attributes {
			if !attribute.Optional || !attribute.Computed || !attribute.Type.Is(tftypes.String) {
				continue
			}

			seen++
			name := kind + "." + attribute.Name
			resp, err := server.ValidateResourceTypeConfig(t.Context(), &tfprotov5.ValidateResourceTypeConfigRequest{
				TypeName: kind,
				Config:   withOne(t, object, attribute.Name, tftypes.NewValue(tftypes.String, "")),
			})
			check.Error(t, err, "")

			isRefused := slices.ContainsFunc(resp.Diagnostics, func(d *tfprotov5.Diagnostic) bool {
				return d.Attribute != nil && slices.Equal(d.Attribute.Steps()[:1],
					[]tftypes.AttributePathStep{tftypes.AttributeName(attribute.Name)})
			})
			check.Equal(t, name+" is refused if it is empty", isRefused, !slices.Contains(mayBeEmpty, name))
		}
	}

	check.Equal(t, "attributes were looked at", seen > 8, true)
}
