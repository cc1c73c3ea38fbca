package pass

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
)

// MaxMessage is the maximum length of a condition's message in bytes. The API server accepts 32 KiB.
const MaxMessage = 4096

// announcement is the event for a changed condition. An empty kind means no event.
type announcement struct{ kind, reason, text string }

// Write writes an object at the end of its pass, and announces the changed conditions. setStatus sets the status, and
// steps are those of announce. A deleted object is no error. Use it only without a Frame.
func Write(
	ctx context.Context,
	of *Pass,
	recorder events.EventRecorder,
	to client.Object,
	setStatus func(),
	steps func() map[string]string,
) error {
	return IgnoreGone(writeStatus(ctx, of, recorder, to, setStatus, steps))
}

// writeStatus is Write with the error of a deleted object.
func writeStatus(
	ctx context.Context,
	of *Pass,
	recorder events.EventRecorder,
	to client.Object,
	setStatus func(),
	steps func() map[string]string,
) error {
	if err := of.WriteWithStatus(ctx, setStatus); err != nil {
		return err
	}

	before, _ := of.ObjectBefore().(conditions.Getter)
	after, ok := to.(conditions.Getter)
	if !ok {
		return nil
	}

	var texts map[string]string
	if steps != nil {
		texts = steps()
	}

	announce(recorder, to, before.GetConditions(), after.GetConditions(), texts)

	return nil
}

// IgnoreGone returns nil for the error of a write whose object no longer exists.
func IgnoreGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}

	return client.IgnoreNotFound(err)
}

// announce records an event for each condition that turned into one that users are told of: steps that were reached,
// and whatever is wrong. The conditions are those before and after a pass.
func announce(
	recorder events.EventRecorder, object client.Object, before, after []metav1.Condition, steps map[string]string,
) {
	for _, a := range announcements(before, after, steps) {
		// What ceases to be while an object is deleted is what was asked for.
		if !object.GetDeletionTimestamp().IsZero() && a.kind == corev1.EventTypeWarning &&
			a.reason != infrav1.DeletionBlockedReason {
			continue
		}

		recorder.Eventf(object, nil, a.kind, a.reason, "Reconcile", "%s", steadytext.Shorten(a.text, 900))
	}
}

// announcements are the events of a pass. Steps are the conditions whose coming true is news, with the news.
func announcements(before, after []metav1.Condition, steps map[string]string) []announcement {
	var out []announcement

	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}

		switch text, step := steps[c.Type]; {
		case slices.Contains(out, announcement{corev1.EventTypeWarning, c.Reason, c.Message}):
			// UpToDate has the same cause as InfrastructureApplied until the VM exists.
		case isProblem(c) && c.Reason == infrav1.InsufficientHostsReason:
			// A rollout adds a machine although there are not enough hosts. A group that may become soft allows this.
			out = append(out, announcement{corev1.EventTypeNormal, c.Reason, c.Message})
		case isProblem(c):
			out = append(out, announcement{corev1.EventTypeWarning, c.Reason, c.Message})
		case step && c.Status == metav1.ConditionTrue:
			out = append(out, announcement{corev1.EventTypeNormal, c.Reason, text})
		}
	}

	return out
}

// isProblem reports whether a condition is a failure that no other event announces.
func isProblem(c metav1.Condition) bool {
	switch {
	case c.Type == infrav1.ReadyCondition,
		c.Reason == infrav1.ApplyFailedReason,
		c.Reason == infrav1.DeletionFailedReason:
		return false
	}

	return IsFailure(c)
}

// IsFailure reports whether a user may have to act. A pending operation is no failure.
func IsFailure(c metav1.Condition) bool {
	if c.Type == infrav1.DeletingCondition {
		return c.Reason == infrav1.DeletionBlockedReason
	}

	return c.Status == metav1.ConditionFalse && c.Message != "" && !strings.HasPrefix(c.Reason, "WaitingFor") &&
		c.Reason != infrav1.ApplyingReason && c.Reason != infrav1.ProvisioningReason &&
		c.Reason != infrav1.VirtualMachineStartingReason &&
		c.Reason != "NotPaused"
}
