package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
)

// BlankTemplateID is the ID of the Blank template on every engine, unless it was recreated.
const BlankTemplateID = "00000000-0000-0000-0000-000000000000"

// The statuses of a template.
const (
	TemplateOK      = "ok"
	TemplateLocked  = "locked"
	TemplateIllegal = "illegal"
)

// templateRequest is the body of a request that creates or changes a template.
type templateRequest struct {
	XMLName     xml.Name `xml:"template"`
	Description *string  `xml:"description"`
	Name        string   `xml:"name,omitempty"`
	VM          *Ref     `xml:"vm"`
}

func templatePath(id ID) string { return "/templates/" + id.pathSegment() }

// FetchTemplate returns the template with this ID. A missing template is an IsNotFound error.
func (c *Client) FetchTemplate(ctx context.Context, id ID) (*Template, error) {
	var template Template
	if err := c.fetchInto(ctx, templatePath(id), nil, &template); err != nil {
		return nil, fmt.Errorf("failed to get template %s: %w", id, err)
	}

	return &template, nil
}

// ListTemplates returns all templates of all data centers, in all versions.
func (c *Client) ListTemplates(ctx context.Context) ([]Template, error) {
	var list struct {
		XMLName xml.Name   `xml:"templates"`
		Items   []Template `xml:"template"`
	}
	if err := c.fetchInto(ctx, "/templates", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list templates: %w", err)
	}

	return list.Items, nil
}

// FindTemplates returns all versions of the templates with this name in the data center, or in the whole engine if dc
// is nil.
func (c *Client) FindTemplates(ctx context.Context, dc *DataCenter, name string) ([]Template, error) {
	all, err := c.ListTemplates(ctx)
	if err == nil {
		all, err = FilterByDataCenter(ctx, c, dc, filterItems(all, func(t Template) bool { return t.Name == name }))
	}

	if err != nil {
		return nil, fmt.Errorf("failed to look up template %q: %w", name, err)
	}

	return all, nil
}

// CreateTemplate creates a template from a VM that is down, and returns it without waiting. Its disks are usually still
// locked.
func (c *Client) CreateTemplate(ctx context.Context, name, description string, vmID ID) (*Template, error) {
	request := templateRequest{Name: name, VM: NewRef(vmID)}
	if description != "" {
		request.Description = &description
	}

	var created Template
	if err := c.callEngine(ctx, http.MethodPost, "/templates", nil, request, &created); err != nil {
		return nil, fmt.Errorf("failed to create template %q: %w", name, err)
	}

	return &created, nil
}

// UpdateTemplate changes the name and description of a template.
func (c *Client) UpdateTemplate(ctx context.Context, id ID, name, description string) (*Template, error) {
	var updated Template
	err := c.callEngine(ctx, http.MethodPut, templatePath(id), nil, templateRequest{
		Name:        name,
		Description: &description,
	}, &updated)
	if err != nil {
		return nil, fmt.Errorf("failed to update template %s: %w", id, err)
	}

	return &updated, nil
}

// DeleteTemplate deletes a template with its disks. It does not wait.
func (c *Client) DeleteTemplate(ctx context.Context, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, templatePath(id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete template %s: %w", id, err)
	}

	return nil
}
