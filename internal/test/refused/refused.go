// Package refused lists values whose mistake is visible in a single object. API servers and olvmctl refuse them by the
// rules of the CRDs.
package refused

import (
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Value is a value that is refused, or a similar value that is accepted.
type Value struct {
	// Kind is the kind of an object in Objects. Path is the path of a field in this object. Value is the field's value
	// as JSON or YAML.
	Kind, Path, Value string
	// Field is the field that the error names. A dot or a bracket at its beginning means a field below Path; empty
	// means Path.
	Field string
	// Message is a part of the error; empty means that the value is accepted.
	Message string
}

// Name returns the name of the test case for the value.
func (v Value) Name() string { return v.Kind + " " + v.Path + ": " + v.Value }

// ErrorField returns the field that the error names.
func (v Value) ErrorField() string {
	switch {
	case v.Field == "":
		return v.Path
	case strings.ContainsAny(v.Field[:1], ".["):
		return v.Path + v.Field
	default:
		return v.Field
	}
}

// NewObject returns a valid object of a kind.
func NewObject(kind string) (*unstructured.Unstructured, error) {
	base, err := yaml.YAMLToJSON([]byte(objects[kind]))
	if err != nil {
		return nil, err
	}

	out := &unstructured.Unstructured{}

	return out, out.UnmarshalJSON(base)
}

// BuildObject returns the object with the value, in a namespace. An empty namespace means none.
func (v Value) BuildObject(namespace string) (*unstructured.Unstructured, error) {
	out, err := NewObject(v.Kind)
	if err != nil {
		return nil, err
	}

	out.SetNamespace(namespace)

	text, err := yaml.YAMLToJSON([]byte(v.Value))
	if err != nil {
		return nil, err
	}

	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}

	out.Object = setAt(out.Object, strings.FieldsFunc(v.Path, func(r rune) bool {
		return strings.ContainsRune(".[]", r)
	}), value).(map[string]any)

	content, err := out.MarshalJSON() // numbers are then in the form in which an API server reads them
	if err != nil {
		return nil, err
	}

	return out, out.UnmarshalJSON(content)
}

// setAt puts a value at a path, and creates missing parts on the way. Numbers in the path are indexes of lists.
func setAt(in any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}

	if at, err := strconv.Atoi(path[0]); err == nil {
		list, _ := in.([]any)
		for len(list) <= at {
			list = append(list, nil)
		}

		list[at] = setAt(list[at], path[1:], value)

		return list
	}

	fields, _ := in.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}

	fields[path[0]] = setAt(fields[path[0]], path[1:], value)

	return fields
}

// These constants are the kinds of valid objects.
const (
	machine   = "OLVMMachine"
	template  = "OLVMMachineTemplate"
	cluster   = "OLVMCluster"
	inventory = "OLVMInventory"
	identity  = "OLVMClusterIdentity"
	services  = "OLVMSupportServices"

	inventoryVM = "OLVMInventoryVM"
)

const machineSpec = `olvmOvirtClusterName: Default
vmTemplateName: ol9
olvmNetwork: {networkName: lab, vnicProfileName: lab}
virtualMachine:
  memory: 8GB
  network:
    ipv4: {subnet: 10.20.30.0/24, ipAddresses: [10.20.30.10-10.20.30.20]}
`

const (
	v1       = "apiVersion: infrastructure.cluster.x-k8s.io/v1\n"
	v1alpha1 = "apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\n"
)

// objects are valid objects by kind.
var objects = map[string]string{
	machine: v1 + "kind: OLVMMachine\nmetadata: {name: refused}\nspec:\n" + indentText(machineSpec, "  "),
	template: v1 + "kind: OLVMMachineTemplate\nmetadata: {name: refused}\nspec:\n  template:\n    spec:\n" +
		indentText(machineSpec, "      "),
	cluster: v1 + `kind: OLVMCluster
metadata: {name: refused}
spec:
  olvmDatacenterName: Default
  controlPlaneEndpoint: {host: 10.20.30.160, port: 6443}
  olvmOvirtAPIServer:
    serverURL: https://engine.example.com/ovirt-engine
    credentialsSecret: {name: engine}
`,
	inventory: v1alpha1 + `kind: OLVMInventory
metadata: {name: refused}
spec:
  olvmDatacenterName: Default
  olvmOvirtAPIServer:
    serverURL: https://engine.example.com/ovirt-engine
    credentialsSecret: {name: engine}
  virtualMachines: {tag: pool}
  provision: [{name: a, machineTemplateName: a, count: 1}]
`,
	services: v1alpha1 + `kind: OLVMSupportServices
metadata: {name: refused}
spec:
  clusterName: refused
  loadBalancers: [{name: a, role: ControlPlane, machineTemplateName: a}]
`,
	inventoryVM: v1alpha1 + `kind: OLVMInventoryVM
metadata: {name: refused}
spec: {inventoryName: refused, vmID: 123e4567-e89b-12d3-a456-426614174000}
`,
	identity: v1alpha1 + `kind: OLVMClusterIdentity
metadata: {name: refused}
spec:
  credentialsSecret: {namespace: default, name: engine}
  allowedServerURLs: ["https://engine.example.com/ovirt-engine"]
`,
}

func indentText(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}
