package tfprovider

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// initText returns the attribute for a text that the guest reads at its first boot.
func initText(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplaceIfConfigured()},
	}
}

// initTexts returns the attribute for a list of words that the guest reads at its first boot.
func initTexts(description string) schema.ListAttribute {
	return schema.ListAttribute{
		Optional:            true,
		Computed:            true,
		ElementType:         types.StringType,
		MarkdownDescription: description + " Not available in `ovirt/ovirt`.",
		PlanModifiers: []planmodifier.List{
			listplanmodifier.UseStateForUnknown(),
			listplanmodifier.RequiresReplaceIfConfigured(),
		},
		Validators: []validator.List{
			listvalidator.ValueStringsAre(stringvalidator.RegexMatches(word, "must not contain spaces or commas")),
		},
	}
}

// otherGuest tells users why a changed guest configuration needs a new VM. If settings are removed from the
// configuration, the VM keeps those of the template and is not replaced.
const otherGuest = "A guest reads this setting only at its first boot, so a change needs a new VM."

// initNICBlock returns the block for the network interfaces of the guest.
func initNICBlock() schema.ListNestedBlock {
	address := func(f family, protocols ...string) schema.NestedBlockObject {
		return schema.NestedBlockObject{
			Validators: []validator.Object{
				objectRule{"an address if the boot protocol is static, and none otherwise", checkFamily},
			},
			Attributes: map[string]schema.Attribute{
				"address": schema.StringAttribute{Optional: true, MarkdownDescription: "IP address.",
					Validators: []validator.String{addressRule{ruleText(f.address), f.isAddress}}},
				"netmask": schema.StringAttribute{Optional: true,
					MarkdownDescription: "Netmask or prefix length, such as `255.255.255.0` for IPv4 and `64` for " +
						"IPv6.",
					Validators: []validator.String{addressRule{ruleText(f.netmask), f.isNetmask}}},
				"gateway": schema.StringAttribute{Optional: true, MarkdownDescription: "Default gateway.",
					Validators: []validator.String{addressRule{ruleText(f.address), f.isAddress}}},
				"boot_protocol": schema.StringAttribute{
					Optional: true,
					MarkdownDescription: "Boot protocol: `" + strings.Join(protocols,
						"` or `") + "`. Defaults to `static`. Not available in `ovirt/ovirt`.",
					Validators: []validator.String{stringvalidator.OneOf(protocols...)}},
			},
		}
	}

	return schema.ListNestedBlock{
		MarkdownDescription: "Configuration of a network interface of the guest. `ovirt/ovirt` supports only one, " +
			"with an IPv4 address.",
		PlanModifiers: []planmodifier.List{
			listplanmodifier.RequiresReplaceIf(
				func(_ context.Context, req planmodifier.ListRequest,
					resp *listplanmodifier.RequiresReplaceIfFuncResponse) {
					// Plan a replacement also for an unknown list. Terraform rejects an update that becomes a
					// replacement once the values are known.
					resp.RequiresReplace = req.ConfigValue.IsUnknown() || len(req.ConfigValue.Elements()) > 0
				},
				otherGuest,
				otherGuest,
			),
		},
		NestedObject: schema.NestedBlockObject{
			Validators: []validator.Object{objectRule{"ipv4, ipv6 or both", checkFamilies}},
			Attributes: map[string]schema.Attribute{
				"name": schema.StringAttribute{
					Required:            true,
					MarkdownDescription: "Name of the interface in the guest.",
				},
			},
			Blocks: map[string]schema.Block{
				"ipv4": schema.ListNestedBlock{
					NestedObject:        address(is4, protocolStatic, protocolDHCP),
					MarkdownDescription: "IPv4 configuration.",
					Validators:          []validator.List{listvalidator.SizeAtMost(1)}},
				"ipv6": schema.ListNestedBlock{
					NestedObject:        address(is6, protocolStatic, protocolDHCP),
					MarkdownDescription: "IPv6 configuration.",
					Validators:          []validator.List{listvalidator.SizeAtMost(1)}},
			},
		},
	}
}

type initNICModel struct {
	Name types.String  `tfsdk:"name"`
	IPv4 []initIPModel `tfsdk:"ipv4"`
	IPv6 []initIPModel `tfsdk:"ipv6"`
}

type initIPModel struct {
	BootProtocol types.String `tfsdk:"boot_protocol"`
	Address      types.String `tfsdk:"address"`
	Netmask      types.String `tfsdk:"netmask"`
	Gateway      types.String `tfsdk:"gateway"`
}

const (
	protocolStatic = "static"
	protocolDHCP   = "dhcp"
	protocolNone   = "none"
)

// objectRule validates the attributes of one block together.
type objectRule struct {
	ruleText
	// check returns a description of the problem, or "".
	check func(map[string]attr.Value) string
}

func (r objectRule) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if !isKnown(req.ConfigValue) {
		return
	}

	if problem := r.check(req.ConfigValue.Attributes()); problem != "" {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid network configuration", problem)
	}
}

