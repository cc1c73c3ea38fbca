package preview

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// itemPrefix is the prefix of list items in managedFields.
const itemPrefix = "k:"

// keyedLists describes the lists in a live object whose items have keys. A server-side apply merges these items like
// fields.
type keyedLists struct {
	// keys are the fields that identify an item. It is nil for other lists.
	keys []string
	// below describes the lists in the fields of an object. each describes the lists in every item of a list.
	below map[string]*keyedLists
	each  *keyedLists
}

// keyedLists finds keyed lists below a path by managedFields. It returns nil if somebody applies manifests
// client-side, because this replaces lists as a whole.
func (o ownership) keyedLists(path string) *keyedLists {
	if len(o.applied) == 0 || slices.ContainsFunc(o.applied, func(a appliedFields) bool { return !a.serverSide }) {
		return nil
	}

	out := &keyedLists{}

	for _, tree := range o.records {
		for _, name := range strings.Split(path, ".") {
			tree, _ = tree[fieldPrefix+name].(map[string]any)
		}

		out.addLists(tree)
	}

	return out
}

// addLists adds the lists owned by one manager.
func (k *keyedLists) addLists(tree map[string]any) {
	for name, value := range tree {
		fields, _ := value.(map[string]any)

		if field, isField := strings.CutPrefix(name, fieldPrefix); isField {
			if k.below == nil {
				k.below = map[string]*keyedLists{}
			}

			if k.below[field] == nil {
				k.below[field] = &keyedLists{}
			}

			k.below[field].addLists(fields)
		}

		text, isItem := strings.CutPrefix(name, itemPrefix)
		key := map[string]any{}

		if isItem && json.Unmarshal([]byte(text), &key) == nil {
			k.keys = slices.Sorted(maps.Keys(key))
			if k.each == nil {
				k.each = &keyedLists{}
			}

			k.each.addLists(fields)
		}
	}
}

// itemName returns a path element for a list item: its keys and their values in a unique form. It returns "" if a key
// is missing.
func itemName(item any, keys []string) string {
	fields, _ := item.(map[string]any)

	var words []string

	for _, key := range keys {
		value, err := json.Marshal(fields[key])
		if err != nil || fields[key] == nil {
			return ""
		}

		words = append(words, key+"="+string(value))
	}

	return "[" + strings.Join(words, ",") + "]"
}

// itemNames returns the names of a list's items in their order. It returns nil if an item has no name, or if two items
// have the same name.
func (k *keyedLists) itemNames(list []any) []string {
	var out []string

	for _, item := range list {
		name := itemName(item, k.keys)
		if name == "" || slices.Contains(out, name) {
			return nil
		}

		out = append(out, name)
	}

	return out
}

// splitByKey returns two values with their lists replaced by maps of items by name, if this is possible for both
// values. Items present in both lists must have the same order.
func (k *keyedLists) splitByKey(asked, there any) (splitAsked, splitThere any) {
	if k == nil {
		return asked, there
	}

	askedList, isAskedList := asked.([]any)
	liveList, isLiveList := there.([]any)

	if len(k.keys) > 0 && (isAskedList || asked == nil) && (isLiveList || there == nil) {
		askedNames, liveNames := k.itemNames(askedList), k.itemNames(liveList)
		if len(askedNames) < len(askedList) || len(liveNames) < len(liveList) || !inOneOrder(askedNames, liveNames) {
			return asked, there
		}

		return k.splitFields(asMap(askedNames, askedList), asMap(liveNames, liveList),
			func(string) *keyedLists { return k.each })
	}

	askedFields, isAskedMap := asked.(map[string]any)
	liveFields, isLiveMap := there.(map[string]any)

	if !isAskedMap && asked != nil || !isLiveMap && there != nil || len(k.below) == 0 {
		return asked, there
	}

	return k.splitFields(askedFields, liveFields, func(name string) *keyedLists { return k.below[name] })
}

// splitFields applies splitByKey to the values of two maps. It returns nil for a nil map.
func (k *keyedLists) splitFields(
	asked, there map[string]any, below func(name string) *keyedLists,
) (splitAsked, splitThere any) {
	askedOut, liveOut := map[string]any{}, map[string]any{}

	names := maps.Clone(there)
	if names == nil {
		names = map[string]any{}
	}

	maps.Copy(names, asked)

	for name := range names {
		askedValue, liveValue := below(name).splitByKey(asked[name], there[name])
		if _, found := asked[name]; found {
			askedOut[name] = askedValue
		}

		if _, found := there[name]; found {
			liveOut[name] = liveValue
		}
	}

	if asked != nil {
		splitAsked = askedOut
	}

	if there != nil {
		splitThere = liveOut
	}

	return splitAsked, splitThere
}

// withoutItems returns a value without the given items below a path.
func (k *keyedLists) withoutItems(value any, path string, items []string) any {
	if k == nil || len(items) == 0 {
		return value
	}

	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, field := range value {
			out[name] = k.below[name].withoutItems(field, path+"."+name, items)
		}

		return out
	case []any:
		return slices.DeleteFunc(slices.Clone(value), func(item any) bool {
			return slices.Contains(items, path+"."+itemName(item, k.keys))
		})
	}

	return value
}

// asMap returns the items of a list by name, or nil for a nil list.
func asMap(names []string, list []any) map[string]any {
	if list == nil {
		return nil
	}

	out := map[string]any{}
	for i, name := range names {
		out[name] = list[i]
	}

	return out
}

// inOneOrder reports whether the names shared by two lists have the same order in both.
func inOneOrder(one, other []string) bool {
	shared := func(list, with []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !slices.Contains(with, name) })
	}

	return slices.Equal(shared(one, other), shared(other, one))
}
