package preview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

// appliedFields are fields of a live object that a manifest has set.
type appliedFields struct {
	tree map[string]any
	// serverSide reports that the API server has recorded them: its names have a prefix, and a field without others
	// below it is whole.
	serverSide bool
}

// fieldPrefix is what the names of fields begin with in managedFields.
const fieldPrefix = "f:"

// child has the fields below one of them. owned is false if no manifest has set that.
func (a appliedFields) child(name string) (below appliedFields, owned bool) {
	if a.serverSide && len(a.tree) == 0 {
		return a, true
	}

	if a.serverSide {
		name = a.managedName(name)
	}

	value, owned := a.tree[name]
	below = appliedFields{serverSide: a.serverSide}
	below.tree, _ = value.(map[string]any)

	return below, owned
}

// managedName is what managedFields call a field, or an item as itemName calls it.
func (a appliedFields) managedName(name string) string {
	if !strings.HasPrefix(name, "[") {
		return fieldPrefix + name
	}

	for managed := range a.tree {
		key := map[string]any{}
		text, isItem := strings.CutPrefix(managed, itemPrefix)

		if isItem && json.Unmarshal([]byte(text), &key) == nil &&
			itemName(key, slices.Sorted(maps.Keys(key))) == name {
			return managed
		}
	}

	return ""
}

// at has the fields below a path.
func (a appliedFields) at(path ...string) (below appliedFields, owned bool) {
	for _, name := range path {
		if a, owned = a.child(name); !owned {
			return a, false
		}
	}

	return a, true
}

// refersToTemplate reports whether they are those of a whole manifest. Policies apply single fields.
func (a appliedFields) refersToTemplate() bool {
	for _, path := range []string{
		"spec.template.spec.infrastructureRef", "spec.machineTemplate.spec.infrastructureRef",
		"spec.machineTemplate.infrastructureRef",
	} {
		if _, owned := a.at(strings.Split(path, ".")...); owned {
			return true
		}
	}

	return false
}

// appliedTo are the fields that whole manifests have set in an owner of machines. There are none if nothing tells.
func appliedTo(live *unstructured.Unstructured) []appliedFields {
	return slices.DeleteFunc(allAppliedTo(live), func(a appliedFields) bool { return !a.refersToTemplate() })
}

// allAppliedTo are the fields that somebody has applied, server-side or by kubectl.
func allAppliedTo(live *unstructured.Unstructured) []appliedFields {
	var out []appliedFields
	add := func(text string, serverSide bool) {
		fields := appliedFields{serverSide: serverSide}
		if json.Unmarshal([]byte(text), &fields.tree) == nil {
			out = append(out, fields)
		}
	}

	for _, by := range live.GetManagedFields() {
		if by.Operation == metav1.ManagedFieldsOperationApply && by.Subresource == "" && by.FieldsV1 != nil &&
			by.APIVersion == live.GetAPIVersion() {
			add(by.FieldsV1.GetRawString(), true)
		}
	}

	add(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation], false)

	return out
}

// removableFields are the fields at a path of a live object without those that stay if a manifest lacks them: others
// have set them. foreign are the paths of these. If nothing tells who has set what, each field is removable.
func removableFields(
	applied []appliedFields, asked, there any, path string,
) (removable any, foreign []string) {
	if len(applied) == 0 {
		return there, nil
	}

	var by []appliedFields

	for _, one := range applied {
		if below, owned := one.at(strings.Split(path, ".")...); owned {
			by = append(by, below)
		}
	}

	removable = withoutForeign(asked, there, path, by, &foreign)

	return removable, foreign
}

// withoutForeign is a live value without the fields that the manifest lacks and none has set.
func withoutForeign(asked, there any, path string, by []appliedFields, foreign *[]string) any {
	isAsked := asked != nil && fmt.Sprint(asked) != ""
	fields, isMap := there.(map[string]any)

	if len(by) == 0 && !isAsked {
		if planinput.FirstDifference(there, nil, path) != "" {
			*foreign = append(*foreign, path)
		}

		return nil
	}

	if !isMap {
		return there
	}

	wanted, _ := asked.(map[string]any)
	out := map[string]any{}

	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var below []appliedFields

		for _, one := range by {
			if child, owned := one.child(name); owned {
				below = append(below, child)
			}
		}

		out[name] = withoutForeign(wanted[name], fields[name], path+"."+name, below, foreign)
	}

	return out
}
