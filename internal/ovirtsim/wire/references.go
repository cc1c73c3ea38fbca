package wire

import (
	"cmp"
	"strings"
)

// RefID returns the ID in a reference. Some clients send the ID as an element instead of an attribute.
func RefID(e *Element) string { return cmp.Or(e.Attr("id"), e.Value("id")) }

// Href returns the path of an object.
func Href(parts ...string) string { return APIPath + "/" + strings.Join(parts, "/") }

// Ref returns a reference to an object, or nil for an empty ID.
func Ref(name, collection, id string) *Element {
	if id == "" {
		return nil
	}

	return El(name).SetAttr("href", Href(collection, id)).SetAttr("id", id)
}

// Refs returns a list of references.
func Refs(name, item, collection string, ids []string) *Element {
	out := El(name)
	for _, id := range ids {
		out.AddItems(Ref(item, collection, id))
	}

	return out
}

// NewObject returns the element of an object, with links to its actions and collections. The caller adds the fields.
func NewObject(name, id string, path ...string) *Element {
	out := El(name).SetAttr("href", Href(path...)).SetAttr("id", id)
	found, _ := API().FindService(path)
	if found == nil {
		return out
	}

	base, actions := out.Attr("href"), El("actions")

	for _, method := range found.Methods {
		if rel, ok := strings.CutPrefix(method, "!"); ok {
			actions.AddItems(El("link").SetAttr("href", base+"/"+rel).SetAttr("rel", rel))
		}
	}

	if len(actions.Kids) > 0 {
		out.Add(actions)
	}

	for _, rel := range SortedKeys(found.Paths) {
		if rel != "{}" {
			out.AddItems(El("link").SetAttr("href", base+"/"+rel).SetAttr("rel", rel))
		}
	}

	return out
}

// EnginePath is the prefix of all paths of the engine.
const EnginePath = "/ovirt-engine"

// APIPath is the prefix of all paths of the API.
const APIPath = EnginePath + "/api"
