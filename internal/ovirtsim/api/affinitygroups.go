package api

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var affinityGroupRoutes = []route{
	{"GET", "/clusters/{cluster}/affinitygroups", listAffinityGroups},
	{"POST", "/clusters/{cluster}/affinitygroups", addAffinityGroup},
	{"GET", "/clusters/{cluster}/affinitygroups/{id}", getAffinityGroup},
	{"PUT", "/clusters/{cluster}/affinitygroups/{id}", updateAffinityGroup},
	{"DELETE", "/clusters/{cluster}/affinitygroups/{id}", removeAffinityGroup},
	{"GET", "/clusters/{cluster}/affinitygroups/{id}/hostlabels", listGroupLabels(hostLabelsOf)},
	{"POST", "/clusters/{cluster}/affinitygroups/{id}/hostlabels", addGroupLabel(hostLabelsOf)},
	{"DELETE", "/clusters/{cluster}/affinitygroups/{id}/hostlabels/{label}", removeGroupLabel(hostLabelsOf)},
	{"GET", "/clusters/{cluster}/affinitygroups/{id}/hosts", listAffinityGroupHosts},
	{"POST", "/clusters/{cluster}/affinitygroups/{id}/hosts", addAffinityGroupHost},
	{"DELETE", "/clusters/{cluster}/affinitygroups/{id}/hosts/{host}", removeAffinityGroupHost},
	{"GET", "/clusters/{cluster}/affinitygroups/{id}/vmlabels", listGroupLabels(vmLabelsOf)},
	{"POST", "/clusters/{cluster}/affinitygroups/{id}/vmlabels", addGroupLabel(vmLabelsOf)},
	{"DELETE", "/clusters/{cluster}/affinitygroups/{id}/vmlabels/{label}", removeGroupLabel(vmLabelsOf)},
	{"GET", "/clusters/{cluster}/affinitygroups/{id}/vms", listAffinityGroupVMs},
	{"POST", "/clusters/{cluster}/affinitygroups/{id}/vms", addAffinityGroupVM},
	{"DELETE", "/clusters/{cluster}/affinitygroups/{id}/vms/{vm}", removeAffinityGroupVM},
}

func groupFields() fields[*store.AffinityGroup] {
	return fields[*store.AffinityGroup]{
		"name": singleValue(func(g *store.AffinityGroup) string { return g.Name }),
		"id":   singleValue(func(g *store.AffinityGroup) string { return g.ID }),
	}
}

// ruleElement shows a rule. It omits whether a disabled rule is positive.
func ruleElement(name string, r store.Rule) *wire.Element {
	return wire.El(name).Flag("enabled", r.Enabled).Flag("enforcing", r.Enforcing).
		Flag("positive", r.Enabled && r.Positive)
}

func groupDocument(_ *call, g *store.AffinityGroup) *wire.Element {
	out := wire.NewObject("affinity_group", g.ID, "clusters", g.Cluster, "affinitygroups", g.ID).Str("name", g.Name)
	if g.Description != nil {
		out.Str("description", *g.Description)
	}

	out.Flag("broken", false).Flag("enforcing", g.VMsRule.Enforcing)
	if g.VMsRule.Enabled {
		out.Flag("positive", g.VMsRule.Positive)
	}

	return out.Str("priority", strconv.FormatFloat(g.Priority, 'f', -1, 64)).
		Add(ruleElement("hosts_rule", g.HostsRule), ruleElement("vms_rule", g.VMsRule),
			wire.Ref("cluster", "clusters", g.Cluster)).
		Add(wire.Refs("host_labels", "affinity_label", "affinitylabels", g.HostLabels),
			wire.Refs("hosts", "host", "hosts", g.Hosts)).
		Add(wire.Refs("vm_labels", "affinity_label", "affinitylabels", g.VMLabels),
			wire.Refs("vms", "vm", "vms", g.VMs))
}

