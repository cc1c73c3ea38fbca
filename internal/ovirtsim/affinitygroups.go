package ovirtsim

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// This file has affinity groups.

func groupKey(g *affinityGroup) string { return g.Name + g.ID }

func groupFields() fields[*affinityGroup] {
	return fields[*affinityGroup]{
		"name": val(func(g *affinityGroup) string { return g.Name }), "id": val(func(g *affinityGroup) string { return g.ID }),
	}
}

// ruleElement shows a rule. Of one that is off the sign is not told.
func ruleElement(name string, r rule) *element {
	return el(name).flag("enabled", r.Enabled).flag("enforcing", r.Enforcing).flag("positive", r.Enabled && r.Positive)
}

func groupDocument(_ *call, g *affinityGroup) *element {
	out := object("affinity_group", g.ID, "clusters", g.Cluster, "affinitygroups", g.ID).str("name", g.Name)
	if g.Description != nil {
		out.str("description", *g.Description)
	}
	out.flag("broken", false).flag("enforcing", g.VMsRule.Enforcing)
	if g.VMsRule.Enabled {
		out.flag("positive", g.VMsRule.Positive)
	}
	return out.str("priority", strconv.FormatFloat(g.Priority, 'f', -1, 64)).
		add(ruleElement("hosts_rule", g.HostsRule), ruleElement("vms_rule", g.VMsRule), ref("cluster", "clusters", g.Cluster)).
		add(refs("host_labels", "affinity_label", "affinitylabels", g.HostLabels), refs("hosts", "host", "hosts", g.Hosts)).
		add(refs("vm_labels", "affinity_label", "affinitylabels", g.VMLabels), refs("vms", "vm", "vms", g.VMs))
}

func listAffinityGroups(c *call) (*element, error) {
	items := c.store.groups.where(func(g *affinityGroup) bool { return g.Cluster == c.id("cluster") }, groupKey)
	return collect(c, "affinity_groups", items, groupFields(), groupDocument)
}

// noGroup is what the engine says of a group that is not there: it does not look whether there is one.
func noGroup() error {
	return failed(http.StatusBadRequest, `cannot invoke "org.ovirt.engine.core.common.scheduling.affinitygroup.getvmlabels()" because "ag" is null`)
}

// group is the group of the path. The engine does not look whether it is in the cluster of the path.
func (c *call) group() (*affinityGroup, error) {
	if g := c.store.groups.get(c.id("id")); g != nil {
		return g, nil
	}
	return nil, noGroup()
}

// memberGroup is the group of the path, for a change of its members.
func (c *call) memberGroup() (*affinityGroup, error) {
	if g := c.store.groups.get(c.id("id")); g != nil {
		return g, nil
	}
	return nil, invalid("Cannot edit Affinity Group. No matching Affinity Group.")
}

func getAffinityGroup(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	return groupDocument(c, g), nil
}

func addAffinityGroup(c *call) (*element, error) {
	if err := mandatory(c.body, "group", "name"); err != nil {
		return nil, err
	}
	home := c.store.clusters.get(c.id("cluster"))
	if home == nil {
		return nil, invalid("Cannot add Affinity Group. Provided Cluster is invalid.")
	}
	made := &affinityGroup{ID: newID(), Cluster: home.ID, Priority: 1, made: time.Now()}
	if err := c.changeGroup(made, "add"); err != nil {
		return nil, err
	}
	c.store.groups.put(made.ID, made)
	return c.created(groupDocument(c, made)), nil
}

func updateAffinityGroup(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	if err := c.changeGroup(g, "edit"); err != nil {
		return nil, err
	}
	c.store.groups.put(g.ID, g)
	return groupDocument(c, g), nil
}

// The limits of texts of groups.
const (
	maxGroupName        = 255
	maxGroupDescription = 4000
)

