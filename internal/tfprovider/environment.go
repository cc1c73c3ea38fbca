package tfprovider

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// describeVariable returns the sentence about the environment variable of an attribute.
func describeVariable(name string) string {
	return "Defaults to the environment variable `" + name + "`."
}

// isUnknown reports whether the provider block has values that Terraform knows only after another apply. If so, it lets
// Terraform defer all resources of the provider, or adds an error.
func (m *providerModel) isUnknown(req provider.ConfigureRequest, resp *provider.ConfigureResponse) bool {
	var names []string

	for _, attribute := range []struct {
		name  string
		value attr.Value
	}{
		{"url", m.URL}, {"username", m.Username}, {"password", m.Password}, {"tls_insecure", m.TLSInsecure},
		{"tls_system", m.TLSSystem}, {"tls_ca_bundle", m.TLSCABundle}, {"tls_ca_files", m.TLSCAFiles},
		{"tls_ca_dirs", m.TLSCADirs}, {"extra_headers", m.ExtraHeaders}, {"filter", m.Filter}, {"mock", m.Mock},
	} {
		if hasUnknown(attribute.value) {
			names = append(names, attribute.name)
		}
	}

	switch {
	case len(names) == 0:
		return false
	case req.ClientCapabilities.DeferralAllowed:
		resp.Deferred = &provider.Deferred{Reason: provider.DeferredReasonProviderConfigUnknown}
		return true
	}

	for _, name := range names {
		resp.Diagnostics.AddAttributeError(path.Root(name), name+" is not known yet",
			"It comes from something that is not applied yet. Apply that first, for example with -target, or write a "+
				"value that is known.")
	}

	return true
}

// hasUnknown reports whether a value or one of its elements is unknown.
func hasUnknown(value attr.Value) bool {
	if value.IsUnknown() {
		return true
	}

	switch collection := value.(type) {
	case types.List:
		for _, element := range collection.Elements() {
			if element.IsUnknown() {
				return true
			}
		}
	case types.Map:
		for _, element := range collection.Elements() {
			if element.IsUnknown() {
				return true
			}
		}
	}

	return false
}

// fillFromEnvironment fills in values missing from the block from environment variables. It ignores the environment's
// TLS settings if the block has its own.
func (m *providerModel) fillFromEnvironment(lookup func(string) string, diags *diag.Diagnostics) {
	text := func(value *types.String, name string) {
		if found := lookup(name); value.IsNull() && found != "" {
			*value = types.StringValue(found)
		}
	}
	flag := func(value *types.Bool, name string) {
		found := lookup(name)
		if !value.IsNull() || found == "" {
			return
		}

		parsed, err := strconv.ParseBool(found)
		if err != nil {
			diags.AddError(name+" is neither true nor false", fmt.Sprintf("It is %q: set it to true or false.", found))
			return
		}

		*value = types.BoolValue(parsed)
	}
	list := func(value *types.List, name string) {
		if found := lookup(name); value.IsNull() && found != "" {
			*value = toTextList(filepath.SplitList(found))
		}
	}

	text(&m.URL, "OVIRT_URL")
	text(&m.Username, "OVIRT_USERNAME")
	text(&m.Password, "OVIRT_PASSWORD")
	flag(&m.Filter, "OVIRT_FILTER")

	if m.TLSInsecure.IsNull() && m.TLSSystem.IsNull() && m.TLSCABundle.IsNull() && m.TLSCAFiles.IsNull() &&
		m.TLSCADirs.IsNull() {
		flag(&m.TLSInsecure, "OVIRT_TLS_INSECURE")
		flag(&m.TLSSystem, "OVIRT_TLS_SYSTEM")
		text(&m.TLSCABundle, "OVIRT_TLS_CA_BUNDLE")
		list(&m.TLSCAFiles, "OVIRT_TLS_CA_FILES")
		list(&m.TLSCADirs, "OVIRT_TLS_CA_DIRS")
	}
}

// toTextList returns a list of texts.
func toTextList(elements []string) types.List {
	values := []attr.Value{}
	for _, element := range elements {
		values = append(values, types.StringValue(element))
	}

	return types.ListValueMust(types.StringType, values)
}

// parseHeaders returns the headers of extra_headers. It rejects a header that has an attribute of its own.
func (m *providerModel) parseHeaders(diags *diag.Diagnostics) map[string]string {
	out := map[string]string{}

	for name, element := range m.ExtraHeaders.Elements() {
		text, ok := element.(types.String)
		if !ok || text.IsNull() {
			continue
		}

		if strings.EqualFold(name, "filter") {
			if filter, err := strconv.ParseBool(text.ValueString()); err == nil && m.Filter.IsNull() {
				m.Filter = types.BoolValue(filter)
				continue
			}
		}

		if err := engine.CheckHeader(name, text.ValueString()); err != nil {
			diags.AddAttributeError(path.Root("extra_headers").AtMapKey(name), "A header cannot be sent", err.Error())
			continue
		}

		out[name] = text.ValueString()
	}

	return out
}
