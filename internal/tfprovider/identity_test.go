package tfprovider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	someID  = "00000000-0000-4000-8000-000000000001"
	otherID = "00000000-0000-4000-8000-000000000002"
)

// identitySchemas returns the schemas for Terraform 1.12 and later.
func identitySchemas(t *testing.T, server tfprotov5.ProviderServer) map[string]*tfprotov5.ResourceIdentitySchema {
	t.Helper()
	got, err := server.GetResourceIdentitySchemas(t.Context(), &tfprotov5.GetResourceIdentitySchemasRequest{})
	check.Error(t, err, "")
	check.Length(t, "the problems", got.Diagnostics, 0)

	return got.IdentitySchemas
}

func TestEachResourceHasAnIdentityOfItsAttributes(t *testing.T) {
	t.Parallel()
	seen := identitySchemas(t, providerserver.NewProtocol5(New(Options{}))())

	for typeName, schema := range schemasByType(t) {
		var names []string
		for _, attribute := range seen[typeName].IdentityAttributes {
			names = append(names, attribute.Name)
			check.Equal(t, typeName+"."+attribute.Name+" is an attribute", schema.Attributes[attribute.Name] != nil,
				true)
		}

		check.Equal(t, typeName+" has an identity", len(names) > 0, true)
	}

	check.Equal(t, "the resources that have identities", len(seen), len(identities))
}

var assigned = regexp.MustCompile(`(?m)^    (\w+) += "([^"]+)"$`)

// TestTheExamplesImportByTheIdentity compares both examples of each import.
func TestTheExamplesImportByTheIdentity(t *testing.T) {
	t.Parallel()

	for _, make := range (&ovirtProvider{}).Resources(t.Context()) {
		var name resource.MetadataResponse
		made := make()
		made.Metadata(t.Context(), resource.MetadataRequest{}, &name)
		if _, importable := made.(resource.ResourceWithImportState); !importable {
			continue
		}

		folder := filepath.Join("../../cmd/terraform-provider-ovirt/examples/resources", name.TypeName)
		content, err := os.ReadFile(filepath.Join(folder, "import-by-identity.tf"))
		check.Error(t, err, "")
		byID, err := os.ReadFile(filepath.Join(folder, "import.sh"))
		check.Error(t, err, "")

		var names, values []string
		for _, found := range assigned.FindAllStringSubmatch(string(content), -1) {
			names, values = append(names, found[1]), append(values, found[2])
		}

		check.Equal(t, name.TypeName+": the attributes", fmt.Sprint(names), fmt.Sprint(identities[name.TypeName]))
		check.Contains(t, name.TypeName+": the ID", string(byID), " "+strings.Join(values, "/")+"\n")
	}
}

// importBy imports an object by its identity, and returns the state as attributes.
func importBy(
	t *testing.T, server tfprotov5.ProviderServer, typeName string, identity map[string]string,
) (map[string]tftypes.Value, []*tfprotov5.Diagnostic) {
	t.Helper()
	kinds, values := map[string]tftypes.Type{}, map[string]tftypes.Value{}

	for name, value := range identity {
		kinds[name], values[name] = tftypes.String, tftypes.NewValue(tftypes.String, value)
	}

	object := tftypes.Object{AttributeTypes: kinds}
	data, err := tfprotov5.NewDynamicValue(object, tftypes.NewValue(object, values))
	check.Error(t, err, "")
	got, err := server.ImportResourceState(t.Context(), &tfprotov5.ImportResourceStateRequest{
		TypeName: typeName, Identity: &tfprotov5.ResourceIdentityData{IdentityData: &data},
	})
	check.Error(t, err, "")
	if len(got.ImportedResources) == 0 {
		return nil, got.Diagnostics
	}

	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")
	state, err := decodeState(schemas.ResourceSchemas[typeName], got.ImportedResources[0].State)
	check.Error(t, err, "")

	return state, got.Diagnostics
}

func TestEveryResourceIsImportedByItsIdentity(t *testing.T) {
	t.Parallel()
	server := providerserver.NewProtocol5(New(Options{}))()

	for typeName, attributes := range identities {
		if typeName == "ovirt_disk_from_image" { // it cannot be imported
			continue
		}

		identity := map[string]string{}
		for i, name := range attributes {
			identity[name] = strings.ToUpper([]string{someID, otherID, someID}[i])
		}

		switch typeName {
		case "ovirt_vm_host_device":
			identity["name"] = "pci_0000_3b_00_0"
		case "ovirt_permission":
			identity["object_type"] = "vm"
		}

		state, problems := importBy(t, server, typeName, identity)
		check.Length(t, typeName+": the problems", problems, 0)

		for name, value := range identity {
			var seen string
			check.Error(t, state[name].As(&seen), "")
			check.Equal(t, typeName+"."+name, seen, strings.ToLower(value))
		}
	}
}

