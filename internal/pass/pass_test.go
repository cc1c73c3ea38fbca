package pass

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// book is an API server with one machine, and a tracker. While cached is set, the tracker reads from an outdated cache.
type book struct {
	t       *testing.T
	api     client.WithWatch
	client  client.Client
	tracker Tracker
	machine *infrav1.OLVMMachine
	cached  *infrav1.OLVMMachine
	writes  []string
}

func newBook(t *testing.T) *book {
	t.Helper()
	scheme := runtime.NewScheme()
	check.Error(t, api.AddToScheme(scheme), "")
	b := &book{t: t, machine: &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}}
	b.machine.Status.OLVM = &infrav1.OLVMStatus{IPAddress: "10.0.0.1"}
	b.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b.machine).WithStatusSubresource(b.machine).Build()
	b.client = interceptor.NewClient(b.api, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if b.cached != nil {
				b.cached.DeepCopyInto(o.(*infrav1.OLVMMachine))
				return nil
			}

			return c.Get(ctx, key, o, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
		) error {
			b.writes = append(b.writes, "object")
			return c.Patch(ctx, o, p, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, part string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			b.writes = append(b.writes, part)
			return c.SubResource(part).Patch(ctx, o, p, options...)
		},
	})

	return b
}

func (b *book) begin() *Pass {
	b.t.Helper()
	this, err := b.tracker.BeginPass(b.t.Context(), b.client, client.ObjectKeyFromObject(b.machine), b.machine)
	check.Error(b.t, err, "")

	return this
}

func (b *book) stored() *infrav1.OLVMMachine {
	b.t.Helper()
	out := &infrav1.OLVMMachine{}
	check.Error(b.t, b.api.Get(b.t.Context(), client.ObjectKeyFromObject(b.machine), out), "")

	return out
}

// others changes the machine as another client.
func (b *book) others(label string) *infrav1.OLVMMachine {
	b.t.Helper()
	out := b.stored()
	metav1.SetMetaDataLabel(&out.ObjectMeta, "theirs", label)
	check.Error(b.t, b.api.Update(b.t.Context(), out), "")

	return out
}

// news reports whether the event of a change starts a pass.
func (b *book) news(before, after client.Object) bool {
	return b.tracker.ChangedPredicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
}

func TestAPassWritesEachPartOnce(t *testing.T) {
	b := newBook(t)
	this := b.begin()
	b.machine.Finalizers = []string{infrav1.MachineFinalizer}
	b.machine.Status.OLVM.IPAddress = ""
	b.machine.Status.OLVM.VNICID = "nic"
	check.Error(t, this.WriteObject(t.Context()), "")
	check.Error(
		t, this.WriteWithStatus(t.Context(), func() { b.machine.Status.Initialization.Provisioned = ptr.To(true) }), "",
	)
	check.Equal(t, "writes", b.writes, []string{"object", "status"})

	stored := b.stored()
	check.Equal(t, "finalizers", stored.Finalizers, []string{infrav1.MachineFinalizer})
	check.Equal(t, "what was taken from the status", stored.Status.OLVM.IPAddress, "")
	check.Equal(t, "what was added to it", stored.Status.OLVM.VNICID, "nic")
	check.Equal(t, "what conclude has set", ptr.Deref(stored.Status.Initialization.Provisioned, false), true)
	check.Equal(t, "the version in memory", b.machine.ResourceVersion, stored.ResourceVersion)

	var result ctrl.Result
	var err error
	this.End(&result, &err)
	check.Equal(t, "the result", result, ctrl.Result{})

	b.writes = nil
	this = b.begin()
	check.Error(t, this.WriteWithStatus(t.Context(), func() {}), "")
	this.End(&result, &err)
	check.Equal(t, "writes of a pass that changes nothing", len(b.writes), 0)
}

// TestAPassWritesNoMoreThanAStatusTakes covers writes of controllers without their own limits, such as writes for a
// paused object or a cluster managed by others.
func TestAPassWritesNoMoreThanAStatusTakes(t *testing.T) {
	b := newBook(t)
	this := b.begin()
	check.Error(t, this.WriteWithStatus(t.Context(), func() {
		b.machine.Status.OLVM.ClusterName = strings.Repeat("é", 40000)
		b.machine.Status.Conditions = []metav1.Condition{{
			Type: "Paused", Message: strings.Repeat("é", 40000) + " at 03:04:05",
		}}
	}), "")
	check.Equal(t, "a name fits", len(b.stored().Status.OLVM.ClusterName) <= 255, true)
	check.Equal(t, "a message fits", len(b.stored().Status.Conditions[0].Message) <= 32768, true)
}

