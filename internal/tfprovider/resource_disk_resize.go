package tfprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*resizeResource)(nil)
	_ resource.ResourceWithImportState = (*resizeResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*resizeResource)(nil)
)

// resizeResource ensures a minimum size of disks. ovirt_disk_resize is for one disk, and ovirt_vm_disks_resize for the
// boot disks of a VM.
//
// Because the size is a minimum, the resource can coexist with ovirt_disk, which treats its own size in the same way.
// The larger of both sizes wins, and neither resource plans to shrink the disk.
type resizeResource struct {
	base
	// owner is the attribute naming the disk or VM.
	owner string
	// about, aboutOwner and aboutSize are the descriptions of the resource, its owner and its size.
	about, aboutOwner, aboutSize string
	// disks returns the disks to resize. If the owner does not exist, it returns an IsNotFound error.
	disks func(ctx context.Context, client *engine.Client, owner engine.ID) ([]engine.Disk, error)
}

func newDiskResizeResource() resource.Resource {
	return &resizeResource{
		base:  base{typeName: "ovirt_disk_resize"},
		owner: "disk_id",
		about: "Manages the size of a disk that was created elsewhere, such as a disk that a VM gets from its " +
			"template. Destroying the resource does not change the disk.",
		aboutOwner: "UUID of the disk.",
		aboutSize:  "Size in bytes. It can only be increased. Fails if the disk is already larger.",
		disks: func(ctx context.Context, client *engine.Client, owner engine.ID) ([]engine.Disk, error) {
			disk, err := client.FetchDisk(ctx, owner)
			if err != nil {
				return nil, err
			}

			return []engine.Disk{*disk}, nil
		},
	}
}

func newVMDisksResizeResource() resource.Resource {
	return &resizeResource{
		base:  base{typeName: "ovirt_vm_disks_resize"},
		owner: "vm_id",
		about: "Manages the size of a VM's bootable disks. Other disks contain data and are not resized. Destroying " +
			"the resource does not change the disks.",
		aboutOwner: "UUID of the VM.",
		aboutSize:  "Size of each bootable disk in bytes. It can only be increased. Fails if a disk is already larger.",
		disks:      listBootDisks,
	}
}

// listBootDisks returns the disks that the VM boots from.
func listBootDisks(ctx context.Context, client *engine.Client, vmID engine.ID) ([]engine.Disk, error) {
	attachments, err := client.ListDiskAttachments(ctx, vmID)
	if err != nil {
		return nil, err
	}

	var disks []engine.Disk

	for i := range attachments {
		if attachments[i].Bootable == nil || !*attachments[i].Bootable {
			continue
		}

		disk, err := client.FetchDisk(ctx, attachments[i].DiskID())
		if engine.IsNotFound(err) {
			continue // a user has deleted it between the two requests
		} else if err != nil {
			return nil, err
		}

		disks = append(disks, *disk)
	}

	return disks, nil
}

func (r *resizeResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: r.about,
		Attributes: map[string]schema.Attribute{
			"id":    optionalID("Same as `" + r.owner + "`."),
			r.owner: ownerID(r.aboutOwner),
			"size":  sizeAttribute(r.aboutSize),
		},
	})
}

func (r *resizeResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	refuseShrinking(ctx, req, resp)
}

type attributeReader interface {
	GetAttribute(context.Context, path.Path, any) diag.Diagnostics
}

// readSize returns the owner and the size in bytes. A null size is 0.
func (r *resizeResource) readSize(
	ctx context.Context, source attributeReader, diags *diag.Diagnostics,
) (owner engine.ID, size int64) {
	var id types.String
	var bytes types.Int64
	diags.Append(source.GetAttribute(ctx, path.Root(r.owner), &id)...)
	diags.Append(source.GetAttribute(ctx, path.Root("size"), &bytes)...)

	return toID(id), bytes.ValueInt64()
}

// growDisks grows the disks to the planned size. It fails for a larger disk unless the disk was imported.
func (r *resizeResource) growDisks(
	ctx context.Context, plan attributeReader, imported bool, diags *diag.Diagnostics,
) (owner engine.ID, size int64) {
	owner, size = r.readSize(ctx, plan, diags)
	if diags.HasError() {
		return owner, size
	}

	disks, err := r.disks(ctx, r.client, owner)
	if err == nil && len(disks) == 0 {
		err = engine.ErrNoBootDisk
	}

	if err != nil {
		diags.AddError("The disks were not resized", r.client.ExplainMissing(ctx, owner, err).Error())
		return owner, size
	}

	for _, disk := range disks {
		if disk.ProvisionedSize > size && !imported {
			diags.AddAttributeError(path.Root("size"), "size cannot shrink",
				fmt.Sprintf("Disk %s has %d bytes already, and size asks for %d.", disk.ID, disk.ProvisionedSize, size))
			return owner, size
		}
	}

	for _, disk := range disks {
		err := r.client.GrowDisk(ctx, disk.ID, size, newProgressLogger(ctx, "disk "+disk.ID.String()+" to grow"))
		if err != nil {
			diags.AddAttributeError(path.Root("size"), "The disk was not resized",
				r.client.ExplainMissing(ctx, owner, err).Error())
			return owner, size
		}
	}

	return owner, size
}

func (r *resizeResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	owner, size := r.growDisks(ctx, req.Plan, false, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), owner)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(r.owner), owner)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("size"), size)...)
}

func (r *resizeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	owner, size := r.readSize(ctx, req.State, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	disks, err := r.disks(ctx, r.client, owner)
	if handleReadError(ctx, err, "The disks", resp) {
		return
	}

	for _, disk := range disks {
		if size == 0 || disk.ProvisionedSize < size {
			size = disk.ProvisionedSize
		}
	}

	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), owner)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("size"), size)...)
}

func (r *resizeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	imported, unread := req.Private.GetKey(ctx, importedSize)
	resp.Diagnostics.Append(unread...)

	if r.growDisks(ctx, req.Plan, string(imported) == "true", &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}

	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedSize, nil)...)
	resp.State.Raw = req.Plan.Raw
}

// Delete does not change the disks.
func (r *resizeResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// ImportState takes the UUID of the owner.
func (r *resizeResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, r.owner)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedSize, []byte("true"))...)
}
