package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// RootTagID is the ID of the tag above all others. Nobody can change or delete it.
const RootTagID = "00000000-0000-0000-0000-000000000000"

// Tag is a label of VMs. Its name is unique in the engine.
type Tag struct {
	XMLName     xml.Name `xml:"tag"`
	ID          ID       `xml:"id,attr,omitempty"`
	Name        string   `xml:"name,omitempty"`
	Description string   `xml:"description,omitempty"`
}

type tagList struct {
	XMLName xml.Name `xml:"tags"`
	Items   []Tag    `xml:"tag"`
}

// FetchTag returns the tag with this ID. A missing tag is an IsNotFound error.
func (c *Client) FetchTag(ctx context.Context, id ID) (*Tag, error) {
	var tag Tag
	if err := c.fetchInto(ctx, "/tags/"+id.pathSegment(), nil, &tag); err != nil {
		return nil, fmt.Errorf("failed to get tag %s: %w", id, err)
	}

	return &tag, nil
}

// ListTags lists all tags of the engine.
func (c *Client) ListTags(ctx context.Context) ([]Tag, error) {
	var list tagList
	if err := c.fetchInto(ctx, "/tags", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list tags: %w", err)
	}

	return list.Items, nil
}

// ListTagsNamed lists the tags with this name. It returns more than one only if several clients created them at the
// same moment.
func (c *Client) ListTagsNamed(ctx context.Context, name string) ([]Tag, error) {
	all, err := c.ListTags(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to look up tag %q: %w", name, err)
	}

	return slices.DeleteFunc(all, func(tag Tag) bool { return tag.Name != name }), nil
}

// CreateTag creates a tag. If this process may no longer act afterwards, CreateTag removes the tag again unless a VM
// has it. The acting process may have no further use for a tag with this name.
func (c *Client) CreateTag(ctx context.Context, tag *Tag) (*Tag, error) {
	var created Tag
	if err := c.callEngine(ctx, http.MethodPost, "/tags", nil, tag, &created); err != nil {
		return nil, fmt.Errorf("failed to create tag %q: %w", tag.Name, err)
	}

	if refused := c.checkMayAct(ctx, http.MethodPost); errors.Is(refused, ErrSuperseded) {
		return nil, errors.Join(refused, c.removeOrphanedTag(context.WithoutCancel(ctx), &created))
	}

	return &created, nil
}

// removeOrphanedTag removes a tag created by a process that may no longer act, unless a VM has it.
func (c *Client) removeOrphanedTag(ctx context.Context, made *Tag) error {
	used, err := c.SearchVMs(ctx, "tag="+made.Name)
	if err != nil || len(used) > 0 {
		return err
	}

	return c.DeleteTag(context.WithValue(ctx, tidying{}, true), made.ID)
}

// UpdateTag changes the name and description of a tag. The VMs keep the tag.
func (c *Client) UpdateTag(ctx context.Context, id ID, name, description string) error {
	change := struct {
		XMLName     xml.Name `xml:"tag"`
		Name        string   `xml:"name"`
		Description string   `xml:"description"` // an empty one removes it
	}{Name: name, Description: description}
	if err := c.callEngine(ctx, http.MethodPut, "/tags/"+id.pathSegment(), nil, &change, nil); err != nil {
		return fmt.Errorf("failed to update tag %s: %w", id, err)
	}

	return nil
}

// DeleteTag deletes a tag, and removes it from all VMs.
func (c *Client) DeleteTag(ctx context.Context, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, "/tags/"+id.pathSegment(), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete tag %s: %w", id, err)
	}

	return nil
}

// ListVMTags lists the tags of a VM. The engine omits their descriptions; ListTags has them.
func (c *Client) ListVMTags(ctx context.Context, vmID ID) ([]Tag, error) {
	var list tagList
	if err := c.fetchInto(ctx, vmPath(vmID)+"/tags", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the tags of VM %s: %w", vmID, err)
	}

	return list.Items, nil
}

// TagVM adds a tag to a VM. For a deleted tag, the engine reports an internal error. TagVM then returns the real cause.
func (c *Client) TagVM(ctx context.Context, vmID, tagID ID) error {
	err := c.callEngine(ctx, http.MethodPost, vmPath(vmID)+"/tags", nil, &Tag{ID: tagID}, nil)
	if IsRefused(err) {
		if _, look := c.FetchTag(ctx, tagID); IsNotFound(look) {
			err = fmt.Errorf("the engine has no tag of that ID any more: %w", look)
		}
	}

	if err != nil {
		return fmt.Errorf("failed to put tag %s on VM %s: %w", tagID, vmID, err)
	}

	return nil
}

// UntagVM removes a tag from a VM.
func (c *Client) UntagVM(ctx context.Context, vmID, tagID ID) error {
	if err := c.callEngine(
		ctx, http.MethodDelete, vmPath(vmID)+"/tags/"+tagID.pathSegment(), nil, nil, nil,
	); err != nil {
		return fmt.Errorf("failed to take tag %s from VM %s: %w", tagID, vmID, err)
	}

	return nil
}
