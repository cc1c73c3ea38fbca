package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// This file prevents olvmctl on other machines from moving a namespace at the same time. Each olvmctl would mistake the
// copies of the other for those of an interrupted move. A Lease in each of the two management clusters prevents this.

const (
	// leaseLife is how long a Lease lasts without a renewal.
	leaseLife = 15 * time.Second
	// leaseCleanup bounds the release of a Lease after an interrupt.
	leaseCleanup = 10 * time.Second
	// leaseCleanupAtEnd is the same for a command that was not interrupted. A busy API server may take long.
	leaseCleanupAtEnd = time.Minute
	// noteSuffix ends the names of files with the holder of a Lease.
	noteSuffix = ".holder"
)

// moveLease is the Lease of a namespace in one management cluster.
type moveLease struct {
	in        *mgmtcluster.Cluster
	namespace string
	// holder identifies this command. note is a file with this name. If the command is killed, the next command on this
	// machine with the same note reuses the name.
	holder, note string
	// sign names both ends of the move in the Lease. It is "" for a command that only removes a Lease.
	sign  string
	life  time.Duration
	lease *coordinationv1.Lease
	// tried reports that it was written, perhaps without an answer.
	tried bool
	// renewing is held during a renewal. renewed is the start of the last successful write.
	renewing sync.Mutex
	renewed  atomic.Pointer[instant]
	// say tells the user about a wait.
	say func(format string, values ...any)
}

// instant is a time by both clocks. The steady one only goes forward, and stands still while a machine sleeps. The
// clock on the wall can be set back.
type instant struct{ steady, wall time.Time }

// age returns the time since then, by the faster clock.
func (i instant) age() time.Duration {
	return max(time.Since(i.steady), time.Now().Round(0).Sub(i.wall))
}

// leaseName returns the name of a Lease. The Lease is in kube-system, because the moved namespace may not exist yet.
func leaseName(namespace string) string { return "olvmctl-move-" + namespace }

// newMoveLease returns a Lease with a new holder, or with the holder of a killed command. note is a file locked by this
// process on this machine, or "".
func newMoveLease(in *mgmtcluster.Cluster, namespace, note string) *moveLease {
	out := &moveLease{in: in, namespace: namespace, note: note, life: leaseLife, say: func(string, ...any) {}}

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

// objectKey returns the key of the Lease.
func (l *moveLease) objectKey() client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: leaseName(l.namespace)}
}

// acquireOrWatch acquires the Lease. If another command holds it, acquireOrWatch watches it. A renewal proves that a
// move is in progress. Without a renewal, the other command is gone. This does not depend on the clocks of other
// machines.
func (l *moveLease) acquireOrWatch(ctx context.Context) error {
	var (
		watched string
		since   time.Time
	)

	for {
		found := &coordinationv1.Lease{}
		err := l.in.Get(ctx, l.objectKey(), found)
		holder := ptr.Deref(found.Spec.HolderIdentity, "")
		version := string(found.UID) + found.ResourceVersion

		switch {
		case apierrors.IsNotFound(err):
			err = l.writeHolder(ctx, nil)
		case err != nil:
		case holder == "" || holder == l.holder || watched == version && time.Since(since) > l.life:
			err = l.writeHolder(ctx, found)
		case watched == "":
			watched, since = version, time.Now()
			who, _, _ := strings.Cut(holder, " ")
			l.say("olvmctl of %s has locked namespace %s in %s; checking for %s whether it is still running", who,
				l.namespace, l.in.Server(), l.life)
		case watched != version:
			return l.heldByError(holder)
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

// writeHolder writes the Lease with this holder. before is the existing Lease, or nil.
func (l *moveLease) writeHolder(ctx context.Context, before *coordinationv1.Lease) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.objectKey().Namespace, Name: l.objectKey().Name},
	}
	if before != nil {
		lease = before.DeepCopy()
	}

	lease.Spec.HolderIdentity = ptr.To(l.holder)
	lease.Spec.LeaseDurationSeconds = ptr.To(max(int32(l.life.Seconds()), 1))
	begun := time.Now()
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(begun))
	l.tried = true

	if l.sign != "" {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, movingAnnotation, l.sign)
	}

	var err error
	if before == nil {
		err = l.in.Create(ctx, lease)
	} else {
		err = l.in.Update(ctx, lease) // only if before is current
	}

	if err == nil {
		l.lease = lease
		l.renewed.Store(&instant{steady: begun, wall: begun.Round(0)})
	}

	return err
}

