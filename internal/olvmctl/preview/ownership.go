package preview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

// appliedFields are the fields of a live object set by one manifest.
type appliedFields struct {
	tree map[string]any
	// serverSide reports whether the fields come from a server-side apply. Their names then have a prefix, and the
	// manifest owns a field without subfields as a whole.
	serverSide bool
}

// fieldPrefix is the prefix of fields in managedFields.
const fieldPrefix = "f:"

// childFields returns the fields below a field. owned is false if the manifest has not set the field.
func (a appliedFields) childFields(name string) (below appliedFields, owned bool) {
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

// managedName returns the name of a field or of a list item in managedFields. itemName has created the item's name.
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

// fieldsAt returns the fields below a path.
func (a appliedFields) fieldsAt(path ...string) (below appliedFields, owned bool) {
	for _, name := range path {
		if a, owned = a.childFields(name); !owned {
			return a, false
		}
	}

	return a, true
}

// refersToTemplate reports whether the fields include the reference to the infrastructure template, so they come from a
// whole manifest. Policies apply only single fields.
func (a appliedFields) refersToTemplate() bool {
	for _, path := range []string{
		"spec.template.spec.infrastructureRef", "spec.machineTemplate.spec.infrastructureRef",
		"spec.machineTemplate.infrastructureRef",
	} {
		if _, owned := a.fieldsAt(strings.Split(path, ".")...); owned {
			return true
		}
	}

	return false
}

// ownership tells the owners of the fields of a live object.
type ownership struct {
	// applied are the fields set by whole manifests. It is empty if nothing tells.
	applied []appliedFields
	// records are the fields of all managers in managedFields, named as in the object's apiVersion.
	records []map[string]any
}

// ownershipOf returns the owners of an owner's fields. Each entry of managedFields names the fields of its own
// apiVersion. kubectl compares the last manifest by name, in any version.
func (m *Manifests) ownershipOf(live *unstructured.Unstructured) ownership {
	var out ownership

	for _, by := range live.GetManagedFields() {
		entry := appliedFields{serverSide: true}
		if by.FieldsV1 == nil || json.Unmarshal([]byte(by.FieldsV1.GetRawString()), &entry.tree) != nil {
			continue
		}

		isManifest := by.Operation == metav1.ManagedFieldsOperationApply && by.Subresource == "" &&
			entry.refersToTemplate()

		if by.APIVersion != live.GetAPIVersion() {
			entry.tree = translatedFields(entry.tree, m.LiveIn(live, by.APIVersion), live)
		}

		out.records = append(out.records, entry.tree)

		if isManifest {
			out.applied = append(out.applied, entry)
		}
	}

	last := appliedFields{}
	text := live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]

	if json.Unmarshal([]byte(text), &last.tree) == nil && last.refersToTemplate() {
		out.applied = append(out.applied, last)
	}

	return out
}

// translatedFields returns the fields of an entry of managedFields as another apiVersion names them. from is the object
// in the version of the entry, nil if it could not be read, and to in the other. A field with another name or form
// there counts as owned: a missed replacement is worse than a warning.
func translatedFields(tree map[string]any, from, to *unstructured.Unstructured) map[string]any {
	spec := map[string]any{}
	if from != nil {
		below, _ := tree[fieldPrefix+"spec"].(map[string]any)
		fromSpec, _, _ := unstructured.NestedMap(from.Object, "spec")
		toSpec, _, _ := unstructured.NestedMap(to.Object, "spec")
		spec = translatedMap(below, fromSpec, toSpec)
	}

	return map[string]any{fieldPrefix + "spec": spec}
}

// translatedMap is translatedFields for the fields of a map.
func translatedMap(tree, from, to map[string]any) map[string]any {
	out := map[string]any{".": map[string]any{}} // an empty map is owned as a whole

	for name, value := range to {
		managed := fieldPrefix + name
		below, owned := tree[managed].(map[string]any)
		fromFields, wasMap := from[name].(map[string]any)
		toFields, isMap := value.(map[string]any)

		switch {
		case wasMap && isMap && (!owned || len(below) > 0):
			if fields := translatedMap(below, fromFields, toFields); owned || len(fields) > 1 {
				out[managed] = fields
			}
		case owned, !equality.Semantic.DeepEqual(from[name], value):
			out[managed] = map[string]any{} // of a list all items, because another version may merge it by other keys
		}
	}

	return out
}

// removableFields returns the fields at a path of a live object that the manifest can remove. Fields set by others stay
// even if the manifest lacks them. foreign are the paths of these fields. If the object has no record of who set its
// fields, every field is removable.
func removableFields(
	applied []appliedFields, asked, there any, path string,
) (removable any, foreign []string) {
	if len(applied) == 0 {
		return there, nil
	}

	var by []appliedFields

	for _, one := range applied {
		if below, owned := one.fieldsAt(strings.Split(path, ".")...); owned {
			by = append(by, below)
		}
	}

	removable = withoutForeign(asked, there, path, by, &foreign)

	return removable, foreign
}

// withoutForeign returns a live value without fields that the manifest lacks and no manifest has ever set.
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
			if child, owned := one.childFields(name); owned {
				below = append(below, child)
			}
		}

		out[name] = withoutForeign(wanted[name], fields[name], path+"."+name, below, foreign)
	}

	return out
}
