package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// shortLife is the life of a Lease in tests.
const shortLife = 900 * time.Millisecond

// leased returns a management cluster with Leases.
func leased(t *testing.T, funcs interceptor.Funcs) *mgmtcluster.Cluster {
	t.Helper()

	in := clusterWith(t)
	known, ok := in.Client.(client.WithWatch)
	check.Equal(t, "the client watches", ok, true)
	in.Client, in.Namespace = interceptor.NewClient(known, funcs), "prod"

	return in
}

// leaseOf returns the Lease of a command on a machine. The folder of its note represents the machine.
func leaseOf(in *mgmtcluster.Cluster, machine string) *moveLease {
	out := newMoveLease(in, "prod", filepath.Join(machine, "note"))
	out.life = shortLife

	return out
}

// TestAMoveOfAnotherMachineIsRefusedWhileItGoes has two machines. The first renews its Lease.
func TestAMoveOfAnotherMachineIsRefusedWhileItGoes(t *testing.T) {
	in := leased(t, interceptor.Funcs{})
	first, second := leaseOf(in, t.TempDir()), leaseOf(in, t.TempDir())
	check.Error(t, first.acquireOrWatch(t.Context()), "")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- first.keepRenewing(ctx) }()

	err := second.acquireOrWatch(t.Context())
	check.Error(t, err, "is moving namespace prod into or out of")
	check.Contains(t, "who moves it", err.Error(), "@")
	check.Contains(t, "the remedy", err.Error(), "-n kube-system delete lease olvmctl-move-prod")

	stop()
	check.Error(t, <-ended, "")
	first.release(t.Context())
	check.Error(t, second.acquireOrWatch(t.Context()), "")
}

// TestAMoveThatWasKilledIsTakenOver runs the next command on the same machine without waiting. It then runs a command
// on another machine, after the Lease has expired.
func TestAMoveThatWasKilledIsTakenOver(t *testing.T) {
	in, machine := leased(t, interceptor.Funcs{}), t.TempDir()
	killed := leaseOf(in, machine)
	check.Error(t, killed.acquireOrWatch(t.Context()), "")

	begun := time.Now()
	check.Error(t, leaseOf(in, machine).acquireOrWatch(t.Context()), "")
	check.Equal(t, "the same machine waits", time.Since(begun) > shortLife/2, false)

	begun = time.Now()
	other := leaseOf(in, t.TempDir())
	check.Error(t, other.acquireOrWatch(t.Context()), "")
	check.Equal(t, "another machine waits", time.Since(begun) > shortLife, true)

	check.Error(t, killed.keepRenewing(t.Context()), errLeaseLost.Error())
	killed.release(t.Context())

	found := &coordinationv1.Lease{}
	check.Error(t, in.Get(t.Context(), other.objectKey(), found), "")
	check.Equal(t, "the holder", ptr.Deref(found.Spec.HolderIdentity, ""), other.holder)
}

// TestALeaseThatIsTakenAwayEndsTheMove deletes the Lease, as the error suggests.
func TestALeaseThatIsTakenAwayEndsTheMove(t *testing.T) {
	in := leased(t, interceptor.Funcs{})
	held := leaseOf(in, t.TempDir())
	check.Error(t, held.acquireOrWatch(t.Context()), "")
	check.Error(t, in.Delete(t.Context(), held.lease.DeepCopy()), "")
	check.Error(t, held.keepRenewing(t.Context()), "run this command again")
}

// TestANoteOfAnotherMachineIsNotTaken has a home folder shared by two machines, without common locks.
func TestANoteOfAnotherMachineIsNotTaken(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	check.Error(t, os.WriteFile(note, []byte("jane@elsewhere 1"), 0o600), "")
	one := newMoveLease(leased(t, interceptor.Funcs{}), "prod", note)
	check.Equal(t, "the other's", strings.HasPrefix(one.holder, "jane@elsewhere"), false)
}