func listAffinityGroups(c *call) (*wire.Element, error) {
	items := c.store.Groups.Where(func(g *store.AffinityGroup) bool {
		return g.Cluster == c.pathID("cluster")
	}, store.GroupKey)

	return answerList(c, "affinity_groups", items, groupFields(), groupDocument)
}

// noGroup returns the error of the engine for a missing group. The engine fails because it never checks whether the
// group exists.
func noGroup() error {
	return wire.PlainFault(
		http.StatusBadRequest,
		`cannot invoke "org.ovirt.engine.core.common.scheduling.affinitygroup.getvmlabels()" because "ag" is null`,
	)
}

// findGroup returns the group of the path. Like the engine, it does not check the cluster in the path.
func (c *call) findGroup() (*store.AffinityGroup, error) {
	if g := c.store.Groups.Get(c.pathID("id")); g != nil {
		return g, nil
	}

	return nil, noGroup()
}

// findGroupOfMember returns the group in the path, for a change of its members.
func (c *call) findGroupOfMember() (*store.AffinityGroup, error) {
	if g := c.store.Groups.Get(c.pathID("id")); g != nil {
		return g, nil
	}

	return nil, wire.Invalid("Cannot edit Affinity Group. No matching Affinity Group.")
}

func getAffinityGroup(c *call) (*wire.Element, error) {
	g, err := c.findGroup()
	if err != nil {
		return nil, err
	}

	return groupDocument(c, g), nil
}

func addAffinityGroup(c *call) (*wire.Element, error) {
	if err := requireParameter(c.body, "group", "name"); err != nil {
		return nil, err
	}

	home := c.store.Clusters.Get(c.pathID("cluster"))
	if home == nil {
		return nil, wire.Invalid("Cannot add Affinity Group. Provided Cluster is invalid.")
	}

	made := &store.AffinityGroup{ID: store.NewID(), Cluster: home.ID, Priority: 1, Made: time.Now()}
	if err := c.changeGroup(made, "add"); err != nil {
		return nil, err
	}

	c.store.Groups.Put(made.ID, made)

	return c.answerCreated(groupDocument(c, made)), nil
}

func updateAffinityGroup(c *call) (*wire.Element, error) {
	g, err := c.findGroup()
	if err != nil {
		return nil, err
	}

	if err := c.changeGroup(g, "edit"); err != nil {
		return nil, err
	}

	c.store.Groups.Put(g.ID, g)

	return groupDocument(c, g), nil
}

// These constants limit the lengths of a group's texts.
const (
	maxGroupName        = 255
	maxGroupDescription = 4000
)

// changeGroup applies a request to a group. On an error, the group stays unchanged. Outside a rule, the elements
// enforcing and positive are the old form of the rule between VMs.
func (c *call) changeGroup(g *store.AffinityGroup, verb string) error {
	in, next := c.body, *g
	fail := func(format string, args ...any) error {
		return wire.Invalid("Cannot "+verb+" Affinity Group. "+format, args...)
	}
	if in.Has("name") {
		next.Name = in.Value("name")
	}

	if in.Has("description") {
		description := in.Value("description")
		next.Description = &description
	}

	switch length := utf8.RuneCountInString(next.Name); {
	case length > maxGroupName:
		return fail("Name field input is too long., Attribute: affinityGroup.name")
	case !store.IsPlainName(next.Name):
		return fail("Name field is invalid., Attribute: affinityGroup.name")
	case next.Description != nil && utf8.RuneCountInString(*next.Description) > maxGroupDescription:
		return fail("Description field is invalid., Attribute: affinityGroup.description")
	case length == maxGroupName: // the column in the engine's table is one character shorter
		return wire.InternalError()
	}

	for _, other := range c.store.Groups.Rows {
		if other.ID != g.ID && other.Name == next.Name && !c.arrivedBefore(other.Made) { // in any cluster
			return fail("Affinity Group name already exists.")
		}
	}

	if in.Has("priority") {
		priority, err := strconv.ParseFloat(in.Value("priority"), 64)
		if err != nil {
			return c.syntaxError()
		}

		next.Priority = math.Round(priority*1e7) / 1e7
	}

	next.VMsRule.ApplyRequest(in)
	next.VMsRule.ApplyRequest(in.Get("vms_rule"))
	next.HostsRule.ApplyRequest(in.Get("hosts_rule"))
	if err := c.changeMembers(&next, in, fail); err != nil {
		return err
	}

	*g = next

	return nil
}

