package workspace

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// wakeCapacity limits the objects of a kind that wait for a reconcile. Others are dropped, because their controller
// looks at them again anyway.
const wakeCapacity = 1 << 14

// The kinds of objects with workspaces. They wake one another.
const (
	MachineKind     = "OLVMMachine"
	ClusterKind     = "OLVMCluster"
	InventoryVMKind = "OLVMInventoryVM"
)

// Key identifies a workspace by the kind, namespace and name of its object.
type Key struct{ Kind, Namespace, Name string }

// NewMachineKey returns the key of an OLVMMachine.
func NewMachineKey(machine client.Object) Key {
	return Key{Kind: MachineKind, Namespace: machine.GetNamespace(), Name: machine.GetName()}
}

// String returns the key in the form that the runner uses.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

func parseKey(text string) Key {
	kind, rest, _ := strings.Cut(text, "/")
	namespace, name, _ := strings.Cut(rest, "/")

	return Key{Kind: kind, Namespace: namespace, Name: name}
}

// WakeChannel returns a channel with the objects of a kind to reconcile. It receives an object after its run has ended,
// or after WakeObject.
func (r *RunQueue) WakeChannel(kind string) chan event.GenericEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.woken[kind] == nil {
		r.woken[kind] = make(chan event.GenericEvent, wakeCapacity)
	}

	return r.woken[kind]
}

// WakeObject makes the controller reconcile an object. It never blocks.
func (r *RunQueue) WakeObject(key Key) {
	object := &metav1.PartialObjectMetadata{}
	object.Namespace = key.Namespace
	object.Name = key.Name

	select {
	case r.WakeChannel(key.Kind) <- event.GenericEvent{Object: object}:
	default:
	}
}

// WakeInFlight wakes an object after a while, or at the end of its run if that is earlier.
func (r *RunQueue) WakeInFlight(key Key, after time.Duration) {
	time.AfterFunc(after, func() {
		if r.IsInFlight(key) {
			r.WakeObject(key)
		}
	})
}

// PrioritizeWoken gives woken objects a higher priority than changed ones, because it is better to finish work than to
// begin more.
var PrioritizeWoken = handler.Funcs{
	GenericFunc: func(
		_ context.Context, e event.GenericEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request],
	) {
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
		if first, ok := queue.(priorityqueue.PriorityQueue[ctrl.Request]); ok {
			first.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(1)}, request)
		} else {
			queue.Add(request)
		}
	},
}
