package source

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drone/envsubst/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// ofProvider are the variables that the controllers of this provider replace, in the syntax of manifests.
var ofProvider = []string{"${KUBERNETES_VERSION}"}

// variable matches a Flux variable, or an escaped one: ${NAME}, ${NAME:=default}, $${NAME}.
var variable = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)(:?[-=+?][^}]*)?\}`)

// disabled is the label or annotation for excluding an object from Flux's substitution.
const disabled = "kustomize.toolkit.fluxcd.io/substitute"

// substituteVariables replaces the variables in an object as Flux does after a build. It returns an error for a
// variable with neither a value nor a default, because Flux would replace it by an empty text.
func substituteVariables(
	object *unstructured.Unstructured, values map[string]string,
) (*unstructured.Unstructured, error) {
	if object.GetLabels()[disabled] == "disabled" || object.GetAnnotations()[disabled] == "disabled" {
		return object, nil
	}

	name := object.GetKind() + " " + object.GetName()

	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	var missing []string

	for _, found := range variable.FindAllStringSubmatch(string(content), -1) {
		if _, known := values[found[1]]; !known && found[2] == "" && !strings.HasPrefix(found[0], "$$") &&
			!slices.Contains(missing, found[1]) {
			missing = append(missing, found[1])
		}
	}

	if len(missing) > 0 {
		return nil, fmt.Errorf("%s: variable %s is not set; use --substitute %s=VALUE, or write $${%s} if Flux "+
			"must not replace it", name, strings.Join(missing, ", "), missing[0], missing[0])
	}

	// Flux drops line breaks in values: a second line could add a field.
	text, err := envsubst.Eval(string(content), func(name string) string {
		return strings.ReplaceAll(values[name], "\n", "")
	})
	if err != nil {
		return nil, fmt.Errorf("%s: failed to substitute variables: %w", name, err)
	}

	replaced, err := manifest.Read([]byte(text)) // whole numbers stay integers
	if err != nil || len(replaced) != 1 {
		return nil, fmt.Errorf("%s: invalid YAML after the substitution of variables", name)
	}

	return replaced[0], nil
}

// noteVariables records the variables without a value. It ignores variables in commands, because they belong to the
// shell.
func (r *reader) noteVariables(object *unstructured.Unstructured) {
	switch object.GetKind() {
	case "Secret", "ConfigMap", "KubeadmConfig", "KubeadmConfigTemplate":
		return
	}

	if !strings.HasSuffix(object.GroupVersionKind().Group, "cluster.x-k8s.io") {
		return
	}

	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	delete(spec, "kubeadmConfigSpec")
	r.noteIn(spec)
}

func (r *reader) noteIn(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			r.noteIn(value[key])
		}
	case []any:
		for _, item := range value {
			r.noteIn(item)
		}
	case string:
		for _, found := range variable.FindAllString(value, -1) {
			if !slices.Contains(ofProvider, found) && !slices.Contains(r.variables, found) {
				r.variables = append(r.variables, found)
			}
		}
	}
}
