package workspace

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// This file has the drift checks: plans that run at an interval and are never applied.

const (
	// checkRetry is the pause after a failed check, unless the interval is shorter.
	checkRetry = time.Hour
	// checkTurn is the pause before another request for the turn to check. Only one check runs at a time, so that runs
	// hardly have to wait.
	checkTurn = 15 * time.Second
	// checkLimit limits the duration of a check. It also limits how long a check may wait in the queue while other
	// workspaces want one.
	checkLimit = 2 * time.Minute
	// mostListed limits the items of a list in a status, and longestListed each item in bytes. longestText limits other
	// texts of a status in bytes. The API has the same limits.
	mostListed, longestListed, longestText = 16, 256, 1024
)

// submitDueCheck submits a check if one is due, and returns the pause before the next look. Call it if there is nothing
// else to do.
func (w *Workspace) submitDueCheck(ctx context.Context, state *tfstate.State, request Request) (time.Duration, error) {
	interval := w.runQueue().DriftInterval
	if !w.kind.ChecksDrift || state == nil {
		return 0, nil
	}

	if interval <= 0 {
		w.ensureStatus().Drift = nil // without checks, an old result would be believed forever
		return 0, nil
	}

	// First record a finished job and write it to the object, because another job would replace it.
	if _, ended := w.runQueue().getFinishedRun(w.key); ended {
		return wait.Jitter(checkTurn, 1), nil
	}

	if left := w.timeUntilCheck(interval, time.Now()); left > 0 {
		return left, nil
	}

	if !w.runQueue().acquireCheck(w.key) {
		return wait.Jitter(checkTurn, 1), nil
	}

	err := w.submitRun(ctx, terraform.Check, request)
	if err != nil || !w.IsInFlight() {
		w.runQueue().releaseCheck(w.key)
	}

	return 0, err
}

// timeUntilCheck returns the time until the next check. The object's UID determines when within the interval its check
// runs. This spreads the checks of many objects, even after a restart of the manager.
func (w *Workspace) timeUntilCheck(interval time.Duration, now time.Time) time.Duration {
	last := w.runQueue().started
	if made := w.object.GetCreationTimestamp().Time; made.After(last) {
		last = made
	}

	if drift := w.ensureStatus().Drift; drift != nil {
		last = drift.CheckTime.Time

		run := w.ensureStatus().LastRun
		switch {
		case drift.Error != "":
			return last.Add(min(interval, checkRetry)).Sub(now)
		case len(drift.Differences) > 0 && run != nil && run.CompletionTime.After(last):
			return 0 // the later run may have corrected the differences
		}
	}

	hash := fnv.New64a()
	_, _ = hash.Write([]byte(w.object.GetUID()))
	offset := time.Duration(hash.Sum64() % uint64(interval)) //nolint:gosec // both are positive

	// Find the first of these times after the last check.
	next := last.Add(-offset).Truncate(interval).Add(interval + offset)

	return next.Sub(now)
}

// recordCheck writes the result of a check to the status, and announces a result that has changed.
func (w *Workspace) recordCheck(ctx context.Context, run terraform.Status) {
	before := w.ensureStatus().Drift
	if before == nil {
		before = &infrav1.DriftStatus{}
	}

	found := &infrav1.DriftStatus{CheckTime: metav1.NewTime(run.Ended)}
	w.ensureStatus().Drift = found
	first := w.runQueue().noteEnd(w.key, run)

	if run.Err != nil {
		found.Error = steadytext.FitLength(run.Err.Error(), longestText)
		found.Differences, found.DifferenceCount = before.Differences, before.DifferenceCount
		if first {
			countRun(run, "Failed")
			ctrl.LoggerFrom(ctx).Error(run.Err, "The check for drift failed")
		}

		return
	}

	found.Differences, found.DifferenceCount = formatListed(run.Summary.Drift)
	if first {
		countRun(run, "Succeeded")
	}

	if first && !slices.Equal(before.Differences, found.Differences) {
		w.announceDrift(ctx, found.Differences)
	}
}

// formatListed returns the items for a list in a status, and the number of all items.
func formatListed[T fmt.Stringer](things []T) (out []string, count int32) {
	kept, count := LimitList(things, mostListed)
	for _, thing := range kept {
		out = append(out, steadytext.FitLength(thing.String(), longestListed))
	}

	return out, count
}

// announceDrift logs the changed result of a check, and records it as an event.
func (w *Workspace) announceDrift(ctx context.Context, differences []string) {
	kind, reason := corev1.EventTypeNormal, infrav1.NoDriftReason
	text := "The settings in the engine match the applied configuration again"
	if len(differences) > 0 {
		CountDrift(DriftedConfiguration)
		kind, reason = corev1.EventTypeWarning, infrav1.DriftDetectedReason
		text = DriftMessage(differences)
	}

	ctrl.LoggerFrom(ctx).Info(text)
	w.kind.Recorder.Eventf(w.object, nil, kind, reason, "Check", "%s", steadytext.Shorten(text, longestEvent))
}

// DriftMessage describes the differences for users.
func DriftMessage(differences []string) string {
	return "The settings in the engine differ from the applied configuration: " + strings.Join(differences, "; ")
}