// TestARenewalWithoutAnAnswerIsNoLoss loses the answer of every second renewal.
func TestARenewalWithoutAnAnswerIsNoLoss(t *testing.T) {
	updates := 0
	in := leased(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.UpdateOption) error {
			if updates++; updates%2 == 1 {
				return errors.Join(
					c.Update(ctx, object.DeepCopyObject().(client.Object), o...), //nolint:forcetypeassert // it is one
					errors.New("the connection was cut"),
				)
			}

			return c.Update(ctx, object, o...)
		},
	})
	held := leaseOf(in, t.TempDir())
	check.Error(t, held.acquireOrWatch(t.Context()), "")

	ctx, stop := context.WithTimeout(t.Context(), 3*shortLife)
	defer stop()
	check.Error(t, held.keepRenewing(ctx), "")
	check.Equal(t, "renewals", updates > 4, true)
}

// TestALateRenewalDoesNotKeepTheLease has the last renewal arrive while the Lease is released.
func TestALateRenewalDoesNotKeepTheLease(t *testing.T) {
	late := 1
	in := leased(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.DeleteOption) error {
			if found := (&coordinationv1.Lease{}); late > 0 {
				late--
				check.Error(t, c.Get(ctx, client.ObjectKeyFromObject(object), found), "")
				found.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now()))
				check.Error(t, c.Update(ctx, found), "")

				return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, object.GetName(), nil)
			}

			return c.Delete(ctx, object, o...)
		},
	})
	held := leaseOf(in, t.TempDir())
	check.Error(t, held.acquireOrWatch(t.Context()), "")
	held.release(t.Context())

	err := in.Get(t.Context(), held.objectKey(), &coordinationv1.Lease{})
	check.Equal(t, "the Lease is gone", apierrors.IsNotFound(err), true)
	check.Equal(t, "its note is gone", fileExists(held.note), false)
}

// TestAUserWithoutLeasesMoves has a user without write access to kube-system.
func TestAUserWithoutLeasesMoves(t *testing.T) {
	in := leased(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", nil)
		},
	})

	var said bytes.Buffer
	end := &management{Cluster: in}
	m := &move{Common: &Common{Display: progress.NewDisplay(&said)}, from: end, to: end, fromID: "one", toID: "two"}
	held, release, err := m.holdLeases(t.Context())
	check.Error(t, err, "")
	check.Error(t, held.Err(), "")
	check.Contains(t, "what it says", said.String(), "is not locked")
	release()
	check.Error(t, dropMoveLease(t.Context(), in), "")
}

// takenLease returns an acquired Lease whose renewals fail while *problem is an error.
func takenLease(t *testing.T, problem *atomic.Pointer[error]) *moveLease {
	t.Helper()

	out := leaseOf(leased(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.UpdateOption) error {
			if err := problem.Load(); err != nil {
				return *err
			}

			return c.Update(ctx, object, o...)
		},
	}), t.TempDir())
	check.Error(t, out.acquireOrWatch(t.Context()), "")

	return out
}

// sleep has a Lease as it is after the machine has slept for longer than its life: the steady clock stood still.
func (l *moveLease) sleep() {
	l.renewing.Lock() // the answer to a renewal under way would end the sleep
	defer l.renewing.Unlock()

	slept := *l.renewed.Load()
	slept.wall = slept.wall.Add(-2 * l.life)
	l.renewed.Store(&slept)
}

// TestLeasesThatNobodyCanRenewEndTheMove makes both management clusters unreachable, and then only one of them.
func TestLeasesThatNobodyCanRenewEndTheMove(t *testing.T) {
	for away, problem := range map[int]error{1: nil, 2: errLeaseUnsure} {
		unreachable := errors.New("no route to host")
		var none, cut atomic.Pointer[error]

		cut.Store(&unreachable)
		held := []*moveLease{
			takenLease(t, &cut),
			takenLease(t, map[int]*atomic.Pointer[error]{1: &none, 2: &cut}[away]),
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*shortLife)
		defer stop()

		for _, one := range held {
			go func() { _ = one.keepRenewing(ctx) }()
		}

		begun := time.Now()
		err := watchAges(ctx, held)
		check.Equal(t, "the end", errors.Is(err, problem), true)
		check.Equal(t, "it ends before others can take them", problem == nil || time.Since(begun) < shortLife, true)
	}
}

