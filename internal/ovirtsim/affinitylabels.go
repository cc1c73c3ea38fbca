package ovirtsim

import (
	"net/http"
	"slices"
)

// This file has affinity labels. A label with an implicit affinity group binds its VMs to its hosts.

func labelDocument(_ *call, l *affinityLabel) *element {
	return object("affinity_label", l.ID, "affinitylabels", l.ID).str("name", l.Name).flag("has_implicit_affinity_group", l.Implicit).flag("read_only", false)
}

func labelKey(l *affinityLabel) string { return l.Name }

func labelsWhere(c *call, match func(*affinityLabel) bool) (*element, error) {
	of := fields[*affinityLabel]{"name": val(labelKey), "id": val(func(l *affinityLabel) string { return l.ID })}
	return collect(c, "affinity_labels", c.store.labels.where(match, labelKey), of, labelDocument)
}

func listLabels(c *call) (*element, error) { return labelsWhere(c, nil) }

func (c *call) label() (*affinityLabel, error) { return one(c.store.labels, c.id("id")) }

func getLabel(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	return labelDocument(c, l), nil
}

// noLabel is what a change says of a label that is not there.
func noLabel() error { return invalid("Affinity label does not exist.") }

func (c *call) labelNameFree(l *affinityLabel, name string) error {
	for _, other := range c.store.labels.rows {
		if other.ID != l.ID && other.Name == name {
			return conflict("Affinity label already exists.")
		}
	}
	return nil
}

func addLabel(c *call) (*element, error) {
	if err := mandatory(c.body, "label", "name"); err != nil {
		return nil, err
	}
	if err := require(c.body, "AffinityLabel", "name"); err != nil {
		return nil, err
	}
	made := &affinityLabel{ID: newID(), Name: c.body.value("name"), Implicit: c.body.yes("has_implicit_affinity_group")}
	if err := c.labelNameFree(made, made.Name); err != nil {
		return nil, err
	}
	for name, set := range map[string]*[]string{"vms": &made.VMs, "hosts": &made.Hosts} {
		if in := c.body.get(name); in != nil {
			for _, e := range in.kids {
				*set = append(*set, refID(e))
			}
		}
	}
	c.store.labels.put(made.ID, made)
	return c.created(labelDocument(c, made)), nil
}

func updateLabel(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	if name := c.body.value("name"); name != "" {
		if err := c.labelNameFree(l, name); err != nil {
			return nil, err
		}
		l.Name = name
	}
	if c.body.has("has_implicit_affinity_group") {
		l.Implicit = c.body.yes("has_implicit_affinity_group")
	}
	c.store.labels.put(l.ID, l)
	return labelDocument(c, l), nil
}

func removeLabel(c *call) (*element, error) {
	l := c.store.labels.get(c.id("id"))
	switch {
	case l == nil:
		return nil, noLabel()
	case len(l.VMs)+len(l.Hosts) > 0:
		return nil, conflict("Cannot delete affinity label, remove it from all entities first.")
	}
	c.store.labels.drop(l.ID)
	return c.complete(), nil
}

// labelled is a kind of object that may have affinity labels.
type labelled struct {
	// owner and list name the object and several of it in documents; id is its parameter in paths.
	owner, list, id string
	// of is where a label keeps the objects that have it.
	of func(*affinityLabel) *[]string
	// there says whether the object exists.
	there func(c *call, id string) bool
}

var (
	labelledVM   = labelled{"vm", "vms", "vm", func(l *affinityLabel) *[]string { return &l.VMs }, func(c *call, id string) bool { return c.store.vms.get(id) != nil }}
	labelledHost = labelled{"host", "hosts", "host", func(l *affinityLabel) *[]string { return &l.Hosts }, func(c *call, id string) bool { return c.store.hosts.get(id) != nil }}
)

// members lists the objects that have a label.
func (k labelled) members(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	return refs(k.list, k.owner, k.list, *k.of(l)), nil
}

// addMember puts an object into a label.
func (k labelled) addMember(c *call) (*element, error) {
	if refID(c.body) == "" {
		return nil, incomplete(map[string]string{"vm": "Vm", "host": "Host"}[k.owner], "id")
	}
	if err := checkRef(c.body); err != nil {
		return nil, err
	}
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	if !k.there(c, refID(c.body)) {
		return nil, failed(http.StatusBadRequest, "[Affinity Label entity does not exist.]")
	}
	member(k.of(l), refID(c.body), true)
	c.store.labels.put(l.ID, l)
	return ref(k.owner, k.list, refID(c.body)), nil
}

func (k labelled) removeMember(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	if !member(k.of(l), c.id(k.id), false) {
		return nil, gone()
	}
	c.store.labels.put(l.ID, l)
	return c.complete(), nil
}

// assigned lists the labels of an object.
func (k labelled) assigned(c *call) (*element, error) {
	return labelsWhere(c, func(l *affinityLabel) bool { return slices.Contains(*k.of(l), c.id(k.id)) })
}

// assign gives a label to an object.
func (k labelled) assign(c *call) (*element, error) {
	if refID(c.body) == "" {
		return nil, incomplete("AffinityLabel", "id")
	}
	if err := checkRef(c.body); err != nil {
		return nil, err
	}
	l := c.store.labels.get(refID(c.body))
	if l == nil || !k.there(c, c.id(k.id)) {
		return nil, noLabel()
	}
	member(k.of(l), c.id(k.id), true)
	c.store.labels.put(l.ID, l)
	document := labelDocument(c, l)
	document.attrs[0].value = href(k.list, c.id(k.id), "affinitylabels", l.ID)
	return c.created(document), nil
}

func (k labelled) get(c *call) (*element, error) {
	l := c.store.labels.get(c.id("id"))
	if l == nil || !slices.Contains(*k.of(l), c.id(k.id)) {
		return nil, gone()
	}
	return labelDocument(c, l), nil
}

func (k labelled) unassign(c *call) (*element, error) {
	l := c.store.labels.get(c.id("id"))
	if l == nil || !member(k.of(l), c.id(k.id), false) {
		return nil, gone()
	}
	c.store.labels.put(l.ID, l)
	return c.complete(), nil
}
