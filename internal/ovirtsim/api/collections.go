package api

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the common parts of all collections: finding, listing and searching items.

// one finds an object of the path.
func one[T any](t *store.Table[T], id string) (*T, error) {
	if found := t.Get(id); found != nil {
		return found, nil
	}

	return nil, wire.Gone()
}

// collect answers with a list.
func collect[T any](
	c *call, name string, items []*T, of fields[*T], document func(*call, *T) *wire.Element,
) (*wire.Element, error) {
	items, err := find(c, items, of)
	if err != nil {
		return nil, err
	}

	out := &wire.Element{Name: name, Structured: true, Kids: make([]*wire.Element, 0, len(items))}
	for _, item := range items {
		out.Items(document(c, item))
	}

	return out, nil
}

// val returns a field with a single value.
func val[T any](value func(T) string) func(T) []string {
	return func(item T) []string { return []string{value(item)} }
}

// pick answers with one item of a list.
func (c *call) pick(list operation, id string) (*wire.Element, error) {
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

	return nil, wire.Gone()
}

// itemOf returns the operation to read one item of a list.
func itemOf(list operation) operation {
	return func(c *call) (*wire.Element, error) { return c.pick(list, c.id("id")) }
}

// itemNamed is like itemOf with another path parameter for the item, because {id} is the list's owner.
func itemNamed(name string, list operation) operation {
	return func(c *call) (*wire.Element, error) { return c.pick(list, c.id(name)) }
}