// TestAMachineThatHasSleptWritesNothingWithAnEndedLease has a Lease that ended unnoticed before the next renewal.
func TestAMachineThatHasSleptWritesNothingWithAnEndedLease(t *testing.T) {
	var problem atomic.Pointer[error]

	fenced := func(l *moveLease) *management {
		return (&move{leases: []*moveLease{l}}).fence(l, &management{Cluster: l.in})
	}
	write := func(l *moveLease) error {
		to := fenced(l)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", GenerateName: "x-"}}

		return to.Create(t.Context(), secret)
	}

	held := takenLease(t, &problem)
	check.Error(t, write(held), "")

	held.sleep()
	check.Error(t, write(held), "") // it is renewed first: nobody has taken it
	check.Equal(t, "renewed", held.isUnsure(), false)

	unreachable := errors.New("no route to host")
	problem.Store(&unreachable)
	check.Error(t, write(held), "") // it holds

	held.sleep()
	err := write(held)
	check.Equal(t, "unsure", errors.Is(err, errLeaseUnsure), true)
	check.Error(t, (&move{leases: []*moveLease{held}}).confirmHeld(t.Context()), "was not renewed in time")
	check.Equal(
		t, "access of clusterctl", errors.Is(fenced(held).ClusterctlAccess().MayAct(t.Context()), errLeaseUnsure), true,
	)

	problem.Store(nil)

	other := leaseOf(held.in, t.TempDir())
	check.Error(t, other.acquireOrWatch(t.Context()), "")
	check.Equal(t, "lost", errors.Is(write(held), errLeaseLost), true)
}

// TestADeletionLeavesTheLockOfAMoveThatGoes has another machine that renews its Lease, and then stops.
func TestADeletionLeavesTheLockOfAMoveThatGoes(t *testing.T) {
	in := leased(t, interceptor.Funcs{})
	alive := leaseOf(in, t.TempDir())
	check.Error(t, alive.acquireOrWatch(t.Context()), "")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- alive.keepRenewing(ctx) }()

	check.Error(t, dropSoon(t, in), "")
	check.Error(t, in.Get(t.Context(), alive.objectKey(), &coordinationv1.Lease{}), "")
	stop()
	check.Error(t, <-ended, "")

	check.Error(t, dropSoon(t, in), "")
	err := in.Get(t.Context(), alive.objectKey(), &coordinationv1.Lease{})
	check.Equal(t, "the lock of the dead is left", !apierrors.IsNotFound(err), false)
}

// dropSoon drops a Lease with a short life.
func dropSoon(t *testing.T, in *mgmtcluster.Cluster) error {
	t.Helper()

	one := newMoveLease(in, "prod", "")
	one.life = shortLife

	return one.removeIfIdle(t.Context())
}

// TestAnInterruptedLockIsGivenBack interrupts the command while the API server creates the Lease, so the answer is
// lost.
func TestAnInterruptedLockIsGivenBack(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	in := leased(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			err := c.Create(ctx, object, o...)
			interrupt()

			return errors.Join(err, ctx.Err())
		},
	})
	end := &management{Cluster: in}
	m := &move{
		Common: &Common{Display: progress.NewDisplay(&bytes.Buffer{})},
		from:   end,
		to:     end,
		fromID: "one",
		toID:   "two",
	}
	_, _, err := m.holdLeases(ctx)
	check.Equal(t, "the interrupt", errors.Is(err, context.Canceled), true)

	err = in.Get(t.Context(), (&moveLease{namespace: "prod"}).objectKey(), &coordinationv1.Lease{})
	check.Equal(t, "a lock is left", !apierrors.IsNotFound(err), false)
}

// TestTheRemedyForAHangingMoveNamesItsManagementCluster has a kubeconfig with spaces in its path.
func TestTheRemedyForAHangingMoveNamesItsManagementCluster(t *testing.T) {
	in := leased(t, interceptor.Funcs{})
	in.Kubeconfig, in.Context = "/home/me/it's mine", "$(reboot)"
	check.Contains(
		t, "the remedy", leaseOf(in, t.TempDir()).heldByError("jane@elsewhere 1").Error(),
		`: kubectl -n kube-system delete lease olvmctl-move-prod --kubeconfig '/home/me/it'\''s mine' --context '$(reboot)'`,
	)
}

