package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// This file prevents olvmctl on other machines from moving a namespace at the same time. Each would mistake the copies
// of the other for those of an interrupted move. Both management clusters have a Lease against this.

const (
	// leaseLife is the life of a Lease without renewal.
	leaseLife = 15 * time.Second
	// leaseCleanup bounds the release, also after an interrupt.
	leaseCleanup = 10 * time.Second
)

// moveLease is the Lease of a namespace in one management cluster.
type moveLease struct {
	in        *mgmtcluster.Cluster
	namespace string
	// holder names this command. If it is killed, the next command with the same note on this machine takes over the
	// name.
	holder, note string
	life         time.Duration
	lease        *coordinationv1.Lease
}

// leaseName returns the name of a Lease. It is in kube-system, because the namespace may not exist yet.
func leaseName(namespace string) string { return "olvmctl-move-" + namespace }

// newMoveLease chooses the holder. note is a file locked by this process on this machine, or "".
func newMoveLease(in *mgmtcluster.Cluster, namespace, note string) *moveLease {
	out := &moveLease{in: in, namespace: namespace, note: note, life: leaseLife}

	who := "somebody"
	if current, err := osuser.Current(); err == nil {
		who = current.Username
	}

	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}

	who = strings.ReplaceAll(who+"@"+host, " ", "_") + " "
	if noted, err := os.ReadFile(note); err == nil && strings.HasPrefix(string(noted), who) {
		out.holder = string(noted) // of a killed command, because its file is unlocked
		return out
	}

	out.holder = who + uuid.NewString()
	if note != "" { // without a note, the next command waits for the end of the Lease
		_ = atomicfile.Write(note, []byte(out.holder), 0o600)
	}

	return out
}

// key returns the key of the Lease.
func (l *moveLease) key() client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: leaseName(l.namespace)}
}

// take takes the Lease. If another command holds it, take watches it: a renewal proves a move in progress, and without
// one the command is gone. This does not depend on the clocks of other machines.
func (l *moveLease) take(ctx context.Context) error {
	var (
		watched string
		since   time.Time
	)

	for {
		found := &coordinationv1.Lease{}
		err := l.in.Get(ctx, l.key(), found)
		holder := ptr.Deref(found.Spec.HolderIdentity, "")
		version := string(found.UID) + found.ResourceVersion

		switch {
		case apierrors.IsNotFound(err):
			err = l.write(ctx, nil)
		case err != nil:
		case holder == "" || holder == l.holder || watched == version && time.Since(since) > l.life:
			err = l.write(ctx, found)
		case watched == "":
			watched, since = version, time.Now()
		case watched != version:
			return l.heldBy(holder)
		}

		switch {
		case l.lease != nil:
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // another command was faster: look again
		case err != nil:
			return fmt.Errorf("failed to lock the namespace in %s: %w", l.in.Server(), err)
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.life / 15):
		}
	}
}

// write writes the Lease with this holder. before is the existing Lease, or nil.
func (l *moveLease) write(ctx context.Context, before *coordinationv1.Lease) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.key().Namespace, Name: l.key().Name}}
	if before != nil {
		lease = before.DeepCopy()
	}

	lease.Spec.HolderIdentity = ptr.To(l.holder)
	lease.Spec.LeaseDurationSeconds = ptr.To(max(int32(l.life.Seconds()), 1))
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())

	var err error
	if before == nil {
		err = l.in.Create(ctx, lease)
	} else {
		err = l.in.Update(ctx, lease) // only if before is current
	}

	if err == nil {
		l.lease = lease
	}

	return err
}

// heldBy returns the error about another command.
func (l *moveLease) heldBy(holder string) error {
	who, _, _ := strings.Cut(holder, " ")

	return fmt.Errorf("olvmctl of %s moves namespace %s into or out of %s; wait until it has ended. If it hangs, take "+
		"its lock away, and run this command again: kubectl --server %s -n %s delete lease %s", who, l.namespace,
		l.in.Server(), l.in.Server(), l.key().Namespace, l.key().Name)
}

