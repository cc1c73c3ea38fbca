package ovirtsim

import (
	"net/http"
	"slices"
	"strings"
)

// This file has users, groups, roles and permissions, and what they allow.

const (
	superUser = "SuperUser"
	// everyone is the group of all users.
	everyone = "Everyone"
	// everyonesRole is the role that all users have on the whole system.
	everyonesRole = "UserProfileEditor"
)

// onlyAdministrators are the services whose queries others may not make.
var onlyAdministrators = []string{
	"tags", "tag", "assigned_tags", "assigned_tag", "affinity_labels", "affinity_label", "affinity_groups", "affinity_group", "affinity_group_vms", "affinity_group_hosts",
	"image_transfers", "image_transfer", "jobs", "job",
}

// basicActions are the actions that the role UserRole has.
var basicActions = []string{"start", "stop", "shutdown", "reboot", "suspend", "ticket"}

// administrator says whether a user's role is one of administrators.
func (u *user) administrator() bool {
	return slices.ContainsFunc(catalog().roles, func(r role) bool { return r.name == u.Role && r.administrative == "true" })
}

// authorize refuses what the user may not ask for. A user who is no administrator is filtered, and so is one who wants to be.
func (c *call) authorize() error {
	filter := strings.ToLower(c.r.Header.Get("Filter"))
	administrator := c.user.administrator()
	c.filtered = filter == "true" || filter != "false" && !administrator
	reading := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead
	switch {
	case c.r.Method == http.MethodOptions || administrator && !c.filtered:
		return nil
	case reading && (!c.filtered || slices.Contains(onlyAdministrators, c.service.name)):
		return notPermitted()
	case reading || administrator:
		return nil
	case slices.Contains(basicActions, c.action) && c.service.name == "vm":
		return nil
	default:
		return forbidden()
	}
}

func userDocument(_ *call, u *user) *element {
	name, domain, _ := strings.Cut(u.Name, "@")
	domain += "-authz"
	return object("user", u.ID, "users", u.ID).str("name", name).str("department", "").str("domain_entry_id", hexID(u.ID)).str("last_name", "").str("namespace", "*").
		str("principal", name).str("user_name", name+"@"+domain).add(el("domain").set("href", href("domains", hexID(domain))).set("id", hexID(domain)).str("name", domain))
}

func listUsers(c *call) (*element, error) {
	short := func(u *user) string { name, _, _ := strings.Cut(u.Name, "@"); return name }
	names := func(u *user) []string { return []string{short(u), u.Name + "-authz"} }
	of := fields[*user]{"name": val(short), "usrname": names, "login": val(short), "id": val(func(u *user) string { return u.ID })}
	seen := func(u *user) bool { return !c.filtered || u.ID == c.user.ID }
	return collect(c, "users", c.store.users.where(seen, func(u *user) string { return u.Name }), of, userDocument)
}

func getUser(c *call) (*element, error) {
	u, err := one(c.store.users, c.id("id"))
	if err != nil {
		return nil, err
	}
	return userDocument(c, u), nil
}

func (s *store) everyoneID() string { return s.idOf("", "group", everyone) }

func listGroups(c *call) (*element, error) {
	id := c.store.everyoneID()
	return el("groups").items(object("group", id, "groups", id).str("name", everyone).str("domain_entry_id", hexID(id)).str("namespace", "*")), nil
}

func listDomains(c *call) (*element, error) {
	out := el("domains")
	var seen []string
	for _, u := range c.store.users.where(nil, func(u *user) string { return u.Name }) {
		_, domain, _ := strings.Cut(u.Name, "@")
		if domain += "-authz"; !slices.Contains(seen, domain) {
			seen = append(seen, domain)
			out.items(object("domain", hexID(domain), "domains", hexID(domain)).str("name", domain))
		}
	}
	return out, nil
}

func (s *store) roleID(name string) string { return s.idOf("", "role", name) }

func roleDocument(c *call, r role) *element {
	id := c.store.roleID(r.name)
	return object("role", id, "roles", id).str("name", r.name).str("description", r.description).str("administrative", r.administrative).str("mutable", r.mutable)
}

// listRoles shows those who are no administrators only the roles that are for them.
func listRoles(c *call) (*element, error) {
	out := el("roles")
	for _, r := range catalog().roles {
		if !c.filtered || r.administrative == "false" {
			out.items(roleDocument(c, r))
		}
	}
	return out, nil
}

// permissionsOf lists the permissions that hold for an object: those on the whole system.
func permissionsOf(owner, collection, parameter string) operation {
	return func(c *call) (*element, error) {
		out := el("permissions")
		add := func(who, roleName string, holder *element) {
			id := c.store.idOf("", "permission", who, roleName)
			made := object("permission", id, "permissions", id)
			if owner != "" {
				made.add(ref(owner, collection, c.id(parameter)))
			}
			out.items(made.add(holder, ref("role", "roles", c.store.roleID(roleName))))
		}
		add(everyone, everyonesRole, ref("group", "groups", c.store.everyoneID()))
		for _, u := range c.store.users.where(nil, func(u *user) string { return u.Name }) {
			add(u.ID, u.Role, ref("user", "users", u.ID))
		}
		return out, nil
	}
}

// userPermissions lists the permissions of a user.
func userPermissions(c *call) (*element, error) {
	u, err := one(c.store.users, c.id("id"))
	if err != nil {
		return nil, err
	}
	id := c.store.idOf("", "permission", u.ID, u.Role)
	return el("permissions").items(object("permission", id, "permissions", id).add(ref("role", "roles", c.store.roleID(u.Role)), ref("user", "users", u.ID))), nil
}