// TestTwoMachinesDoNotUndoEachOthersMove starts the same move, or the way back, on a second machine. The first move is
// copying objects, or deleting the copied objects. A later move finds no lock.
func TestTwoMachinesDoNotUndoEachOthersMove(t *testing.T) {
	for name, test := range map[string]struct {
		at      int32
		from    int
		problem string
	}{
		"the same, while it copies":      {8, 0, "is moving namespace moving-"},
		"the same, while it deletes":     {14, 0, "is moving namespace moving-"},
		"the way back, before the pause": {3, 1, "no Cluster to move found"},
		"the way back, while it deletes": {14, 1, "to another management cluster was interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())

			var second error

			g := &gate{at: test.at, after: true, end: func() {
				t.Setenv("XDG_CACHE_HOME", t.TempDir()) // as on another machine
				_, second = m.move(&gate{}, test.from, 1-test.from)
			}}
			o := &Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}
			check.Error(t, o.moveClusters(t.Context(), m.open(0, g), m.open(1, g)), "")
			check.Error(t, second, test.problem)
			m.expectMoved(1)
		})
	}
}

// TestClusterctlWritesNothingWithALostLease halts this machine at a write of the move, for longer than a Lease lives.
// Another machine takes the Lease of the source, of the target, or both. This machine does not know it when it goes on.
func TestClusterctlWritesNothingWithALostLease(t *testing.T) {
	for name, taken := range map[string][]int{"of both": {0, 1}, "of the source": {0}, "of the target": {1}} {
		for at := int32(3); at <= 18; at++ {
			if testing.Short() && (at != 8 || len(taken) != 1) {
				continue
			}

			t.Run(fmt.Sprintf("the Lease %s, at write %d", name, at), func(t *testing.T) {
				m := newMoving(t)
				g := &gate{at: at, halt: true}
				o := &Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}
				mover := &move{Common: o, from: m.open(0, g), to: m.open(1, g)}
				check.Error(t, mover.inspectEnds(t.Context()), "")
				held, release, err := mover.holdLeases(t.Context())
				check.Error(t, err, "")

				g.end = func() {
					for _, end := range taken {
						m.takeLease(end)
					}

					for _, one := range mover.leases {
						one.sleep()
					}
				}
				err = (&move{Common: o, from: mover.from, to: mover.to, leases: mover.leases}).runLocked(held)
				check.Set(t, "the error", err != nil)
				check.Equal(t, "writes", g.writes.Load(), at)
				m.expectOneManager()
				release()

				for end := range m.servers {
					holder := map[bool]string{true: "jane@elsewhere 1"}[slices.Contains(taken, end)]
					check.Equal(t, "the holder afterwards", m.leaseHolder(end), holder)
				}
			})
		}
	}
}

// TestALateWriteOfClusterctlChangesNoLaterObject halts this machine at a write to the source. Meanwhile, another
// machine takes the Leases, and an object is made again by the same name. The write arrives when this machine goes on.
func TestALateWriteOfClusterctlChangesNoLaterObject(t *testing.T) {
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			m := newMoving(t)
			from := m.open(0, &gate{})

			var (
				mover *move
				once  sync.Once
				made  types.UID
			)

			content := testsite.NewKubeconfig(t, m.servers[0].Config, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == method && strings.HasSuffix(r.URL.Path, "/machines/prod-a") {
						once.Do(func() {
							made = m.makeMachineAgain()
							m.takeLease(0)
							m.takeLease(1)

							for _, one := range mover.leases {
								one.sleep()
							}
						})
					}

					next.ServeHTTP(w, r)
				})
			})
			check.Error(t, os.WriteFile(from.options.Kubeconfig, content, 0o600), "")

			from, err := newManagement(mgmtcluster.Options{
				Kubeconfig: from.options.Kubeconfig, Namespace: m.namespace,
			}, mgmtcluster.DriverExisting)
			check.Error(t, err, "")
			check.Error(t, from.connect(t.Context()), "")

			o := &Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}
			mover = &move{Common: o, from: from, to: m.open(1, &gate{})}
			check.Error(t, mover.inspectEnds(t.Context()), "")
			held, release, err := mover.holdLeases(t.Context())
			check.Error(t, err, "")
			defer release()

			err = (&move{Common: o, from: mover.from, to: mover.to, leases: mover.leases}).runLocked(held)
			check.Set(t, "the error", err != nil)

			var machine clusterv1.Machine
			key := client.ObjectKey{Namespace: m.namespace, Name: "prod-a"}
			check.Error(t, m.servers[0].Client.Get(t.Context(), key, &machine), "")
			check.Equal(t, "the UID", machine.UID, made)
			check.Equal(t, "it is deleted", machine.DeletionTimestamp != nil, false)
			check.Equal(t, "annotations", machine.Annotations, nil)
		})
	}
}

