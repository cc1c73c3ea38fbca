package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/localpage"
)

const (
	// syncLimit bounds the first read of a management cluster.
	syncLimit = time.Minute
	// retryPause is the pause between requests to an unreachable management cluster.
	retryPause = 2 * time.Second
	// forbiddenPause is the time without failures after which a forbidden watch counts as restored. It is longer than
	// the reflector waits between retries.
	forbiddenPause = 70 * time.Second
)

// watchedKind is a kind of objects shown on the page.
type watchedKind struct {
	name   string
	object client.Object
	list   client.ObjectList
	group  schema.GroupVersion
}

// watchedKinds are the kinds shown on the page. Without Clusters, the page has nothing to show.
var watchedKinds = []watchedKind{
	{"Clusters", &clusterv1.Cluster{}, &clusterv1.ClusterList{}, clusterv1.GroupVersion},
	{
		"KubeadmControlPlanes", &controlplanev1.KubeadmControlPlane{}, &controlplanev1.KubeadmControlPlaneList{},
		controlplanev1.GroupVersion,
	},
	{
		"MachineDeployments", &clusterv1.MachineDeployment{}, &clusterv1.MachineDeploymentList{},
		clusterv1.GroupVersion,
	},
	{"Machines", &clusterv1.Machine{}, &clusterv1.MachineList{}, clusterv1.GroupVersion},
	{"OLVMClusters", &infrav1.OLVMCluster{}, &infrav1.OLVMClusterList{}, infrav1.GroupVersion},
	{"OLVMMachines", &infrav1.OLVMMachine{}, &infrav1.OLVMMachineList{}, infrav1.GroupVersion},
	{
		"OLVMSupportServices", &infrav1alpha1.OLVMSupportServices{}, &infrav1alpha1.OLVMSupportServicesList{},
		infrav1alpha1.GroupVersion,
	},
	{"events", &eventsv1.Event{}, &eventsv1.EventList{}, eventsv1.SchemeGroupVersion},
}

// watcher watches the objects in a management cluster.
type watcher struct {
	Options

	// server is the URL of the API server.
	server string
	// reader reads the watched objects.
	reader  client.Reader
	history *history
	engines *engines
	changed localpage.Changes

	// unseen maps the names of unwatched kinds to the reasons.
	unseen map[string]string

	mu sync.Mutex
	// manager explains why no manager of this provider is running. It is empty if a manager is running.
	manager string
	// lost maps the names of kinds with a broken watch to the reasons.
	lost map[string]*loss
	// strange maps types outside watchedKinds to the errors of their watches.
	strange map[string]string
	// away is the reason why the API server is unreachable. It is nil if the server answers.
	away *loss
}

func (w *watcher) changes() *localpage.Changes { return &w.changed }

// startWatcher starts to watch a management cluster, and waits for its objects.
func startWatcher(ctx context.Context, o Options) (*watcher, error) {
	w := &watcher{
		Options: o,
		server:  o.In.Server(),
		history: newHistory(),
		unseen:  map[string]string{},
		lost:    map[string]*loss{},
	}

	seen, err := w.findListableKinds(ctx)
	if err != nil {
		return nil, err
	}

	objects, err := o.In.NewCache(o.Namespace, func(_ context.Context, of *toolscache.Reflector, err error) {
		w.watchFailed(ctx, of.TypeDescription(), err)
	})
	if err != nil {
		return nil, err
	}

	w.reader = &partial{Reader: objects, missing: w.unseen}

	go func() { _ = objects.Start(ctx) }()

	if err := w.followAll(ctx, objects, seen); err != nil {
		return nil, err
	}

	go w.followManager(ctx)
	go w.followServer(ctx)

	if o.Engines {
		w.engines = newEngines(w)
		go w.engines.followAll(ctx)
	}

	return w, nil
}

// followAll watches kinds, and waits for their objects.
func (w *watcher) followAll(ctx context.Context, objects cache.Cache, kinds []watchedKind) error {
	ctx, cancel := context.WithTimeoutCause(ctx, syncLimit, fmt.Errorf("timed out after %s", syncLimit))
	defer cancel()

	for _, kind := range kinds {
		if err := w.watchKind(ctx, objects, kind); err != nil {
			return fmt.Errorf("failed to watch %s in the management cluster: %w", kind.name,
				errors.Join(err, context.Cause(ctx), w.watchError()))
		}
	}

	if !objects.WaitForCacheSync(ctx) {
		return fmt.Errorf("failed to read the management cluster: %w", errors.Join(context.Cause(ctx), w.watchError()))
	}

	return nil
}

// watchError explains why kinds cannot be watched now. It returns nil if all kinds can be watched.
func (w *watcher) watchError() error {
	w.mu.Lock()
	defer w.mu.Unlock()

	var out []error

	for _, kind := range watchedKinds {
		if lost := w.lost[kind.name]; lost != nil {
			out = append(out, fmt.Errorf("%s: %w", kind.name, lost.why))
		}
	}

	return errors.Join(out...)
}