// changeGroup applies a request to a group, which stays as it was on an error. The bare elements enforcing and positive
// are the old form of the rule among VMs.
func (c *call) changeGroup(g *affinityGroup, verb string) error {
	in, next := c.body, *g
	fail := func(format string, args ...any) error {
		return invalid("Cannot "+verb+" Affinity Group. "+format, args...)
	}
	if in.has("name") {
		next.Name = in.value("name")
	}
	if in.has("description") {
		description := in.value("description")
		next.Description = &description
	}
	switch length := utf8.RuneCountInString(next.Name); {
	case length > maxGroupName:
		return fail("Name field input is too long., Attribute: affinityGroup.name")
	case !plainName(next.Name):
		return fail("Name field is invalid., Attribute: affinityGroup.name")
	case next.Description != nil && utf8.RuneCountInString(*next.Description) > maxGroupDescription:
		return fail("Description field is invalid., Attribute: affinityGroup.description")
	case length == maxGroupName: // the table of the engine has room for one less
		return internalError()
	}
	for _, other := range c.store.groups.rows {
		if other.ID != g.ID && other.Name == next.Name && !c.missed(other.made) { // in any cluster
			return fail("Affinity Group name already exists.")
		}
	}
	if in.has("priority") {
		priority, err := strconv.ParseFloat(in.value("priority"), 64)
		if err != nil {
			return c.syntaxError()
		}
		next.Priority = math.Round(priority*1e7) / 1e7
	}
	next.VMsRule.change(in)
	next.VMsRule.change(in.get("vms_rule"))
	next.HostsRule.change(in.get("hosts_rule"))
	if err := c.changeMembers(&next, in, fail); err != nil {
		return err
	}
	*g = next
	return nil
}

// changeMembers replaces the sets of members that a request names.
func (c *call) changeMembers(g *affinityGroup, in *element, fail func(string, ...any) error) error {
	there := map[string]func(id string) bool{
		"vms":         func(id string) bool { v := c.store.vms.get(id); return v != nil && v.Cluster == g.Cluster },
		"hosts":       func(id string) bool { h := c.store.hosts.get(id); return h != nil && h.Cluster == g.Cluster },
		"vm_labels":   func(id string) bool { return c.store.labels.get(id) != nil },
		"host_labels": func(id string) bool { return c.store.labels.get(id) != nil },
	}
	sets := []struct {
		name, what string
		set        *[]string
	}{{"vms", "VM", &g.VMs}, {"hosts", "VDS", &g.Hosts}, {"vm_labels", "label", &g.VMLabels}, {"host_labels", "label", &g.HostLabels}}
	for _, one := range sets {
		if !in.has(one.name) {
			continue
		}
		*one.set = nil
		for _, e := range in.get(one.name).kids {
			if err := checkRef(e); err != nil {
				return err
			}
			if !there[one.name](refID(e)) {
				return fail("Provided %s is invalid (does not exist).", one.what)
			}
			*one.set = append(*one.set, refID(e))
		}
	}
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
	return c.complete(), nil
}

// membersOf lists members with their names.
func membersOf(list, item, collection string, ids []string, name func(id string) string) *element {
	out := el(list)
	for _, id := range ids {
		out.items(ref(item, collection, id).str("name", name(id)))
	}
	return out
}

func listAffinityGroupVMs(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	return membersOf("vms", "vm", "vms", g.VMs, c.store.vmName), nil
}

func listAffinityGroupHosts(c *call) (*element, error) {
	g, err := c.group()
	if err != nil {
		return nil, err
	}
	return membersOf("hosts", "host", "hosts", g.Hosts, c.store.hostName), nil
}

func addAffinityGroupVM(c *call) (*element, error) {
	if err := mandatoryRef(c.body, "vm"); err != nil {
		return nil, err
	}
	if refID(c.body) == "" { // by name: the engine takes it and fails
		return nil, brokenPage()
	}
	if err := checkRef(c.body); err != nil {
		return nil, err
	}
	v := c.store.vms.get(refID(c.body))
	g, err := c.memberGroup()
	switch {
	case v == nil:
		return nil, invalid("The selected VM does not exist.")
	case err != nil:
		return nil, err
	case v.Cluster != g.Cluster:
		return nil, invalid("Cannot edit Affinity Group. Entity in affinity group does not have the same cluster as the group.")
	case !member(&g.VMs, v.ID, true):
		return nil, invalid("Cannot edit Affinity Group. Duplicate VM.")
	}
	c.store.groups.put(g.ID, g)
	return el("vm").set("id", v.ID), nil
}

