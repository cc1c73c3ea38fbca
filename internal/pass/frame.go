package pass

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// placeRetry is the retry interval of a pass without a place.
	placeRetry = 10 * time.Second
	// jitter is the maximum share of a delay that Jitter adds.
	jitter = 0.2
)

// Controller holds what all passes of a controller share. O is the type of its objects.
type Controller[O client.Object] struct {
	Tracker  *Tracker
	Client   client.Client
	Recorder events.EventRecorder
	// WatchFilterValue is the value of the watch label; empty selects all objects.
	WatchFilterValue string
	// Forget drops all records of a deleted object. It is nil if the controller has none.
	Forget func(ctx context.Context, key client.ObjectKey) error
	// Open reads the facts for the guards of a pass.
	Open func(ctx context.Context, of *Pass, object O) (Frame, error)
}

// Frame is one pass of a controller, in the order of the fields. Fields marked as optional may be nil.
type Frame struct {
	// Labelled is the object with the watch label. It is nil if every manager may act.
	Labelled metav1.Object
	// Admit reports whether the object needs work at all. Without it, the pass ends with the result. Optional.
	Admit func(ctx context.Context) (bool, ctrl.Result, error)
	// EnsurePaused reports whether the object is paused. If so, the function has already written the cause.
	EnsurePaused func(ctx context.Context) (bool, error)
	// RetryPaused is the interval of checks for the end of a pause without an event. Optional.
	RetryPaused time.Duration
	// Enter takes a place for the work. If leave is nil, the pass ends with the result. Optional.
	Enter func(ctx context.Context) (leave func(), result ctrl.Result, err error)
	// Work does the work. The object is written afterwards, even after an error.
	Work func(ctx context.Context) (ctrl.Result, error)
	// SetStatus turns the facts into the status.
	SetStatus func()
	// Steps maps a condition to the text of its event when it becomes true. Optional.
	Steps func() map[string]string
	// Written follows the write. gone reports that the object no longer exists. Optional.
	Written func(gone bool)
}

// Reconcile runs one pass. object is empty.
func (c Controller[O]) Reconcile(
	ctx context.Context, req ctrl.Request, object O,
) (result ctrl.Result, reterr error) {
	this, err := c.Tracker.BeginPass(ctx, c.Client, req.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		// Clean up here, not with the finalizer: clusterctl move and users remove finalizers, too.
		return ctrl.Result{}, c.forgetObject(ctx, req.NamespacedName)
	} else if err != nil {
		return resultOfBegin(err)
	}

	defer this.End(&result, &reterr)

	frame, err := c.Open(ctx, this, object)
	if err != nil {
		return ctrl.Result{}, err
	}

	if frame.EnsurePaused == nil || frame.Work == nil || frame.SetStatus == nil {
		return ctrl.Result{}, fmt.Errorf("the frame of %T lacks EnsurePaused, Work or SetStatus", object)
	}

	if c.isOfAnotherManager(frame) {
		return ctrl.Result{}, nil
	}

	return c.runFrame(ctx, this, frame, object)
}

func (c Controller[O]) forgetObject(ctx context.Context, key client.ObjectKey) error {
	if c.Forget == nil {
		return nil
	}

	return c.Forget(ctx, key)
}

// isOfAnotherManager reports whether the watch label selects another manager. The event filter is not enough: it checks
// the object of the event, such as a Cluster.
func (c Controller[O]) isOfAnotherManager(frame Frame) bool {
	return c.WatchFilterValue != "" && frame.Labelled != nil &&
		!labels.HasWatchLabel(frame.Labelled, c.WatchFilterValue)
}

// runFrame runs the frame of an object of this manager.
func (c Controller[O]) runFrame(
	ctx context.Context, this *Pass, frame Frame, object O,
) (_ ctrl.Result, reterr error) {
	if frame.Admit != nil {
		if admitted, result, err := frame.Admit(ctx); err != nil || !admitted {
			return result, err
		}
	}

	if paused, err := frame.EnsurePaused(ctx); err != nil || paused {
		return ctrl.Result{RequeueAfter: Jitter(frame.RetryPaused)}, err
	}

	if frame.Enter != nil {
		leave, result, err := frame.Enter(ctx)
		if err != nil || leave == nil {
			return result, err
		}

		defer leave()
	}

	defer func() { reterr = kerrors.NewAggregate([]error{reterr, c.writeObject(ctx, this, frame, object)}) }()

	return frame.Work(ctx)
}

// writeObject writes the object and its status, and records events.
func (c Controller[O]) writeObject(ctx context.Context, this *Pass, frame Frame, object O) error {
	err := writeStatus(ctx, this, c.Recorder, object, frame.SetStatus, frame.Steps)
	if ignored := IgnoreGone(err); ignored != nil {
		return ignored
	}

	if frame.Written != nil {
		frame.Written(err != nil)
	}

	return nil
}

// Jitter returns a delay up to a fifth longer. It spreads periodic work, so a restart does not align all objects.
func Jitter(delay time.Duration) time.Duration { return wait.Jitter(delay, jitter) }

// PlaceTaken returns the results of Frame.Enter for a place, or for the lack of one.
func PlaceTaken(leave func(), ok bool) (func(), ctrl.Result, error) {
	if !ok {
		return nil, ctrl.Result{RequeueAfter: Jitter(placeRetry)}, nil
	}

	return leave, ctrl.Result{}, nil
}

// NeverPaused is Frame.EnsurePaused of objects without a pause.
func NeverPaused(context.Context) (bool, error) { return false, nil }

// resultOfBegin converts an error of Begin, other than NotFound, into the result of a pass.
func resultOfBegin(err error) (ctrl.Result, error) {
	if errors.Is(err, ErrBehind) {
		return ctrl.Result{RequeueAfter: retryOutdated}, nil
	}

	return ctrl.Result{}, fmt.Errorf("failed to get the object of the pass: %w", err)
}