// watchFailed records the end of the watch of a kind. A watch may end at any time, and then restarts. If it cannot
// restart, the page reports this until the kind can be listed. of is the type of the objects, such as *v1.Event.
func (w *watcher) watchFailed(ctx context.Context, of string, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return
	}

	at := slices.IndexFunc(watchedKinds, func(kind watchedKind) bool { return fmt.Sprintf("%T", kind.object) == of })

	w.mu.Lock()
	defer w.mu.Unlock()

	if at < 0 { // the end of this failure cannot be detected
		if w.strange == nil {
			w.strange = map[string]string{}
		}

		w.strange[of] = err.Error()
		w.changed.WakeAll()

		return
	}

	kind := watchedKinds[at]
	since := time.Now()
	if was := w.lost[kind.name]; was != nil {
		since = was.since
	} else {
		go w.awaitAnswer(ctx, kind)
	}

	w.lost[kind.name] = &loss{since, time.Now(), err}
	w.changed.WakeAll()
}

// awaitAnswer waits until a kind can be listed again. If the watch is forbidden, a successful list proves nothing,
// because a user may list a kind without the right to watch it. So awaitAnswer first waits for forbiddenPause without
// failures.
func (w *watcher) awaitAnswer(ctx context.Context, kind watchedKind) {
	_ = wait.PollUntilContextCancel(ctx, retryPause, false, func(ctx context.Context) (bool, error) {
		w.mu.Lock()
		lost := *w.lost[kind.name]
		w.mu.Unlock()

		if apierrors.IsForbidden(lost.why) && time.Since(lost.last) < forbiddenPause {
			return false, nil
		}

		return w.canList(ctx, kind) == nil, nil
	})

	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lost, kind.name)
	w.changed.WakeAll()
}

// canList lists one object of a kind.
func (w *watcher) canList(ctx context.Context, kind watchedKind) error {
	list, _ := kind.list.DeepCopyObject().(client.ObjectList)

	return w.In.List(ctx, list, client.InNamespace(w.Namespace), client.Limit(1))
}

// findListableKinds finds the kinds that the user can list. It omits kinds forbidden to the user or missing in the
// management cluster. The page shows which ones.
func (w *watcher) findListableKinds(ctx context.Context) ([]watchedKind, error) {
	var seen []watchedKind

	for _, kind := range watchedKinds {
		switch err := w.canList(ctx, kind); {
		case err == nil:
			seen = append(seen, kind)
		case !apierrors.IsForbidden(err) && !meta.IsNoMatchError(err):
			return nil, fmt.Errorf("failed to list %s in the management cluster: %w", kind.name, err)
		case kind.name == watchedKinds[0].name:
			return nil, fmt.Errorf("failed to list %s in %s: %w", kind.name, w.describeNamespaces(), err)
		default:
			w.unseen[kind.name] = err.Error()
		}
	}

	return seen, nil
}

// describeNamespaces describes the searched namespaces to users.
func (w *watcher) describeNamespaces() string {
	if w.Namespace == "" {
		return "all namespaces; use -n to select one"
	}

	return "namespace " + w.Namespace
}

// watchKind watches a kind, and waits for its objects.
func (w *watcher) watchKind(ctx context.Context, objects cache.Cache, kind watchedKind) error {
	informer, err := objects.GetInformer(ctx, kind.object)
	if err != nil {
		return err
	}

	note := func(object any) {
		if of, ok := object.(client.Object); ok {
			w.history.recordObject(of, time.Now())
		}

		w.changed.WakeAll()
	}

	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, now any) { note(now) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}

			if of, ok := object.(client.Object); ok {
				w.history.dropObject(of)
			}

			w.changed.WakeAll()
		},
	})

	return err
}

// partial reads the watched objects. It behaves as if the other kinds had no objects.
type partial struct {
	client.Reader

	// missing maps the names of unwatched kinds to the reasons.
	missing map[string]string
}

// List lists objects. For an unwatched kind, the list is empty.
func (p *partial) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	for _, kind := range watchedKinds {
		if _, left := p.missing[kind.name]; left && reflect.TypeOf(kind.list) == reflect.TypeOf(list) {
			return nil
		}
	}

	return p.Reader.List(ctx, list, options...)
}

// Get reads an object. For an unwatched kind, it returns NotFound.
func (p *partial) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	for _, kind := range watchedKinds {
		if _, left := p.missing[kind.name]; left && reflect.TypeOf(kind.object) == reflect.TypeOf(object) {
			return apierrors.NewNotFound(schema.GroupResource{Resource: kind.name}, key.Name)
		}
	}

	return p.Reader.Get(ctx, key, object, options...)
}
