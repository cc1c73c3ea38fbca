package command

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/fencedclient"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEachWriteOfTheManagersClientAsksTheFence calls each writing method in a process without the lease. It also finds
// methods added to the interface later.
func TestEachWriteOfTheManagersClientAsksTheFence(t *testing.T) {
	asked := 0
	fenced := &fencedclient.Client{
		Client: fake.NewClientBuilder().Build(),
		MayAct: func(context.Context) error { asked++; return engine.ErrSuperseded },
	}

	var writer client.Writer = fenced
	for what, of := range map[string]any{
		"object": &writer, "status": ptr.To[client.SubResourceWriter](fenced.Status()),
		"part": ptr.To[client.SubResourceWriter](fenced.SubResource("scale")),
	} {
		value := reflect.ValueOf(of).Elem()

		for i := range value.NumMethod() {
			name := value.Type().Method(i).Name
			method := value.Method(i)
			before := asked
			err, _ := method.Call(arguments(t, method.Type()))[0].Interface().(error)
			check.Equal(t, what+": "+name+" is refused", errors.Is(err, engine.ErrSuperseded), true)
			check.Equal(t, what+": "+name+" asks", asked, before+1)
		}
	}

	check.Error(t, fenced.Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Secret{}), `secrets "a" not found`)
	check.Equal(t, "a read asks", asked, 14)
}

// arguments returns zero values for the parameters of a method, except for the context.
func arguments(t *testing.T, of reflect.Type) []reflect.Value {
	t.Helper()
	out := []reflect.Value{reflect.ValueOf(t.Context())}

	for i := 1; i < of.NumIn(); i++ {
		if of.IsVariadic() && i == of.NumIn()-1 {
			break
		}

		out = append(out, reflect.Zero(of.In(i)))
	}

	return out
}

// TestTheFenceIsAskedOnceInAWhile writes many times, waits until the answer is too old, and has another process take
// the lease.
func TestTheFenceIsAskedOnceInAWhile(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease"}}
	lease.Spec.HolderIdentity = ptr.To("me")
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptr.To(metav1.NowMicro()), ptr.To[int32](60)
	asked := 0
	api := fake.NewClientBuilder().WithObjects(lease).WithInterceptorFuncs(interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption,
	) error {
		asked++
		return c.Get(ctx, key, into, options...)
	}}).Build()
	l := &leadership{identity: "me", namespace: "system", name: "lease", fresh: 30 * time.Millisecond}
	fence := l.newFence(api)

	for range 100 {
		check.Error(t, fence(t.Context()), "")
	}

	check.Equal(t, "requests are few", asked < 20, true)

	stored := &coordinationv1.Lease{}
	check.Error(t, api.Get(t.Context(), client.ObjectKeyFromObject(lease), stored), "")
	stored.Spec.HolderIdentity = ptr.To("other")
	check.Error(t, api.Update(t.Context(), stored), "")
	time.Sleep(40 * time.Millisecond) // simulates a halted process
	check.Equal(t, "it is refused", errors.Is(fence(t.Context()), engine.ErrSuperseded), true)
	check.Equal(t, "it stays refused", errors.Is(fence(t.Context()), engine.ErrSuperseded), true)
}

// TestALeaseThatRanOutPermitsNothing has a halted process whose lease has expired. No other process has taken it yet,
// but a successor could take it and act right after the answer.
func TestALeaseThatRanOutPermitsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		renewed time.Duration // how long ago
		want    string
	}{
		"renewed just now": {time.Second, ""},
		"ran out":          {16 * time.Second, "the lease has run out, and was not renewed yet"},
		"never renewed":    {1 << 40, "the lease has run out, and was not renewed yet"},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease"}}
		lease.Spec.HolderIdentity = ptr.To("me")
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-tt.renewed)))
		lease.Spec.LeaseDurationSeconds = ptr.To[int32](15)
		l := &leadership{identity: "me", namespace: "system", name: "lease", fresh: 5 * time.Second}
		err := l.newFence(fake.NewClientBuilder().WithObjects(lease).Build())(t.Context())
		t.Log(name)
		check.Error(t, err, tt.want)
	}
}

// TestAnAnswerAboutTheLeaseEndsByEitherClock has a suspended machine, whose monotonic clock has stopped, and a changed
// wall clock.
func TestAnAnswerAboutTheLeaseEndsByEitherClock(t *testing.T) {
	now := time.Now()

	for name, tt := range map[string]struct {
		asked, until time.Time
		want         bool
	}{
		"just now":              {now.Add(-time.Millisecond), now.Add(time.Minute), true},
		"too long ago":          {now.Add(-2 * time.Second), now.Add(time.Minute), false},
		"suspended meanwhile":   {now.Round(0).Add(-time.Minute), now.Add(time.Minute), false},
		"the clock was set":     {now.Round(0).Add(time.Minute), now.Add(time.Hour), false},
		"the lease runs out":    {now.Add(-time.Millisecond), now.Add(time.Millisecond), true},
		"the lease has run out": {now.Add(-time.Millisecond), now, false},
	} {
		answer := &leading{asked: tt.asked, until: tt.until}
		check.Equal(t, name, answer.isValid(now, time.Second), tt.want)
	}
}

// TestAStateIsSavedUnlessAnotherProcessLeads saves results after losing the lease, and saves nothing once another
// process leads.
func TestAStateIsSavedUnlessAnotherProcessLeads(t *testing.T) {
	for name, tt := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"it leads":              {leaseOf("me", time.Second), ""},
		"its lease has run out": {leaseOf("me", time.Hour), ""},
		"it released the lease": {leaseOf("", time.Second), ""},
		"nobody can tell":       {nil, ""},
		"another one leads":     {leaseOf("other", time.Second), "another manager leads: other"},
		"another one has led":   {leaseOf("other", time.Hour), "another manager leads: other"},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder()
			if tt.lease != nil {
				api = api.WithObjects(tt.lease)
			}

			l := &leadership{identity: "me", namespace: "system", name: "lease", fresh: 5 * time.Second}
			l.mayAct = l.newFence(api.Build())
			states := &fencedclient.Client{Client: fake.NewClientBuilder().Build(), MayAct: l.checkSuperseded}
			state := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tfstate-default-one"}}
			check.Error(t, states.Create(t.Context(), state), tt.want)
		})
	}
}

// leaseOf returns a lease of 15 seconds.
func leaseOf(holder string, renewed time.Duration) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease"}}
	lease.Spec.HolderIdentity = &holder
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-renewed)))
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](15)

	return lease
}
