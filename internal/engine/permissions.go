package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
)

// Permission gives a user or a group a role on an object.
type Permission struct {
	XMLName xml.Name `xml:"permission"`
	ID      ID       `xml:"id,attr,omitempty"`
	Role    *Ref     `xml:"role,omitempty"`
	User    *Ref     `xml:"user,omitempty"`
	Group   *Ref     `xml:"group,omitempty"`
}

// HolderID returns the ID of the user or the group.
func (p *Permission) HolderID() ID {
	if id := RefID(p.User); id != "" {
		return id
	}

	return RefID(p.Group)
}

// Permitted is an object that permissions apply to.
type Permitted struct {
	// Collection of the object in the API, such as vms.
	Collection string
	ID         ID
}

func (p Permitted) permissionsPath() string {
	return "/" + p.Collection + "/" + p.ID.pathSegment() + "/permissions"
}

// ListPermissions lists the permissions for an object, including those inherited from its parents. The answer does not
// distinguish the two.
func (c *Client) ListPermissions(ctx context.Context, on Permitted) ([]Permission, error) {
	var list struct {
		XMLName xml.Name     `xml:"permissions"`
		Items   []Permission `xml:"permission"`
	}
	if err := c.fetchInto(ctx, on.permissionsPath(), nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the permissions on %s: %w", on.ID, err)
	}

	return list.Items, nil
}

// AddPermission adds a permission. If the object already has this permission, the engine returns the existing one.
func (c *Client) AddPermission(ctx context.Context, on Permitted, permission Permission) (*Permission, error) {
	var made Permission
	if err := c.callEngine(ctx, http.MethodPost, on.permissionsPath(), nil, permission, &made); err != nil {
		return nil, fmt.Errorf("failed to give a permission on %s: %w", on.ID, err)
	}

	return &made, nil
}

// RemovePermission removes a permission from an object.
func (c *Client) RemovePermission(ctx context.Context, on Permitted, id ID) error {
	if err := c.callEngine(
		ctx, http.MethodDelete, on.permissionsPath()+"/"+id.pathSegment(), nil, nil, nil,
	); err != nil {
		return fmt.Errorf("failed to take permission %s on %s away: %w", id, on.ID, err)
	}

	return nil
}

// Role is a set of permits.
type Role struct {
	XMLName xml.Name `xml:"role"`
	ID      ID       `xml:"id,attr"`
	Name    string   `xml:"name"`
}

// FindRole returns the role with this name.
func (c *Client) FindRole(ctx context.Context, name string) (*Role, error) {
	all, err := c.listRoles(ctx)
	if err != nil {
		return nil, err
	}

	var known []string

	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}

		known = append(known, all[i].Name)
	}

	return nil, &NameError{Kind: "role", Name: name, Scope: "engine", Known: known}
}

// FetchRoleName returns the name of a role, or "" if the role does not exist.
func (c *Client) FetchRoleName(ctx context.Context, id ID) (string, error) {
	all, err := c.listRoles(ctx)
	for i := range all {
		if all[i].ID == id {
			return all[i].Name, nil
		}
	}

	return "", err
}

func (c *Client) listRoles(ctx context.Context) ([]Role, error) {
	var list struct {
		XMLName xml.Name `xml:"roles"`
		Items   []Role   `xml:"role"`
	}
	if err := c.fetchInto(ctx, "/roles", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the roles: %w", err)
	}

	return list.Items, nil
}