// makeMachineAgain replaces a Machine at the source. Handlers of requests call it, so it does not end the test.
func (m *moving) makeMachineAgain() types.UID {
	m.t.Helper()

	c, ctx := m.servers[0].Client, m.t.Context()
	machine := &clusterv1.Machine{}
	err := c.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "prod-a"}, machine)

	if err == nil {
		machine.Finalizers = nil
		err = c.Update(ctx, machine)
	}

	if err == nil {
		err = c.Delete(ctx, machine)
	}

	again := &clusterv1.Machine{Spec: machine.Spec}
	again.Namespace, again.Name, again.Finalizers = m.namespace, machine.Name, []string{clusterv1.MachineFinalizer}

	if err == nil {
		err = c.Create(ctx, again)
	}

	if err != nil {
		m.t.Errorf("failed to make the Machine again: %v", err)
	}

	return again.UID
}

// takeLease has another machine take the Lease of a move. Handlers of requests call it, so it does not end the test.
func (m *moving) takeLease(end int) {
	m.t.Helper()

	key := (&moveLease{namespace: m.namespace}).objectKey()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the holder may renew it meanwhile
		lease := &coordinationv1.Lease{}
		if err := m.servers[end].Client.Get(m.t.Context(), key, lease); err != nil {
			return err
		}

		lease.Spec.HolderIdentity = ptr.To("jane@elsewhere 1")

		return m.servers[end].Client.Update(m.t.Context(), lease)
	})
	if err != nil {
		m.t.Errorf("failed to take the Lease: %v", err)
	}
}

// leaseHolder returns the holder of the Lease of a move, or "" without one.
func (m *moving) leaseHolder(end int) string {
	m.t.Helper()

	lease := &coordinationv1.Lease{}
	err := m.servers[end].Client.Get(m.t.Context(), (&moveLease{namespace: m.namespace}).objectKey(), lease)
	check.Error(m.t, client.IgnoreNotFound(err), "")

	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// TestAMoveNeedsTheLeasesOfBothEnds has another machine move between one of the two management clusters and a third.
func TestAMoveNeedsTheLeasesOfBothEnds(t *testing.T) {
	for name, busy := range map[string]int{"the source is busy": 0, "the target is busy": 1} {
		for _, ids := range [][]types.UID{{"one", "two"}, {"two", "one"}} { // the order of taking them
			t.Run(fmt.Sprint(name, ids), func(t *testing.T) {
				t.Parallel()

				ends := []*mgmtcluster.Cluster{leased(t, interceptor.Funcs{}), leased(t, interceptor.Funcs{})}
				other := leaseOf(ends[busy], t.TempDir())
				check.Error(t, other.acquireOrWatch(t.Context()), "")

				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- other.keepRenewing(ctx) }()

				var said bytes.Buffer

				m := &move{
					Common: &Common{Display: progress.NewDisplay(&said)}, fromID: ids[0], toID: ids[1],
					from: &management{Cluster: ends[0]}, to: &management{Cluster: ends[1]},
				}
				_, _, err := m.holdLeases(t.Context())
				check.Equal(t, "it is held", errors.Is(err, errLeaseHeld), true)
				check.Contains(t, "what it says", said.String(), "has locked namespace prod in ")
				stop()
				check.Error(t, <-ended, "")

				err = ends[1-busy].Get(t.Context(), other.objectKey(), &coordinationv1.Lease{})
				check.Equal(t, "a lock is left at the other end", !apierrors.IsNotFound(err), false)
			})
		}
	}
}

