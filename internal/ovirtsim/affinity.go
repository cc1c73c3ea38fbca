package ovirtsim

import (
	"slices"
	"strconv"
)

// This file has affinity groups and tags.

func groupKey(g *affinityGroup) string { return g.Name + g.ID }

func ruleElement(name string, r rule) *element {
	return el(name).flag("enabled", r.Enabled).flag("enforcing", r.Enforcing).flag("positive", r.Positive)
}

func groupDocument(_ *call, g *affinityGroup) *element {
	return object("affinity_group", g.ID, "clusters", g.Cluster, "affinitygroups", g.ID).links("vms", "hosts").str("name", g.Name).
		str("description", g.Description).flag("broken", false).flag("enforcing", g.VMsRule.Enforcing).flag("positive", g.VMsRule.Positive).
		num("priority", g.Priority).add(ruleElement("hosts_rule", g.HostsRule), ruleElement("vms_rule", g.VMsRule),
		ref("cluster", "clusters", g.Cluster), refs("vms", "vm", "vms", g.VMs), refs("hosts", "host", "hosts", g.Hosts))
}

func (c *call) cluster() (*cluster, error) {
	return one(c.store.clusters, "Cluster", c.id("cluster"))
}

func listAffinityGroups(c *call) (*element, error) {
	group, err := c.cluster()
	if err != nil {
		return nil, err
	}
	of := fields[*affinityGroup]{"name": val(func(g *affinityGroup) string { return g.Name }), "id": val(func(g *affinityGroup) string { return g.ID })}
	items := c.store.groups.where(func(g *affinityGroup) bool { return g.Cluster == group.ID }, groupKey)
	return collect(c, "affinity_groups", items, of, groupDocument)
}

func (c *call) group() (*affinityGroup, error) {
	if _, err := c.cluster(); err != nil {
		return nil, err
	}
	g, err := one(c.store.groups, "AffinityGroup", c.id("id"))
	if err == nil && g.Cluster != c.id("cluster") {
		err = notFound("AffinityGroup", c.id("id"))
	}
	return g, err
}

func getAffinityGroup(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	return groupDocument(c, g), nil
}

func addAffinityGroup(c *call) (*element, error) {
	home, err := c.cluster()
	if err != nil {
		return nil, err
	}
	if err := require(c.body, "AffinityGroup", "name"); err != nil {
		return nil, err
	}
	made := &affinityGroup{ID: newID(), Cluster: home.ID, Priority: 1}
	if err := c.changeGroup(made); err != nil {
		return nil, err
	}
	c.store.groups.put(made.ID, made)
	c.work("Adding Affinity Group "+made.Name, "")
	c.created = true
	return groupDocument(c, made), nil
}

func updateAffinityGroup(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	if err := c.changeGroup(g); err != nil {
		return nil, err
	}
	c.store.groups.put(g.ID, g)
	c.work("Editing Affinity Group "+g.Name, "")
	return groupDocument(c, g), nil
}

// changeGroup applies a request to a group, which stays as it was on an error. The bare elements enforcing and positive
// are the old form of the rule among VMs.
func (c *call) changeGroup(g *affinityGroup) error {
	in, next := c.body, *g
	if in.has("name") {
		next.Name = in.value("name")
	}
	if next.Name == "" || !vmNamePattern.MatchString(next.Name) {
		return invalid("Cannot add Affinity Group. The given name contains special characters or is empty.")
	}
	for _, other := range c.store.groups.rows {
		if other.ID != g.ID && other.Cluster == g.Cluster && other.Name == next.Name {
			return conflict("Cannot add Affinity Group. Affinity Group name already exists.")
		}
	}
	if in.has("description") {
		next.Description = in.value("description")
	}
	if in.has("priority") {
		priority, err := strconv.ParseFloat(in.value("priority"), 64) // the engine keeps whole numbers of what is a decimal in the API
		if err != nil {
			return malformed("priority is not a number: " + in.value("priority"))
		}
		next.Priority = int64(priority)
	}
	next.VMsRule.change(in)
	next.VMsRule.change(in.get("vms_rule"))
	next.HostsRule.change(in.get("hosts_rule"))
	for name, set := range map[string]*[]string{"vms": &next.VMs, "hosts": &next.Hosts} {
		if !in.has(name) {
			continue
		}
		*set = nil
		for _, e := range in.list(name, name[:len(name)-1]) {
			if name == "vms" {
				v := c.store.vms.get(refID(e))
				if v == nil || v.Cluster != g.Cluster {
					return invalid("Cannot add Affinity Group. Entity in affinity group does not have the same cluster as the group.")
				}
			} else if h := c.store.hosts.get(refID(e)); h == nil || h.Cluster != g.Cluster {
				return invalid("Cannot add Affinity Group. Entity in affinity group does not have the same cluster as the group.")
			}
			*set = append(*set, refID(e))
		}
	}
	*g = next
	return nil
}

