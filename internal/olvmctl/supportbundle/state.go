package supportbundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// shownAttributes are the attributes in a state that identify objects of the engine.
var shownAttributes = []string{
	"id", "name", "vm_id", "cluster_id", "template_id", "disk_id", "affinity_group_id", "status", "comment", "memory",
}

// summaryOf returns the serial number of a state, and its resources with their identifying attributes. The whole state
// would contain user data.
func summaryOf(state []byte) ([]byte, error) {
	var content struct {
		Version   int    `json:"version"`
		Serial    int64  `json:"serial"`
		Lineage   string `json:"lineage"`
		Terraform string `json:"terraform_version"`
		Resources []struct {
			Module    string `json:"module"`
			Mode      string `json:"mode"`
			Type      string `json:"type"`
			Name      string `json:"name"`
			Instances []struct {
				Index      any            `json:"index_key"`
				Status     string         `json:"status"`
				Attributes map[string]any `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(state, &content); err != nil {
		return nil, err
	}

	var out bytes.Buffer

	fmt.Fprintf(&out, "serial %d, lineage %s, Terraform %s\n", content.Serial, content.Lineage, content.Terraform)

	for _, r := range content.Resources {
		for _, instance := range r.Instances {
			fmt.Fprintf(&out, "\n%s %s.%s", r.Module, r.Type, r.Name)

			if instance.Index != nil {
				fmt.Fprintf(&out, "[%v]", instance.Index)
			}

			if instance.Status != "" {
				fmt.Fprintf(&out, " (%s)", instance.Status)
			}

			out.WriteString("\n")

			for _, name := range slices.Sorted(maps.Keys(instance.Attributes)) {
				if value := instance.Attributes[name]; value != nil && slices.Contains(shownAttributes, name) {
					fmt.Fprintf(&out, "  %s = %v\n", name, value)
				}
			}
		}
	}

	return out.Bytes(), nil
}

// convertObject converts an object to a Go type.
func convertObject(object *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}
