package api

import (
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains tags, and their assignments to VMs, hosts and templates.

var tagRoutes = []route{
	{"GET", "/hosts/{host}/tags", taggedHost.listAssigned},
	{"POST", "/hosts/{host}/tags", taggedHost.assignTag},
	{"GET", "/hosts/{host}/tags/{id}", taggedHost.getAssigned},
	{"DELETE", "/hosts/{host}/tags/{id}", taggedHost.unassignTag},
	{"GET", "/tags", listTags},
	{"POST", "/tags", addTag},
	{"GET", "/tags/{id}", getTag},
	{"PUT", "/tags/{id}", updateTag},
	{"DELETE", "/tags/{id}", removeTag},
	{"GET", "/templates/{template}/tags", taggedTemplate.listAssigned},
	{"POST", "/templates/{template}/tags", taggedTemplate.assignTag},
	{"GET", "/templates/{template}/tags/{id}", taggedTemplate.getAssigned},
	{"DELETE", "/templates/{template}/tags/{id}", taggedTemplate.unassignTag},
	{"GET", "/vms/{vm}/tags", taggedVM.listAssigned},
	{"POST", "/vms/{vm}/tags", taggedVM.assignTag},
	{"GET", "/vms/{vm}/tags/{id}", taggedVM.getAssigned},
	{"DELETE", "/vms/{vm}/tags/{id}", taggedVM.unassignTag},
}

func tagDocument(_ *call, t *store.Tag) *wire.Element { return describedTag(t, t.Description) }

func describedTag(t *store.Tag, description *string) *wire.Element {
	out := wire.NewObject("tag", t.ID, "tags", t.ID).Str("name", t.Name)
	if description != nil {
		out.Str("description", *description)
	}

	return out.Add(wire.Ref("parent", "tags", t.Parent))
}

// listTags lists the tags, including the root. It ignores the parameters search and max.
func listTags(c *call) (*wire.Element, error) {
	out := wire.El("tags")
	for _, t := range c.store.Tags.Where(nil, store.TagKey) {
		out.AddItems(tagDocument(c, t))
	}

	return out, nil
}

func (c *call) findTag() (*store.Tag, error) { return findRow(c.store.Tags, c.pathID("id")) }

func getTag(c *call) (*wire.Element, error) {
	t, err := c.findTag()
	if err != nil {
		return nil, err
	}

	return tagDocument(c, t), nil
}

const maxTagName = 50

// changeTag applies a request to a tag. For a missing parent, it returns the same error as for a name in use.
func (c *call) changeTag(t *store.Tag) error {
	in, next := c.body, *t
	if in.Has("name") {
		next.Name = in.Value("name")
	}

	if in.Has("description") {
		description := in.Value("description")
		next.Description = &description
	}

	if length := utf8.RuneCountInString(next.Name); length < 1 || length > maxTagName {
		return wire.Invalid("size must be between 1 and %d, Attribute: _tag.name", maxTagName)
	}

	if !store.IsPlainName(next.Name) {
		return wire.Invalid(
			"Invalid tag name. Only letters, numbers, '-', and '_' are valid characters., Attribute: _tag.name",
		)
	}

	for _, other := range c.store.Tags.Rows {
		if other.ID != t.ID && other.Name == next.Name && !c.arrivedBefore(other.Made) {
			return wire.Conflict("The specified Tag name already exists.")
		}
	}

	if parent := in.Get("parent"); parent != nil {
		above := c.store.Tags.Get(wire.RefID(parent))
		if above == nil {
			return wire.Conflict("The specified Tag name already exists.")
		}

		if above.ID == t.ID || slices.Contains(c.store.TagLine(above), t.Name) {
			text := "Operation canceled, recursive Tag hierarchy cannot be defined." // from the engine's sources
			if above.ID == t.ID {                                                    // a second time
				text += ", " + text
			}

			return wire.Conflict("%s", text)
		}

		next.Parent = above.ID
	}

	*t = next

	return nil
}

func addTag(c *call) (*wire.Element, error) {
	if err := requireParameter(c.body, "tag", "name"); err != nil {
		return nil, err
	}

	if err := requireElements(c.body, "Tag", "name"); err != nil {
		return nil, err
	}

	made := &store.Tag{ID: store.NewID(), Parent: store.RootTagID, Made: time.Now()}
	if err := c.changeTag(made); err != nil {
		return nil, err
	}

	c.store.Tags.Put(made.ID, made)

	return c.answerCreated(tagDocument(c, made)), nil
}

func updateTag(c *call) (*wire.Element, error) {
	t, err := c.findTag()
	if err != nil {
		return nil, err
	}

	if t.ID == store.RootTagID {
		return nil, wire.PlainFault(http.StatusInternalServerError, "[General command validation failure.]")
	}

	if err := c.changeTag(t); err != nil {
		return nil, err
	}

	c.store.Tags.Put(t.ID, t)

	return tagDocument(c, t), nil
}

// removeTag removes a tag and its descendants.
func removeTag(c *call) (*wire.Element, error) {
	t, err := c.findTag()
	if err != nil {
		return nil, err
	}

	if t.ID == store.RootTagID {
		return nil, wire.Invalid("Cannot remove tag. Tag does not exist.")
	}

	c.store.DropTag(t)

	return c.answerComplete(), nil
}

// tagged is a kind of object that can have tags.
type tagged struct {
	// owner and collection are the object's names in documents. id is the object's parameter in paths.
	owner, collection, id string
	// of returns the tag's list of objects of this kind.
	of func(*store.Tag) *[]string
	// there reports whether the object exists.
	there func(c *call, id string) bool
}

var (
	taggedVM = tagged{"vm", "vms", "vm", func(t *store.Tag) *[]string {
		return &t.VMs
	}, func(c *call, id string) bool { return c.store.VMs.Get(id) != nil }}
	taggedHost = tagged{"host", "hosts", "host", func(t *store.Tag) *[]string {
		return &t.Hosts
	}, func(c *call, id string) bool { return c.store.Hosts.Get(id) != nil }}
	taggedTemplate = tagged{"template", "templates", "template", func(t *store.Tag) *[]string {
		return &t.Templates
	}, func(c *call, id string) bool { return c.store.Templates.Get(id) != nil }}
)

// document shows a tag of an object. The engine shows the tag's description in the response to the assignment, and an
// empty description later.
func (k tagged) document(c *call, t *store.Tag, description *string) *wire.Element {
	out := describedTag(t, description)
	out.Attrs[0].Value = wire.Href(k.collection, c.pathID(k.id), "tags", t.ID)
	return out.Add(wire.Ref(k.owner, k.collection, c.pathID(k.id)))
}

func (k tagged) listAssigned(c *call) (*wire.Element, error) {
	out := wire.El("tags")
	for _, t := range c.store.Tags.Where(func(t *store.Tag) bool {
		return slices.Contains(*k.of(t), c.pathID(k.id))
	}, store.TagKey) {
		out.AddItems(k.document(c, t, new(string)))
	}

	return out, nil
}

func (k tagged) assignTag(c *call) (*wire.Element, error) {
	if err := requireRef(c.body, "tag"); err != nil {
		return nil, err
	}

	if err := checkRef(c.body); err != nil {
		return nil, err
	}

	t := findReferred(c.store.Tags, c.body, func(t *store.Tag) string { return t.Name })
	switch {
	case t == nil && wire.RefID(c.body) == "":
		return nil, wire.EntityNotFound(c.body.Value("name"))
	case t == nil || !k.there(c, c.pathID(k.id)):
		return nil, wire.InternalError()
	}

	store.SetMember(k.of(t), c.pathID(k.id), true)
	c.store.Tags.Put(t.ID, t)

	return c.answerCreated(k.document(c, t, t.Description)), nil
}

func (k tagged) findTag(c *call) (*store.Tag, error) {
	if t := c.store.Tags.Get(c.pathID("id")); t != nil && slices.Contains(*k.of(t), c.pathID(k.id)) {
		return t, nil
	}

	return nil, wire.NotFound()
}

func (k tagged) getAssigned(c *call) (*wire.Element, error) {
	t, err := k.findTag(c)
	if err != nil {
		return nil, err
	}

	return k.document(c, t, new(string)), nil
}

func (k tagged) unassignTag(c *call) (*wire.Element, error) {
	t, err := k.findTag(c)
	if err != nil {
		return nil, err
	}

	store.SetMember(k.of(t), c.pathID(k.id), false)
	c.store.Tags.Put(t.ID, t)

	return c.answerComplete(), nil
}

// tagsOf returns the names of an object's tags. A tag includes its ancestors.
func (s *Engine) tagsOf(id string, k tagged) []string {
	var names []string

	for _, t := range s.store.Tags.Rows {
		if slices.Contains(*k.of(t), id) {
			names = append(names, s.store.TagLine(t)...)
		}
	}

	return names
}