func TestOwnWritesBeginNoPass(t *testing.T) {
	b := newBook(t)
	before := b.stored()
	this := b.begin()
	b.machine.Finalizers = []string{infrav1.MachineFinalizer}
	check.Error(t, this.WriteObject(t.Context()), "")
	own := b.stored()

	var result ctrl.Result
	var err error
	check.Equal(t, "its event during the pass", b.news(before, own), false)
	this.End(&result, &err)
	check.Equal(t, "the result", result, ctrl.Result{})
	check.Equal(t, "its event after the pass", b.news(before, own), false)
	check.Equal(t, "a resync", b.news(own, own), true)

	theirs := b.others("one")
	check.Equal(t, "a change by somebody else", b.news(own, theirs), true)

	this = b.begin()
	again := b.others("two")
	check.Equal(t, "one during a pass", b.news(theirs, again), false)
	this.End(&result, &err)
	check.Equal(t, "the result of that pass", result, ctrl.Result{RequeueAfter: atOnce})
}

func TestAPassWaitsForTheCache(t *testing.T) {
	b := newBook(t)
	before := b.stored()
	this := b.begin()
	b.machine.Finalizers = []string{infrav1.MachineFinalizer}
	check.Error(t, this.WriteObject(t.Context()), "")
	own := b.stored()
	this.End(new(ctrl.Result), new(error))

	b.cached = before
	_, err := b.tracker.BeginPass(t.Context(), b.client, client.ObjectKeyFromObject(before), b.machine)
	check.Equal(t, "with an old object", errors.Is(err, ErrBehind), true)
	result, err := resultOfBegin(err)
	check.Error(t, err, "")
	check.Equal(t, "the result", result, ctrl.Result{RequeueAfter: retryOutdated})

	b.cached = nil
	check.Equal(t, "the event that was waited for", b.news(before, own), true)
	check.Equal(t, "the same once more", b.news(before, own), false)
	this = b.begin()
	check.Equal(t, "finalizers", b.machine.Finalizers, []string{infrav1.MachineFinalizer})
	this.End(new(ctrl.Result), new(error))
}

func TestAWriteBesidePasses(t *testing.T) {
	b := newBook(t)
	before := b.stored()
	var own *infrav1.OLVMMachine
	write := func() (string, error) {
		own = b.others("ours")
		check.Equal(t, "its event before the answer", b.news(before, own), false)

		return own.ResourceVersion, nil
	}
	others, err := b.tracker.WriteBeside(client.ObjectKeyFromObject(b.machine), write)
	check.Error(t, err, "")
	check.Equal(t, "others have changed it", others, false)
	check.Equal(t, "its event after the answer", b.news(before, own), false)

	others, err = b.tracker.WriteBeside(client.ObjectKeyFromObject(b.machine), func() (string, error) {
		check.Equal(t, "an event of others meanwhile", b.news(own, b.others("theirs")), false)

		return write()
	})
	check.Error(t, err, "")
	check.Equal(t, "others have changed it meanwhile", others, true)
}

func TestAnObjectThatHasChangedIsNotWritten(t *testing.T) {
	b := newBook(t)
	this := b.begin()
	b.others("one")
	b.machine.Status.OLVM.VNICID = "nic"
	err := this.WriteWithStatus(t.Context(), func() {})
	other := errors.New("other")

	var result ctrl.Result
	alone := error(kerrors.NewAggregate([]error{err}))
	this.End(&result, &alone)
	check.Error(t, alone, "")
	check.Equal(t, "the result", result, ctrl.Result{RequeueAfter: retryOutdated})

	b.begin()
	result = ctrl.Result{}
	both := error(kerrors.NewAggregate([]error{other, fmt.Errorf("wrapped: %w", err)}))
	this.End(&result, &both)
	check.Equal(t, "another error stays", errors.Is(both, other) && !errors.Is(both, errOutdated), true)
	check.Equal(t, "what is stored", b.stored().Status.OLVM.VNICID, "")
}

func TestAnObjectThatGoesWithItsLastFinalizer(t *testing.T) {
	b := newBook(t)
	this := b.begin()
	b.machine.Finalizers = []string{infrav1.MachineFinalizer}
	check.Error(t, this.WriteObject(t.Context()), "")
	this.End(new(ctrl.Result), new(error))
	check.Error(t, b.api.Delete(t.Context(), b.stored()), "")

	this = b.begin()
	b.machine.Finalizers = nil
	err := this.WriteWithStatus(t.Context(), func() { b.machine.Status.OLVM.VNICID = "nic" })
	check.Equal(t, "the error", errors.Is(err, ErrGone), true)
	check.Equal(t, "writes", b.writes, []string{"object", "object"})
	this.End(new(ctrl.Result), new(error))

	_, err = b.tracker.BeginPass(t.Context(), b.client, client.ObjectKeyFromObject(b.machine), b.machine)
	check.Error(t, client.IgnoreNotFound(err), "")
	check.Equal(t, "what is known of it", len(b.tracker.objects), 0)
}
