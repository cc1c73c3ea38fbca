package api

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the operations common to all collections: finding, listing and searching items.

// findRow finds the object with the ID in the path.
func findRow[T any](t *store.Table[T], id string) (*T, error) {
	if found := t.Get(id); found != nil {
		return found, nil
	}

	return nil, wire.NotFound()
}

// answerList answers with a list of objects.
func answerList[T any](
	c *call, name string, items []*T, of fields[*T], document func(*call, *T) *wire.Element,
) (*wire.Element, error) {
	items, err := applySearch(c, items, of)
	if err != nil {
		return nil, err
	}

	out := &wire.Element{Name: name, Structured: true, Kids: make([]*wire.Element, 0, len(items))}
	for _, item := range items {
		out.AddItems(document(c, item))
	}

	return out, nil
}

// singleValue turns a function for one value into a search field.
func singleValue[T any](value func(T) string) func(T) []string {
	return func(item T) []string { return []string{value(item)} }
}

// answerItem answers with one item of a list.
func (c *call) answerItem(list operation, id string) (*wire.Element, error) {
	all, err := list(c)
	if err != nil {
		return nil, err
	}

	for _, item := range all.Kids {
		if item.Attr("id") == id {
			item.Item = false
			return item, nil
		}
	}

	return nil, wire.NotFound()
}

// readItem returns the operation that reads one item of a list.
func readItem(list operation) operation {
	return func(c *call) (*wire.Element, error) { return c.answerItem(list, c.pathID("id")) }
}

// readItemNamed is like readItem, but the path parameter of the item has the given name, because {id} is the list's
// owner.
func readItemNamed(name string, list operation) operation {
	return func(c *call) (*wire.Element, error) { return c.answerItem(list, c.pathID(name)) }
}
