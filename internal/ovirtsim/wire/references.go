package wire

import (
	"cmp"
	"strings"
)

// RefID is the ID of the object that an element refers to, as an attribute or, from some clients, as an element.
func RefID(e *Element) string { return cmp.Or(e.Attr("id"), e.Value("id")) }

// Href is the path of an object.
func Href(parts ...string) string { return APIPath + "/" + strings.Join(parts, "/") }

// Ref refers to an object; nil for an empty ID.
func Ref(name, collection, id string) *Element {
	if id == "" {
		return nil
	}

	return El(name).Set("href", Href(collection, id)).Set("id", id)
}

// Refs is a list of references.
func Refs(name, item, collection string, ids []string) *Element {
	out := El(name)
	for _, id := range ids {
		out.Items(Ref(item, collection, id))
	}

	return out
}

// Object begins the document of an object, with the actions and the collections that the API has for it.
func Object(name, id string, path ...string) *Element {
	out := El(name).Set("href", Href(path...)).Set("id", id)
	found, _ := API().At(path)
	if found == nil {
		return out
	}

	base, actions := out.Attr("href"), El("actions")

	for _, method := range found.Methods {
		if rel, ok := strings.CutPrefix(method, "!"); ok {
			actions.Items(El("link").Set("href", base+"/"+rel).Set("rel", rel))
		}
	}

	if len(actions.Kids) > 0 {
		out.Add(actions)
	}

	for _, rel := range SortedKeys(found.Paths) {
		if rel != "{}" {
			out.Items(El("link").Set("href", base+"/"+rel).Set("rel", rel))
		}
	}

	return out
}

// EnginePath is what all paths of the engine begin with.
const EnginePath = "/ovirt-engine"

// APIPath is what all paths of the API begin with.
const APIPath = EnginePath + "/api"
