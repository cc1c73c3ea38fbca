package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// RemoveLateDonors deletes the donors of VMs of a pool that no rebuild uses. A manager was halted while it created one,
// and went on after its successor had rebuilt the VM. A donor stays if it runs or is locked. An error of one keeps no
// other.
func RemoveLateDonors(ctx context.Context, session *engine.Client, pool *Pool) error {
	found, err := session.VMsWithPrefix(ctx, pool.DataCenter, donorPrefix)
	if err != nil {
		return err
	}

	var errs []error

	for i := range found {
		r, ok := rebuilderOf(session, pool, &found[i])
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

// rebuilderOf is the rebuild that made a donor; false for a VM that is no donor of a VM of the pool.
func rebuilderOf(session *engine.Client, pool *Pool, donor *engine.VM) (Rebuilder, bool) {
	var vm, claim string
	if _, err := fmt.Sscanf(donor.CommentText(), "capolvm rebuild=%s claim=%s", &vm, &claim); err != nil {
		return Rebuilder{}, false
	}

	target, ok := pool.VMs[engine.ID(vm)]
	r := Rebuilder{Session: session, VM: target, ClaimID: claim, DataCenter: pool.DataCenter}

	return r, ok && r.isDonor(donor)
}

// isUsed reports whether the rebuild may still go on, in this management cluster or in another. A rebuild has ended
// before the marks of its claim go. The marks are read after the donor was seen: those of the pool may be older.
func (r Rebuilder) isUsed(ctx context.Context) (bool, error) {
	tags, err := TagsOf(ctx, r.Session, r.VM.ID)
	if err != nil {
		return true, err
	}

	if marks := marksOf(r.VM.ID, tags); len(marks) > 0 {
		return slices.ContainsFunc(marks, func(m marked) bool {
			return !m.mark.Readable() || m.mark.ID == r.ClaimID
		}), nil
	}

	vm, err := r.Session.VM(ctx, r.VM.ID)
	if err != nil {
		return true, err
	}

	_, owned := ownermark.OwnerOf(vm.CommentText())

	return owned, nil
}
