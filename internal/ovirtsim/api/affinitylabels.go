package api

import (
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains affinity labels. A label with an implicit affinity group binds its VMs to its hosts.

var affinityLabelRoutes = []route{
	{"GET", "/affinitylabels", listLabels},
	{"POST", "/affinitylabels", addLabel},
	{"GET", "/affinitylabels/{id}", getLabel},
	{"PUT", "/affinitylabels/{id}", updateLabel},
	{"DELETE", "/affinitylabels/{id}", removeLabel},
	{"GET", "/affinitylabels/{id}/hosts", labelledHost.listMembers},
	{"POST", "/affinitylabels/{id}/hosts", labelledHost.addMember},
	{"DELETE", "/affinitylabels/{id}/hosts/{host}", labelledHost.removeMember},
	{"GET", "/affinitylabels/{id}/vms", labelledVM.listMembers},
	{"POST", "/affinitylabels/{id}/vms", labelledVM.addMember},
	{"DELETE", "/affinitylabels/{id}/vms/{vm}", labelledVM.removeMember},
	{"GET", "/hosts/{host}/affinitylabels", labelledHost.listAssigned},
	{"POST", "/hosts/{host}/affinitylabels", labelledHost.assignLabel},
	{"GET", "/hosts/{host}/affinitylabels/{id}", labelledHost.getAssigned},
	{"DELETE", "/hosts/{host}/affinitylabels/{id}", labelledHost.unassignLabel},
	{"GET", "/vms/{vm}/affinitylabels", labelledVM.listAssigned},
	{"POST", "/vms/{vm}/affinitylabels", labelledVM.assignLabel},
	{"GET", "/vms/{vm}/affinitylabels/{id}", labelledVM.getAssigned},
	{"DELETE", "/vms/{vm}/affinitylabels/{id}", labelledVM.unassignLabel},
}

func labelDocument(_ *call, l *store.AffinityLabel) *wire.Element {
	return wire.NewObject("affinity_label", l.ID, "affinitylabels", l.ID).Str("name", l.Name).
		Flag("has_implicit_affinity_group", l.Implicit).Flag("read_only", false)
}

func labelsWhere(c *call, match func(*store.AffinityLabel) bool) (*wire.Element, error) {
	of := fields[*store.AffinityLabel]{
		"name": singleValue(store.LabelKey),
		"id":   singleValue(func(l *store.AffinityLabel) string { return l.ID }),
	}

	return answerList(c, "affinity_labels", c.store.Labels.Where(match, store.LabelKey), of, labelDocument)
}

func listLabels(c *call) (*wire.Element, error) { return labelsWhere(c, nil) }

func (c *call) findLabel() (*store.AffinityLabel, error) {
	return findRow(c.store.Labels, c.pathID("id"))
}

func getLabel(c *call) (*wire.Element, error) {
	l, err := c.findLabel()
	if err != nil {
		return nil, err
	}

	return labelDocument(c, l), nil
}

// noLabel returns the error for changing a missing label.
func noLabel() error { return wire.Invalid("Affinity label does not exist.") }

// checkLabelName rejects a name already in use, with the text from the engine's sources.
func (c *call) checkLabelName(l *store.AffinityLabel, name string) error {
	for _, other := range c.store.Labels.Rows {
		if other.ID != l.ID && other.Name == name {
			return wire.Conflict("Cannot add affinity label with a conflicting NAME.")
		}
	}

	return nil
}

func addLabel(c *call) (*wire.Element, error) {
	if err := requireElements(c.body, "AffinityLabel", "name"); err != nil {
		return nil, err
	}

	made := &store.AffinityLabel{
		ID:       store.NewID(),
		Name:     c.body.Value("name"),
		Implicit: c.body.IsTrue("has_implicit_affinity_group"),
	}
	if err := c.checkLabelName(made, made.Name); err != nil {
		return nil, err
	}

	for name, set := range map[string]*[]string{"vms": &made.VMs, "hosts": &made.Hosts} {
		if in := c.body.Get(name); in != nil {
			for _, e := range in.Kids {
				*set = append(*set, wire.RefID(e))
			}
		}
	}

	c.store.Labels.Put(made.ID, made)

	return c.answerCreated(labelDocument(c, made)), nil
}

func updateLabel(c *call) (*wire.Element, error) {
	l, err := c.findLabel()
	if err != nil {
		return nil, err
	}

	if name := c.body.Value("name"); name != "" {
		if err := c.checkLabelName(l, name); err != nil {
			return nil, err
		}

		l.Name = name
	}

	if c.body.Has("has_implicit_affinity_group") {
		l.Implicit = c.body.IsTrue("has_implicit_affinity_group")
	}

	c.store.Labels.Put(l.ID, l)

	return labelDocument(c, l), nil
}

func removeLabel(c *call) (*wire.Element, error) {
	l := c.store.Labels.Get(c.pathID("id"))
	switch {
	case l == nil:
		return nil, noLabel()
	case len(l.VMs)+len(l.Hosts) > 0:
		return nil, wire.Conflict("Cannot delete affinity label, remove it from all entities first.")
	}

	c.store.Labels.Drop(l.ID)

	return c.answerComplete(), nil
}

// labelled is a kind of object that can have affinity labels.
type labelled struct {
	// owner is the element name of one object, and list of several. id is the object's parameter in paths.
	owner, list, id string
	// of returns the label's list of objects of this kind.
	of func(*store.AffinityLabel) *[]string
	// there reports whether the object exists.
	there func(c *call, id string) bool
}

var (
	labelledVM = labelled{"vm", "vms", "vm", func(l *store.AffinityLabel) *[]string {
		return &l.VMs
	}, func(c *call, id string) bool { return c.store.VMs.Get(id) != nil }}
	labelledHost = labelled{"host", "hosts", "host", func(l *store.AffinityLabel) *[]string {
		return &l.Hosts
	}, func(c *call, id string) bool { return c.store.Hosts.Get(id) != nil }}
)

// listMembers lists the objects with a label.
func (k labelled) listMembers(c *call) (*wire.Element, error) {
	l, err := c.findLabel()
	if err != nil {
		return nil, err
	}

	return wire.Refs(k.list, k.owner, k.list, *k.of(l)), nil
}

// addMember adds an object to a label.
func (k labelled) addMember(c *call) (*wire.Element, error) {
	if wire.RefID(c.body) == "" {
		return nil, incompleteError(map[string]string{"vm": "Vm", "host": "Host"}[k.owner], "id")
	}

	if err := checkRef(c.body); err != nil {
		return nil, err
	}

	l, err := c.findLabel()
	if err != nil {
		return nil, err
	}

	if !k.there(c, wire.RefID(c.body)) { // the engine notices the missing object only when it writes the row
		return nil, wire.InternalError()
	}

	store.SetMember(k.of(l), wire.RefID(c.body), true)
	c.store.Labels.Put(l.ID, l)

	return wire.Ref(k.owner, k.list, wire.RefID(c.body)), nil
}

func (k labelled) removeMember(c *call) (*wire.Element, error) {
	l, err := c.findLabel()
	if err != nil {
		return nil, err
	}

	if !store.SetMember(k.of(l), c.pathID(k.id), false) {
		return nil, wire.NotFound()
	}

	c.store.Labels.Put(l.ID, l)

	return c.answerComplete(), nil
}

// listAssigned lists the labels of an object.
func (k labelled) listAssigned(c *call) (*wire.Element, error) {
	return labelsWhere(c, func(l *store.AffinityLabel) bool { return slices.Contains(*k.of(l), c.pathID(k.id)) })
}

// assignLabel adds a label to an object.
func (k labelled) assignLabel(c *call) (*wire.Element, error) {
	if wire.RefID(c.body) == "" {
		return nil, incompleteError("AffinityLabel", "id")
	}

	if err := checkRef(c.body); err != nil {
		return nil, err
	}

	l := c.store.Labels.Get(wire.RefID(c.body))
	if l == nil {
		return nil, wire.NotFound()
	}

	if !k.there(c, c.pathID(k.id)) {
		return nil, wire.InternalError()
	}

	store.SetMember(k.of(l), c.pathID(k.id), true)
	c.store.Labels.Put(l.ID, l)
	document := labelDocument(c, l)
	document.Attrs[0].Value = wire.Href(k.list, c.pathID(k.id), "affinitylabels", l.ID)
	c.answerCreated(document)
	c.made = wire.Href("affinitylabels", l.ID) // the engine returns the label's path here, not the assignment's

	return document, nil
}

func (k labelled) getAssigned(c *call) (*wire.Element, error) {
	l := c.store.Labels.Get(c.pathID("id"))
	if l == nil || !slices.Contains(*k.of(l), c.pathID(k.id)) {
		return nil, wire.NotFound()
	}

	return labelDocument(c, l), nil
}

func (k labelled) unassignLabel(c *call) (*wire.Element, error) {
	l := c.store.Labels.Get(c.pathID("id"))
	if l == nil || !store.SetMember(k.of(l), c.pathID(k.id), false) {
		return nil, wire.NotFound()
	}

	c.store.Labels.Put(l.ID, l)

	return c.answerComplete(), nil
}
