package command

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fencedClient asks the fence before each write. A process halted for longer than its lease must not overwrite the
// changes of its successor. All controllers use this client, so none can forget to ask.
type fencedClient struct {
	client.Client

	mayAct func(context.Context) error
}

// Create asks the fence, and creates.
func (c *fencedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.Client.Create(ctx, object, options...)
}

// Update asks the fence, and updates.
func (c *fencedClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.Client.Update(ctx, object, options...)
}

// Patch asks the fence, and patches.
func (c *fencedClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.Client.Patch(ctx, object, patch, options...)
}

// Apply asks the fence, and applies.
func (c *fencedClient) Apply(
	ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.Client.Apply(ctx, object, options...)
}

// Delete asks the fence, and deletes.
func (c *fencedClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.Client.Delete(ctx, object, options...)
}

// DeleteAllOf asks the fence, and deletes.
func (c *fencedClient) DeleteAllOf(
	ctx context.Context, object client.Object, options ...client.DeleteAllOfOption,
) error {
	if err := c.mayAct(ctx); err != nil {
		return err
	}

	return c.Client.DeleteAllOf(ctx, object, options...)
}

// Status returns a fenced writer of statuses.
func (c *fencedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a fenced client of a subresource.
func (c *fencedClient) SubResource(part string) client.SubResourceClient {
	return &fencedPart{SubResourceClient: c.Client.SubResource(part), mayAct: c.mayAct}
}

// fencedPart is a fencedClient for a subresource.
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
