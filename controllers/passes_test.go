package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// passes counts the passes of the controllers for each object. So a test knows when a controller has seen an object.
type passes struct {
	mu           sync.Mutex
	begun, ended map[string]int // by controller and object
}

// options returns the options of a controller with counted passes.
func (p *passes) options(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, NewQueue: func(
		name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		queue := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })

		return &countedQueue{PriorityQueue: queue, name: name, passes: p}
	}}
}

// note adds one to a count.
func (p *passes) note(count *map[string]int, name string, of client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if *count == nil {
		*count = map[string]int{}
	}

	(*count)[name+" "+of.String()]++
}

// of returns the numbers of passes for an object that have begun and ended.
func (p *passes) of(name string, object client.ObjectKey) (begun, ended int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	key := name + " " + object.String()

	return p.begun[key], p.ended[key]
}

// countedQueue is the queue of a controller. Taking an item from it begins a pass.
type countedQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	name   string
	passes *passes
}

func (q *countedQueue) GetWithPriority() (reconcile.Request, int, bool) {
	request, priority, shutdown := q.PriorityQueue.GetWithPriority()
	if !shutdown {
		q.passes.note(&q.passes.begun, q.name, request.NamespacedName)
	}

	return request, priority, shutdown
}

func (q *countedQueue) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	q.passes.note(&q.passes.ended, q.name, request.NamespacedName)
}

// touch starts a pass for an object.
func touch(t *testing.T, o client.Object) {
	t.Helper()
	change := fmt.Sprintf(`{"metadata":{"annotations":{"test/touched":"%d"}}}`, suite.touches.Add(1))
	check.Error(
		t, suite.client.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(change))), "",
	)
}

// letPass waits for a whole pass for an object. The pass begins after the controller's cache has all earlier writes. If
// nothing has changed then, a test knows that nothing will.
func letPass(t *testing.T, o client.Object) {
	t.Helper()
	kind, err := apiutil.GVKForObject(o, suite.client.Scheme())
	check.Error(t, err, "")

	name, key := strings.ToLower(kind.Kind), client.ObjectKeyFromObject(o)
	touch(t, o)
	wait.For(t, "the controller's cache has the object as it is", func() error {
		cached := o.DeepCopyObject().(client.Object)
		if err := suite.cached.Get(context.Background(), key, cached); err != nil {
			return err
		}

		if got := cached.GetResourceVersion(); got != o.GetResourceVersion() {
			return fmt.Errorf("it has version %s, want %s", got, o.GetResourceVersion())
		}

		return nil
	})

	// A pass in progress may have read the old object. The next pass has not.
	begun, _ := suite.passes.of(name, key)
	touch(t, o)
	wait.For(t, "the controller makes a pass", func() error {
		if _, ended := suite.passes.of(name, key); ended <= begun {
			return fmt.Errorf("%d have begun and %d have ended", begun, ended)
		}

		return nil
	})
}
