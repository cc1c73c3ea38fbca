package tfprovider

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// askedLayout is the private-state key of the last requested layout of a disk. A user can convert a disk in the
// engine's web console. A plan must not replace such a disk, because its data would be lost.
const askedLayout = "asked_layout"

// layout is the storage layout of a disk.
type layout struct {
	Format string `json:"format,omitempty"`
	Sparse *bool  `json:"sparse,omitempty"`
}

// privateState is the data a provider stores beside the state of a resource.
type privateState interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// storeLayout stores the layout of a model.
func storeLayout(ctx context.Context, private privateState, model *diskModel) diag.Diagnostics {
	content, err := json.Marshal(layout{Format: model.Format.ValueString(), Sparse: flagPointer(model.Sparse)})
	if err != nil {
		return nil
	}

	return private.SetKey(ctx, askedLayout, content)
}

// getLayout returns the last requested layout, or nil if unknown.
func getLayout(ctx context.Context, private privateState, diags *diag.Diagnostics) *layout {
	content, problems := private.GetKey(ctx, askedLayout)
	diags.Append(problems...)

	var asked layout
	if len(content) == 0 || json.Unmarshal(content, &asked) != nil {
		return nil
	}

	return &asked
}

// storeInitialLayout stores the disk's layout from the state, before the engine's layout replaces it in the model.
// After an import, or in a state of another provider, no layout is stored yet.
func storeInitialLayout(
	ctx context.Context, private, out privateState, model *diskModel, disk *engine.Disk,
) diag.Diagnostics {
	var diags diag.Diagnostics
	if getLayout(ctx, private, &diags) != nil {
		return diags
	}

	known := *model
	if known.Format.IsNull() {
		known.setFromEngine(disk)
	}

	diags.Append(storeLayout(ctx, out, &known)...)

	return diags
}

// planLayout plans format and sparse. A change in the configuration replaces the disk. A change made in the engine
// stays, and causes a warning.
func planLayout(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}

	var before, after struct {
		format types.String
		sparse types.Bool
	}
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("format"), &before.format)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("sparse"), &before.sparse)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("format"), &after.format)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("sparse"), &after.sparse)...)
	asked := getLayout(ctx, req.Private, &resp.Diagnostics)

	if !after.format.Equal(before.format) {
		if asked != nil && after.format.ValueString() == asked.Format && isKnown(before.format) {
			keepLayout(ctx, resp, "format", before.format)
		} else {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("format"))
		}
	}

	if !after.sparse.Equal(before.sparse) {
		if asked != nil && asked.Sparse != nil && isKnown(after.sparse) && isKnown(before.sparse) &&
			after.sparse.ValueBool() == *asked.Sparse {
			keepLayout(ctx, resp, "sparse", before.sparse)
		} else {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("sparse"))
		}
	}
}

// keepLayout plans the present value of an attribute of the layout, and adds a warning.
func keepLayout(ctx context.Context, resp *resource.ModifyPlanResponse, name string, has any) {
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), has)...)
	resp.Diagnostics.AddAttributeWarning(path.Root(name), "The disk was converted",
		"Its "+name+" is not what was configured. The disk is kept, because another one would have no data: write "+
			"what it has, or use -replace to make another disk.")
}
