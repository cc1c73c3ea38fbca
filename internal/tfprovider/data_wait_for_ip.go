package tfprovider

import (
	"context"
	"net/netip"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// addressLimit limits how long after the start of a guest the data source waits for the first address. A guest without
// an address by then has no agent.
const addressLimit = 10 * time.Minute

func newWaitForIPData() datasource.DataSource {
	return &waitForIPData{dataBase{typeName: "ovirt_wait_for_ip"}}
}

// waitForIPData waits only as long as the guest may still report an address. Terraform reads data sources with every
// plan and before destroying, and a VM without an agent must not delay these.
type waitForIPData struct{ dataBase }

type waitForIPModel struct {
	timed

	ID         types.String             `tfsdk:"id"`
	VMID       types.String             `tfsdk:"vm_id"`
	Interfaces []reportedInterfaceModel `tfsdk:"interfaces"`
}

type reportedInterfaceModel struct {
	Name string   `tfsdk:"name"`
	IPv4 []string `tfsdk:"ipv4_addresses"`
	IPv6 []string `tfsdk:"ipv6_addresses"`
}

func (d *waitForIPData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	addresses := types.SetType{ElemType: types.StringType}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until the guest of a virtual machine reports an address. If the VM is down, or " +
			"has run for 10 minutes without reporting an address, the data source returns an empty result and a " +
			"warning.",
		Attributes: map[string]schema.Attribute{
			"id":    dataID("UUID of the VM."),
			"vm_id": requiredID("UUID of the VM."),
			"interfaces": schema.SetAttribute{
				Computed: true,
				MarkdownDescription: "Interfaces of the guest, with their addresses except loopback and link-local " +
					"addresses.",
				ElementType: types.ObjectType{
					AttrTypes: map[string]attr.Type{
						"name":           types.StringType,
						"ipv4_addresses": addresses,
						"ipv6_addresses": addresses,
					},
				},
			},
		},
		Blocks: map[string]schema.Block{timeoutsBlock: schema.SingleNestedBlock{
			MarkdownDescription: "Timeouts of operations.",
			Attributes: map[string]schema.Attribute{
				reading: schema.StringAttribute{
					Optional: true,
					MarkdownDescription: "Maximum time to wait for an address, such as `30m`. Defaults to `" +
						formatDuration(addressLimit) + "`.",
					Validators: []validator.String{isDuration},
				},
			},
		}},
	}
}

func (d *waitForIPData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	model, ok := loadModel[waitForIPModel](ctx, req.Config, &resp.Diagnostics)
	if !ok {
		return
	}

	limit := addressLimit
	var text types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(timeoutsBlock).AtName(reading), &text)...)
	if asked, err := time.ParseDuration(text.ValueString()); err == nil {
		limit = asked
	}

	ctx, cancel := engine.WithWaitLimit(ctx, limit)
	defer cancel()

	interfaces := d.waitForAddress(ctx, toID(model.VMID), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	texts := func(addresses []netip.Addr) []string {
		out := []string{}
		for _, address := range addresses {
			out = append(out, address.String())
		}

		return out
	}

	model.ID, model.Interfaces = model.VMID, []reportedInterfaceModel{}
	for _, i := range interfaces {
		model.Interfaces = append(model.Interfaces, reportedInterfaceModel{
			Name: i.Name,
			IPv4: texts(i.IPv4),
			IPv6: texts(i.IPv6),
		})
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// waitForAddress waits until the guest of a VM reports an address. If no address can come, it adds a warning.
func (d *waitForIPData) waitForAddress(
	ctx context.Context, vmID engine.ID, diags *diag.Diagnostics,
) []engine.GuestInterface {
	begin := time.Now()
	var interfaces []engine.GuestInterface
	err := pollEngine(
		ctx,
		"VM "+vmID.String()+" to report an address",
		func(ctx context.Context) (bool, string, error) {
			var err error
			if interfaces, err = d.client.ListGuestInterfaces(ctx, vmID); err != nil || len(interfaces) > 0 {
				return err == nil, "", err
			}

			vm, err := d.client.FetchVM(ctx, vmID)
			if err != nil {
				return false, "", err
			}

			switch started, known := vm.StartedAt(); {
			case vm.Status == engine.VMDown:
				diags.AddWarning("The VM has no address",
					"VM "+vmID.String()+" is down. Let this data source depend on what starts it.")

				return true, "", nil
			case vm.Status.IsAsleep(), vm.Status.IsOutOfSight(), vm.Status == engine.VMUnassigned:
				diags.AddWarning(
					"The VM has no address",
					"VM "+vmID.String()+" is "+string(
						vm.Status,
					)+": its guest reports nothing before a person has acted.",
				)

				return true, "", nil
			case vm.Status == engine.VMUp && known && begin.Sub(started) > addressLimit:
				diags.AddWarning("The VM has no address", "VM "+vmID.String()+" has run since "+
					started.Format(time.RFC3339)+" and has reported none: its guest seems to have no agent.")

				return true, "", nil
			}

			return false, string(vm.Status), nil
		},
	)
	if err != nil {
		diags.AddError("The VM has reported no address", err.Error())
	}

	return interfaces
}
