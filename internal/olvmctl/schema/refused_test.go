package schema

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/refused"
)

// TestAPlanRefusesWhatAnAPIServerRefuses has the values that the controllers' tests use with an API server. The plan
// must find each of them by its field and its line.
func TestAPlanRefusesWhatAnAPIServerRefuses(t *testing.T) {
	for _, value := range refused.Values {
		t.Run(value.Name(), func(t *testing.T) {
			object, err := value.BuildObject("")
			check.Error(t, err, "")

			content, err := k8syaml.Marshal(object.Object)
			check.Error(t, err, "")

			var node yaml.Node
			check.Error(t, yaml.Unmarshal(content, &node), "")

			problems, err := FindViolations(t.Context(), nil, object, nil, node.Content[0])
			check.Error(t, err, "")

			if value.Message == "" {
				check.Length(t, "problems", problems, 0)
				return
			}

			for _, p := range problems {
				if strings.Contains(p.Message, value.Message) && (p.Path == value.ErrorField() || p.Path == "") &&
					p.Line > 0 {
					return
				}
			}

			t.Errorf("got %+v, want %q at %s", problems, value.Message, value.ErrorField())
		})
	}
}
