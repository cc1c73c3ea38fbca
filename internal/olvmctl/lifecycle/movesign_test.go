package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// credentials returns the empty Secret of prod.
func (m *moving) credentials() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod-ovirt-credentials"}}
}

// deleteCluster deletes the Cluster at the source.
func (m *moving) deleteCluster() {
	m.t.Helper()

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod"}}
	check.Error(m.t, client.IgnoreNotFound(m.servers[0].Client.Delete(m.t.Context(), cluster)), "")
}

// moveUntilCluster moves, and interrupts the move when it deletes the Cluster or its credentials at the source.
// clusterctl deletes both in any order. Afterwards the credentials are there, and the Cluster is gone.
func (m *moving) moveUntilCluster() error {
	m.t.Helper()

	ctx, interrupt := context.WithCancel(m.t.Context())
	defer interrupt()

	from := m.open(0, &gate{})
	content := testsite.NewKubeconfig(m.t, m.servers[0].Config, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			isMark := r.Header.Get("Content-Type") == string(types.JSONPatchType)

			switch {
			case isMark && strings.HasSuffix(r.URL.Path, "/secrets/prod-ovirt-credentials"):
				interrupt()
				panic(http.ErrAbortHandler)
			case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/clusters/prod"):
				next.ServeHTTP(w, r)
				interrupt()
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	check.Error(m.t, os.WriteFile(from.options.Kubeconfig, content, 0o600), "")

	from, err := newManagement(
		mgmtcluster.Options{Kubeconfig: from.options.Kubeconfig, Namespace: m.namespace}, mgmtcluster.DriverExisting,
	)
	check.Error(m.t, err, "")
	check.Error(m.t, from.connect(ctx), "")

	o := &Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}
	err = o.moveClusters(ctx, from, m.open(1, &gate{}))
	m.deleteCluster()

	return err
}

// TestTheRestOfAnInterruptedMoveIsNotDeleted interrupts a move after it has deleted the Cluster at the source, and
// before the credentials. The interrupt releases the Leases.
func TestTheRestOfAnInterruptedMoveIsNotDeleted(t *testing.T) {
	for name, test := range map[string]struct{ noted, marked bool }{
		"the credentials are left":       {},
		"clusterctl has marked them":     {marked: true},
		"a deletion had not deleted all": {noted: true},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			m := newMoving(t)
			m.ours()

			c, secret := m.servers[0].Client, m.credentials()
			label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, clusterctlv1.ClusterctlMoveLabel)
			check.Error(t, c.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, label)), "")

			if test.noted {
				m.noted()
			}

			check.Set(t, "the error of the move", m.moveUntilCluster() != nil)
			check.Equal(t, "the holder of the lock", m.leaseHolder(0), "")

			if test.marked {
				check.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret), "")
				secret.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
				check.Error(t, c.Update(t.Context(), secret), "")
			}

			d := &deletion{DeleteOptions: DeleteOptions{Name: "prod"}, management: m.open(0, &gate{})}
			check.Error(t, d.findCluster(t.Context()), "")
			check.Error(t, d.missing, "is left over from a move of namespace "+m.namespace)
			check.Length(t, "Secrets that go", d.kept, 0)

			_, err := m.move(&gate{}, 0, 1)
			check.Error(t, err, "")

			err = c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
			check.Equal(t, "the rest is left", !apierrors.IsNotFound(err), false)

			moved := m.credentials()
			check.Error(t, m.servers[1].Client.Get(t.Context(), client.ObjectKeyFromObject(moved), moved), "")
			check.Equal(t, "the sign at the target", moved.Annotations[movingAnnotation], "")
			check.Equal(t, "the note at the target", moved.Annotations[reachedAnnotation], "")
		})
	}
}

