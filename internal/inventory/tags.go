package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// The tags by which all management clusters know that nobody may claim a VM.
const (
	// retainedTag is on VMs that were nodes and keep their disks.
	retainedTag = "capolvm-retained"
	// deletingTag was on all VMs that were about to be deleted, and is the beginning of the tag that each has now.
	deletingTag = "capolvm-deleting"
)

// Retain marks a VM as one that keeps the disk of a node. The engine knows it then, whatever is lost here.
func Retain(ctx context.Context, session *engine.Client, vm engine.ID) error {
	return tagVM(ctx, session, vm, retainedTag, "VMs that were nodes of Kubernetes, and keep their disks")
}

// Retained reports whether a VM keeps the disk of a node.
func Retained(tags []engine.Tag) bool { return slices.Contains(tagNames(tags), retainedTag) }

// deletingTagOf is the name of the tag of a VM that is about to be deleted. It is of that VM alone, so that it can go
// with it: a tag that is removed is taken from all VMs. Names of tags have at most 50 characters, hence no hyphens.
func deletingTagOf(vm engine.ID) string {
	return deletingTag + "-" + strings.ReplaceAll(vm.String(), "-", "")
}

// MarkDeleting marks a VM as one that is about to be deleted.
func MarkDeleting(ctx context.Context, session *engine.Client, vm engine.ID) error {
	return tagVM(ctx, session, vm, deletingTagOf(vm), "A VM of a pool that is about to be deleted")
}

// MarkedDeleting reports whether a VM is about to be deleted.
func MarkedDeleting(tags []engine.Tag) bool {
	return slices.ContainsFunc(tagNames(tags), func(name string) bool {
		return name == deletingTag || strings.HasPrefix(name, deletingTag+"-")
	})
}

// ForgetDeleting removes the mark of a VM that is gone.
func ForgetDeleting(ctx context.Context, session *engine.Client, vm engine.ID) error {
	marks, err := session.TagsNamed(ctx, deletingTagOf(vm))
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

// TagsOf lists the tags of a VM, those of claims with their marks.
func TagsOf(ctx context.Context, session *engine.Client, vm engine.ID) ([]engine.Tag, error) {
	tags, err := session.VMTags(ctx, vm)
	if err != nil {
		return nil, err
	}

	described := []engine.DescribedVM{{VM: engine.VM{ID: vm}, Tags: tags}}

	return described[0].Tags, describeTags(ctx, session, described)
}

// describeTags adds to the tags of claims on VMs their descriptions, which are the marks. The engine tells those in the
// list of all its tags alone, which is read only if one of the VMs has a claim.
func describeTags(ctx context.Context, session *engine.Client, vms []engine.DescribedVM) error {
	if !slices.ContainsFunc(vms, func(vm engine.DescribedVM) bool { return len(marksOn(vm)) > 0 }) {
		return nil
	}

	all, err := session.Tags(ctx)
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

// EnsureTag returns the tag of a name, and makes it where the engine has none.
func EnsureTag(ctx context.Context, session *engine.Client, name, description string) (engine.ID, error) {
	there, err := session.TagsNamed(ctx, name)
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