// TestAnEndWithoutLeasesIsWrittenWithTheLeaseOfTheOtherEnd has a user who may write Leases at one end alone. That Lease
// decides whether the move may write at both ends.
func TestAnEndWithoutLeasesIsWrittenWithTheLeaseOfTheOtherEnd(t *testing.T) {
	for name, forbidden := range map[string]int{"the source": 0, "the target": 1} {
		t.Run(name+" has none", func(t *testing.T) {
			t.Parallel()

			var problem atomic.Pointer[error]

			ends := make([]*mgmtcluster.Cluster, 2)
			ends[forbidden] = leased(t, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", nil)
				},
			})
			ends[1-forbidden] = leased(t, interceptor.Funcs{
				Update: func(
					ctx context.Context, c client.WithWatch, object client.Object, o ...client.UpdateOption,
				) error {
					if err := problem.Load(); err != nil {
						return *err
					}

					return c.Update(ctx, object, o...)
				},
			})

			m := &move{
				Common: &Common{Display: progress.NewDisplay(&bytes.Buffer{})}, fromID: "one", toID: "two",
				from: &management{Cluster: ends[0]}, to: &management{Cluster: ends[1]},
			}
			_, release, err := m.holdLeases(t.Context())
			check.Error(t, err, "")
			defer release()
			check.Length(t, "Leases", m.leases, 1)

			write := func() error {
				to := []*management{m.from, m.to}[forbidden]

				return to.Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "prod", GenerateName: "x-"},
				})
			}
			check.Error(t, write(), "")

			unreachable := errors.New("no route to host")
			problem.Store(&unreachable)
			m.leases[0].sleep()
			check.Equal(t, "unsure", errors.Is(write(), errLeaseUnsure), true)

			problem.Store(nil)
			check.Error(t, write(), "") // nobody has taken it

			check.Error(t, leaseOf(ends[1-forbidden], t.TempDir()).takeAway(t.Context()), "")
			m.leases[0].sleep()
			check.Equal(t, "lost", errors.Is(write(), errLeaseLost), true)
		})
	}
}

// takeAway takes the Lease at once, as after its end.
func (l *moveLease) takeAway(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the holder may renew it meanwhile
		found := &coordinationv1.Lease{}
		if err := l.in.Get(ctx, l.objectKey(), found); err != nil {
			return err
		}

		return l.writeHolder(ctx, found)
	})
}

// TestTheClocksOfOtherMachinesDecideNothing has a Lease of a machine with a wrong clock: only its changes count.
func TestTheClocksOfOtherMachinesDecideNothing(t *testing.T) {
	for name, skew := range map[string]time.Duration{"slow": -time.Hour, "fast": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			in := leased(t, interceptor.Funcs{})
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: leaseName("prod"),
			}}
			lease.Spec.HolderIdentity = ptr.To("jane@elsewhere 1")
			lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(skew)))
			check.Error(t, in.Create(t.Context(), lease), "")

			renewed := make(chan error, 1)
			time.AfterFunc(shortLife/3, func() {
				lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(skew)))
				renewed <- in.Update(t.Context(), lease)
			})

			err := leaseOf(in, t.TempDir()).acquireOrWatch(t.Context())
			check.Equal(t, "held while it is renewed", errors.Is(err, errLeaseHeld), true)
			check.Error(t, <-renewed, "")

			begun := time.Now()
			check.Error(t, leaseOf(in, t.TempDir()).acquireOrWatch(t.Context()), "")
			check.Equal(t, "taken early", time.Since(begun) < shortLife, false)
		})
	}
}

// TestALeaseAgesByTheFasterClock has a machine that has slept, and one with a clock that was set.
func TestALeaseAgesByTheFasterClock(t *testing.T) {
	for name, test := range map[string]struct {
		steady, wall time.Duration
		unsure       bool
	}{
		"just renewed":                    {0, 0, false},
		"long ago":                        {time.Minute, time.Minute, true},
		"it has slept":                    {0, time.Minute, true},
		"the clock was set back":          {time.Minute, -time.Hour, true},
		"set back, and just renewed":      {0, -time.Hour, false},
		"two thirds of its life are over": {leaseLife*2/3 + time.Second, 0, true},
		"they are not over":               {leaseLife*2/3 - 3*time.Second, 0, false},
	} {
		now, l := time.Now(), &moveLease{life: leaseLife}
		l.renewed.Store(&instant{steady: now.Add(-test.steady), wall: now.Round(0).Add(-test.wall)})
		check.Equal(t, name, l.isUnsure(), test.unsure)
	}
}

