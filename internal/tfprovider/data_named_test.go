package tfprovider

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestTheNewestTemplateIsTheNewestThatIsReady(t *testing.T) {
	t.Parallel()
	found := func() []candidate {
		return []candidate{
			{id: "a", version: 2, isReady: true}, {id: "b", version: 10, isReady: true}, {id: "c", version: 11},
			{id: "d", version: 1, isReady: true},
		}
	}

	for version, want := range map[int]string{0: "b", 1: "d", 2: "a", 11: "c"} {
		got := filterByVersion(found(), version)
		check.Equal(t, "templates", len(got), 1)
		check.Equal(t, "the template", got[0].id.String(), want)
	}

	check.Equal(t, "templates of a version that is not there", len(filterByVersion(found(), 3)), 0)
	check.Equal(t, "templates of which none is ready", len(filterByVersion([]candidate{{id: "a", version: 1}}, 0)), 0)
}

// TestARestrictedRunHasNoLookupByName uses types with both a resource and a data source.
func TestARestrictedRunHasNoLookupByName(t *testing.T) {
	t.Parallel()
	provider := New(Options{})
	server := newRestricted(providerserver.NewProtocol5(provider)(), provider,
		Options{Types: append([]string{"ovirt_wait_for_ip"}, lookups...)})
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")
	check.Equal(t, "data sources", len(schemas.DataSourceSchemas), 1)
	check.Equal(t, "the resource ovirt_vm is served", schemas.ResourceSchemas["ovirt_vm"] != nil, true)

	for _, name := range lookups {
		_, err := server.ReadDataSource(t.Context(), &tfprotov5.ReadDataSourceRequest{TypeName: name})
		check.Error(t, err, name+" is none of this run")
		_, err = server.ValidateDataSourceConfig(t.Context(), &tfprotov5.ValidateDataSourceConfigRequest{TypeName: name})
		check.Error(t, err, name+" is none of this run")
	}

	for _, make := range (&ovirtProvider{}).DataSources(t.Context()) {
		var name datasource.MetadataResponse
		made := make()
		made.Metadata(t.Context(), datasource.MetadataRequest{}, &name)
		_, isLookup := made.(*namedData)
		check.Equal(t, name.TypeName+" is listed", slices.Contains(lookups, name.TypeName), isLookup)
	}
}
