package tfprovider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAPartThatAnAnswerLacksIsUnknown removes parts from the engine's answers. An attribute must keep its value if its
// change would replace the object.
func TestAPartThatAnAnswerLacksIsUnknown(t *testing.T) {
	yes, template := true, engine.ID("6e0f7a4c-0000-4000-8000-000000000001")
	cluster := engine.ID("6e0f7a4c-0000-4000-8000-000000000002")

	vm := vmModel{TemplateID: types.StringValue(template.String()), Clone: types.BoolValue(false)}
	vm.setFromEngine(&engine.VM{
		Name: "m", Cluster: engine.NewRef(cluster), Template: engine.NewRef(template), TPM: &yes,
		BIOS: &engine.BIOS{Type: "q35_ovmf"},
	})

	short := vm
	short.setFromEngine(&engine.VM{Name: "m"})
	check.Equal(t, "template", short.TemplateID, vm.TemplateID)
	check.Equal(t, "effective template", short.EffectiveTemplateID.ValueString(), template.String())
	check.Equal(t, "cluster", short.ClusterID.ValueString(), cluster.String())
	check.Equal(t, "firmware", short.BIOSType.ValueString(), "q35_ovmf")
	check.Equal(t, "TPM", short.TPM.ValueBool(), true)

	other := vm
	other.setFromEngine(&engine.VM{Name: "m", Cluster: engine.NewRef(template), Template: engine.NewRef(cluster)})
	check.Equal(t, "another cluster", other.ClusterID.ValueString(), template.String())
	check.Equal(t, "another template", other.TemplateID.ValueString(), cluster.String())

	disk := diskModel{}
	disk.setFromEngine(&engine.Disk{Format: engine.FormatCow, Sparse: &yes})
	disk.setFromEngine(&engine.Disk{})
	check.Equal(t, "format", disk.Format.ValueString(), engine.FormatCow)
	check.Equal(t, "sparse", disk.Sparse.ValueBool(), true)
}
