package api_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// passedThrough maps variables of the ClusterClass to the fields they fill, by kind and path. A variable of machines
// has some fields of its own, assembled by the templates of the class.
var passedThrough = map[string][2]string{
	"engine":                      {"OLVMCluster", "olvmOvirtAPIServer"},
	"dataCenter":                  {"OLVMCluster", "olvmDatacenterName"},
	"failureDomains":              {"OLVMCluster", "failureDomains"},
	"controlPlaneServices":        {"OLVMCluster", "controlPlaneServices"},
	"userData":                    {"OLVMCluster", "userData"},
	"affinityGroups":              {"OLVMCluster", "affinityGroups"},
	"ipProfiles":                  {"OLVMCluster", "ipProfiles"},
	"standby":                     {"OLVMCluster", "standby"},
	"ovirtCluster":                {"OLVMMachine", "olvmOvirtClusterName"},
	"vmTemplate":                  {"OLVMMachine", "vmTemplateName"},
	"network":                     {"OLVMMachine", "olvmNetwork"},
	"subnet.cidr":                 {"OLVMMachine", "virtualMachine.network.ipv4.subnet"},
	"subnet.gateway":              {"OLVMMachine", "virtualMachine.network.gateway"},
	"subnet.dnsServers":           {"OLVMMachine", "virtualMachine.network.dnsServers"},
	"subnet.interface":            {"OLVMMachine", "virtualMachine.network.interface"},
	"MACHINES.fromInventory":      {"OLVMMachine", "fromInventory"},
	"MACHINES.virtualMachine":     {"OLVMMachine", "virtualMachine"},
	"MACHINES.topology":           {"OLVMMachine", "virtualMachine.cpu.topology"},
	"MACHINES.ipAddresses":        {"OLVMMachine", "virtualMachine.network.ipv4.ipAddresses"},
	"MACHINES.rootDisk":           {"OLVMMachine", "virtualMachine.rootDisk"},
	"MACHINES.dataDisks":          {"OLVMMachine", "virtualMachine.dataDisks"},
	"MACHINES.placement":          {"OLVMMachine", "virtualMachine.placement"},
	"MACHINES.network":            {"OLVMMachine", "virtualMachine.network"},
	"MACHINES.additionalNetworks": {"OLVMMachine", "additionalNetworks"},
}

// TestVariablesOfTheClusterClassAskForWhatTheirFieldsDo compares the schemas: the API server accepts every value of a
// variable, and a variable can express every value of its field.
func TestVariablesOfTheClusterClassAskForWhatTheirFieldsDo(t *testing.T) {
	crds, variables := specs(t), classVariables(t)

	for name, target := range passedThrough {
		for _, machines := range []string{"controlPlaneMachines", "workerMachines"} {
			path := strings.ReplaceAll(name, "MACHINES", machines)
			schema, ok := descend(variables, path)
			field, known := descend(crds[target[0]], target[1])

			if !ok || !known {
				t.Errorf("variable %s: in the class %t, its field %s in the CRD %t", path, ok, target[1], known)
				continue
			}

			compareSchemas(t, path, schema, field)
		}
	}

	// These become several fields, or fields of Cluster API's kinds.
	others := []string{"subnet", "controlPlaneMachines", "workerMachines", "bootstrapFormat", "ock"}

	for name := range variables.Properties {
		if _, ok := passedThrough[name]; !ok && !slices.Contains(others, name) {
			t.Errorf("variable %s: this test does not know what field it becomes", name)
		}
	}
}

// compareSchemas compares a variable with its field. A variable accepting unknown fields leaves them to the API server.
func compareSchemas(t *testing.T, path string, variable, field apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	check.Equal(t, path+": type", variable.Type, field.Type)

	open := variable.XPreserveUnknownFields != nil && *variable.XPreserveUnknownFields
	if !open {
		check.Equal(t, path+": limits", limits(variable), limits(field))
		check.Equal(t, path+": rules", rules(variable), rules(field))
	}

	for name, inner := range field.Properties {
		said, ok := variable.Properties[name]

		switch {
		case ok:
			compareSchemas(t, path+"."+name, said, inner)
		case !open:
			t.Errorf("%s: the variable has no %s, which the field has", path, name)
		}
	}

	for name := range variable.Properties {
		if _, ok := field.Properties[name]; !ok {
			t.Errorf("%s: the field has no %s, which the variable has", path, name)
		}
	}

	if variable.Items != nil {
		compareSchemas(t, path+"[]", *variable.Items.Schema, *field.Items.Schema)
	}
}

// limits returns the restrictions of a schema, except for peculiarities of variables. Those are a default, and the
// absence of values meaning "use the default", because the variable is omitted instead.
func limits(schema apiextensionsv1.JSONSchemaProps) string {
	schema.Description, schema.Default, schema.Example = "", nil, nil
	schema.Properties, schema.Items, schema.XValidations = nil, nil, nil
	schema.XListType, schema.XListMapKeys, schema.XPreserveUnknownFields = nil, nil, nil
	slices.Sort(schema.Required)
	if schema.Type == "string" && schema.MinLength != nil && *schema.MinLength <= 1 {
		schema.MinLength = nil
	}

	if schema.Type == "integer" {
		schema.Minimum, schema.Format = nil, ""
	}

	text, _ := json.Marshal(schema)

	return string(text)
}

// rules returns the CEL rules, one per line.
func rules(schema apiextensionsv1.JSONSchemaProps) string {
	var out []string
	for _, rule := range schema.XValidations {
		out = append(out, strings.Join(strings.Fields(rule.Rule+": "+rule.Message), " "))
	}

	return strings.Join(out, "\n")
}

// specs returns the schemas of the specs of our kinds.
func specs(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	out := map[string]apiextensionsv1.JSONSchemaProps{}

	for _, crd := range readCRDs(t) {
		out[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	}

	return out
}

// classVariables returns the variables of the ClusterClass as the properties of one object.
func classVariables(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	content, err := os.ReadFile("../config/templates/clusterclass-olvm.yaml")
	check.Error(t, err, "")
	first, _, _ := strings.Cut(string(content), "\n---\n")
	var class clusterv1.ClusterClass
	check.Error(t, yaml.UnmarshalStrict([]byte(first), &class), "")

	out := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{}}

	for _, variable := range class.Spec.Variables {
		text, err := json.Marshal(variable.Schema.OpenAPIV3Schema)
		check.Error(t, err, "")
		var schema apiextensionsv1.JSONSchemaProps
		check.Error(t, json.Unmarshal(text, &schema), "")
		out.Properties[variable.Name] = schema
	}

	return out
}

// descend follows a path of properties.
func descend(schema apiextensionsv1.JSONSchemaProps, path string) (apiextensionsv1.JSONSchemaProps, bool) {
	for name := range strings.SplitSeq(path, ".") {
		inner, ok := schema.Properties[name]
		if !ok {
			return inner, false
		}

		schema = inner
	}

	return schema, true
}