// TestTheLockOfAMoveThatHasNotEndedIsLeft has a killed move, and then a command that finds nothing to move.
func TestTheLockOfAMoveThatHasNotEndedIsLeft(t *testing.T) {
	for name, test := range map[string]struct{ other, signed bool }{
		"it has ended":                 {},
		"it was to another end":        {other: true},
		"a Cluster has its sign still": {signed: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			from, to := m.open(0, &gate{}), m.open(1, &gate{})
			killed := &move{Common: &Common{Display: progress.NewDisplay(&bytes.Buffer{})}, from: from, to: to}
			check.Error(t, killed.inspectEnds(t.Context()), "")

			if test.other {
				killed.toID = "another"
			}

			unlock, err := killed.lockNamespace()
			check.Error(t, err, "")

			ctx, kill := context.WithCancel(t.Context())
			_, _, err = killed.holdLeases(ctx)
			check.Error(t, err, "")
			kill()
			unlock()

			if test.signed {
				check.Error(t, signClusters(t.Context(), from.Cluster, killed.source, killed.markerText()), "")
			}

			dropNoted(t.Context(), m.namespace, from, to)
			check.Equal(t, "the lock is left", m.leaseHolder(0) != "", test.other || test.signed)
		})
	}
}

// TestADeletionDropsTheLockBeforeItForgetsTheCluster kills a deletion after its second deletion of an object.
func TestADeletionDropsTheLockBeforeItForgetsTheCluster(t *testing.T) {
	for name, test := range map[string]struct{ other bool }{
		"its own is the only rest":          {},
		"another cluster may have its rest": {other: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			m.ours()
			m.noted()

			d, _ := deletionIn(t, m)
			check.Error(t, d.findKept(t.Context()), "")
			m.deleteCluster()

			key := (&moveLease{namespace: m.namespace}).objectKey()
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			c := m.servers[0].Client
			check.Error(t, c.Create(t.Context(), lease), "")

			if test.other {
				another := "test-ovirt-credentials"
				labels := map[string]string{managedBy: managedByValue}
				check.Error(t, c.Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: another, Labels: labels},
				}), "")
			}

			d.management = m.open(0, &gate{at: 2, after: true, kill: true, end: func() {}})
			_ = d.removeRest(t.Context()) // killed

			err := c.Get(t.Context(), key, lease)
			check.Equal(t, "the lock is left", !apierrors.IsNotFound(err), test.other)
		})
	}
}

// TestALateSignIsNotWrittenToALaterSecret has another command replace a Secret after it was listed and before it is
// written: when a move begins, and when it ends.
func TestALateSignIsNotWrittenToALaterSecret(t *testing.T) {
	secret := func(sign string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "prod", Name: "prod-ovirt-credentials", Labels: map[string]string{managedBy: managedByValue},
			Annotations: map[string]string{movingAnnotation: sign},
		}}
	}

	for name, test := range map[string]struct {
		before, after string
		write         func(in *mgmtcluster.Cluster) error
	}{
		"begin": {"", "", func(in *mgmtcluster.Cluster) error {
			return signCreated(t.Context(), in, "prod", signOf("one", "two"))
		}},
		"end": {signOf("one", "two"), signOf("one", "two"), func(in *mgmtcluster.Cluster) error {
			end := &management{Cluster: in}
			return (&move{from: end, to: end, fromID: "one", toID: "two"}).unsignCreated(t.Context())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := leased(t, interceptor.Funcs{
				Patch: func(
					ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption,
				) error {
					found := secret("")
					check.Error(t, c.Get(ctx, client.ObjectKeyFromObject(found), found), "")

					if found.UID != "of another" {
						check.Error(t, c.Delete(ctx, found), "")
						again := secret(test.after)
						again.UID = "of another"
						check.Error(t, c.Create(ctx, again), "")
						check.Error(t, c.Update(ctx, again), "") // its first version is that of the first Secret
					}

					return c.Patch(ctx, object, patch, o...)
				},
			})
			first := secret(test.before)
			first.UID = "first"
			check.Error(t, in.Create(t.Context(), first), "")
			check.Error(t, test.write(in), "another command has replaced it")

			found := secret("")
			check.Error(t, in.Get(t.Context(), client.ObjectKeyFromObject(found), found), "")
			check.Equal(t, "the sign", found.Annotations[movingAnnotation], test.after)
		})
	}
}