// change applies what a request says of a rule. To say whether it is positive enables it, as the engine has it.
func (r *rule) change(in *element) {
	if in.has("enforcing") {
		r.Enforcing = in.yes("enforcing")
	}
	if in.has("positive") {
		r.Positive, r.Enabled = in.yes("positive"), true
	}
	if in.has("enabled") {
		r.Enabled = in.yes("enabled")
	}
}

func removeAffinityGroup(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	c.store.groups.drop(g.ID)
	c.work("Removing Affinity Group "+g.Name, "")
	return c.complete(), nil
}

func listAffinityGroupVMs(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	return refs("vms", "vm", "vms", g.VMs), nil
}

func addAffinityGroupVM(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	if refID(c.body) == "" && c.body.value("name") == "" {
		return nil, incomplete("Vm", "id|name")
	}
	v := referred(c.store.vms, c.body, func(v *vm) string { return v.Name })
	switch {
	case v == nil:
		return nil, notFound("VM", refID(c.body))
	case v.Cluster != g.Cluster:
		return nil, invalid("Cannot edit Affinity Group. Entity in affinity group does not have the same cluster as the group.")
	case !member(&g.VMs, v.ID, true):
		return nil, conflict("Cannot edit Affinity Group. VM %s is already in the affinity group.", v.Name)
	}
	c.store.groups.put(g.ID, g)
	c.work("Adding VM to Affinity Group "+g.Name, "")
	c.created = true
	return ref("vm", "vms", v.ID), nil
}

func removeAffinityGroupVM(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	if !member(&g.VMs, c.id("vm"), false) {
		return nil, notFound("VM", c.id("vm"))
	}
	c.store.groups.put(g.ID, g)
	return c.complete(), nil
}

func listAffinityGroupHosts(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	return refs("hosts", "host", "hosts", g.Hosts), nil
}

func addAffinityGroupHost(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	h := referred(c.store.hosts, c.body, func(h *host) string { return h.Name })
	switch {
	case h == nil:
		return nil, notFound("Host", refID(c.body))
	case h.Cluster != g.Cluster:
		return nil, invalid("Cannot edit Affinity Group. Entity in affinity group does not have the same cluster as the group.")
	case !member(&g.Hosts, h.ID, true):
		return nil, conflict("Cannot edit Affinity Group. Host %s is already in the affinity group.", h.Name)
	}
	c.store.groups.put(g.ID, g)
	c.created = true
	return ref("host", "hosts", h.ID), nil
}

func removeAffinityGroupHost(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	if !member(&g.Hosts, c.id("host"), false) {
		return nil, notFound("Host", c.id("host"))
	}
	c.store.groups.put(g.ID, g)
	return c.complete(), nil
}

func tagDocument(_ *call, t *tag) *element {
	return object("tag", t.ID, "tags", t.ID).str("name", t.Name).str("description", t.Description).add(ref("parent", "tags", t.Parent))
}

func tagKey(t *tag) string { return t.Name + t.ID }

func tagFields() fields[*tag] {
	return fields[*tag]{
		"name": val(func(t *tag) string { return t.Name }), "id": val(func(t *tag) string { return t.ID }),
		"description": val(func(t *tag) string { return t.Description }),
	}
}

