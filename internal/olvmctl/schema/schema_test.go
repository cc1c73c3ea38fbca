package schema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// TestTheSamplesHaveNothingWrong reads all samples, and expects no problems.
func TestTheSamplesHaveNothingWrong(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testenv.Toolchain(t).Root(), "config", "samples", "*.yaml"))
	check.Error(t, err, "")

	checked := 0

	for _, file := range files {
		content, err := os.ReadFile(file)
		check.Error(t, err, "")

		text := strings.ReplaceAll(string(content), "ENGINE_URL", "https://engine.example.com/ovirt-engine")
		if !strings.Contains(text, "\nkind: ") {
			continue // a cluster file
		}

		objects, err := manifest.Read([]byte(text))
		check.Error(t, err, "")

		for _, object := range objects {
			name := filepath.Base(file) + ": " + object.GetKind() + " " + object.GetName()
			check.Length(t, name, UnknownFields(object, nil), 0)

			problems, err := FindViolations(t.Context(), nil, object, nil, nil)
			check.Error(t, err, "")
			check.Length(t, name, problems, 0)

			checked++
		}
	}

	check.Equal(t, "objects were checked", checked > 5, true)
}

func TestAFieldIsFoundWhereItIsWritten(t *testing.T) {
	const text = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata:\n  name: a\n  lables: {}\nspec:\n" +
		"  taints:\n  - key: a\n    efect: NoSchedule\n"

	var node yaml.Node
	check.Error(t, yaml.Unmarshal([]byte(text), &node), "")

	objects, err := manifest.Read([]byte(text))
	check.Error(t, err, "")

	problems := UnknownFields(objects[0], node.Content[0])
	check.Equal(t, "problems", problems, []Problem{
		{Line: 5, Path: "metadata.lables", Message: "unknown field; did you mean labels?"},
		{Line: 9, Path: "spec.taints[0].efect", Message: "unknown field; did you mean effect?"},
	})
	check.Equal(t, "the line of a path that is not there", LineOf(node.Content[0], "spec.taints[0].other"), 8)
	check.Length(t, "a kind of others", UnknownFields(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "x/v1", "kind": "Y", "z": 1}}, nil), 0)
}
