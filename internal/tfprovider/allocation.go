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

// refuseAllocation rejects the plan of a new disk if its storage domain cannot hold the disk. If the storage domain is
// unknown at plan time, the check happens when the disk is created.
func (b *base) refuseAllocation(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics) {
	if req.Plan.Raw.IsNull() || !req.State.Raw.IsNull() || b.configured == nil || b.client == nil {
		return
	}

	var (
		format, domain types.String
		sparse         types.Bool
	)

	diags.Append(req.Config.GetAttribute(ctx, path.Root("format"), &format)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("storage_domain_id"), &domain)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("sparse"), &sparse)...)

	b.refusePlace(ctx, path.Root("storage_domain_id"), diags, engine.DiskPlace{
		DomainID: toID(domain), Format: format.ValueString(), Sparse: flagPointer(sparse),
	})
}

// refusePlace rejects a storage domain that is not ready for disks, or does not support this allocation. at is the
// attribute with the domain.
func (b *base) refusePlace(ctx context.Context, at path.Path, diags *diag.Diagnostics, place engine.DiskPlace) {
	var (
		inactive   *engine.InactiveError
		impossible *engine.AllocationError
	)

	switch _, _, err := b.client.ChooseDiskPlace(ctx, nil, place); {
	case errors.As(err, &inactive):
		diags.AddAttributeError(at, "The storage domain cannot be used", inactive.Error())
	case errors.As(err, &impossible):
		diags.AddAttributeError(at, "This allocation is not possible", impossible.Error())
	}
}

// refusePlaces checks the storage domains in the plan of a VM: those for the disks of a new VM, and the one for a new
// lease.
func (r *vmResource) refusePlaces(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics) {
	if req.Plan.Raw.IsNull() || r.configured == nil || r.client == nil {
		return
	}

	const leaseAttribute, block = "lease_storage_domain_id", "template_disk_attachment_override"

	var (
		lease, before types.String
		all           types.Set
		overrides     []diskOverrideModel
	)

	diags.Append(req.Plan.GetAttribute(ctx, path.Root(leaseAttribute), &lease)...)

	if !req.State.Raw.IsNull() {
		diags.Append(req.State.GetAttribute(ctx, path.Root(leaseAttribute), &before)...)
	}

	if isKnown(lease) && !lease.Equal(before) {
		r.refusePlace(ctx, path.Root(leaseAttribute), diags, engine.DiskPlace{DomainID: toID(lease)})
	}

	diags.Append(req.Plan.GetAttribute(ctx, path.Root(block), &all)...)

	if !req.State.Raw.IsNull() || all.IsUnknown() {
		return
	}

	diags.Append(all.ElementsAs(ctx, &overrides, false)...)

	for _, o := range overrides {
		if isKnown(o.StorageDomainID) {
			r.refusePlace(ctx, path.Root(block), diags, engine.DiskPlace{
				DomainID: toID(o.StorageDomainID), Format: o.Format.ValueString(),
			})
		}
	}
}

// validateOverrides rejects overrides for linked disks, because linked disks are always cow and sparse.
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

// completeOverrides fills in the values the overrides omit. Otherwise, the engine would keep the allocation of the
// template's disk, whatever the format and storage domain of the copy.
func (r *vmResource) completeOverrides(ctx context.Context, vm *engine.VM, clone bool) error {
	if vm.DiskAttachments == nil {
		return nil
	}

	for i := range vm.DiskAttachments.Items {
		choice := &vm.DiskAttachments.Items[i].Disk

		origin, err := r.client.FetchDisk(ctx, choice.ID)
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

		_, sparse, err := r.client.ChooseDiskPlace(ctx, nil, engine.DiskPlace{
			DomainID: domain, Format: format, Sparse: choice.Sparse,
		})
		if err != nil {
			return fmt.Errorf("template_disk_attachment_override of disk %s: %w", choice.ID, err)
		}

		choice.Format, choice.Sparse = format, sparse
	}

	return nil
}
