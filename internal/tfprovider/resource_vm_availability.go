package tfprovider

import (
	"context"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// This file has VM attributes that the released provider lacks: high availability, firmware, and custom properties.

// hugePagesProperty is a custom property that has an attribute of its own.
const hugePagesProperty = "hugepages"

// validateLease rejects settings that the engine would reject or silently change.
func validateLease(ctx context.Context, req resource.ValidateConfigRequest) diag.Diagnostics {
	var diags diag.Diagnostics
	var enabled types.Bool
	var lease, behaviour types.String
	diags.Append(req.Config.GetAttribute(ctx, path.Root("high_availability"), &enabled)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("lease_storage_domain_id"), &lease)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("storage_error_resume_behaviour"), &behaviour)...)
	if !isKnown(lease) || lease.ValueString() == "" {
		return diags
	}

	if !enabled.IsUnknown() && !enabled.ValueBool() {
		diags.AddAttributeError(path.Root("lease_storage_domain_id"), "A lease without high availability",
			"Set high_availability to true, or remove lease_storage_domain_id.")
	}

	if isKnown(behaviour) && behaviour.ValueString() != "kill" {
		diags.AddAttributeError(path.Root("storage_error_resume_behaviour"), "A lease with another behaviour than kill",
			"A VM with a lease is always killed when its storage fails: write kill, or remove the line.")
	}

	return diags
}

// buildAvailability returns the high availability to request, or nil for the engine's default.
func (m *vmModel) buildAvailability() *engine.HighAvailability {
	if !isKnown(m.HighAvailability) && !isKnown(m.Priority) {
		return nil
	}

	return &engine.HighAvailability{Enabled: flagPointer(m.HighAvailability), Priority: numberPointer(m.Priority)}
}

// buildLease returns the lease to request, or nil for the engine's default.
func (m *vmModel) buildLease() *engine.Lease {
	if !isKnown(m.LeaseID) {
		return nil
	}

	return &engine.Lease{StorageDomain: engine.NewRef(toID(m.LeaseID))}
}

// buildProperties returns the custom properties to request, or nil for the engine's defaults.
func (m *vmModel) buildProperties() *engine.Properties {
	var items []engine.Property

	if isKnown(m.HugePages) {
		size := strconv.FormatInt(m.HugePages.ValueInt64(), 10)
		items = append(items, engine.Property{Name: hugePagesProperty, Value: size})
	}

	if isKnown(m.CustomProperties) {
		for name, value := range m.CustomProperties.Elements() {
			if text, ok := value.(types.String); ok {
				items = append(items, engine.Property{Name: name, Value: text.ValueString()})
			}
		}
	}

	if len(items) == 0 {
		return nil
	}

	return &engine.Properties{Items: items}
}

// setAvailability copies high availability and firmware from the engine into the model.
func (m *vmModel) setAvailability(vm *engine.VM) {
	m.HighAvailability, m.Priority = types.BoolNull(), types.Int64Null()
	if vm.HighAvailability != nil {
		m.HighAvailability = types.BoolPointerValue(vm.HighAvailability.Enabled)
		m.Priority = types.Int64PointerValue(vm.HighAvailability.Priority)
	}

	lease := engine.ID("")
	if vm.Lease != nil {
		lease = engine.RefID(vm.Lease.StorageDomain)
	}

	m.LeaseID = toIDValue(lease) // empty without a lease
	m.StorageError, m.TPM = textOrNull(vm.StorageError), keepIfAbsent(m.TPM, types.BoolPointerValue(vm.TPM))

	bios := types.StringNull()
	if vm.BIOS != nil {
		bios = textOrNull(vm.BIOS.Type)
	}

	m.BIOSType = keepIfAbsent(m.BIOSType, bios)
}

// setProperties copies the custom properties from the engine into the model, except huge pages, which have their own
// attribute.
func (m *vmModel) setProperties(seen *engine.Properties) {
	m.HugePages = types.Int64Null()
	others := map[string]attr.Value{}

	if seen != nil {
		for _, property := range seen.Items {
			if property.Name != hugePagesProperty {
				others[property.Name] = types.StringValue(property.Value)
			} else if size, err := strconv.ParseInt(property.Value, 10, 64); err == nil {
				m.HugePages = types.Int64Value(size)
			}
		}
	}

	if len(others) > 0 || isKnown(m.CustomProperties) {
		m.CustomProperties = types.MapValueMust(types.StringType, others)
	} else {
		m.CustomProperties = types.MapNull(types.StringType)
	}
}