// isUnsure reports that the Lease may end soon, or has ended: another command may take it.
func (l *moveLease) isUnsure() bool { return l.renewed.Load().age() > l.life*2/3 }

// mayWrite returns an error if another command may already have the Lease. The client calls it before each write. If
// this command still has the Lease, for example after the machine has slept, mayWrite renews it first.
func (l *moveLease) mayWrite(ctx context.Context) error {
	if !l.isUnsure() {
		return nil
	}

	return l.renewNow(ctx)
}

// renewNow renews the Lease now. It ignores a failure while the Lease is still valid for some time.
func (l *moveLease) renewNow(ctx context.Context) error {
	err := l.renew(ctx)
	if errors.Is(err, errLeaseLost) {
		return err
	}

	if err != nil && l.isUnsure() {
		return fmt.Errorf("%w: %s: %w", errLeaseUnsure, l.in.Server(), err)
	}

	return nil
}

// heldByError returns an error about another command with the Lease.
func (l *moveLease) heldByError(holder string) error {
	who, _, _ := strings.Cut(holder, " ")

	return fmt.Errorf("olvmctl of %s is moving namespace %s into or out of %s; %w. If it hangs, remove its lock, "+
		"and run this command again: %s", who, l.namespace, l.in.Server(),
		errLeaseHeld, l.removal())
}

// removal returns the command to remove the Lease.
func (l *moveLease) removal() string {
	return l.in.ShellAccess().
		CommandLine("kubectl", "-n", l.objectKey().Namespace, "delete", "lease", l.objectKey().Name)
}

// keepRenewing renews the Lease until the context ends. It returns an error if another command has taken it. If a
// management cluster does not answer, keepRenewing goes on: watchAges decides how long to trust the Leases.
func (l *moveLease) keepRenewing(ctx context.Context) error {
	pause := l.life / 3

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}

		err := l.renew(ctx)
		if ctx.Err() == nil && errors.Is(err, errLeaseLost) {
			return err
		}

		pause = l.life / 3
		if err != nil {
			pause = l.life / 15
		}
	}
}

// watchAges returns an error if none of the Leases was renewed for too long, because another command may have taken all
// of them. This process may have been suspended, or may have lost its network. One renewed Lease is enough, because a
// move needs the Leases of both management clusters.
func watchAges(ctx context.Context, held []*moveLease) error {
	isSure := func(one *moveLease) bool { return !one.isUnsure() }

	for len(held) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(held[0].life / 15):
		}

		if !slices.ContainsFunc(held, isSure) {
			return errLeaseUnsure
		}
	}

	return nil
}

// errLeaseUnsure ends a move if another command may have continued it.
var errLeaseUnsure = errors.New("the lock of the move was not renewed in time, because this machine was suspended, " +
	"or a management cluster was unreachable; another command may already move the namespace; run this command " +
	"again to resume the move")

// errLeaseLost ends a move if another command has taken over its Lease.
var errLeaseLost = errors.New("another command has removed the lock of the move; run this command again to resume " +
	"the move")

