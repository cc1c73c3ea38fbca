package tfprovider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*labelledResource)(nil)
	_ resource.ResourceWithImportState = (*labelledResource)(nil)
)

// labelledResource assigns an affinity label to a VM or a host.
type labelledResource struct {
	fixed
	kind engine.LabelOwner
	// word and owner name the kind of object and its attribute, such as VM and vm_id.
	word, owner string
}

func newVMAffinityLabelResource() resource.Resource {
	return &labelledResource{fixed{base{typeName: "ovirt_vm_affinity_label"}}, engine.LabelledVM, "VM", "vm_id"}
}

func newHostAffinityLabelResource() resource.Resource {
	return &labelledResource{fixed{base{typeName: "ovirt_host_affinity_label"}}, engine.LabelledHost, "host", "host_id"}
}

// Schema implements resource.Resource.
func (r *labelledResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Assigns an affinity label to a " + r.word + ". Not available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id": computedText("UUIDs of the label and the " + r.word +
				", separated by an underscore."),
			"label_id": ownerID("UUID of the affinity label."),
			r.owner:    ownerID("UUID of the " + r.word + "."),
		},
	})
}

// labelMembership has the IDs of a label and of the object with the label.
type labelMembership struct{ label, owner engine.ID }

func (m labelMembership) importID() string { return m.label.String() + "/" + m.owner.String() }

func (m labelMembership) stateID() string { return m.label.String() + "_" + m.owner.String() }

// readMembership reads the IDs from a plan or a state.
func (r *labelledResource) readMembership(
	ctx context.Context, source attributeReader, diags *diag.Diagnostics,
) labelMembership {
	var label, owner types.String
	diags.Append(source.GetAttribute(ctx, path.Root("label_id"), &label)...)
	diags.Append(source.GetAttribute(ctx, path.Root(r.owner), &owner)...)

	return labelMembership{toID(label), toID(owner)}
}

func (r *labelledResource) hasLabel(ctx context.Context, of labelMembership) (bool, error) {
	labels, err := r.client.ListAffinityLabelsOf(ctx, r.kind, of.owner)
	return slices.ContainsFunc(labels, func(l engine.Label) bool { return l.ID == of.label }), err
}

// Create implements resource.Resource.
func (r *labelledResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	of := r.readMembership(ctx, req.Plan, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	what := "affinity label " + of.label.String() + " on " + r.word + " " + of.owner.String()
	has := func(ctx context.Context) (bool, error) { return r.hasLabel(ctx, of) }

	err := r.refuseMember(ctx, what, of.importID(), has)
	if err == nil {
		err = ensureDone(ctx, what, func(ctx context.Context) error {
			return r.client.AddAffinityLabel(ctx, r.kind, of.owner, of.label)
		}, has)
	}

	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The "+r.word+" was not labelled", err.Error())
		return
	}

	r.made.addID(of.importID())
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), of.stateID())...)
}

// Read implements resource.Resource.
func (r *labelledResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	of := r.readMembership(ctx, req.State, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	has, err := r.hasLabel(ctx, of)
	if handleReadError(ctx, err, "The affinity labels of the "+r.word, resp) {
		return
	}

	if !has {
		resp.State.RemoveResource(ctx)
		return
	}

	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), of.stateID())...)
}

// Delete implements resource.Resource.
func (r *labelledResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	of := r.readMembership(ctx, req.State, &resp.Diagnostics)
	if resp.Diagnostics.HasError() ||
		r.made.shouldKeep(of.importID(), "affinity label of the "+r.word, &resp.Diagnostics) {
		return
	}

	removeAndWait(ctx, "affinity label "+of.label.String()+" of "+r.word+" "+of.owner.String(), &resp.Diagnostics,
		func(ctx context.Context) error { return r.client.RemoveAffinityLabel(ctx, r.kind, of.owner, of.label) })
}

// ImportState takes LABEL-UUID/OWNER-UUID.
func (r *labelledResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "label_id", r.owner)
}