// changeMembers replaces each set of members that a request contains.
func (c *call) changeMembers(g *store.AffinityGroup, in *wire.Element, fail func(string, ...any) error) error {
	there := map[string]func(id string) bool{
		"vms":         func(id string) bool { v := c.store.VMs.Get(id); return v != nil && v.Cluster == g.Cluster },
		"hosts":       func(id string) bool { h := c.store.Hosts.Get(id); return h != nil && h.Cluster == g.Cluster },
		"vm_labels":   func(id string) bool { return c.store.Labels.Get(id) != nil },
		"host_labels": func(id string) bool { return c.store.Labels.Get(id) != nil },
	}

	sets := []struct {
		name, what string
		set        *[]string
	}{
		{"vms", "VM", &g.VMs},
		{"hosts", "VDS", &g.Hosts},
		{"vm_labels", "label", &g.VMLabels},
		{"host_labels", "label", &g.HostLabels},
	}
	for _, one := range sets {
		if !in.Has(one.name) {
			continue
		}

		*one.set = nil
		for _, e := range in.Get(one.name).Kids {
			if err := checkRef(e); err != nil {
				return err
			}

			if !there[one.name](wire.RefID(e)) {
				return fail("Provided %s is invalid (does not exist).", one.what)
			}

			*one.set = append(*one.set, wire.RefID(e))
		}
	}

	return nil
}

func removeAffinityGroup(c *call) (*wire.Element, error) {
	g, err := c.findGroup()
	if err != nil {
		return nil, err
	}

	c.store.Groups.Drop(g.ID)

	return c.answerComplete(), nil
}

// membersOf lists members with their names.
func membersOf(list, item, collection string, ids []string, name func(id string) string) *wire.Element {
	out := wire.El(list)
	for _, id := range ids {
		out.AddItems(wire.Ref(item, collection, id).Str("name", name(id)))
	}

	return out
}

func listAffinityGroupVMs(c *call) (*wire.Element, error) {
	g, err := c.findGroup()
	if err != nil {
		return nil, err
	}

	return membersOf("vms", "vm", "vms", g.VMs, c.store.VMName), nil
}

func listAffinityGroupHosts(c *call) (*wire.Element, error) {
	g, err := c.findGroup()
	if err != nil {
		return nil, err
	}

	return membersOf("hosts", "host", "hosts", g.Hosts, c.store.HostName), nil
}

func addAffinityGroupVM(c *call) (*wire.Element, error) {
	if err := requireRef(c.body, "vm"); err != nil {
		return nil, err
	}

	if wire.RefID(c.body) == "" { // a reference by name: the engine accepts it and then fails
		return nil, wire.BrokenPage()
	}

	if err := checkRef(c.body); err != nil {
		return nil, err
	}

	v := c.store.VMs.Get(wire.RefID(c.body))

	g, err := c.findGroupOfMember()
	switch {
	case v == nil:
		return nil, wire.Invalid("The selected VM does not exist.")
	case err != nil:
		return nil, err
	case v.Cluster != g.Cluster:
		return nil, wire.Invalid("Cannot edit Affinity Group. Provided VM resides in another Cluster.")
	case !store.SetMember(&g.VMs, v.ID, true):
		return nil, wire.Invalid("Cannot edit Affinity Group. Duplicate VM.")
	}

	c.store.Groups.Put(g.ID, g)

	return wire.El("vm").SetAttr("id", v.ID), nil
}

