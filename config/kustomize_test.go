package config_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// nameReferences returns the references of kustomize/name-references.yaml: kinds with their paths.
func nameReferences(t *testing.T) map[string]bool {
	t.Helper()
	content, err := os.ReadFile("kustomize/name-references.yaml")
	check.Error(t, err, "")

	var file struct {
		NameReference []struct {
			Kind, Group, Version string
			FieldSpecs           []struct{ Kind, Path string }
		}
	}

	check.Error(t, yaml.UnmarshalStrict(content, &file), "")

	out := map[string]bool{}

	for _, reference := range file.NameReference {
		for _, field := range reference.FieldSpecs {
			out[field.Kind+" "+field.Path] = true
		}
	}

	return out
}

// objectNames matches fields of our kinds with the name of another object. Names in a list of named things are the
// things' own.
var objectNames = regexp.MustCompile(`(?:Secret|caConfigMap|identityRef|KeyRef|addressesFromPools)/name$|` +
	`(?:machineTemplateName|inventoryName|SecretName)$|^spec/clusterName$`)

// TestKustomizeKnowsEachFieldThatNamesAnObject walks through the CRDs. Fields written only by the manager are not for
// users.
func TestKustomizeKnowsEachFieldThatNamesAnObject(t *testing.T) {
	t.Parallel()

	known, found := nameReferences(t), map[string]bool{}

	var walk func(kind, path string, schema apiextensionsv1.JSONSchemaProps)

	walk = func(kind, path string, schema apiextensionsv1.JSONSchemaProps) {
		for name, field := range schema.Properties {
			walk(kind, path+"/"+name, field)
		}

		if schema.Items != nil {
			walk(kind, path, *schema.Items.Schema)
		}

		if schema.Type == "string" && objectNames.MatchString(path) {
			found[kind+" "+path] = true
		}
	}

	for name, schema := range shippedCRDs(t) {
		_, kind, _ := strings.Cut(name, " ")
		walk(kind, "spec", schema.Properties["spec"])
	}

	maps.DeleteFunc(found, func(field string, _ bool) bool {
		return strings.HasPrefix(field, "OLVMInventoryVM ") && field != "OLVMInventoryVM spec/inventoryName"
	})
	check.Equal(t, "fields with names", len(found) > 30, true)

	for _, field := range slices.Sorted(maps.Keys(found)) {
		check.Equal(t, field, known[field], true)
	}
}

// TestAPrefixOfKustomizeReachesEachReference has kustomize rename all objects of all flavors, beside generated Secrets
// and ConfigMaps. No field may keep an old name.
func TestAPrefixOfKustomizeReachesEachReference(t *testing.T) {
	t.Parallel()
	kubectl, err := testenv.Toolchain(t).Path("plane", "kubectl")
	check.Error(t, err, "")

	dir := t.TempDir()
	write := func(name string, content []byte) {
		check.Error(t, os.WriteFile(filepath.Join(dir, name), content, 0o600), "")
	}
	references, err := os.ReadFile("kustomize/name-references.yaml")
	check.Error(t, err, "")
	write("name-references.yaml", references)

	kustomization := "namePrefix: before-\nnameSuffix: -after\nconfigurations: [name-references.yaml]\nresources:\n"
	generators := map[string]string{}
	before := map[string]bool{}

	names, err := fs.Glob(templates.Files, "*.yaml")
	check.Error(t, err, "")

	for _, name := range names {
		template, err := fs.ReadFile(templates.Files, name)
		check.Error(t, err, "")

		cluster := strings.TrimSuffix(name, ".yaml")
		if strings.HasPrefix(name, "cluster-template") {
			template, err = yamlprocessor.NewSimpleProcessor().Process(template, func(variable string) (string, error) {
				return valueOfVariable(cluster, variable)
			})
			check.Error(t, err, "")
		}

		write(name, template)
		kustomization += "- " + name + "\n"

		for _, object := range readObjects(t, template) {
			before[object.GetName()] = true
		}

		generators["secretGenerator"] += generator(cluster+"-ovirt-credentials") + generator(cluster+"-oidc-ca")
		generators["configMapGenerator"] += generator(cluster + "-ovirt-ca")
		before[cluster+"-ovirt-credentials"], before[cluster+"-oidc-ca"], before[cluster+"-ovirt-ca"] = true, true, true
	}

	for name, list := range generators {
		kustomization += name + ":\n" + list
	}

	write("kustomization.yaml", []byte(kustomization))
	command := exec.CommandContext(t.Context(), kubectl, "kustomize", dir)
	command.Stderr = os.Stderr
	built, err := command.Output()
	check.Error(t, err, "")

	count := 0

	for _, object := range readObjects(t, built) {
		count++
		kind := object.GetKind() + " " + object.GetName()
		check.Equal(t, kind+" has a new name", before[object.GetName()], false)

		spec, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec")
		for _, field := range fieldsWith(spec, "spec", before) {
			t.Errorf("%s: %s", kind, field)
		}
	}

	check.Equal(t, "objects", count > 100, true)
}

func generator(name string) string {
	return fmt.Sprintf("- {name: %s, namespace: default, literals: [a=b]}\n", name)
}

func valueOfVariable(cluster, variable string) (string, error) {
	switch {
	case variable == "CLUSTER_NAME":
		return cluster, nil
	case variable == "NAMESPACE":
		return "default", nil
	case strings.HasSuffix(variable, "_SECRET"), strings.HasSuffix(variable, "_CONFIGMAP"):
		return "", nil // the default
	}

	return "3", nil
}

func readObjects(t *testing.T, content []byte) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Read(content)
	check.Error(t, err, "")

	return objects
}

// fieldsWith lists the fields with one of these texts. Kustomize knows neither labels nor variables of a topology.
func fieldsWith(value any, path string, texts map[string]bool) []string {
	var out []string

	switch value := value.(type) {
	case string:
		if texts[value] {
			out = append(out, path+" is still "+value)
		}
	case map[string]any:
		for key, field := range value {
			if key != "matchLabels" && key != "labels" && key != "variables" {
				out = append(out, fieldsWith(field, path+"/"+key, texts)...)
			}
		}
	case []any:
		for _, element := range value {
			out = append(out, fieldsWith(element, path, texts)...)
		}
	}

	return out
}
