// Package fencedclient provides a client of the Kubernetes API that checks a fence before each write.
package fencedclient

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client checks its fence before each write. A process that was halted for longer than its lease must not overwrite the
// changes of its successor. All controllers use this client, and so do moves of olvmctl. Therefore, no write can miss
// the check.
type Client struct {
	client.Client

	// MayAct returns an error if writes are not allowed now.
	MayAct func(context.Context) error
}

// Create checks the fence, and creates the object.
func (c *Client) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Create(ctx, object, options...)
}

// Update checks the fence, and updates the object.
func (c *Client) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Update(ctx, object, options...)
}

// Patch checks the fence, and patches the object.
func (c *Client) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Patch(ctx, object, patch, options...)
}

// Apply checks the fence, and applies the object.
func (c *Client) Apply(
	ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption,
) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Apply(ctx, object, options...)
}

// Delete checks the fence, and deletes the object.
func (c *Client) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Delete(ctx, object, options...)
}

// DeleteAllOf checks the fence, and deletes the objects.
func (c *Client) DeleteAllOf(
	ctx context.Context, object client.Object, options ...client.DeleteAllOfOption,
) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.DeleteAllOf(ctx, object, options...)
}

// Status returns a writer of statuses that checks the fence.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client of a subresource that checks the fence.
func (c *Client) SubResource(part string) client.SubResourceClient {
	return &fencedPart{SubResourceClient: c.Client.SubResource(part), mayAct: c.MayAct}
}

// fencedPart is a fenced client of a subresource.
type fencedPart struct {
	client.SubResourceClient

	mayAct func(context.Context) error
}

// Create checks the fence, and creates the subresource.
func (c *fencedPart) Create(
	ctx context.Context, object, part client.Object, options ...client.SubResourceCreateOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Create(ctx, object, part, options...)
}

// Update checks the fence, and updates the subresource.
func (c *fencedPart) Update(
	ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Update(ctx, object, options...)
}

// Patch checks the fence, and patches the subresource.
func (c *fencedPart) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Patch(ctx, object, patch, options...)
}

// Apply checks the fence, and applies the subresource.
func (c *fencedPart) Apply(
	ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Apply(ctx, object, options...)
}
