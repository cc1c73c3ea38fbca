package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains users, groups, roles and permissions, and the effects of permissions.

var permissionRoutes = []route{
	{"GET", "/domains", listDomains},
	{"GET", "/domains/{id}", readItem(listDomains)},
	{"GET", "/groups", listGroups},
	{"GET", "/groups/{id}", readItem(listGroups)},
	{"GET", "/permissions", permissionsOf("", "", "")},
	{"GET", "/permissions/{id}", readItem(permissionsOf("", "", ""))},
	{"GET", "/roles", listRoles},
	{"GET", "/roles/{id}", readItem(listRoles)},
	{"GET", "/roles/{id}/permits", listPermits},
	{"GET", "/users", listUsers},
	{"GET", "/users/{id}", getUser},
	{"GET", "/users/{id}/permissions", userPermissions},
	{"GET", "/users/{id}/tags", listNothing("tags")},
}

const (
	// SuperUser is the role of the administrator.
	SuperUser = "SuperUser"
	// everyone is the group of all users.
	everyone = "Everyone"
	// everyonesRole is the role of all users for the whole system.
	everyonesRole = "UserProfileEditor"
)

// onlyAdministrators are the services restricted to administrators. Recordings have refusals of tags, labels, groups,
// transfers and jobs. The engine's source has one class for all requests about labels: it needs the right to manage
// tags of the whole system, and only an administrator's role has that. Its queries for labels are an administrator's,
// too.
var onlyAdministrators = []string{
	"tags",
	"tag",
	"assigned_tags",
	"assigned_tag",
	"affinity_labels",
	"affinity_label",
	"affinity_label_vms",
	"affinity_label_vm",
	"affinity_label_hosts",
	"affinity_label_host",
	"assigned_affinity_labels",
	"assigned_affinity_label",
	"affinity_groups",
	"affinity_group",
	"affinity_group_vms",
	"affinity_group_vm",
	"affinity_group_hosts",
	"affinity_group_host",
	"image_transfers",
	"image_transfer",
	"jobs",
	"job",
}

// powerUser is a role for users without administrator rights. It can create, change and remove VMs, their parts, and
// disks. The role combines the recorded rights of VmCreator, UserTemplateBasedVm and DiskCreator. It cannot set custom
// properties.
const powerUser = "PowerUserRole"

// basicActions are the actions that the role UserRole allows.
var basicActions = []string{"start", "stop", "shutdown", "reboot", "suspend", "ticket"}

// consoleActions are the actions that UserRole allows on consoles. No recording confirms them: they follow from the
// role's permit connect_to_vm.
var consoleActions = []string{"ticket", "remoteviewerconnectionfile"}

// isAdministrator reports whether a user has an administrative role.
func isAdministrator(u *store.User) bool {
	return len(u.Permits) > 0 || slices.ContainsFunc(catalog().roles, func(r role) bool {
		return r.name == u.Role &&
			r.administrative == "true"
	})
}

// authorize rejects requests that the user's roles do not allow. It filters results for users without administrator
// rights, and for requests with a filter.
func (c *call) authorize() error {
	filter := strings.ToLower(c.r.Header.Get("Filter"))
	administrator := isAdministrator(c.user)
	c.filtered = filter == "true" || filter != "false" && !administrator

	reading := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead
	switch {
	case c.r.Method == http.MethodOptions || administrator && !c.filtered:
		return nil
	case reading && !c.filtered && c.service.Name == "system": // the root document fails if a collection refuses
		return wire.BrokenPage()
	case reading && (!c.filtered || slices.Contains(onlyAdministrators, c.service.Name)):
		return wire.NotPermitted()
	case reading || administrator:
		return nil
	case slices.Contains(basicActions, c.action) && c.service.Name == "vm":
		return nil
	case slices.Contains(consoleActions, c.action) && c.service.Name == "vm_graphics_console":
		return nil
	case c.user.Role == powerUser && !slices.Contains(onlyAdministrators, c.service.Name) &&
		!c.body.Has("custom_properties"):
		return nil
	default:
		return wire.Forbidden()
	}
}

func userDocument(_ *call, u *store.User) *wire.Element {
	name, domain, _ := strings.Cut(u.Name, "@")
	domain += "-authz"

	return wire.NewObject("user", u.ID, "users", u.ID).Str("name", name).Str("department", "").
		Str("domain_entry_id", hexID(u.ID)).Str("last_name", "").Str("namespace", "*").
		Str("principal", name).Str("user_name", name+"@"+domain).
		Add(wire.El("domain").SetAttr("href", wire.Href("domains", hexID(domain))).SetAttr("id", hexID(domain)).
			Str("name", domain))
}

