package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ClusterClass patches address list entries, and server-side apply merges lists, according to the schema. A default
// filled in by the API server would look like a difference between a template and an object created from it.
func TestEveryListOfTheCRDsSaysHowItMergesAndNothingIsDefaulted(t *testing.T) {
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil || len(files) != 10 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(content, &crd); err != nil || len(crd.Spec.Versions) == 0 {
			t.Fatalf("%s: %d versions, %v", file, len(crd.Spec.Versions), err)
		}

		for _, version := range crd.Spec.Versions {
			checkSchema(t, filepath.Base(file), version.Schema.OpenAPIV3Schema)
		}
	}
}

func checkSchema(t *testing.T, path string, schema map[string]any) {
	if schema["type"] == "array" && schema["x-kubernetes-list-type"] == nil {
		t.Errorf("%s: a list without a listType marker", path)
	}

	// The first VM of a service is in the first domain: a set, which server-side apply may reorder, loses this.
	if strings.HasSuffix(path, ".failureDomains") && schema["x-kubernetes-list-type"] == "set" {
		t.Errorf("%s: a list whose order counts is a set", path)
	}

	if value, ok := schema["default"]; ok {
		t.Errorf("%s: the API server would fill in %v", path, value)
	}

	for _, inner := range []string{"items", "additionalProperties"} {
		if s, ok := schema[inner].(map[string]any); ok {
			checkSchema(t, path+"."+inner, s)
		}
	}

	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if s, ok := property.(map[string]any); ok {
			checkSchema(t, path+"."+name, s)
		}
	}
}