func removeAffinityGroupVM(c *call) (*wire.Element, error) {
	if c.store.VMs.Get(c.pathID("vm")) == nil {
		return nil, wire.Invalid("The selected VM does not exist.")
	}

	g, err := c.findGroupOfMember()
	if err != nil {
		return nil, err
	}

	if !store.SetMember(&g.VMs, c.pathID("vm"), false) {
		return nil, wire.Invalid("Cannot edit Affinity Group. Provided VM is invalid (does not exist).")
	}

	c.store.Groups.Put(g.ID, g)

	return c.answerComplete(), nil
}

func addAffinityGroupHost(c *call) (*wire.Element, error) {
	if err := requireRef(c.body, "host"); err != nil {
		return nil, err
	}

	if err := checkRef(c.body); err != nil {
		return nil, err
	}

	h := findReferred(c.store.Hosts, c.body, func(h *store.Host) string { return h.Name })

	g, err := c.findGroupOfMember()
	switch {
	case h == nil:
		return nil, wire.Invalid("Cannot edit Affinity Group. Host does not exist.")
	case err != nil:
		return nil, err
	case h.Cluster != g.Cluster:
		return nil, wire.Invalid("Cannot edit Affinity Group. Provided VDS resides in another Cluster.")
	case !store.SetMember(&g.Hosts, h.ID, true):
		return nil, wire.Invalid("Cannot edit Affinity Group. Duplicate VDS.")
	}

	c.store.Groups.Put(g.ID, g)

	return c.answerComplete(), nil
}

func removeAffinityGroupHost(c *call) (*wire.Element, error) {
	g, err := c.findGroupOfMember()
	if err != nil {
		return nil, err
	}

	if !store.SetMember(&g.Hosts, c.pathID("host"), false) {
		return nil, wire.Invalid("Cannot edit Affinity Group. Provided VDS is invalid (does not exist).")
	}

	c.store.Groups.Put(g.ID, g)

	return c.answerComplete(), nil
}

// listGroupLabels lists the affinity labels in one of a group's two sets.
func listGroupLabels(set func(*store.AffinityGroup) *[]string) operation {
	return func(c *call) (*wire.Element, error) {
		g, err := c.findGroup()
		if err != nil {
			return nil, err
		}

		return labelsWhere(c, func(l *store.AffinityLabel) bool { return slices.Contains(*set(g), l.ID) })
	}
}

// addGroupLabel adds an affinity label to one of a group's two sets.
func addGroupLabel(set func(*store.AffinityGroup) *[]string) operation {
	return func(c *call) (*wire.Element, error) {
		g, err := c.findGroupOfMember()
		if err != nil {
			return nil, err
		}

		l := c.store.Labels.Get(wire.RefID(c.body))
		if l == nil || !store.SetMember(set(g), l.ID, true) {
			return nil, wire.Invalid("Cannot edit Affinity Group. Provided label is invalid (does not exist).")
		}

		c.store.Groups.Put(g.ID, g)

		return wire.Ref("affinity_label", "affinitylabels", l.ID), nil
	}
}

func removeGroupLabel(set func(*store.AffinityGroup) *[]string) operation {
	return func(c *call) (*wire.Element, error) {
		g, err := c.findGroupOfMember()
		if err != nil {
			return nil, err
		}

		if !store.SetMember(set(g), c.pathID("label"), false) {
			return nil, wire.Invalid("Cannot edit Affinity Group. Provided label is invalid (does not exist).")
		}

		c.store.Groups.Put(g.ID, g)

		return c.answerComplete(), nil
	}
}

func vmLabelsOf(g *store.AffinityGroup) *[]string { return &g.VMLabels }

func hostLabelsOf(g *store.AffinityGroup) *[]string { return &g.HostLabels }
