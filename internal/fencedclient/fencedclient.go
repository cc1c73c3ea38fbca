// Package fencedclient has a client of the Kubernetes API that asks before each write.
package fencedclient

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client asks before each write: a process that was halted for longer than its lease must not write over what its
// successor has written. All controllers have this client, and moves of olvmctl, so that none can forget to ask.
type Client struct {
	client.Client

	// MayAct returns an error if writes are not allowed now.
	MayAct func(context.Context) error
}

// Create asks, and creates.
func (c *Client) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Create(ctx, object, options...)
}

// Update asks, and updates.
func (c *Client) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Update(ctx, object, options...)
}

// Patch asks, and patches.
func (c *Client) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Patch(ctx, object, patch, options...)
}

// Apply asks, and applies.
func (c *Client) Apply(
	ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption,
) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Apply(ctx, object, options...)
}

// Delete asks, and deletes.
func (c *Client) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.Delete(ctx, object, options...)
}

// DeleteAllOf asks, and deletes.
func (c *Client) DeleteAllOf(
	ctx context.Context, object client.Object, options ...client.DeleteAllOfOption,
) error {
	if err := c.MayAct(ctx); err != nil {
		return err
	}

	return c.Client.DeleteAllOf(ctx, object, options...)
}

// Status returns a writer of statuses that asks.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client of a part of objects that asks.
func (c *Client) SubResource(part string) client.SubResourceClient {
	return &fencedPart{SubResourceClient: c.Client.SubResource(part), mayAct: c.MayAct}
}

// fencedPart is a Client for a part of objects.
type fencedPart struct {
	client.SubResourceClient

	mayAct func(context.Context) error
}

// Create asks the fence, and creates.
func (c *fencedPart) Create(
	ctx context.Context, object, part client.Object, options ...client.SubResourceCreateOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Create(ctx, object, part, options...)
}

// Update asks the fence, and updates.
func (c *fencedPart) Update(
	ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Update(ctx, object, options...)
}

// Patch asks the fence, and patches.
func (c *fencedPart) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Patch(ctx, object, patch, options...)
}

// Apply asks the fence, and applies.
func (c *fencedPart) Apply(
	ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.SubResourceClient.Apply(ctx, object, options...)
}
