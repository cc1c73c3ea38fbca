package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// stateMetric is a metric of kube-state-metrics: each of its types has a separate mapping.
type stateMetric struct {
	Name, Help string
	Each       struct {
		Type                  string
		Gauge, Info, StateSet *struct {
			Path           []string
			ValueFrom      []string
			LabelsFromPath map[string][]string
			LabelName      string
			List           []string
		}
	}
}

// TestKubeStateMetricsIsAskedForFieldsThatExist follows each path of its configuration through the CRDs.
// kube-state-metrics itself has not read it.
func TestKubeStateMetricsIsAskedForFieldsThatExist(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("monitoring/kube-state-metrics.yaml")
	check.Error(t, err, "")

	var file struct {
		Kind string
		Spec struct {
			Resources []struct {
				GroupVersionKind struct{ Group, Version, Kind string }
				MetricNamePrefix string
				LabelsFromPath   map[string][]string
				Metrics          []stateMetric
			}
		}
	}

	check.Error(t, yaml.UnmarshalStrict(content, &file), "")
	check.Equal(t, "kind", file.Kind, "CustomResourceStateMetrics")

	crds := shippedCRDs(t)
	names := map[string]bool{}

	for _, resource := range file.Spec.Resources {
		kind := resource.GroupVersionKind
		schema := crds[kind.Group+"/"+kind.Version+" "+kind.Kind]
		if schema == nil {
			t.Fatalf("there is no CRD of %v", kind)
		}

		for label, path := range resource.LabelsFromPath {
			expectField(t, kind.Kind+" label "+label, *schema, path)
		}

		for _, metric := range resource.Metrics {
			name := resource.MetricNamePrefix + "_" + metric.Name
			check.Equal(t, name+" is there already", names[name], false)
			names[name] = true
			expectPaths(t, name, *schema, metric)
		}
	}

	check.Equal(t, "metrics of conditions", names["capolvm_olvmmachine_status_condition"], true)
}

// expectPaths follows the paths of a metric: labels and value are below its path, in the items of a list.
func expectPaths(t *testing.T, name string, schema apiextensionsv1.JSONSchemaProps, metric stateMetric) {
	t.Helper()
	each := metric.Each
	of := map[string]any{"Gauge": each.Gauge, "Info": each.Info, "StateSet": each.StateSet}
	fields := each.Gauge

	switch each.Type {
	case "Info":
		fields = each.Info
	case "StateSet":
		fields = each.StateSet
	}

	if fields == nil {
		t.Errorf("%s: no mapping for its type %s: %v", name, each.Type, of)
		return
	}

	below := expectField(t, name, schema, fields.Path)
	if below.Items != nil && below.Items.Schema != nil {
		below = *below.Items.Schema
	}

	if len(fields.ValueFrom) > 0 {
		expectField(t, name+" value", below, fields.ValueFrom)
	}

	for label, path := range fields.LabelsFromPath {
		expectField(t, name+" label "+label, below, path)
	}

	if each.Type == "StateSet" {
		for _, status := range below.Properties[fields.ValueFrom[0]].Enum {
			value := strings.Trim(string(status.Raw), `"`)
			check.Equal(t, name+" knows "+value, slices.Contains(fields.List, value), true)
		}
	}
}

// expectField follows a path through a schema. Metadata has no schema in a CRD.
func expectField(
	t *testing.T, what string, schema apiextensionsv1.JSONSchemaProps, path []string,
) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	if len(path) > 1 && path[0] == "metadata" {
		known := []string{"name", "namespace", "uid", "creationTimestamp", "labels"}
		check.Equal(t, what+": metadata."+path[1]+" exists", slices.Contains(known, path[1]), true)

		return apiextensionsv1.JSONSchemaProps{}
	}

	for _, field := range path {
		inner, exists := schema.Properties[field]
		check.Equal(t, what+": "+strings.Join(path, ".")+" exists", exists, true)
		schema = inner
	}

	return schema
}

// shippedCRDs returns the schemas of the kinds.
func shippedCRDs(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	files, err := filepath.Glob("crd/bases/*.yaml")
	check.Error(t, err, "")

	out := map[string]*apiextensionsv1.JSONSchemaProps{}

	for _, path := range files {
		content, err := os.ReadFile(path)
		check.Error(t, err, "")

		var crd apiextensionsv1.CustomResourceDefinition
		check.Error(t, yaml.Unmarshal(content, &crd), "")

		for _, version := range crd.Spec.Versions {
			out[crd.Spec.Group+"/"+version.Name+" "+crd.Spec.Names.Kind] = version.Schema.OpenAPIV3Schema
		}
	}

	return out
}