func listTags(c *call) (*element, error) {
	return collect(c, "tags", c.store.tags.where(nil, tagKey), tagFields(), tagDocument)
}

func (c *call) tag() (*tag, error) { return one(c.store.tags, "Tag", c.id("id")) }

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

func (c *call) changeTag(t *tag) error {
	in, next := c.body, *t
	if in.has("name") {
		next.Name = in.value("name")
	}
	if next.Name == "" {
		return invalid("Cannot add Tag. The name is empty.")
	}
	for _, other := range c.store.tags.rows {
		if other.ID != t.ID && other.Name == next.Name {
			return conflict("Cannot add Tag. The specified name is already in use.")
		}
	}
	if in.has("description") {
		next.Description = in.value("description")
	}
	if parent := in.get("parent"); parent != nil {
		above := referred(c.store.tags, orElse(parent.get("tag"), parent), func(t *tag) string { return t.Name })
		if above == nil || above.ID == t.ID || slices.Contains(c.store.tagLine(above), t.Name) {
			return invalid("Cannot add Tag. The parent tag is not valid.")
		}
		next.Parent = above.ID
	}
	*t = next
	return nil
}

func addTag(c *call) (*element, error) {
	if err := require(c.body, "Tag", "name"); err != nil {
		return nil, err
	}
	made := &tag{ID: newID(), Parent: rootTagID}
	if err := c.changeTag(made); err != nil {
		return nil, err
	}
	c.store.tags.put(made.ID, made)
	c.created = true
	return tagDocument(c, made), nil
}

func updateTag(c *call) (*element, error) {
	t, err := c.tag()
	if err != nil {
		return nil, err
	}
	if err := c.changeTag(t); err != nil {
		return nil, err
	}
	c.store.tags.put(t.ID, t)
	return tagDocument(c, t), nil
}

func removeTag(c *call) (*element, error) {
	t, err := c.tag()
	if err != nil {
		return nil, err
	}
	if t.ID == rootTagID {
		return nil, conflict("Cannot remove Tag. The root tag cannot be removed.")
	}
	for _, other := range c.store.tags.rows {
		if other.Parent == t.ID {
			other.Parent = t.Parent
			c.store.tags.put(other.ID, other)
		}
	}
	c.store.tags.drop(t.ID)
	return c.complete(), nil
}

func listVMTags(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	items := c.store.tags.where(func(t *tag) bool { return slices.Contains(t.VMs, v.ID) }, tagKey)
	return collect(c, "tags", items, tagFields(), func(c *call, t *tag) *element { return assignedTag(c, t, v) })
}

func assignedTag(c *call, t *tag, v *vm) *element {
	document := tagDocument(c, t)
	document.attrs[0].value = href("vms", v.ID, "tags", t.ID)
	return document.add(ref("vm", "vms", v.ID))
}

func addVMTag(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if refID(c.body) == "" && c.body.value("name") == "" {
		return nil, incomplete("Tag", "id|name")
	}
	t := referred(c.store.tags, c.body, func(t *tag) string { return t.Name })
	if t == nil {
		return nil, notFound("Tag", refID(c.body))
	}
	member(&t.VMs, v.ID, true)
	c.store.tags.put(t.ID, t)
	c.created = true
	return assignedTag(c, t, v), nil
}

func (c *call) vmTag() (*vm, *tag, error) {
	v, err := c.vm()
	if err != nil {
		return nil, nil, err
	}
	t := c.store.tags.get(c.id("id"))
	if t == nil || !slices.Contains(t.VMs, v.ID) {
		return nil, nil, notFound("Tag", c.id("id"))
	}
	return v, t, nil
}

func getVMTag(c *call) (*element, error) {
	v, t, err := c.vmTag()
	if err != nil {
		return nil, err
	}
	return assignedTag(c, t, v), nil
}

func removeVMTag(c *call) (*element, error) {
	v, t, err := c.vmTag()
	if err != nil {
		return nil, err
	}
	member(&t.VMs, v.ID, false)
	c.store.tags.put(t.ID, t)
	return c.complete(), nil
}
