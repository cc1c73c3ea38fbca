package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

// maxValue is the length of the longest value shown in full. maxDifferences is the maximum number of differences shown.
const (
	maxValue       = 60
	maxDifferences = 40
)

// comparison collects differences, in the terms used in the manifests.
type comparison struct {
	// asked ignores fields missing from the wanted value, because an API server fills them in.
	asked bool
	out   []string
}

// rolloutDifferences returns the differences between the settings used to create the machines and the wanted settings.
func (m *Manifests) rolloutDifferences(owner *unstructured.Unstructured, spec infrav1.OLVMMachineSpec) []string {
	c := &comparison{}

	for _, machine := range m.machinesMadeBy(owner) {
		before, after := versionOf(machine), versionOf(owner)
		if before != "" && after != "" && before != after {
			c.addLine("version: " + before + " -> " + after)
		}

		if old := m.originalSpec(machine); old != nil {
			c.compareValues(planinput.AsMap(old), planinput.AsMap(spec), "")
		}
	}

	if live := m.LiveAsWritten(owner); live != nil {
		c.compareKubeadm(owner, live, m.ownershipOf(live))
	}

	if more := len(c.out) - maxDifferences; more > 0 {
		c.out = append(c.out[:maxDifferences], fmt.Sprintf("and %d more", more))
	}

	return c.out
}

// compareKubeadm compares the kubeadm settings of control planes.
func (c *comparison) compareKubeadm(owner, live *unstructured.Unstructured, owned ownership) {
	const path = kubeadmPath

	asked, _, _ := unstructured.NestedMap(owner.Object, strings.Split(path, ".")...)
	there, _, _ := unstructured.NestedMap(live.Object, strings.Split(path, ".")...)

	if owner.GetKind() != "KubeadmControlPlane" {
		return
	}

	lists := owned.keyedLists(path)
	splitAsked, splitThere := lists.splitByKey(asked, there)
	_, foreign := removableFields(owned.applied, splitAsked, splitThere, path)

	c.asked = true
	c.compareValues(lists.withoutItems(there, path, foreign), asked, strings.TrimPrefix(path, "spec."))
}

// originalSpec returns the specification in a machine's template, or in its OLVMMachine if the template no longer
// exists.
func (m *Manifests) originalSpec(machine *unstructured.Unstructured) *infrav1.OLVMMachineSpec {
	_, ref := planinput.MachineRefs(machine)

	infra := m.OLVMMachines[types.NamespacedName{Namespace: machine.GetNamespace(), Name: ref.Name}]
	if infra == nil {
		return nil
	}

	name := infra.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
	if template := m.Templates[types.NamespacedName{Namespace: machine.GetNamespace(), Name: name}]; template != nil {
		return &template.Spec.Template.Spec
	}

	spec := infra.Spec.DeepCopy()
	spec.ProviderID = ""

	return spec
}

func (c *comparison) addLine(line string) {
	if !slices.Contains(c.out, line) {
		c.out = append(c.out, line)
	}
}

// compareValues compares two values at a path.
func (c *comparison) compareValues(before, after any, path string) {
	oldFields, wasMap := before.(map[string]any)
	newFields, isMap := after.(map[string]any)

	switch {
	case wasMap && isMap, wasMap && after == nil, isMap && before == nil:
		c.compareFields(oldFields, newFields, path)
	case isNamed(before) || isNamed(after):
		c.compareItems(before, after, path)
	case shownValue(before) != shownValue(after) || fmt.Sprint(before) != fmt.Sprint(after):
		c.addDifference(before, after, path)
	}
}

func (c *comparison) compareFields(before, after map[string]any, path string) {
	keys := maps.Clone(after)
	if !c.asked {
		keys = maps.Clone(before)
		if keys == nil {
			keys = map[string]any{}
		}

		maps.Copy(keys, after)
	}

	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		c.compareValues(before[key], after[key], strings.TrimPrefix(at, "virtualMachine."))
	}
}

// addDifference adds a line for two values other than maps.
func (c *comparison) addDifference(before, after any, path string) {
	old, wanted := shownValue(before), shownValue(after)

	switch {
	case old == wanted: // both values are too long to show
		c.addLine(path + " changes")
	case old == "":
		c.addLine("+ " + path + ": " + wanted)
	case wanted == "":
		c.addLine("- " + path + ": " + old)
	default:
		c.addLine(path + ": " + old + " -> " + wanted)
	}
}

// isNamed reports whether a value is a list of maps, each with a name.
func isNamed(value any) bool {
	list, _ := value.([]any)

	return len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool {
		fields, _ := item.(map[string]any)
		return fields["name"] == nil
	})
}

// compareItems compares lists by the names of their items.
func (c *comparison) compareItems(before, after any, path string) {
	old, wanted := byName(before), byName(after)
	noun := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "s")
	all := maps.Clone(old)
	maps.Copy(all, wanted)

	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case old[name] == nil:
			c.addLine(fmt.Sprintf("+ %s %s", noun, shownItem(name, wanted[name])))
		case wanted[name] == nil:
			c.addLine(fmt.Sprintf("- %s %s", noun, shownItem(name, old[name])))
		default:
			c.compareFields(old[name], wanted[name], path+"["+name+"]")
		}
	}
}

func byName(value any) map[string]map[string]any {
	out := map[string]map[string]any{}

	list, _ := value.([]any)
	for _, item := range list {
		if fields, ok := item.(map[string]any); ok {
			out[fmt.Sprint(fields["name"])] = fields
		}
	}

	return out
}

// shownItem returns the name of a list item, followed by its values.
func shownItem(name string, fields map[string]any) string {
	words := []string{name}

	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch value := shownValue(fields[key]); {
		case key == "name" || value == "":
		case key == "size":
			words = slices.Insert(words, 1, value)
		default:
			words = append(words, key+": "+value)
		}
	}

	return strings.Join(words, " ")
}

// shownValue returns a value in one line. It returns "..." for a long or multi-line value, because the value may be a
// file.
func shownValue(value any) string {
	text := ""

	switch value := value.(type) {
	case nil:
		return ""
	case []any:
		var words []string
		for _, item := range value {
			words = append(words, fmt.Sprint(item))
		}

		text = "[" + strings.Join(words, ", ") + "]"
	default:
		text = fmt.Sprint(value)
	}

	if len(text) > maxValue || strings.Contains(text, "\n") {
		return "..."
	}

	return text
}
