package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// These tags tell all management clusters not to claim a VM.
const (
	// retainedTag marks former nodes that keep their disks.
	retainedTag = "capolvm-retained"
	// deletingTag is the prefix of the tags on VMs that are about to be deleted. Earlier versions used it as one tag
	// for all VMs.
	deletingTag = "capolvm-deleting"
)

// MarkRetained marks a VM as retaining a node's disk. The engine keeps this mark even if the management cluster is
// lost.
func MarkRetained(ctx context.Context, session *engine.Client, vm engine.ID) error {
	return tagVM(ctx, session, vm, retainedTag, "VMs that were nodes of Kubernetes, and keep their disks")
}

// IsRetained reports whether a VM retains a node's disk.
func IsRetained(tags []engine.Tag) bool { return slices.Contains(tagNames(tags), retainedTag) }

// getDeletingTag returns the name of the tag for a VM that is about to be deleted. Each VM has its own tag, so that the
// tag can be deleted together with the VM. A tag name has at most 50 characters, so it contains the UUID without
// hyphens.
func getDeletingTag(vm engine.ID) string {
	return deletingTag + "-" + strings.ReplaceAll(vm.String(), "-", "")
}

// MarkDeleting marks a VM as about to be deleted.
func MarkDeleting(ctx context.Context, session *engine.Client, vm engine.ID) error {
	return tagVM(ctx, session, vm, getDeletingTag(vm), "A VM of a pool that is about to be deleted")
}

// IsMarkedDeleting reports whether a VM is about to be deleted.
func IsMarkedDeleting(tags []engine.Tag) bool {
	return slices.ContainsFunc(tagNames(tags), func(name string) bool {
		return name == deletingTag || strings.HasPrefix(name, deletingTag+"-")
	})
}

// RemoveDeletingTag removes the tag of a deleted VM.
func RemoveDeletingTag(ctx context.Context, session *engine.Client, vm engine.ID) error {
	marks, err := session.ListTagsNamed(ctx, getDeletingTag(vm))
	if err != nil {
		return err
	}

	for _, mark := range marks {
		if err := session.DeleteTag(ctx, mark.ID); err != nil && !engine.IsNotFound(err) {
			return err
		}
	}

	return nil
}

// ListTags lists the tags of a VM, with descriptions for claim tags.
func ListTags(ctx context.Context, session *engine.Client, vm engine.ID) ([]engine.Tag, error) {
	tags, err := session.ListVMTags(ctx, vm)
	if err != nil {
		return nil, err
	}

	described := []engine.DescribedVM{{VM: engine.VM{ID: vm}, Tags: tags}}

	return described[0].Tags, describeTags(ctx, session, described)
}

// describeTags adds the descriptions, which contain the marks, to the claim tags of VMs. The engine includes
// descriptions only in the list of all tags. describeTags reads this list only if one of the VMs has a claim.
func describeTags(ctx context.Context, session *engine.Client, vms []engine.DescribedVM) error {
	if !slices.ContainsFunc(vms, func(vm engine.DescribedVM) bool { return len(sortedMarks(vm)) > 0 }) {
		return nil
	}

	all, err := session.ListTags(ctx)
	if err != nil {
		return err
	}

	descriptions := map[engine.ID]string{}
	for _, tag := range all {
		descriptions[tag.ID] = tag.Description
	}

	for _, vm := range vms {
		for i := range vm.Tags {
			vm.Tags[i].Description = descriptions[vm.Tags[i].ID]
		}
	}

	return nil
}

func tagVM(ctx context.Context, session *engine.Client, vm engine.ID, name, description string) error {
	tag, err := EnsureTag(ctx, session, name, description)
	if err != nil {
		return err
	}

	return session.TagVM(ctx, vm, tag)
}

// EnsureTag returns the ID of the tag with this name. It creates the tag if it does not exist.
func EnsureTag(ctx context.Context, session *engine.Client, name, description string) (engine.ID, error) {
	there, err := session.ListTagsNamed(ctx, name)
	if err != nil {
		return "", err
	}

	if len(there) > 0 {
		return there[0].ID, nil
	}

	made, err := session.CreateTag(ctx, &engine.Tag{Name: name, Description: description})
	if err != nil {
		return "", err
	}

	return made.ID, nil
}
