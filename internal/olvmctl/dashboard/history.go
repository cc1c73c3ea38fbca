package dashboard

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// mostSteps is the maximum number of steps kept for an object. The newest are kept.
const mostSteps = 100

// Step is an event in the history of an object.
type Step struct {
	Time time.Time `json:"time"`
	// What is condition, event or run.
	What string `json:"what"`
	// Kind is the kind of the object.
	Kind string `json:"kind"`
	// Name is the type of the condition, the operation of the run, or the reason of the event.
	Name string `json:"name"`
	// State is the status of the condition, the result of the run, or the type of the event.
	State string `json:"state"`
	// Reason is the reason of the condition.
	Reason string `json:"reason,omitempty"`
	// Message is the message for users.
	Message string `json:"message,omitempty"`
	// Changes are the changes in the plan of the run.
	Changes []string `json:"changes,omitempty"`
	// Seconds is the duration of the run.
	Seconds float64 `json:"seconds,omitempty"`
}

// history records changes of conditions and runs, because an object has only its last conditions and its last run.
type history struct {
	mu   sync.Mutex
	past map[types.UID]*past
}

// past is the history of an object.
type past struct {
	conditions map[string]metav1.Condition
	run        time.Time
	steps      []Step
}

func newHistory() *history { return &history{past: map[types.UID]*past{}} }

// recordObject records the changes of an object. The first conditions of an object keep their own times.
func (h *history) recordObject(object client.Object, now time.Time) {
	with, ok := object.(conditions.Getter)
	if !ok {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	known, first := h.past[object.GetUID()], false
	if known == nil {
		known, first = &past{conditions: map[string]metav1.Condition{}}, true
		h.past[object.GetUID()] = known
	}

	kind := kindOf(object)
	known.recordConditions(kind, with.GetConditions(), first, now)

	if machine, isMachine := object.(*infrav1.OLVMMachine); isMachine {
		known.recordRun(kind, machine.Status.Terraform)
	}

	slices.SortStableFunc(known.steps, func(a, b Step) int { return a.Time.Compare(b.Time) })
	known.steps = known.steps[max(0, len(known.steps)-mostSteps):]
}

// recordConditions records the conditions that have changed. If the status has changed, the time is the transition time
// of the condition. If only the reason or the message has changed, the time is now.
func (p *past) recordConditions(kind string, all []metav1.Condition, first bool, now time.Time) {
	for _, c := range all {
		before := p.conditions[c.Type]
		if before.Status == c.Status && before.Reason == c.Reason && before.Message == c.Message {
			continue
		}

		p.conditions[c.Type] = c
		at := c.LastTransitionTime.Time
		if !first && before.Status == c.Status {
			at = now
		}

		p.steps = append(p.steps, Step{
			Time:    at,
			What:    "condition",
			Kind:    kind,
			Name:    c.Type,
			State:   string(c.Status),
			Reason:  c.Reason,
			Message: c.Message,
		})
	}
}

// recordRun records the last run.
func (p *past) recordRun(kind string, status *infrav1.TerraformStatus) {
	if status == nil || status.LastRun == nil || !status.LastRun.CompletionTime.After(p.run) {
		return
	}

	run := status.LastRun
	p.run = run.CompletionTime.Time
	p.steps = append(p.steps, Step{
		Time:    run.CompletionTime.Time,
		What:    "run",
		Kind:    kind,
		Name:    run.Operation,
		State:   run.Result,
		Changes: run.Changes,
		Seconds: run.CompletionTime.Sub(run.StartTime.Time).Seconds(),
	})
}

// stepsOf returns the history of an object, oldest first.
func (h *history) stepsOf(object client.Object) []Step {
	h.mu.Lock()
	defer h.mu.Unlock()

	if known := h.past[object.GetUID()]; known != nil {
		return slices.Clone(known.steps)
	}

	return nil
}

// dropObject removes the history of a deleted object.
func (h *history) dropObject(object client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.past, object.GetUID())
}