func TestAnIdentityThatIsNoneIsRefusedWithItsAttribute(t *testing.T) {
	t.Parallel()
	server := providerserver.NewProtocol5(New(Options{}))()

	for _, wrong := range []string{"", "nic1", "../vms", someID + "/" + otherID} {
		_, problems := importBy(t, server, "ovirt_nic", map[string]string{"vm_id": someID, "id": wrong})
		check.Length(t, "the problems with "+wrong, problems, 1)
		check.Equal(t, "the path", problems[0].Attribute.String(), `AttributeName("id")`)
	}
}

func TestAnIdentityWithoutANameIsToldAsMissing(t *testing.T) {
	t.Parallel()
	server := providerserver.NewProtocol5(New(Options{}))()

	_, problems := importBy(t, server, "ovirt_vm_host_device", map[string]string{"vm_id": someID, "name": ""})
	check.Length(t, "the problems", problems, 1)
	check.Equal(t, "the problem", problems[0].Detail, "name is missing.")
}

// TestARunOfTheManagerHasNothingThatItDoesNotNeed makes calls that a restricted run must not make.
func TestARunOfTheManagerHasNothingThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	provider := New(Options{Types: []string{"ovirt_tag"}})
	run := newRestricted(providerserver.NewProtocol5(provider)(), provider, Options{Types: []string{"ovirt_tag"}})
	schemas, err := run.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")
	check.Equal(t, "what it is shown", len(schemas.Functions)+len(schemas.EphemeralResourceSchemas)+
		len(schemas.ListResourceSchemas)+len(schemas.ActionSchemas)+len(identitySchemas(t, run)), 0)
	check.Equal(t, "the resources", len(schemas.ResourceSchemas), 1)

	for name, call := range map[string]func(context.Context) error{
		"a function": func(ctx context.Context) error {
			_, err := run.CallFunction(ctx, &tfprotov5.CallFunctionRequest{Name: "bytes"})
			return err
		},
		"a token": func(ctx context.Context) error {
			_, err := run.OpenEphemeralResource(ctx, &tfprotov5.OpenEphemeralResourceRequest{TypeName: "ovirt_token"})
			return err
		},
		"a list": func(ctx context.Context) error {
			_, err := run.ListResource(ctx, &tfprotov5.ListResourceRequest{TypeName: "ovirt_tag"})
			return err
		},
		"an action": func(ctx context.Context) error {
			_, err := run.InvokeAction(ctx, &tfprotov5.InvokeActionRequest{ActionType: "ovirt_vm_stop"})
			return err
		},
		"an identity": func(ctx context.Context) error {
			_, err := run.UpgradeResourceIdentity(ctx, &tfprotov5.UpgradeResourceIdentityRequest{TypeName: "ovirt_tag"})
			return err
		},
	} {
		err := call(t.Context())
		check.Equal(t, name+" is refused", err != nil && strings.Contains(err.Error(), "none of this run"), true)
	}

	// An unrestricted provider offers everything, even after a restricted one in the same process.
	free := New(Options{})
	all, err := newRestricted(providerserver.NewProtocol5(free)(), free, Options{}).
		GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")

	for what, count := range map[string]int{
		"functions": len(all.Functions), "ephemeral resources": len(all.EphemeralResourceSchemas),
		"lists": len(all.ListResourceSchemas), "actions": len(all.ActionSchemas),
	} {
		check.Equal(t, "there are "+what, count > 0, true)
	}
}

func TestSizesAndBytesAreReverses(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]int64{
		"0B": 0, "1B": 1, "1KiB": 1024, "1 MiB": 1 << 20, "40GiB": 40 << 30, "3 TiB": 3 << 40, "8191PiB": 8191 << 50,
	} {
		got, ok := parseSize(text)
		check.Equal(t, text+" is a size", ok, true)
		check.Equal(t, text, got, want)
		check.Equal(t, text+" again", formatSize(got), strings.ReplaceAll(text, " ", ""))
	}

	for _, text := range []string{
		"", "1", "GiB", "-1GiB", "1.5GiB", "1GB", "1gib", "1  GiB", " 1GiB", "1GiB\n", "8192PiB",
		"999999999999999999KiB",
	} {
		_, ok := parseSize(text)
		check.Equal(t, text+" is a size", ok, false)
	}

	check.Equal(t, "the units", slices.Contains(units, "EiB"), false)
}
