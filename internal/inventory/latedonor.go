package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// RemoveLateDonors deletes unused donors of the inventory's VMs. A donor is late if a manager was halted while creating
// it, and continued after its successor had rebuilt the VM. A running or locked donor stays. An error with one donor
// does not affect the others.
func RemoveLateDonors(ctx context.Context, session *engine.Client, pool *Pool) error {
	found, err := session.ListVMsWithPrefix(ctx, pool.DataCenter, donorPrefix)
	if err != nil {
		return err
	}

	var errs []error

	for i := range found {
		r, ok := newRebuilder(session, pool, &found[i])
		if !ok {
			continue
		}

		used, err := r.isUsed(ctx)
		if err == nil && !used {
			_, err = r.removeDonor(ctx, &found[i])
		}

		if !engine.IsNotFound(err) {
			errs = append(errs, err)
		}
	}

	return errors.Join(errs...)
}

// newRebuilder returns the Rebuilder for a donor. It returns false unless the VM is a donor for a VM of the inventory.
func newRebuilder(session *engine.Client, pool *Pool, donor *engine.VM) (Rebuilder, bool) {
	var vm, claim string
	if _, err := fmt.Sscanf(donor.CommentText(), "capolvm rebuild=%s claim=%s", &vm, &claim); err != nil {
		return Rebuilder{}, false
	}

	target, ok := pool.VMs[engine.ID(vm)]
	r := Rebuilder{Session: session, VM: target, ClaimID: claim, DataCenter: pool.DataCenter}

	return r, ok && r.isDonor(donor)
}

// isUsed reports whether the rebuild may still be running, in this or another management cluster. A rebuild ends before
// the marks of its claim are removed. isUsed reads the marks again, because the inventory's copy may be older than the
// donor.
func (r Rebuilder) isUsed(ctx context.Context) (bool, error) {
	tags, err := ListTags(ctx, r.Session, r.VM.ID)
	if err != nil {
		return true, err
	}

	if marks := parseMarks(r.VM.ID, tags); len(marks) > 0 {
		return slices.ContainsFunc(marks, func(m marked) bool {
			return !m.mark.IsReadable() || m.mark.ID == r.ClaimID
		}), nil
	}

	vm, err := r.Session.FetchVM(ctx, r.VM.ID)
	if err != nil {
		return true, err
	}

	_, owned := ownermark.ParseOwner(vm.CommentText())

	return owned, nil
}
