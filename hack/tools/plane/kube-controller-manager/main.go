// Command kube-controller-manager runs the two controllers of kube-controller-manager that a management plane needs:
// the garbage collector and the controller that empties deleted namespaces. Both are the code of Kubernetes. The
// toolchain builds it if it cannot download the release: the other controllers would take a seventh of the time of
// `make demo` from empty caches, and nothing uses them.
//
// Its flags are a part of those of kube-controller-manager, with the same meaning.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

// The defaults of kube-controller-manager.
const (
	collectorWorkers    = 20
	namespaceWorkers    = 10
	discoveryInterval   = 30 * time.Second
	namespaceSyncPeriod = 5 * time.Minute
	resyncPeriod        = 12 * time.Hour
)

// controllers are those that it has.
var controllers = []string{"garbage-collector-controller", "namespace-controller"}

type options struct {
	kubeconfig, controllers, address string
	port, burst                      int
	leaderElection                   bool
	qps                              float64
}

func main() {
	var o options

	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the API server")
	flag.StringVar(&o.controllers, "controllers", "", "must be "+strings.Join(controllers, ","))
	flag.StringVar(&o.address, "bind-address", "127.0.0.1", "address to answer on that it runs")
	flag.IntVar(&o.port, "secure-port", 10257, "port to answer on, without TLS")
	flag.BoolVar(&o.leaderElection, "leader-elect", true, "must be false")
	flag.Float64Var(&o.qps, "kube-api-qps", 20, "queries per second")
	flag.IntVar(&o.burst, "kube-api-burst", 30, "queries at once")
	flag.String("cert-dir", "", "has no effect")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "kube-controller-manager:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	asked := strings.Split(o.controllers, ",")
	slices.Sort(asked)

	if o.leaderElection || !slices.Equal(asked, controllers) {
		return fmt.Errorf("this build has no leader election, and the controllers %v alone", controllers)
	}

	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}

	config.QPS, config.Burst = float32(o.qps), o.burst

	listener, err := net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
	if err != nil {
		return err
	}

	server := &http.Server{ReadHeaderTimeout: discoveryInterval, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) },
	)}

	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	return runControllers(ctx, config)
}

// runControllers runs both controllers until ctx ends.
func runControllers(ctx context.Context, config *rest.Config) error {
	// As in kube-controller-manager, which gives either more than the rest.
	collector, namespaces := rest.CopyConfig(config), rest.CopyConfig(config)
	collector.QPS *= 2
	namespaces.QPS *= 20
	namespaces.Burst *= 100

	client, clientErr := kubernetes.NewForConfig(config)
	collectorMetadata, collectorErr := metadata.NewForConfig(collector)
	namespaceClient, namespaceErr := kubernetes.NewForConfig(namespaces)
	namespaceMetadata, metadataErr := metadata.NewForConfig(namespaces)

	if err := errors.Join(clientErr, collectorErr, namespaceErr, metadataErr); err != nil {
		return err
	}

	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	go wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, discoveryInterval)

	typed := informers.NewSharedInformerFactory(client, resyncPeriod)
	untyped := metadatainformer.NewSharedInformerFactory(collectorMetadata, resyncPeriod)
	started := make(chan struct{})

	gc, err := garbagecollector.NewGarbageCollector(ctx, client, collectorMetadata, mapper,
		garbagecollector.DefaultIgnoredResources(), informerfactory.NewInformerFactory(typed, untyped), started)
	if err != nil {
		return err
	}

	ns := namespace.NewNamespaceController(ctx, namespaceClient, namespaceMetadata,
		namespaceClient.Discovery().ServerPreferredNamespacedResources, typed.Core().V1().Namespaces(),
		namespaceSyncPeriod, corev1.FinalizerKubernetes)

	var running sync.WaitGroup

	running.Go(func() { gc.Run(ctx, collectorWorkers, discoveryInterval) })
	running.Go(func() { gc.Sync(ctx, client.Discovery(), discoveryInterval) })
	running.Go(func() { ns.Run(ctx, namespaceWorkers) })

	typed.Start(ctx.Done())
	untyped.Start(ctx.Done())
	close(started)
	klog.InfoS("The controllers run", "controllers", controllers)
	running.Wait()

	return nil
}