// TestAFenceIsMadeBesideARenewal has a Lease renewed while the fence is made. The race detector judges it.
func TestAFenceIsMadeBesideARenewal(t *testing.T) {
	held := leaseOf(leased(t, interceptor.Funcs{}), t.TempDir())
	check.Error(t, held.acquireOrWatch(t.Context()), "")

	m, end := &move{leases: []*moveLease{held}}, &management{Cluster: held.in}
	renewed := make(chan error, 1)
	go func() { renewed <- held.renew(t.Context()) }()

	check.Equal(t, "the end has a fence", m.fence(held, end) != end, true)
	check.Error(t, <-renewed, "")
	check.Equal(t, "an end without a Lease has one", (&move{}).fence(held, end) != end, false)
}

// TestTheMessagesOfAMoveAreDocumented compares the table for users with the messages.
func TestTheMessagesOfAMoveAreDocumented(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "user", "olvmctl.md"))
	check.Error(t, err, "")

	in := leased(t, interceptor.Funcs{})
	held := leaseOf(in, t.TempDir())
	check.Error(t, held.acquireOrWatch(t.Context()), "")

	var waits bytes.Buffer

	other := leaseOf(in, t.TempDir())
	other.life, other.holder = leaseLife, "jane@laptop 1"
	other.say = progress.NewDisplay(&waits).PrintLine

	ctx, stop := context.WithTimeout(t.Context(), shortLife/2)
	defer stop()
	check.Set(t, "the wait", other.acquireOrWatch(ctx))

	// The page has dots in the place of the server.
	waited := strings.ReplaceAll(strings.TrimSpace(waits.String()), strings.Fields(held.holder)[0], "jane@laptop")
	waited = strings.Replace(waited, "in "+in.Server()+";", "in ...;", 1)
	refused := strings.Replace(other.heldByError(other.holder).Error(), "out of "+in.Server()+";", "out of ...;", 1)
	refused, _, _ = strings.Cut(refused, ". If")
	lost, _, _ := strings.Cut(errLeaseLost.Error(), ";")
	unsure, _, _ := strings.Cut(errLeaseUnsure.Error(), ",")
	shown := string(content)

	for _, message := range []string{waited, refused, lost, unsure} {
		check.Contains(t, "the page", shown, "| `"+message)
	}
}

// TestAMoveSignsAndResumesClustersBesideTheirControllers has a controller write each Cluster just before the patch.
func TestAMoveSignsAndResumesClustersBesideTheirControllers(t *testing.T) {
	key := client.ObjectKey{Namespace: "prod", Name: "prod"}
	writes := 0
	in := leased(t, interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption,
		) error {
			if writes++; writes%2 == 1 {
				other := &clusterv1.Cluster{}
				check.Error(t, c.Get(ctx, key, other), "")
				metav1.SetMetaDataLabel(&other.ObjectMeta, "of-a-controller", fmt.Sprint(writes))
				check.Error(t, c.Update(ctx, other), "")
			}

			return c.Patch(ctx, object, patch, o...)
		},
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Spec.Paused = ptr.To(true)
	check.Error(t, in.Create(t.Context(), cluster), "")

	check.Error(t, signClusters(t.Context(), in, []clusterv1.Cluster{*cluster}, "from a to b"), "")
	check.Error(t, in.Get(t.Context(), key, cluster), "")
	check.Equal(t, "the sign", cluster.Annotations[movingAnnotation], "from a to b")

	check.Error(t, endMove(t.Context(), in, cluster), "")

	ended := &clusterv1.Cluster{}
	check.Error(t, in.Get(t.Context(), key, ended), "")
	check.Equal(t, "the sign", ended.Annotations[movingAnnotation], "")
	check.Equal(t, "paused", ptr.Deref(ended.Spec.Paused, false), false)
	check.Equal(t, "the label of the controller", ended.Labels["of-a-controller"], "3")
	check.Equal(t, "patches", writes, 4)
}
