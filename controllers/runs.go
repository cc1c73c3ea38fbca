package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// Runs are the Terraform runs of all controllers: one bound holds for them together, because memory does.
type Runs struct {
	// Fence is asked before anything is applied whether this process may still act: a process that was halted may not
	// have noticed that another one leads. nil means that there is no other.
	Fence func(ctx context.Context) error

	runner *terraform.Runner
	// machines and clusters wake the controllers when a job of theirs has ended.
	machines, clusters chan event.GenericEvent

	mu       sync.Mutex
	attempts map[string]attempt // by job key
}

// attempt is the last run of an object that failed.
type attempt struct {
	digest   string
	failures int
	at       time.Time
	err      error
}

// NewRuns returns runs of which that many go at once, each for so long at most.
func NewRuns(concurrency int, limit time.Duration) *Runs {
	r := &Runs{
		machines: make(chan event.GenericEvent, 1<<14),
		clusters: make(chan event.GenericEvent, 1024),
		attempts: map[string]attempt{},
	}
	r.runner = terraform.NewRunner(concurrency, limit, r.wakeUp)
	jobsMost.Set(float64(concurrency))

	return r
}

// clusterKeyPrefix tells the jobs of OLVMClusters from those of OLVMMachines, whose keys are namespace/name.
const clusterKeyPrefix = "OLVMCluster:"

// wakeUp enqueues the object of a job that has ended.
func (r *Runs) wakeUp(key string) {
	observeJobs(r.runner)
	r.wake(key)
}

// wake enqueues an object. A full channel blocks nobody: the object is looked at again anyway.
func (r *Runs) wake(key string) {
	channel, object := r.machines, client.Object(&infrav1.OLVMMachine{})
	if rest, ok := strings.CutPrefix(key, clusterKeyPrefix); ok {
		channel, object, key = r.clusters, &infrav1.OLVMCluster{}, rest
	}

	namespace, name := splitKey(key)
	object.SetNamespace(namespace)
	object.SetName(name)

	select {
	case channel <- event.GenericEvent{Object: object}:
	default:
	}
}

// ahead enqueues what was woken before what only changed: finishing what was begun is more than to begin more.
var ahead = handler.Funcs{
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

// Start waits for the end of the manager, and lets the runs save their state while the manager still serves. It is a
// Runnable of the manager, which bounds it.
func (r *Runs) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Shutdown(math.MaxInt64)
	return nil
}

// Shutdown starts no more runs, interrupts those that are going, and waits for as long as the grace until their state
// is saved. The manager does not wait for its Runnables when it has lost the lease, so main calls this too.
func (r *Runs) Shutdown(grace time.Duration) bool { return r.runner.Shutdown(grace) }

// mayAct asks the fence.
func (r *Runs) mayAct(ctx context.Context) error {
	if r.Fence == nil {
		return nil
	}

	return r.Fence(ctx)
}

// Busy says whether runs go or are queued.
func (r *Runs) Busy() bool {
	queued, running := r.runner.Active()
	return queued+running > 0
}

// attempt that failed last; zero where the last one succeeded.
func (r *Runs) attempt(key string) attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[key]
}

// note records how a run ended, once, and returns the attempt.
func (r *Runs) note(key string, status terraform.Status) attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status.Err == nil {
		delete(r.attempts, key)
	} else if !r.attempts[key].at.Equal(status.Ended) { // seen before, if it could not be written down
		r.attempts[key] = attempt{
			digest:   status.Digest,
			failures: r.attempts[key].failures + 1,
			at:       status.Ended,
			err:      status.Err,
		}
	}

	return r.attempts[key]
}

// forget drops the attempts of an object that is gone.
func (r *Runs) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, key)
}

// workFolder is the name of an object's working directory.
func workFolder(name string, uid types.UID) string { return shortened(name) + "-" + string(uid) }

// shortened is a name that leaves room for a UID in the name of a folder, which has at most 255 bytes; names of objects
// have 253 characters.
func shortened(name string) string {
	const longest = 200
	if len(name) <= longest {
		return name
	}

	return fmt.Sprintf("%s.%x", name[:longest], sha256.Sum256([]byte(name)))[:longest+17]
}

// abandon drops all that is kept here of an object that is gone although nobody released it: whoever takes the
// finalizer away ends an object at once. Its working directories are name-UID in a folder. A run that still goes keeps
// its directory; its end wakes the object once more.
func (r *Runs) abandon(key, folder, name string) error {
	status, ok := r.runner.Observe(key)
	if ok && status.Phase != terraform.Done {
		return nil
	}

	if ok {
		r.runner.Forget(key, status.Ended)
	}

	r.forget(key)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to look for working directories: %w", err)
	}

	for _, entry := range entries {
		// Another object's name may begin with this one's.
		if uid, ok := strings.CutPrefix(entry.Name(), shortened(name)+"-"); !ok || uuid.Validate(uid) != nil {
			continue
		}

		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return fmt.Errorf("failed to remove a working directory: %w", err)
		}
	}

	return nil
}

// submit announces a run for an object, with the annotations that must be there before, and queues the job, which may
// look at the object as it is then. What is shutting down runs nothing more, and says so elsewhere.
func (r *Runs) submit(
	ctx context.Context, c client.Client, object client.Object, more map[string]string, job func() terraform.Job,
) error {
	if err := announceRun(ctx, c, object, more); err != nil {
		return err
	}

	_, err := r.runner.Submit(job())
	observeJobs(r.runner)
	if errors.Is(err, terraform.ErrShuttingDown) {
		return nil
	}

	return err
}

// announceRun writes down that a run may act for an object from now on, before it can: clusterctl moves no such object.
// The annotations are more that must be there before.
func announceRun(ctx context.Context, c client.Client, object client.Object, more map[string]string) error {
	wanted, has := map[string]string{clusterctlv1.BlockMoveAnnotation: ""}, object.GetAnnotations()
	maps.Copy(wanted, more)
	maps.DeleteFunc(wanted, func(key, value string) bool { current, ok := has[key]; return ok && current == value })
	if len(wanted) == 0 {
		return nil
	}

	patched, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}

	content, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.GetUID(), "annotations": wanted},
	})
	if err != nil {
		return fmt.Errorf("failed to encode the annotations: %w", err)
	}

	if err := c.Patch(ctx, patched, client.RawPatch(types.MergePatchType, content)); err != nil {
		return fmt.Errorf("failed to record that a run may act for %s/%s: %w", object.GetNamespace(), object.GetName(),
			err)
	}

	annotations.AddAnnotations(object, wanted)

	return nil
}

// letMove takes the mark of a run from an object, in memory, where no run is queued or goes and none left a state in
// the working directory that may not be in its Secret. It says whether there was something to take.
func (r *Runs) letMove(object client.Object, key, dir string) bool {
	has := object.GetAnnotations()
	if _, blocked := has[clusterctlv1.BlockMoveAnnotation]; !blocked {
		return false
	}

	if status, ok := r.runner.Observe(key); ok && status.Phase != terraform.Done || terraform.Unfinished(dir) {
		return false
	}

	delete(has, clusterctlv1.BlockMoveAnnotation)
	object.SetAnnotations(has)

	return true
}

// letPausedMove is letMove for an object that is paused: nothing else is written to it.
func (r *Runs) letPausedMove(ctx context.Context, c client.Client, object client.Object, key, dir string) error {
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok || !r.letMove(object, key, dir) {
		return nil
	}

	if err := c.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to let %s/%s be moved: %w", object.GetNamespace(), object.GetName(), err)
	}

	return nil
}

func splitKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}