// renew writes the Lease again. If the answer to an earlier renewal was lost, renew accepts the result of this renewal.
func (l *moveLease) renew(ctx context.Context) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.life/3)
	defer cancel()

	err := l.writeHolder(ctx, l.lease)
	if apierrors.IsNotFound(err) {
		return errLeaseLost
	}

	if !apierrors.IsConflict(err) {
		return err
	}

	found := &coordinationv1.Lease{}

	err = l.in.Get(ctx, l.objectKey(), found)
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(found.Spec.HolderIdentity, "") != l.holder {
		return errLeaseLost
	}

	if err != nil {
		return err
	}

	return l.writeHolder(ctx, found)
}

// release removes the Lease, unless another command has it. It sets its own time limit, because the context may have
// ended.
func (l *moveLease) release(ctx context.Context) {
	limit := leaseCleanup
	if ctx.Err() == nil { // nobody waits for the end of an interrupted command
		limit = leaseCleanupAtEnd
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()

	err := attempt.OnConflict(func() error { return l.deleteOwn(ctx) })
	if errors.Is(err, errLeaseHeld) {
		return
	}

	if client.IgnoreNotFound(err) != nil {
		l.say("the lock of the move in %s is left: %v; the next move or deletion removes it", l.in.Server(), err)
		return
	}

	if l.note != "" {
		_ = os.Remove(l.note)
	}
}

// deleteOwn deletes the Lease, unless it is of another command. It fails if the Lease is of a move between other ends.
// A conflict is a renewal of this command that arrived late.
func (l *moveLease) deleteOwn(ctx context.Context) error {
	found := &coordinationv1.Lease{}
	if err := l.in.Get(ctx, l.objectKey(), found); err != nil {
		return err
	}

	switch {
	case l.sign != "" && found.Annotations[movingAnnotation] != l.sign:
		return errLeaseHeld
	case ptr.Deref(found.Spec.HolderIdentity, "") != l.holder:
		return nil
	}

	return l.in.Delete(ctx, found, client.Preconditions{
		UID: ptr.To(found.UID), ResourceVersion: ptr.To(found.ResourceVersion),
	})
}

// holdLeases acquires the Leases of both management clusters. The returned context ends if one of them is lost. release
// releases both. If the user may not write Leases, the move goes on without them.
func (m *move) holdLeases(ctx context.Context) (held context.Context, release func(), err error) {
	leases := []*moveLease{
		newMoveLease(m.from.Cluster, m.from.Namespace, m.notes[m.fromID]),
		newMoveLease(m.to.Cluster, m.from.Namespace, m.notes[m.toID]),
	}
	source, target := leases[0], leases[1]

	if cmp.Compare(m.fromID, m.toID) > 0 { // a move in the other direction takes the same Lease first
		slices.Reverse(leases)
	}

	held, lose := context.WithCancelCause(ctx)
	var running sync.WaitGroup

	release = func() {
		lose(nil)
		running.Wait()

		for _, one := range leases {
			if one.tried { // an answer may have been lost, for example to an interrupt
				one.release(ctx)
			}
		}
	}
	guard := func(watch func() error) {
		running.Go(func() {
			if err := watch(); err != nil {
				lose(err)
			}
		})
	}

	for _, one := range leases {
		one.say, one.sign = m.Display.PrintLine, m.markerText()

		err := one.acquireOrWatch(ctx)
		if apierrors.IsForbidden(err) {
			_ = m.warnUnlocked(err)
			continue
		}

		if err != nil {
			release()
			return nil, nil, err
		}

		m.leases = append(m.leases, one)
		guard(func() error { return one.keepRenewing(held) })
	}

	m.from, m.to = m.fence(source, m.from), m.fence(target, m.to)
	guard(func() error { return watchAges(held, m.leases) })

	return held, release, nil
}

// fence has a management cluster refuse writes of a command that may have lost its Lease, or has lost that of the other
// management cluster: whoever moves needs both. If the user may not write Leases in this management cluster, the Lease
// of the other one decides alone.
func (m *move) fence(own *moveLease, in *management) *management {
	if len(m.leases) == 0 {
		return in
	}

	isHeld := slices.Contains(m.leases, own) // not own.lease: a renewal may write it now

	out := *in
	out.Cluster = in.WithFence(func(ctx context.Context) error {
		for _, one := range m.leases {
			err := one.mayWrite(ctx)
			if err != nil && (one == own || !isHeld || errors.Is(err, errLeaseLost)) {
				return err
			}
		}

		return nil
	})

	return &out
}

// confirmHeld renews all Leases before a step with many writes.
func (m *move) confirmHeld(ctx context.Context) error {
	for _, one := range m.leases {
		if err := one.renewNow(ctx); err != nil {
			return err
		}
	}

	return nil
}

// dropMoveLease removes the Lease left by a killed move from a management cluster without Clusters in the namespace. It
// first acquires the Lease, so it does not remove a Lease still being renewed.
func dropMoveLease(ctx context.Context, in *mgmtcluster.Cluster) error {
	left, err := listNamespaceClusters(ctx, in, in.Namespace)
	if err != nil || len(left) > 0 {
		return err
	}

	return newMoveLease(in, in.Namespace, "").removeIfIdle(ctx)
}

// removeIfIdle removes the Lease, unless another command renews it.
func (l *moveLease) removeIfIdle(ctx context.Context) error {
	err := l.in.Get(ctx, l.objectKey(), &coordinationv1.Lease{})
	if err == nil {
		err = l.acquireOrWatch(ctx)
		defer func() {
			if l.tried {
				l.release(ctx)
			}
		}()
	}

	if client.IgnoreNotFound(err) == nil || apierrors.IsForbidden(err) || errors.Is(err, errLeaseHeld) {
		return nil
	}

	return fmt.Errorf("failed to remove the lock of a move: %w", err)
}

// dropNoted removes the Leases of a move between these ends that this user had on this machine, and that was killed at
// its end. It is for commands that find the move done. The Leases stay if a Cluster has the sign of a move.
func dropNoted(ctx context.Context, namespace string, from, to *management) {
	folder, err := lockFolder()
	if err != nil {
		return
	}

	if notes, err := filepath.Glob(filepath.Join(folder, "*_"+namespace+noteSuffix)); err != nil || len(notes) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, leaseCleanup)
	defer cancel()

	ends := []*management{from, to}
	ids := make([]types.UID, len(ends))

	for i, end := range ends {
		if end.Cluster == nil && end.connect(ctx) != nil {
			return
		}

		list, err := listNamespaceClusters(ctx, end.Cluster, namespace)
		if err != nil || slices.ContainsFunc(list, isSigned) {
			return
		}

		if ids[i], err = end.FetchIdentity(ctx); err != nil {
			return
		}
	}

	for i, end := range ends {
		path := filepath.Join(folder, string(ids[i])+"_"+namespace)
		if !fileExists(path + noteSuffix) {
			continue
		}

		if unlock, err := filelock.TakeFile(path); err == nil { // no move runs
			lease := newMoveLease(end.Cluster, namespace, path+noteSuffix)
			lease.sign = signOf(ids[0], ids[1])
			lease.release(ctx)
			unlock()
		}
	}
}

// checkMoveEnded fails if a management cluster has the Lease of a move.
func checkMoveEnded(ctx context.Context, in *mgmtcluster.Cluster) error {
	lease := newMoveLease(in, in.Namespace, "")
	err := in.Get(ctx, lease.objectKey(), &coordinationv1.Lease{})

	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("failed to look for the lock of a move: %w", err)
	}

	return fmt.Errorf("a move of namespace %s into or out of %s was interrupted, or is still running, because its "+
		"lock exists; run the same command again, or run olvmctl move -n %s with the kubeconfigs of both "+
		"management clusters. If no move is running, remove the lock, and run this command again: %s",
		in.Namespace, in.Server(), in.Namespace, lease.removal())
}

// errLeaseHeld reports that another command renews a Lease.
var errLeaseHeld = errors.New("wait until it is complete")
