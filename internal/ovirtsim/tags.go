package ovirtsim

import (
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// This file has tags, and which VMs, hosts and templates have them.

func tagDocument(_ *call, t *tag) *element {
	out := object("tag", t.ID, "tags", t.ID).str("name", t.Name)
	if t.Description != nil {
		out.str("description", *t.Description)
	}
	return out.add(ref("parent", "tags", t.Parent))
}

func tagKey(t *tag) string { return t.Name + t.ID }

// listTags has the root as well. It takes no notice of a search, nor of max.
func listTags(c *call) (*element, error) {
	out := el("tags")
	for _, t := range c.store.tags.where(nil, tagKey) {
		out.items(tagDocument(c, t))
	}
	return out, nil
}

func (c *call) tag() (*tag, error) { return one(c.store.tags, c.id("id")) }

func getTag(c *call) (*element, error) {
	t, err := c.tag()
	if err != nil {
		return nil, err
	}
	return tagDocument(c, t), nil
}

// tagLine are the names of a tag and of those above it, without the root.
func (s *store) tagLine(t *tag) []string {
	var out []string
	for ; t != nil && t.ID != rootTagID; t = s.tags.get(t.Parent) {
		out = append(out, t.Name)
	}
	return out
}

const maxTagName = 50

// changeTag applies a request to a tag. A parent that is not there is told as if the name were taken.
func (c *call) changeTag(t *tag) error {
	in, next := c.body, *t
	if in.has("name") {
		next.Name = in.value("name")
	}
	if in.has("description") {
		description := in.value("description")
		next.Description = &description
	}
	if length := utf8.RuneCountInString(next.Name); length < 1 || length > maxTagName {
		return invalid("size must be between 1 and %d, Attribute: _tag.name", maxTagName)
	}
	if !plainName(next.Name) {
		return invalid("Invalid tag name. Only letters, numbers, '-', and '_' are valid characters., Attribute: _tag.name")
	}
	for _, other := range c.store.tags.rows {
		if other.ID != t.ID && other.Name == next.Name && !c.missed(other.made) {
			return conflict("The specified Tag name already exists.")
		}
	}
	if parent := in.get("parent"); parent != nil {
		above := c.store.tags.get(refID(parent))
		if above == nil {
			return conflict("The specified Tag name already exists.")
		}
		if above.ID == t.ID || slices.Contains(c.store.tagLine(above), t.Name) {
			return invalid("Cannot edit tag. The parent tag is one of its children.")
		}
		next.Parent = above.ID
	}
	*t = next
	return nil
}

func addTag(c *call) (*element, error) {
	if err := mandatory(c.body, "tag", "name"); err != nil {
		return nil, err
	}
	if err := require(c.body, "Tag", "name"); err != nil {
		return nil, err
	}
	made := &tag{ID: newID(), Parent: rootTagID, made: time.Now()}
	if err := c.changeTag(made); err != nil {
		return nil, err
	}
	c.store.tags.put(made.ID, made)
	return c.created(tagDocument(c, made)), nil
}

func updateTag(c *call) (*element, error) {
	t, err := c.tag()
	if err != nil {
		return nil, err
	}
	if t.ID == rootTagID {
		return nil, failed(http.StatusInternalServerError, "[General command validation failure.]")
	}
	if err := c.changeTag(t); err != nil {
		return nil, err
	}
	c.store.tags.put(t.ID, t)
	return tagDocument(c, t), nil
}

// removeTag removes a tag and those below it.
func removeTag(c *call) (*element, error) {
	t, err := c.tag()
	if err != nil {
		return nil, err
	}
	if t.ID == rootTagID {
		return nil, invalid("Cannot remove tag. Tag does not exist.")
	}
	c.store.dropTag(t)
	return c.complete(), nil
}

func (s *store) dropTag(t *tag) {
	for _, other := range s.tags.where(func(o *tag) bool { return o.Parent == t.ID }, tagKey) {
		s.dropTag(other)
	}
	s.tags.drop(t.ID)
}

// tagged is a kind of object that may have tags.
type tagged struct {
	// owner and collection name the object in documents; id is its parameter in paths.
	owner, collection, id string
	// of is where a tag keeps the objects that have it.
	of func(*tag) *[]string
	// there says whether the object exists.
	there func(c *call, id string) bool
}

var (
	taggedVM       = tagged{"vm", "vms", "vm", func(t *tag) *[]string { return &t.VMs }, func(c *call, id string) bool { return c.store.vms.get(id) != nil }}
	taggedHost     = tagged{"host", "hosts", "host", func(t *tag) *[]string { return &t.Hosts }, func(c *call, id string) bool { return c.store.hosts.get(id) != nil }}
	taggedTemplate = tagged{"template", "templates", "template", func(t *tag) *[]string { return &t.Templates }, func(c *call, id string) bool { return c.store.templates.get(id) != nil }}
)

func (k tagged) document(c *call, t *tag) *element {
	out := tagDocument(c, t)
	out.attrs[0].value = href(k.collection, c.id(k.id), "tags", t.ID)
	return out.add(ref(k.owner, k.collection, c.id(k.id)))
}

func (k tagged) list(c *call) (*element, error) {
	out := el("tags")
	for _, t := range c.store.tags.where(func(t *tag) bool { return slices.Contains(*k.of(t), c.id(k.id)) }, tagKey) {
		out.items(k.document(c, t))
	}
	return out, nil
}

func (k tagged) add(c *call) (*element, error) {
	if err := mandatoryRef(c.body, "tag"); err != nil {
		return nil, err
	}
	if err := checkRef(c.body); err != nil {
		return nil, err
	}
	t := referred(c.store.tags, c.body, func(t *tag) string { return t.Name })
	switch {
	case t == nil && refID(c.body) == "":
		return nil, entityNotFound(c.body.value("name"))
	case t == nil || !k.there(c, c.id(k.id)):
		return nil, internalError()
	}
	member(k.of(t), c.id(k.id), true)
	c.store.tags.put(t.ID, t)
	return c.created(k.document(c, t)), nil
}

func (k tagged) tag(c *call) (*tag, error) {
	if t := c.store.tags.get(c.id("id")); t != nil && slices.Contains(*k.of(t), c.id(k.id)) {
		return t, nil
	}
	return nil, gone()
}

func (k tagged) get(c *call) (*element, error) {
	t, err := k.tag(c)
	if err != nil {
		return nil, err
	}
	return k.document(c, t), nil
}

func (k tagged) remove(c *call) (*element, error) {
	t, err := k.tag(c)
	if err != nil {
		return nil, err
	}
	member(k.of(t), c.id(k.id), false)
	c.store.tags.put(t.ID, t)
	return c.complete(), nil
}

// tagsOf are the names of the tags of an object. A tag stands for those above it.
func (s *store) tagsOf(id string, k tagged) []string {
	var names []string
	for _, t := range s.tags.rows {
		if slices.Contains(*k.of(t), id) {
			names = append(names, s.tagLine(t)...)
		}
	}
	return names
}