func removeAffinityGroupVM(c *call) (*element, error) {
	if c.store.vms.get(c.id("vm")) == nil {
		return nil, invalid("The selected VM does not exist.")
	}
	g, err := c.memberGroup()
	if err != nil {
		return nil, err
	}
	if !member(&g.VMs, c.id("vm"), false) {
		return nil, invalid("Cannot edit Affinity Group. Provided VM is invalid (does not exist).")
	}
	c.store.groups.put(g.ID, g)
	return c.complete(), nil
}

func addAffinityGroupHost(c *call) (*element, error) {
	if err := mandatoryRef(c.body, "host"); err != nil {
		return nil, err
	}
	if err := checkRef(c.body); err != nil {
		return nil, err
	}
	h := referred(c.store.hosts, c.body, func(h *host) string { return h.Name })
	g, err := c.memberGroup()
	switch {
	case h == nil:
		return nil, invalid("Cannot edit Affinity Group. Host does not exist.")
	case err != nil:
		return nil, err
	case h.Cluster != g.Cluster:
		return nil, invalid("Cannot edit Affinity Group. Entity in affinity group does not have the same cluster as the group.")
	case !member(&g.Hosts, h.ID, true):
		return nil, invalid("Cannot edit Affinity Group. Duplicate VDS.")
	}
	c.store.groups.put(g.ID, g)
	return c.complete(), nil
}

func removeAffinityGroupHost(c *call) (*element, error) {
	g, err := c.memberGroup()
	if err != nil {
		return nil, err
	}
	if !member(&g.Hosts, c.id("host"), false) {
		return nil, invalid("Cannot edit Affinity Group. Provided VDS is invalid (does not exist).")
	}
	c.store.groups.put(g.ID, g)
	return c.complete(), nil
}

// listGroupLabels lists the affinity labels in one of the two sets of a group.
func listGroupLabels(set func(*affinityGroup) *[]string) operation {
	return func(c *call) (*element, error) {
		g, err := c.group()
		if err != nil {
			return nil, err
		}
		return labelsWhere(c, func(l *affinityLabel) bool { return slices.Contains(*set(g), l.ID) })
	}
}

// addGroupLabel puts an affinity label into one of the two sets of a group.
func addGroupLabel(set func(*affinityGroup) *[]string) operation {
	return func(c *call) (*element, error) {
		g, err := c.memberGroup()
		if err != nil {
			return nil, err
		}
		l := c.store.labels.get(refID(c.body))
		if l == nil || !member(set(g), l.ID, true) {
			return nil, invalid("Cannot edit Affinity Group. Provided label is invalid (does not exist).")
		}
		c.store.groups.put(g.ID, g)
		return ref("affinity_label", "affinitylabels", l.ID), nil
	}
}

func removeGroupLabel(set func(*affinityGroup) *[]string) operation {
	return func(c *call) (*element, error) {
		g, err := c.memberGroup()
		if err != nil {
			return nil, err
		}
		if !member(set(g), c.id("label"), false) {
			return nil, invalid("Cannot edit Affinity Group. Provided label is invalid (does not exist).")
		}
		c.store.groups.put(g.ID, g)
		return c.complete(), nil
	}
}

func vmLabelsOf(g *affinityGroup) *[]string   { return &g.VMLabels }
func hostLabelsOf(g *affinityGroup) *[]string { return &g.HostLabels }

// plainName says whether a name has nothing but letters of any language, digits, and - _ and a dot.
func plainName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool { return !isNameRune(c) }) < 0
}
