package tfprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*templateResource)(nil)
	_ resource.ResourceWithImportState = (*templateResource)(nil)
)

func newTemplateResource() resource.Resource {
	return &templateResource{base{typeName: "ovirt_template"}}
}

type templateResource struct{ base }

func (r *templateResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	vm := ownerID("UUID of the VM to create the template from. The VM must be down.")

	// The engine does not report the VM of a template. After an import, it is unknown, and the configured VM counts as
	// correct.
	vm.PlanModifiers = []planmodifier.String{
		stringplanmodifier.RequiresReplaceIf(
			func(_ context.Context, req planmodifier.StringRequest,
				resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
				resp.RequiresReplace = !req.StateValue.IsNull()
			},
			"a template cannot be moved to another VM",
			"a template cannot be moved to another VM",
		),
	}
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A template for virtual machines. The template is ready when its disks are copied.",
		Attributes: map[string]schema.Attribute{
			"id": computedText("UUID of the template."),
			"name": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Name of the template. Can contain letters, digits, dashes, underscores and dots.",
				Validators:          []validator.String{objectName},
			},
			"description": schema.StringAttribute{Optional: true, MarkdownDescription: "Description of the template."},
			"vm_id":       vm,
		},
	}, "vm_id")
}

type templateModel struct {
	timed

	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	VMID        types.String `tfsdk:"vm_id"`
}

func (r *templateResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[templateModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	template, err := r.createOnce(ctx, model)
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The template was not created", err.Error())
		return
	}

	// The template exists now, so save it in the state before anything else can fail.
	model.ID = toIDValue(template.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	err = pollEngine(
		ctx,
		"template "+template.ID.String()+" to be ready",
		func(ctx context.Context) (bool, string, error) {
			seen, err := r.client.FetchTemplate(ctx, template.ID)
			if err != nil {
				return false, "", err
			}

			if seen.Status == engine.TemplateIllegal {
				return false, "", fmt.Errorf("template %s is illegal: the engine could not copy its disks", template.ID)
			}

			return seen.Status == engine.TemplateOK, seen.Status, nil
		},
	)

	var early *engine.WaitError

	switch {
	case errors.As(err, &early):
		// An error would taint the template, and the next apply would destroy it and copy the disks again.
		resp.Diagnostics.AddWarning("The template is not ready yet",
			err.Error()+". What uses it may have to wait; `timeouts` has the time that a copy may take.")
	case err != nil:
		resp.Diagnostics.AddError("The template is not ready", err.Error())
	}
}

// createOnce creates the template once. Its name is unique only within a data center. After a lost answer, a template
// with this name is the requested one if it did not exist before.
func (r *templateResource) createOnce(ctx context.Context, model *templateModel) (*engine.Template, error) {
	name := model.Name.ValueString()
	vm, err := r.client.FetchVM(ctx, toID(model.VMID))
	if err != nil {
		return nil, err
	}

	dc, err := r.client.FindDataCenterOf(ctx, engine.RefID(vm.Cluster))
	if err != nil {
		return nil, err
	}

	before, err := r.client.FindTemplates(ctx, dc, name)
	if err != nil {
		return nil, err
	}

	known := collectIDs(before, func(t *engine.Template) engine.ID { return t.ID }, isAny)

	template, err := engine.CreateOnce(ctx, "template "+name, newProgressLogger(ctx, "template "+name),
		func(ctx context.Context) (*engine.Template, error) {
			return r.client.CreateTemplate(ctx, name, model.Description.ValueString(), toID(model.VMID))
		},
		func(ctx context.Context) (*engine.Template, error) {
			now, err := r.client.FindTemplates(ctx, dc, name)
			for i := range now {
				if err == nil && !slices.Contains(known, now[i].ID) {
					return &now[i], nil
				}
			}

			return nil, err
		})
	if engine.IsConflict(err) && len(before) > 0 {
		return nil, fmt.Errorf("%w (the name is in use by template %s)", err, before[0].ID)
	}

	return template, engine.AddKnownIDs(err, known)
}

func (r *templateResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[templateModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	template, err := r.client.FetchTemplate(ctx, toID(model.ID))
	if handleReadError(ctx, err, "The template", resp) {
		return
	}

	model.Name, model.Description = types.StringValue(
		template.Name,
	), toTextValue(
		model.Description, template.Description,
	)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *templateResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[templateModel](ctx, req.Plan, &resp.Diagnostics)
	before, ok2 := loadModel[templateModel](ctx, req.State, &resp.Diagnostics)
	if !ok || !ok2 {
		return
	}

	if !plan.Name.Equal(before.Name) || !plan.Description.Equal(before.Description) {
		id := toID(plan.ID)
		err := pollEngine(
			ctx,
			"template "+id.String()+" to be updated",
			func(ctx context.Context) (bool, string, error) {
				_, err := r.client.UpdateTemplate(ctx, id, plan.Name.ValueString(), plan.Description.ValueString())
				return err == nil, "", err
			},
		)
		if err != nil {
			resp.Diagnostics.AddError("The template was not updated", err.Error())
			return
		}
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *templateResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[templateModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	id := toID(model.ID)
	err := pollEngine(ctx, "template "+id.String()+" to be deleted", func(ctx context.Context) (bool, string, error) {
		seen, err := r.client.FetchTemplate(ctx, id)
		if engine.IsNotFound(err) {
			return true, "", nil
		} else if err != nil || seen.Status == engine.TemplateLocked {
			return false, engine.TemplateLocked, err
		}

		// the next look confirms the deletion
		return false, seen.Status, ignoreNotFound(r.client.DeleteTemplate(ctx, id))
	})
	if err != nil {
		resp.Diagnostics.AddError("The template was not deleted", err.Error())
	}
}

func (r *templateResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "id")
}
