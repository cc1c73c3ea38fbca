package tfprovider

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// refuseAllocation refuses at the plan a new disk that its storage domain cannot have. A storage domain that is not
// known yet is asked about when the disk is made.
func (b *base) refuseAllocation(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics) {
	if req.Plan.Raw.IsNull() || !req.State.Raw.IsNull() || b.client == nil {
		return
	}

	var (
		format, domain types.String
		sparse         types.Bool
	)

	diags.Append(req.Config.GetAttribute(ctx, path.Root("format"), &format)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("storage_domain_id"), &domain)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("sparse"), &sparse)...)

	if !isKnown(format) || !isKnown(sparse) {
		return
	}

	var impossible *engine.AllocationError

	_, err := b.client.SparseOn(ctx, idOf(domain), format.ValueString(), flag(sparse))
	if errors.As(err, &impossible) {
		diags.AddAttributeError(path.Root("sparse"), "This allocation is not possible", impossible.Error())
	}
}

// validateOverrides refuses overrides of linked disks, which are always cow and sparse.
func validateOverrides(ctx context.Context, req resource.ValidateConfigRequest) (diags diag.Diagnostics) {
	const block = "template_disk_attachment_override"

	var (
		clone     types.Bool
		all       types.Set
		overrides []diskOverrideModel
	)

	diags.Append(req.Config.GetAttribute(ctx, path.Root("clone"), &clone)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root(block), &all)...)

	if clone.IsUnknown() || clone.ValueBool() || all.IsUnknown() {
		return diags
	}

	diags.Append(all.ElementsAs(ctx, &overrides, false)...)

	for _, o := range overrides {
		wants := ""

		switch {
		case o.Format.ValueString() == engine.FormatRaw:
			wants = `format = "raw"`
		case o.Provisioning.ValueString() == "non-sparse":
			wants = `provisioning = "non-sparse"`
		default:
			continue
		}

		diags.AddAttributeError(path.Root(block), "A linked disk cannot have this allocation",
			fmt.Sprintf("The VM links to the disks of its template, and a linked disk is cow and sparse. Omit %s, "+
				"or set clone = true to copy the disks.", wants))
	}

	return diags
}

// completeOverrides says of the overrides what they leave out and what the engine would get wrong: it keeps the
// allocation of the template's disk whatever format and storage domain the copy has.
func (r *vmResource) completeOverrides(ctx context.Context, vm *engine.VM, clone bool) error {
	if vm.DiskAttachments == nil {
		return nil
	}

	for i := range vm.DiskAttachments.Items {
		choice := &vm.DiskAttachments.Items[i].Disk

		origin, err := r.client.Disk(ctx, choice.ID)
		if err != nil {
			return err
		}

		domains := origin.StorageDomainIDs()
		if choice.StorageDomains != nil {
			domains = []engine.ID{choice.StorageDomains.Items[0].ID}
		}

		format := cmp.Or(choice.Format, origin.Format)
		if !clone {
			format = engine.FormatCow
		}

		var domain engine.ID
		if len(domains) > 0 {
			domain = domains[0]
		}

		sparse, err := r.client.SparseOn(ctx, domain, format, choice.Sparse)
		if err != nil {
			return fmt.Errorf("template_disk_attachment_override of disk %s: %w", choice.ID, err)
		}

		choice.Format, choice.Sparse = format, sparse
	}

	return nil
}
