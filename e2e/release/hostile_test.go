package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// hostile are values at risk of being changed, cut or misread as another type by a template.
var hostile = []string{
	"010", "kvm #2", "it's", "a: b", `a"b`, `a\b`, "yes", "1e3", "0x1F", "1_000", "null", "~", "'a'", "''", `"`, `\`,
	"- a", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "{a: b}", "[a]", "a, b", " a", "a ", "a\tb", "\ta", "ümläut 日本",
	"a\nb", "a\nb: c", "a\n  b: c", "a\n---\nb: c", "a\rb", "a\u2028b", "a\x00b", "2026-01-01", "3 # 4", "a]", "a}",
}

// hostileCase is one hostile value of a template's variable. marked is the template with a mark in place of the value.
type hostileCase struct {
	template        []byte
	variable, value string
	marked          map[string]*unstructured.Unstructured
}

// valuesOfVariables provides values to clusterctl.
type valuesOfVariables map[string]string

func (v valuesOfVariables) Get(name string) (string, error) {
	if value, ok := v[name]; ok {
		return value, nil
	}

	return "", fmt.Errorf("%s is not set", name)
}

func (v valuesOfVariables) Set(name, value string) { v[name] = value }

// ofOthers are kinds of providers that are not installed here.
var ofOthers = []string{"InClusterIPPool", "KamajiControlPlane", "RKE2ConfigTemplate", "RKE2ControlPlane"}

const valueMark = "mark-of-the-variable"

// expectNoValueToChange has clusterctl fill hostile values into each variable of each template, and an API server judge
// the objects. Each value must arrive unchanged, or be refused by the API server or clusterctl.
func (m *management) expectNoValueToChange(t *testing.T) {
	names, err := fs.Glob(templates.Files, "cluster-template*.yaml")
	check.Error(t, err, "")

	given := valuesOfVariables{
		"CLUSTER_NAME": "prod", "NAMESPACE": "default", "KUBERNETES_VERSION": "v1.36.1", "CONTROL_PLANE_MACHINE_COUNT": "3",
		"WORKER_MACHINE_COUNT": "2",
	}

	for _, entry := range m.environment() {
		name, value, _ := strings.Cut(entry, "=")
		given[name] = value
	}

	judged, taken, tried := map[string]error{}, map[string]int{}, map[string]int{}

	for _, name := range names {
		template, err := fs.ReadFile(templates.Files, name)
		check.Error(t, err, "")
		variables, err := yamlprocessor.NewSimpleProcessor().GetVariables(template)
		check.Error(t, err, "")

		for _, variable := range variables {
			values := valuesToTry(len(tried), tried[variable])
			tried[variable]++

			// A number or a percentage has no quotes. Webhooks of Cluster API refuse all else; there are none here.
			if len(values) == 0 || variable == "NODES_LOST_AT_MOST" {
				continue
			}

			marked, err := fillIn(template, given, variable, valueMark)
			check.Error(t, err, "")

			for _, value := range values {
				c := hostileCase{template: template, variable: variable, value: value, marked: marked}
				for _, as := range m.judge(t, c, given, judged) {
					taken[as]++
				}
			}
		}
	}

	t.Logf("%d variables, values that were taken by kinds of variables: %v", len(tried), taken)
	check.Equal(t, "there are values that were taken", taken["text"] > 0, true)
}

// valuesToTry returns all values for the first template with a variable, and two of them for the others. In -short runs
// it returns four and none.
func valuesToTry(variables, templates int) []string {
	at := 3 * (variables + templates) % (len(hostile) - 3)

	switch {
	case testing.Short() && templates > 0:
		return nil
	case testing.Short():
		return append([]string{"it's"}, hostile[at:at+3]...)
	case templates > 0:
		return []string{"it's", hostile[at]}
	}

	return hostile
}

// fillIn has clusterctl fill in the variables, one of them with another value. It returns the objects by kind and name,
// with the names from the given values.
func fillIn(
	template []byte,
	given valuesOfVariables,
	variable, value string,
) (map[string]*unstructured.Unstructured, error) {
	values := maps.Clone(given)
	values[variable] = value

	filled, err := repository.NewTemplate(repository.TemplateInput{
		RawArtifact: template, ConfigVariablesClient: values, Processor: yamlprocessor.NewSimpleProcessor(),
	})
	if err != nil {
		return nil, err
	}

	out := map[string]*unstructured.Unstructured{}
	for i, object := range filled.Objs() {
		out[fmt.Sprintf("%02d %s", i, object.GetKind())] = &object
	}

	return out, nil
}

// judge returns the kinds of variables for which the API server has accepted the value.
func (m *management) judge(t *testing.T, c hostileCase, given valuesOfVariables, judged map[string]error) []string {
	filled, err := fillIn(c.template, given, c.variable, c.value)
	if err != nil {
		return nil
	}

	var changed []string

	var as []string

	for _, name := range slices.Sorted(maps.Keys(filled)) {
		object := filled[name]
		text, err := json.Marshal(object)
		check.Error(t, err, "")

		marked := c.marked[name]
		if marked != nil && reflect.DeepEqual(marked, object) || slices.Contains(ofOthers, object.GetKind()) {
			continue // without the variable, or of another provider
		}

		err, isJudged := judged[string(text)]
		if !isJudged {
			err = m.client.Create(t.Context(), object.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
			judged[string(text)] = err
		}

		switch {
		case err != nil && !isRefusal(err):
			t.Errorf("%s = %q: %v", c.variable, c.value, err)
			return nil
		case err != nil:
			return nil
		case marked == nil:
			changed = append(changed, "there is one object more: "+name)
			continue
		}

		kinds, err := compareWithMark(marked.Object, object.Object, c.value)
		if err != nil {
			changed = append(changed, name+": "+err.Error())
		}

		as = append(as, kinds...)
	}

	for _, text := range changed {
		t.Errorf("%s = %q changes silently: %s", c.variable, c.value, text)
	}

	return as
}

// isRefusal reports whether the client or the API server refused the object, rather than failing for another reason.
func isRefusal(err error) bool {
	var unreachable *url.Error

	return !errors.As(err, &unreachable) && !apierrors.IsInternalError(err) && !manifest.IsOverload(err)
}

// compareWithMark expects the value at the mark, and no other difference. It returns the resulting kinds of the value.
func compareWithMark(marked, got any, value string) ([]string, error) {
	switch marked := marked.(type) {
	case string:
		return compareText(marked, got, value)
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok || len(fields) != len(marked) {
			return nil, fmt.Errorf("%v in place of %v", got, marked)
		}

		var out []string

		for key, field := range marked {
			kinds, err := compareWithMark(field, fields[key], value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}

			out = append(out, kinds...)
		}

		return out, nil
	case []any:
		return compareLists(marked, got, value)
	}

	if !reflect.DeepEqual(marked, got) {
		return nil, fmt.Errorf("%v in place of %v", got, marked)
	}

	return nil, nil
}

// compareText expects the text with the value, a number as read by YAML, or nothing for an empty value.
func compareText(marked string, got any, value string) ([]string, error) {
	want := strings.ReplaceAll(marked, valueMark, value)
	if got == want {
		return map[bool][]string{true: {"text"}}[want != marked], nil
	}

	if marked == valueMark {
		// Numbers cannot have quotes. README.md documents YAML's reading of them.
		var number any

		_, isText := got.(string)
		if !isText && yaml.Unmarshal([]byte(value), &number) == nil && fmt.Sprint(got) == fmt.Sprint(number) {
			return []string{"number"}, nil
		}
	}

	return nil, fmt.Errorf("%#v in place of %q", got, want)
}

// compareLists expects a variable spanning a whole list to become its elements, separated at commas.
func compareLists(marked []any, got any, value string) ([]string, error) {
	list, ok := got.([]any)
	if !ok {
		return nil, fmt.Errorf("%v in place of %v", got, marked)
	}

	if len(marked) == 1 && marked[0] == valueMark && !reflect.DeepEqual(list, []any{value}) {
		elements := []string{}

		for _, element := range list {
			text, ok := element.(string)
			if !ok {
				return nil, errors.New("an element is no text")
			}

			elements = append(elements, text)
		}

		if joined := strings.Join(elements, ","); joined != strings.ReplaceAll(strings.TrimSpace(value), ", ", ",") {
			return nil, fmt.Errorf("%q in place of %q", joined, value)
		}

		return []string{"list"}, nil
	}

	if len(list) != len(marked) {
		return nil, fmt.Errorf("%v in place of %v", got, marked)
	}

	var out []string

	for i := range marked {
		kinds, err := compareWithMark(marked[i], list[i], value)
		if err != nil {
			return nil, err
		}

		out = append(out, kinds...)
	}

	return out, nil
}