func listUsers(c *call) (*wire.Element, error) {
	short := func(u *store.User) string { name, _, _ := strings.Cut(u.Name, "@"); return name }
	names := func(u *store.User) []string { return []string{short(u), u.Name + "-authz"} }
	of := fields[*store.User]{
		"name":    singleValue(short),
		"usrname": names,
		"login":   singleValue(short),
		"id":      singleValue(func(u *store.User) string { return u.ID }),
	}
	seen := func(u *store.User) bool { return !c.filtered || u.ID == c.user.ID }

	return answerList(c, "users", c.store.Users.Where(seen, func(u *store.User) string { return u.Name }), of,
		userDocument)
}

func getUser(c *call) (*wire.Element, error) {
	u, err := findRow(c.store.Users, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return userDocument(c, u), nil
}

func (s *Engine) everyoneID() string { return s.store.IDOf("", "group", everyone) }

func listGroups(c *call) (*wire.Element, error) {
	id := c.everyoneID()

	return wire.El("groups").
			AddItems(wire.NewObject("group", id, "groups", id).Str("name", everyone).Str("domain_entry_id", hexID(id)).
				Str("namespace", "*")),
		nil
}

func listDomains(c *call) (*wire.Element, error) {
	out := wire.El("domains")
	var seen []string

	for _, u := range c.store.Users.Where(nil, func(u *store.User) string { return u.Name }) {
		_, domain, _ := strings.Cut(u.Name, "@")
		if domain += "-authz"; !slices.Contains(seen, domain) {
			seen = append(seen, domain)
			out.AddItems(wire.NewObject("domain", hexID(domain), "domains", hexID(domain)).Str("name", domain))
		}
	}

	return out, nil
}

func roleDocument(c *call, r role) *wire.Element {
	id := c.store.RoleID(r.name)
	return wire.NewObject("role", id, "roles", id).Str("name", r.name).Str("description", r.description).
		Str("administrative", r.administrative).Str("mutable", r.mutable)
}

// listRoles lists the roles. Users without administrator rights see only roles without administrative rights.
func listRoles(c *call) (*wire.Element, error) {
	out := wire.El("roles")

	for _, r := range slices.Concat(catalog().roles, c.ownRoles()) {
		if !c.filtered || r.administrative == "false" {
			out.AddItems(roleDocument(c, r))
		}
	}

	return out, nil
}

// ownRoles returns the roles with custom permits, as defined by users of the inventory.
func (c *call) ownRoles() []role {
	var out []role

	for _, u := range c.store.Users.Where(nil, func(u *store.User) string { return u.Role }) {
		made := role{name: u.Role, administrative: "true", mutable: "true"}
		if len(u.Permits) > 0 && !slices.Contains(out, made) {
			out = append(out, made)
		}
	}

	return out
}

// listPermits lists the permits of a role. A recording confirms that the list exists, but not its contents.
func listPermits(c *call) (*wire.Element, error) {
	out := wire.El("permits")
	has := func(name string) []string {
		for _, u := range c.store.Users.Rows {
			if u.Role == name && len(u.Permits) > 0 {
				return u.Permits
			}
		}

		return catalog().grants[name]
	}

	for _, r := range slices.Concat(catalog().roles, c.ownRoles()) {
		if c.store.RoleID(r.name) != c.pathID("id") {
			continue
		}

		granted := has(r.name)
		for _, p := range catalog().permits {
			if slices.Contains(granted, p.id) {
				out.AddItems(p.document())
			}
		}

		return out, nil
	}

	return nil, wire.NotFound()
}

// permissionsOf lists the permissions on an object: those given on the whole system.
func permissionsOf(owner, collection, parameter string) operation {
	return func(c *call) (*wire.Element, error) {
		out := wire.El("permissions")
		add := func(who, roleName string, holder *wire.Element) {
			id := c.store.IDOf("", "permission", who, roleName)
			made := wire.NewObject("permission", id, "permissions", id)
			if owner != "" {
				made.Add(wire.Ref(owner, collection, c.pathID(parameter)))
			}

			out.AddItems(made.Add(holder, wire.Ref("role", "roles", c.store.RoleID(roleName))))
		}
		add(everyone, everyonesRole, wire.Ref("group", "groups", c.everyoneID()))

		for _, u := range c.store.Users.Where(nil, func(u *store.User) string { return u.Name }) {
			add(u.ID, u.Role, wire.Ref("user", "users", u.ID))
		}

		if owner == "" {
			return out, nil
		}

		on := func(p *store.Permission) bool { return p.Object == c.pathID(parameter) }
		for _, p := range c.store.Permissions.Where(on, func(p *store.Permission) string { return p.ID }) {
			out.AddItems(permissionOn{owner, collection, parameter, nil}.document(c, p))
		}

		return out, nil
	}
}

// permissionOn is a kind of object with permissions of its own.
type permissionOn struct {
	owner, collection, parameter string
	isThere                      func(s *store.Store, id string) bool
}

// permissionOns are the kinds of objects with permissions of their own. No recording contains requests that give or
// remove permissions. A running engine answers a second permission of the same kind with the first one.
var permissionOns = []permissionOn{
	{"cluster", "clusters", "cluster", func(s *store.Store, id string) bool { return s.Clusters.Get(id) != nil }},
	{"data_center", "datacenters", "id", func(s *store.Store, id string) bool { return s.DataCenters.Get(id) != nil }},
	{"disk", "disks", "id", func(s *store.Store, id string) bool { return s.Disks.Get(id) != nil }},
	{"storage_domain", "storagedomains", "id", func(s *store.Store, id string) bool {
		return s.StorageDomains.Get(id) != nil
	}},
	{"template", "templates", "template", func(s *store.Store, id string) bool { return s.Templates.Get(id) != nil }},
	{"vm", "vms", "vm", func(s *store.Store, id string) bool { return s.VMs.Get(id) != nil }},
	{"vnic_profile", "vnicprofiles", "id",
		func(s *store.Store, id string) bool { return s.VNICProfiles.Get(id) != nil }},
}

// givenRoutes returns the calls for the permissions on one object.
func givenRoutes() []route {
	var out []route

	for _, on := range permissionOns {
		path := "/" + on.collection + "/{" + on.parameter + "}/permissions"
		list := permissionsOf(on.owner, on.collection, on.parameter)
		out = append(out, route{"POST", path, on.addPermission},
			route{"GET", path + "/{permission}", readItemNamed("permission", list)},
			route{"DELETE", path + "/{permission}", on.removePermission})
	}

	return out
}

func (on permissionOn) document(c *call, p *store.Permission) *wire.Element {
	id := c.pathID(on.parameter)
	out := wire.NewObject("permission", p.ID, on.collection, id, "permissions", p.ID).
		Add(wire.Ref(on.owner, on.collection, id), wire.Ref("role", "roles", p.Role))

	if p.Group != "" {
		return out.Add(wire.Ref("group", "groups", p.Group))
	}

	return out.Add(wire.Ref("user", "users", p.User))
}

// addPermission gives a permission on an object. If the same permission already exists, it answers with the existing
// one.
func (on permissionOn) addPermission(c *call) (*wire.Element, error) {
	id := c.pathID(on.parameter)
	made := store.Permission{
		Object: id, Role: wire.RefID(c.body.Get("role")), User: wire.RefID(c.body.Get("user")),
		Group: wire.RefID(c.body.Get("group")),
	}

	switch {
	case !on.isThere(c.store, id):
		return nil, wire.NotFound()
	case !c.isRole(made.Role):
		return nil, wire.EntityNotFound("Role: id=" + made.Role)
	case made.User != "" && c.store.Users.Get(made.User) == nil, made.User == "" && made.Group != c.everyoneID():
		return nil, wire.EntityNotFound("User: id=" + made.User)
	}

	for _, other := range c.store.Permissions.Rows {
		if made.ID = other.ID; made == *other {
			return c.answerCreated(on.document(c, other)), nil
		}
	}

	made.ID = store.NewID()
	c.store.Permissions.Put(made.ID, &made)

	return c.answerCreated(on.document(c, &made)), nil
}

func (on permissionOn) removePermission(c *call) (*wire.Element, error) {
	p, err := findRow(c.store.Permissions, c.pathID("permission"))
	if err != nil || p.Object != c.pathID(on.parameter) {
		return nil, wire.NotFound()
	}

	c.store.Permissions.Drop(p.ID)

	return c.answerComplete(), nil
}

// isRole reports whether a role with this ID exists.
func (c *call) isRole(id string) bool {
	return slices.ContainsFunc(slices.Concat(catalog().roles, c.ownRoles()), func(r role) bool {
		return c.store.RoleID(r.name) == id
	})
}

// userPermissions lists a user's permissions.
func userPermissions(c *call) (*wire.Element, error) {
	u, err := findRow(c.store.Users, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	id := c.store.IDOf("", "permission", u.ID, u.Role)

	return wire.El("permissions").
			AddItems(wire.NewObject("permission", id, "permissions", id).
				Add(wire.Ref("role", "roles", c.store.RoleID(u.Role)), wire.Ref("user", "users", u.ID))),
		nil
}
