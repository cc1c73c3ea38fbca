package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"

	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// object is a JSON object.
type object map[string]any

// addNewer adds identities, actions and lists to a schema that Terraform printed. Terraform 1.12 and later print them,
// but the pages must not depend on the installed version.
func addNewer(ctx context.Context, printed []byte) ([]byte, error) {
	var all struct {
		FormatVersion string            `json:"format_version"`
		Schemas       map[string]object `json:"provider_schemas"`
	}
	if err := json.Unmarshal(printed, &all); err != nil {
		return nil, fmt.Errorf("failed to read the schema: %w", err)
	}

	server := providerserver.NewProtocol5(tfprovider.New(tfprovider.Options{}))()
	schemas, err := server.GetProviderSchema(ctx, &tfprotov5.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}

	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov5.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, err
	}

	actions, lists, ids := object{}, object{}, object{}
	for name, action := range schemas.ActionSchemas {
		actions[name] = schemaJSON(action.Schema)
	}

	for name, list := range schemas.ListResourceSchemas {
		lists[name] = schemaJSON(list)
	}

	for name, identity := range identities.IdentitySchemas {
		ids[name] = identityJSON(identity)
	}

	for _, provider := range all.Schemas {
		provider["action_schemas"] = actions
		provider["list_resource_schemas"] = lists
		provider["resource_identity_schemas"] = ids
	}

	return json.Marshal(all)
}

// schemaJSON converts a schema that has only attributes, such as the schemas of actions and lists.
func schemaJSON(schema *tfprotov5.Schema) object {
	attributes := object{}
	for _, a := range schema.Block.Attributes {
		attributes[a.Name] = object{
			"type": a.Type, "description": a.Description, "description_kind": "markdown",
			"required": a.Required, "optional": a.Optional,
		}
	}

	return object{"version": schema.Version, "block": object{
		"attributes": attributes, "description": schema.Block.Description, "description_kind": "markdown",
	}}
}

func identityJSON(identity *tfprotov5.ResourceIdentitySchema) object {
	attributes := object{}
	for _, a := range identity.IdentityAttributes {
		attributes[a.Name] = object{
			"type": a.Type, "description": a.Description, "required_for_import": a.RequiredForImport,
		}
	}

	return object{"version": identity.Version, "attributes": attributes}
}
