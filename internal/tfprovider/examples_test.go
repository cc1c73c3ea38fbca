package tfprovider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEachResourceHasAnExampleAndAnImportSection reads the sources of the registry's pages.
func TestEachResourceHasAnExampleAndAnImportSection(t *testing.T) {
	t.Parallel()
	const examples, pages = "../../cmd/terraform-provider-ovirt/examples", "../../docs/terraform-provider"

	has := func(file, kind, typeName string) {
		t.Helper()
		content, err := os.ReadFile(file)
		check.Error(t, err, "")
		_, problems := hclparse.NewParser().ParseHCL(content, file)
		check.Equal(t, file+" is HCL", problems.HasErrors(), false)
		check.Contains(t, file, string(content), kind+` "`+typeName+`"`)
	}
	page := func(kind, typeName, section string) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(pages, kind, typeName[len("ovirt_"):]+".md"))
		check.Error(t, err, "")
		check.Contains(t, typeName, string(content), section)
	}

	provider := &ovirtProvider{}
	for _, make := range provider.Resources(t.Context()) {
		var name resource.MetadataResponse
		made := make()
		made.Metadata(t.Context(), resource.MetadataRequest{}, &name)
		folder := filepath.Join(examples, "resources", name.TypeName)
		has(filepath.Join(folder, "resource.tf"), "resource", name.TypeName)
		page("resources", name.TypeName, "## Example Usage")

		if _, importable := made.(resource.ResourceWithImportState); importable {
			content, err := os.ReadFile(filepath.Join(folder, "import.sh"))
			check.Error(t, err, "")
			check.Contains(t, folder, string(content), "terraform import "+name.TypeName+".")
			page("resources", name.TypeName, "## Import")
			page("resources", name.TypeName, "### Identity Schema")
		}
	}

	for _, make := range provider.DataSources(t.Context()) {
		var name datasource.MetadataResponse
		make().Metadata(t.Context(), datasource.MetadataRequest{}, &name)
		has(filepath.Join(examples, "data-sources", name.TypeName, "data-source.tf"), "data", name.TypeName)
		page("data-sources", name.TypeName, "## Example Usage")
	}
}

// TestEachActionListFunctionAndEphemeralResourceHasAnExample reads the sources of the registry's pages.
func TestEachActionListFunctionAndEphemeralResourceHasAnExample(t *testing.T) {
	t.Parallel()
	const examples, pages = "../../cmd/terraform-provider-ovirt/examples", "../../docs/terraform-provider"
	schemas, err := providerserver.NewProtocol5(New(Options{}))().
		GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")

	has := func(folder, file, name, text string) {
		t.Helper()
		path := filepath.Join(examples, folder, name, file)
		content, err := os.ReadFile(path)
		check.Error(t, err, "")
		_, problems := hclparse.NewParser().ParseHCL(content, path)
		check.Equal(t, path+" is HCL", problems.HasErrors(), false)
		check.Contains(t, path, string(content), text)

		content, err = os.ReadFile(filepath.Join(pages, folder, strings.TrimPrefix(name, "ovirt_")+".md"))
		check.Error(t, err, "")
		check.Contains(t, name, string(content), "## Example Usage")
	}

	for name := range schemas.ActionSchemas {
		has("actions", "action.tf", name, `action "`+name+`"`)
	}

	for name := range schemas.ListResourceSchemas {
		has("list-resources", "list-resource.tfquery.hcl", name, `list "`+name+`"`)
	}

	for name := range schemas.EphemeralResourceSchemas {
		has("ephemeral-resources", "ephemeral-resource.tf", name, `ephemeral "`+name+`"`)
	}

	for name := range schemas.Functions {
		has("functions", "function.tf", name, "provider::ovirt::"+name+"(")
	}
}
