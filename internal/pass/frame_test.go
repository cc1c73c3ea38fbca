package pass

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// framed is a controller of the machine of a book. It records the calls of its frame.
type framed struct {
	*book

	calls    []string
	recorder *events.FakeRecorder
	change   func(*Frame)
	filter   string
}

func newFramed(t *testing.T) *framed {
	t.Helper()

	return &framed{book: newBook(t), recorder: events.NewFakeRecorder(5), change: func(*Frame) {}}
}

func (f *framed) called(name string) { f.calls = append(f.calls, name) }

// frame admits the machine, has a place, and reports Ready in the status.
func (f *framed) frame(m *infrav1.OLVMMachine) Frame {
	out := Frame{
		Labelled: m,
		Admit: func(context.Context) (bool, ctrl.Result, error) {
			f.called("admit")
			return true, ctrl.Result{}, nil
		},
		EnsurePaused: func(context.Context) (bool, error) {
			f.called("pause")
			return false, nil
		},
		Enter: func(context.Context) (func(), ctrl.Result, error) {
			f.called("enter")
			return PlaceTaken(func() { f.called("leave") }, true)
		},
		Work: func(context.Context) (ctrl.Result, error) {
			f.called("work")
			return ctrl.Result{RequeueAfter: retryOutdated}, nil
		},
		SetStatus: func() {
			f.called("status")
			conditions.Set(m, metav1.Condition{
				Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Done",
			})
		},
		Steps:   func() map[string]string { return map[string]string{infrav1.ReadyCondition: "it is ready"} },
		Written: func(gone bool) { f.called(map[bool]string{true: "gone", false: "written"}[gone]) },
	}
	f.change(&out)

	return out
}

func (f *framed) reconcile() (ctrl.Result, error) {
	f.t.Helper()
	f.calls = nil
	f.tracker = Tracker{}

	return Controller[*infrav1.OLVMMachine]{
		Tracker:          &f.tracker,
		Client:           f.client,
		Recorder:         f.recorder,
		WatchFilterValue: f.filter,
		Forget: func(context.Context, client.ObjectKey) error {
			f.called("forget")
			return nil
		},
		Open: func(_ context.Context, _ *Pass, m *infrav1.OLVMMachine) (Frame, error) {
			f.called("open")
			return f.frame(m), nil
		},
	}.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.machine)},
		&infrav1.OLVMMachine{})
}

func TestTheGuardsOfAFrameStandBeforeItsWork(t *testing.T) {
	f := newFramed(t)
	result, err := f.reconcile()
	check.Error(t, err, "")
	check.Equal(t, "the calls", f.calls,
		[]string{"open", "admit", "pause", "enter", "work", "status", "written", "leave"})
	check.Equal(t, "the result", result, ctrl.Result{RequeueAfter: retryOutdated})
	check.Equal(t, "what is stored", conditions.IsTrue(f.stored(), infrav1.ReadyCondition), true)
	check.Equal(t, "the event", <-f.recorder.Events, "Normal Done it is ready")
}

func TestAGuardEndsThePassBeforeAnythingIsWritten(t *testing.T) {
	refused := errors.New("refused")

	for name, tt := range map[string]struct {
		change func(*Frame)
		filter string
		calls  []string
		err    string
	}{
		"the watch label is another's": {filter: "b", calls: []string{"open"}},
		"nothing has the watch label": {
			filter: "b", change: func(f *Frame) { f.Labelled = &metav1.ObjectMeta{} }, calls: []string{"open"},
		},
		"it is not admitted": {
			change: func(f *Frame) {
				f.Admit = func(context.Context) (bool, ctrl.Result, error) { return false, ctrl.Result{}, nil }
			},
			calls: []string{"open"},
		},
		"the admission fails": {
			change: func(f *Frame) {
				f.Admit = func(context.Context) (bool, ctrl.Result, error) { return true, ctrl.Result{}, refused }
			},
			calls: []string{"open"}, err: "refused",
		},
		"it is paused": {
			change: func(f *Frame) { f.EnsurePaused = func(context.Context) (bool, error) { return true, nil } },
			calls:  []string{"open", "admit"},
		},
		"there is no place": {
			change: func(f *Frame) {
				f.Enter = func(context.Context) (func(), ctrl.Result, error) { return PlaceTaken(nil, false) }
			},
			calls: []string{"open", "admit", "pause"},
		},
		"the place fails": {
			change: func(f *Frame) {
				f.Enter = func(context.Context) (func(), ctrl.Result, error) { return func() {}, ctrl.Result{}, refused }
			},
			calls: []string{"open", "admit", "pause"}, err: "refused",
		},
		"it has no guard against a pause": {
			change: func(f *Frame) { f.EnsurePaused = nil }, calls: []string{"open"}, err: "lacks EnsurePaused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFramed(t)
			f.filter = tt.filter
			if tt.change != nil {
				f.change = tt.change
			}

			_, err := f.reconcile()
			check.Error(t, err, tt.err)
			check.Equal(t, "the calls", f.calls, tt.calls)
			check.Length(t, "writes", f.writes, 0)
		})
	}
}

func TestAFrameServesTheObjectsOfItsManager(t *testing.T) {
	for name, labelled := range map[string]metav1.Object{
		"nobody has to have a label": nil,
		"another object has it":      &metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFramed(t)
			f.filter = "b"
			f.change = func(frame *Frame) { frame.Labelled = labelled }
			_, err := f.reconcile()
			check.Error(t, err, "")
			check.Contains(t, "the calls", f.calls[len(f.calls)-1], "leave")
		})
	}
}

func TestAFrameWritesTheStatusAfterAnError(t *testing.T) {
	f := newFramed(t)
	f.change = func(frame *Frame) {
		frame.Work = func(context.Context) (ctrl.Result, error) {
			return ctrl.Result{RequeueAfter: retryOutdated}, errors.New("no answer")
		}
	}
	result, err := f.reconcile()
	check.Error(t, err, "no answer")
	check.Equal(t, "the result", result, ctrl.Result{})
	check.Equal(t, "what is stored", conditions.IsTrue(f.stored(), infrav1.ReadyCondition), true)
}

func TestADeletedObjectIsForgotten(t *testing.T) {
	f := newFramed(t)
	check.Error(t, f.api.Delete(t.Context(), f.stored()), "")
	_, err := f.reconcile()
	check.Error(t, err, "")
	check.Equal(t, "the calls", f.calls, []string{"forget"})
}

func TestAFrameWithoutOptionalPartsWrites(t *testing.T) {
	f := newFramed(t)
	f.change = func(frame *Frame) {
		frame.Admit, frame.Enter, frame.Steps, frame.Written = nil, nil, nil, nil
	}
	_, err := f.reconcile()
	check.Error(t, err, "")
	check.Equal(t, "the calls", f.calls, []string{"open", "pause", "work", "status"})
}
