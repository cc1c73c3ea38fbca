package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
)

type labelList struct {
	XMLName xml.Name `xml:"affinity_labels"`
	Items   []Label  `xml:"affinity_label"`
}

// Label is an affinity label without its members. With an implicit affinity group, the label binds its VMs to its
// hosts.
type Label struct {
	XMLName  xml.Name `xml:"affinity_label"`
	ID       ID       `xml:"id,attr,omitempty"`
	Name     string   `xml:"name,omitempty"`
	Implicit *bool    `xml:"has_implicit_affinity_group"`
}

// LabelOwner is a kind of object with affinity labels.
type LabelOwner string

// The kinds of objects with affinity labels, as in paths.
const (
	LabelledVM   LabelOwner = "vms"
	LabelledHost LabelOwner = "hosts"
)

func (o LabelOwner) labelsPath(id ID) string {
	return "/" + string(o) + "/" + id.pathSegment() + "/affinitylabels"
}

// FetchAffinityLabel returns an affinity label. A missing label is an IsNotFound error.
func (c *Client) FetchAffinityLabel(ctx context.Context, id ID) (*Label, error) {
	var label Label
	if err := c.fetchInto(ctx, "/affinitylabels/"+id.pathSegment(), nil, &label); err != nil {
		return nil, fmt.Errorf("failed to get affinity label %s: %w", id, err)
	}

	return &label, nil
}

// ListAffinityLabelsNamed lists the affinity labels with this name.
func (c *Client) ListAffinityLabelsNamed(ctx context.Context, name string) ([]Label, error) {
	var list labelList
	if err := c.fetchInto(ctx, "/affinitylabels", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list affinity labels: %w", err)
	}

	var out []Label

	for _, label := range list.Items {
		if label.Name == name {
			out = append(out, label)
		}
	}

	return out, nil
}

// CreateAffinityLabel makes an affinity label.
func (c *Client) CreateAffinityLabel(ctx context.Context, label *Label) (*Label, error) {
	var made Label
	if err := c.callEngine(ctx, http.MethodPost, "/affinitylabels", nil, label, &made); err != nil {
		return nil, fmt.Errorf("failed to create affinity label %q: %w", label.Name, err)
	}

	return &made, nil
}

// UpdateAffinityLabel changes the name and the kind of an affinity label. No recording has an engine's answer.
func (c *Client) UpdateAffinityLabel(ctx context.Context, id ID, change *Label) error {
	if err := c.callEngine(ctx, http.MethodPut, "/affinitylabels/"+id.pathSegment(), nil, change, nil); err != nil {
		return fmt.Errorf("failed to update affinity label %s: %w", id, err)
	}

	return nil
}

// DeleteAffinityLabel deletes an unused affinity label. An engine answers 400 for a missing label. DeleteAffinityLabel
// then returns an IsNotFound error.
func (c *Client) DeleteAffinityLabel(ctx context.Context, id ID) error {
	err := c.callEngine(ctx, http.MethodDelete, "/affinitylabels/"+id.pathSegment(), nil, nil, nil)
	if IsRefused(err) {
		if _, look := c.FetchAffinityLabel(ctx, id); IsNotFound(look) {
			err = look
		}
	}

	if err != nil {
		return fmt.Errorf("failed to delete affinity label %s: %w", id, err)
	}

	return nil
}

// ListAffinityLabelsOf lists the affinity labels of a VM or a host. The list of a missing object is empty.
func (c *Client) ListAffinityLabelsOf(ctx context.Context, kind LabelOwner, id ID) ([]Label, error) {
	var list labelList
	if err := c.fetchInto(ctx, kind.labelsPath(id), nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the affinity labels of %s/%s: %w", kind, id, err)
	}

	return list.Items, nil
}

// AddAffinityLabel adds an affinity label to a VM or a host.
func (c *Client) AddAffinityLabel(ctx context.Context, kind LabelOwner, id, label ID) error {
	if err := c.callEngine(ctx, http.MethodPost, kind.labelsPath(id), nil, &Label{ID: label}, nil); err != nil {
		return fmt.Errorf("failed to give affinity label %s to %s/%s: %w", label, kind, id, err)
	}

	return nil
}

// RemoveAffinityLabel removes an affinity label from a VM or a host.
func (c *Client) RemoveAffinityLabel(ctx context.Context, kind LabelOwner, id, label ID) error {
	if err := c.callEngine(
		ctx, http.MethodDelete, kind.labelsPath(id)+"/"+label.pathSegment(), nil, nil, nil,
	); err != nil {
		return fmt.Errorf("failed to take affinity label %s from %s/%s: %w", label, kind, id, err)
	}

	return nil
}
