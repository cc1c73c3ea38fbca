package tfprovider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEachResourceHasAnExampleAndAnImportSection reads what the pages of the registry are made of.
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
		}
	}

	for _, make := range provider.DataSources(t.Context()) {
		var name datasource.MetadataResponse
		make().Metadata(t.Context(), datasource.MetadataRequest{}, &name)
		has(filepath.Join(examples, "data-sources", name.TypeName, "data-source.tf"), "data", name.TypeName)
		page("data-sources", name.TypeName, "## Example Usage")
	}
}