// keep renews the Lease until the context ends. It returns an error if another command has taken it. An unreachable
// management cluster is no error: another command would need the Lease of the other one, too.
func (l *moveLease) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.life / 3):
		}

		if err := l.renew(ctx); ctx.Err() == nil && errors.Is(err, errLeaseLost) {
			return err
		}
	}
}

// errLeaseLost ends a move taken over by another command.
var errLeaseLost = errors.New("another command has taken the lock of the move away; run this one again to continue " +
	"what is left to do")

// renew writes the Lease again. It accepts the result of an earlier renewal with a lost answer.
func (l *moveLease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.life/3)
	defer cancel()

	err := l.write(ctx, l.lease)
	if apierrors.IsNotFound(err) {
		return errLeaseLost
	}

	if !apierrors.IsConflict(err) {
		return err
	}

	found := &coordinationv1.Lease{}

	err = l.in.Get(ctx, l.key(), found)
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(found.Spec.HolderIdentity, "") != l.holder {
		return errLeaseLost
	}

	if err != nil {
		return err
	}

	return l.write(ctx, found)
}

// release removes the Lease, unless another command has it. It has its own time limit, because the context may have
// ended.
func (l *moveLease) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseCleanup)
	defer cancel()

	found := &coordinationv1.Lease{}

	err := l.in.Get(ctx, l.key(), found)
	if err == nil && ptr.Deref(found.Spec.HolderIdentity, "") == l.holder {
		err = l.in.Delete(ctx, found, client.Preconditions{
			UID: ptr.To(found.UID), ResourceVersion: ptr.To(found.ResourceVersion),
		})
	}

	if client.IgnoreNotFound(err) == nil && l.note != "" {
		_ = os.Remove(l.note)
	}
}

// hold takes the Leases of both management clusters. The returned context ends if one is lost, and release releases
// both. Without the right to write Leases, the user moves without them.
func (m *move) hold(ctx context.Context) (held context.Context, release func(), err error) {
	leases := []*moveLease{
		newMoveLease(m.from.Cluster, m.from.Namespace, m.notes[m.fromID]),
		newMoveLease(m.to.Cluster, m.from.Namespace, m.notes[m.toID]),
	}
	if cmp.Compare(m.fromID, m.toID) > 0 { // a move in the other direction takes the same one first
		slices.Reverse(leases)
	}

	held, lose := context.WithCancelCause(ctx)
	ended := make(chan struct{}, len(leases))
	running := 0

	release = func() {
		lose(nil)

		for range running {
			<-ended
		}

		for _, one := range leases {
			if one.lease != nil {
				one.release(ctx)
			}
		}
	}

	for _, one := range leases {
		err := one.take(ctx)
		if apierrors.IsForbidden(err) {
			_ = m.goOnUnlocked(err)
			continue
		}

		if err != nil {
			release()
			return nil, nil, err
		}

		running++

		go func() {
			defer func() { ended <- struct{}{} }()

			if err := one.keep(held); err != nil {
				lose(err)
			}
		}()
	}

	return held, release, nil
}

// dropMoveLease removes the Lease of a killed move from a management cluster without Clusters in the namespace.
func dropMoveLease(ctx context.Context, in *mgmtcluster.Cluster) error {
	left, err := clustersOfNamespace(ctx, in, in.Namespace)
	if err != nil || len(left) > 0 {
		return err
	}

	lease := &coordinationv1.Lease{}

	err = in.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: leaseName(in.Namespace)}, lease)
	if err == nil {
		err = in.Delete(ctx, lease, client.Preconditions{UID: ptr.To(lease.UID)})
	}

	if client.IgnoreNotFound(err) == nil || apierrors.IsForbidden(err) {
		return nil
	}

	return fmt.Errorf("failed to remove the lock of a move: %w", err)
}