// checkFamilies rejects an interface with neither an IPv4 nor an IPv6 configuration.
func checkFamilies(nic map[string]attr.Value) string {
	for _, family := range []string{"ipv4", "ipv6"} {
		if list, ok := nic[family].(types.List); !ok || list.IsUnknown() || len(list.Elements()) > 0 {
			return ""
		}
	}

	return "Write a block ipv4, ipv6 or both."
}

// checkFamily rejects a static configuration without an address, and any other configuration with an address.
func checkFamily(family map[string]attr.Value) string {
	protocol, ok := family["boot_protocol"].(types.String)
	address := family["address"]
	if !ok || protocol.IsUnknown() || address == nil || address.IsUnknown() {
		return ""
	}

	static := protocol.IsNull() || protocol.ValueString() == protocolStatic
	switch {
	case static && address.IsNull():
		return "Write the address, or another boot_protocol than static."
	case static && family["netmask"] != nil && family["netmask"].IsNull():
		return "Write the netmask: the guest cannot be reached without it."
	case !static && !address.IsNull():
		return fmt.Sprintf("Remove the address: boot_protocol %s brings one.", protocol.ValueString())
	}

	return ""
}

// word matches an element of a list. The engine splits a list at spaces and commas.
var word = regexp.MustCompile(`^[^\s,]+$`)

func (m *vmModel) buildInitialization() *engine.Initialization {
	if m.CustomScript.ValueString() == "" && m.Hostname.ValueString() == "" && len(m.NICs) == 0 &&
		!isKnown(m.DNSServers) && !isKnown(m.SearchDomains) {
		return nil
	}

	out := &engine.Initialization{
		CustomScript: m.CustomScript.ValueString(),
		HostName:     m.Hostname.ValueString(),
		DNSServers:   joinWords(m.DNSServers),
		DNSSearch:    joinWords(m.SearchDomains),
	}
	for _, n := range m.NICs {
		config := engine.NICConfiguration{Name: n.Name.ValueString(), OnBoot: true, BootProtocol: protocolNone}
		for _, ip := range n.IPv4 {
			config.BootProtocol, config.IP = ip.toEngine("v4")
		}

		for _, ip := range n.IPv6 {
			config.IPv6Boot, config.IPv6 = ip.toEngine("v6")
		}

		if out.NICs == nil {
			out.NICs = &engine.NICConfigurations{}
		}

		out.NICs.Items = append(out.NICs.Items, config)
	}

	return out
}

// toEngine returns the boot protocol of a family, and its address if the protocol is static.
func (m initIPModel) toEngine(version string) (string, *engine.IP) {
	if protocol := m.BootProtocol.ValueString(); protocol != "" && protocol != protocolStatic {
		return protocol, nil
	}

	return protocolStatic, &engine.IP{
		Address: m.Address.ValueString(),
		Netmask: m.Netmask.ValueString(),
		Gateway: m.Gateway.ValueString(),
		Version: version,
	}
}

// joinWords converts a list to the engine's form: one text with spaces between the elements.
func joinWords(list types.List) string {
	var out []string

	for _, element := range list.Elements() {
		if text, ok := element.(types.String); ok {
			out = append(out, text.ValueString())
		}
	}

	return strings.Join(out, " ")
}

// splitWords converts a text of the engine to a list, or to null if the text is empty.
func splitWords(text string) types.List {
	var values []attr.Value
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		values = append(values, types.StringValue(word))
	}

	if values == nil {
		return types.ListNull(types.StringType)
	}

	return types.ListValueMust(types.StringType, values)
}

// setInitialization copies the guest's configuration from the engine into the model. Only imports call it.
func (m *vmModel) setInitialization(given *engine.Initialization) {
	if given == nil {
		return
	}

	m.CustomScript, m.Hostname = textOrNull(given.CustomScript), textOrNull(given.HostName)
	m.DNSServers, m.SearchDomains = splitWords(given.DNSServers), splitWords(given.DNSSearch)
	if given.NICs == nil {
		return
	}

	address := func(protocol string, ip *engine.IP) []initIPModel {
		switch {
		case protocol == protocolDHCP:
			return []initIPModel{{BootProtocol: types.StringValue(protocol)}}
		case protocol != "" && protocol != protocolStatic || ip == nil || ip.Address == "":
			return nil // the configuration cannot express this
		}

		return []initIPModel{
			{Address: types.StringValue(ip.Address), Netmask: textOrNull(ip.Netmask), Gateway: textOrNull(ip.Gateway)},
		}
	}
	for _, nic := range given.NICs.Items {
		seen := initNICModel{
			Name: types.StringValue(nic.Name),
			IPv4: address(nic.BootProtocol, nic.IP),
			IPv6: address(nic.IPv6Boot, nic.IPv6),
		}
		if len(seen.IPv4)+len(seen.IPv6) > 0 && nic.Name != "" {
			m.NICs = append(m.NICs, seen)
		}
	}
}
