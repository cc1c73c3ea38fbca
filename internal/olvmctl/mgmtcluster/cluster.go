// Package mgmtcluster connects to management clusters: existing ones, or the local one. The local one runs as processes
// on this machine.
package mgmtcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/fencedclient"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
)

// These are the requests per second of a client. They are high because the tree of a large cluster has many objects.
const (
	clientQPS   = 50
	clientBurst = 100
)

// Options select a management cluster and a namespace.
type Options struct {
	// Kubeconfig is a file. If empty, it is kubectl's kubeconfig or, if there is none, that of the local management
	// cluster.
	Kubeconfig string
	// Context is the context of the kubeconfig. If empty, it is the current context.
	Context string
	// Namespace is the namespace of the clusters. If empty, it is the namespace in the kubeconfig.
	Namespace string
	// read is the kubeconfig returned by Read. It is nil before Read.
	read *clientcmdapi.Config
}

// Cluster is a management cluster, or a workload cluster that is about to become one.
type Cluster struct {
	client.Client
	// Kubeconfig is a file. If empty, it is kubectl's kubeconfig.
	Kubeconfig string
	// Context is the context of the kubeconfig.
	Context string
	// Namespace is the namespace of all Clusters that methods take by name.
	Namespace string
	config    *rest.Config
	read      *clientcmdapi.Config
	clock     *serverClock
	mayAct    func(context.Context) error
}

// errNoKubeconfig reports that no management cluster is configured.
var errNoKubeconfig = errors.New("no kubeconfig and no local management cluster found; use --kubeconfig FILE or " +
	"set KUBECONFIG, or create a management cluster with olvmctl start -f FILE or olvmctl local start")

// ConnectInstalled returns a client for a management cluster after checking that Cluster API and a provider are
// installed there. Commands need both to manage clusters.
func ConnectInstalled(ctx context.Context, o Options) (*Cluster, error) {
	c, err := Connect(o)
	if err != nil {
		return nil, err
	}

	return c, c.CheckInstalled(ctx)
}

// Connect returns a client for a management cluster. It sends no request.
func Connect(o Options) (*Cluster, error) {
	o, err := o.Read()
	if err != nil {
		return nil, err
	}

	config, err := o.newLoader().ClientConfig()
	if err != nil {
		return nil, o.explainError(err)
	}

	if err := LocalOfUser().checkRuns(config.Host); err != nil {
		return nil, err
	}

	config.QPS, config.Burst = clientQPS, clientBurst
	clock := &serverClock{}

	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return clock.wrapTransport(next) })

	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}

	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("failed to create a client of the management cluster: %w", err)
	}

	return &Cluster{
		Client: c, Kubeconfig: o.Kubeconfig, Context: o.Context, Namespace: o.Namespace, config: config, read: o.read,
		clock: clock,
	}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme), api.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("failed to build the scheme: %w", err)
	}

	return scheme, nil
}

// NewCache returns a cache of the objects in a namespace, or in all namespaces for "". It calls failed when a watch
// ends. Callers must not modify objects read from it.
func (c *Cluster) NewCache(namespace string, failed toolscache.WatchErrorHandlerWithContext) (cache.Cache, error) {
	options := cache.Options{
		Scheme:                       c.Scheme(),
		Mapper:                       c.RESTMapper(),
		ReaderFailOnMissingInformer:  true,
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: ptr.To(true),
		DefaultWatchErrorHandler:     failed,
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}

	out, err := cache.New(c.config, options)
	if err != nil {
		return nil, fmt.Errorf("failed to watch the management cluster: %w", err)
	}

	return out, nil
}

// KubeconfigFile returns the absolute path of the kubeconfig, for external programs accepting only one file.
func (c *Cluster) KubeconfigFile() (string, error) {
	path := c.Kubeconfig
	if path == "" {
		paths := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
		if len(paths) > 1 {
			return "", errors.New("KUBECONFIG lists several files; specify one of them with --kubeconfig")
		}

		path = clientcmd.RecommendedHomeFile
		if len(paths) > 0 {
			path = paths[0]
		}
	}

	out, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("--kubeconfig: %w", err)
	}

	return out, nil
}

// Server returns the URL of the API server.
func (c *Cluster) Server() string {
	if c.config == nil { // it was created from a client
		return ""
	}

	return c.config.Host
}

// withLocalFallback selects the local management cluster if kubectl would find none.
func (o Options) withLocalFallback() Options {
	if local := LocalOfUser(); o.Kubeconfig == "" && o.kubectlFindsNothing() && local.Exists() {
		o.Kubeconfig = local.Kubeconfig()
	}

	return o
}

// Read reads the kubeconfig once, so a later switch of contexts has no effect on the command. Without a kubeconfig, it
// stores nothing, because the command may run in a pod.
func (o Options) Read() (Options, error) {
	if o.read != nil {
		return o, nil
	}

	o = o.withLocalFallback()
	loader := o.newLoader()
	config, err := loader.RawConfig()
	if err != nil {
		return o, o.explainError(err)
	}

	if o.Namespace == "" {
		if o.Namespace, _, err = loader.Namespace(); err != nil {
			return o, o.explainError(err)
		}
	}

	if o.Context != "" {
		config.CurrentContext = o.Context
	}

	if config.CurrentContext == "" { // there is no context, or the connection reports the error
		return o, nil
	}

	if err := clientcmdapi.MinifyConfig(&config); err != nil {
		return o, o.explainError(err)
	}

	o.Context, o.read = config.CurrentContext, &config

	return o, nil
}

// describeSource describes the source of the kubeconfig for error messages.
func (o Options) describeSource() string {
	switch {
	case o.Kubeconfig != "":
		return "--kubeconfig " + o.Kubeconfig
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		return clientcmd.RecommendedConfigPathEnvVar + "=" + os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}

	return clientcmd.RecommendedHomeFile
}

// explainError rewords an error about the kubeconfig. The new error names the file. If the requested context is
// missing, it lists the contexts.
func (o Options) explainError(err error) error {
	all, failed := Options{Kubeconfig: o.Kubeconfig}.newLoader().RawConfig()
	if clientcmd.IsEmptyConfig(err) && o.Context == "" && len(all.Contexts) > 0 {
		return fmt.Errorf("%s has no current context; use --context with one of %s", o.describeSource(),
			strings.Join(slices.Sorted(maps.Keys(all.Contexts)), ", "))
	}

	if clientcmd.IsEmptyConfig(err) && o.Context == "" {
		return errNoKubeconfig
	}

	if _, known := all.Contexts[o.Context]; failed == nil && o.Context != "" && !known {
		return fmt.Errorf("--context %s: no such context in %s; existing contexts: %s", o.Context, o.describeSource(),
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(all.Contexts)), ", "), "none"))
	}

	return fmt.Errorf("%s: %w", o.describeSource(), err)
}

// ContextNames returns the names of the kubeconfig's contexts.
func (o Options) ContextNames() ([]string, error) {
	all, err := Options{Kubeconfig: o.withLocalFallback().Kubeconfig}.newLoader().RawConfig()
	if err != nil {
		return nil, err
	}

	return slices.Sorted(maps.Keys(all.Contexts)), nil
}

// newLoader returns a loader of the kubeconfig returned by Read or, before Read, of the file.
func (o Options) newLoader() clientcmd.ClientConfig {
	if o.read != nil {
		return clientcmd.NewDefaultClientConfig(*o.read, nil)
	}

	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig

	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.Context})
}

// kubectlFindsNothing reports whether kubectl would find no cluster. If the user has named a context, it does not have
// to be the current one.
func (o Options) kubectlFindsNothing() bool {
	loader := Options{}.newLoader()
	if _, err := loader.ClientConfig(); !clientcmd.IsEmptyConfig(err) {
		return false
	}

	config, err := loader.RawConfig()

	return o.Context == "" || err == nil && len(config.Contexts) == 0
}

// ServerOf returns the URL of the server in a kubeconfig file.
func ServerOf(path string) (string, error) { return Options{Kubeconfig: path}.ServerURL() }

// ServerURL returns the URL of the selected server.
func (o Options) ServerURL() (string, error) {
	config, err := o.newLoader().ClientConfig()
	if err != nil {
		return "", fmt.Errorf("%s is not a kubeconfig: %w", o.Kubeconfig, err)
	}

	return config.Host, nil
}

// NotFoundError reports a missing object.
type NotFoundError struct {
	// Kind is the kind of the object, or "" for a Cluster.
	Kind, Name, Namespace string
	// There lists the existing objects of this kind, as namespace/name.
	There []string
}

// shownAtMost is the maximum number of names in an error.
const shownAtMost = 10

func (e *NotFoundError) Error() string {
	kind := cmp.Or(e.Kind, "Cluster")
	out := fmt.Sprintf("%s %s not found in namespace %s", kind, e.Name, e.Namespace)

	shown, more := e.There, ""
	if len(shown) > shownAtMost {
		shown, more = shown[:shownAtMost], fmt.Sprintf(" and %d more", len(shown)-shownAtMost)
	}

	for _, one := range e.There {
		if namespace, name, _ := strings.Cut(one, "/"); name == e.Name {
			return fmt.Sprintf("%s, but %s exists; use -n %s", out, one, namespace)
		}
	}

	if len(shown) == 0 {
		return fmt.Sprintf("%s; found no %ss that you may list; specify the namespace with -n", out, kind)
	}

	return fmt.Sprintf("%s; existing %ss: %s%s; specify the namespace with -n", out, kind, strings.Join(shown, ", "),
		more)
}

// NotFound returns the error about a missing object. The error lists the existing objects in all namespaces or, if the
// user may not list these, in this namespace.
func (c *Cluster) NotFound(ctx context.Context, name, kind string) *NotFoundError {
	out := &NotFoundError{Kind: kind, Name: name, Namespace: c.Namespace}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind + "List"))

	for _, in := range []client.ListOption{client.InNamespace(""), client.InNamespace(c.Namespace)} {
		if err := c.List(ctx, list, in); err != nil {
			continue
		}

		for i := range list.Items {
			out.There = append(out.There, client.ObjectKeyFromObject(&list.Items[i]).String())
		}

		break
	}

	slices.Sort(out.There)

	return out
}

// GetCluster reads a Cluster. If the Cluster is missing, the error is a NotFoundError.
func (c *Cluster) GetCluster(ctx context.Context, name string) (*clusterv1.Cluster, error) {
	var cluster clusterv1.Cluster
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &cluster); apierrors.IsNotFound(err) {
		return nil, c.NotFound(ctx, name, "Cluster")
	} else if err != nil {
		return nil, fmt.Errorf("failed to get Cluster %s: %w", name, err)
	}

	return &cluster, nil
}

// ListNames returns the names of the objects in a list.
func (c *Cluster) ListNames(ctx context.Context, list client.ObjectList, of ...client.ListOption) ([]string, error) {
	if err := c.List(ctx, list, of...); err != nil {
		return nil, err
	}

	var out []string

	err := meta.EachListItem(list, func(object runtime.Object) error {
		named, err := meta.Accessor(object)
		if err == nil {
			out = append(out, named.GetName())
		}

		return err
	})

	return out, err
}

// Describe returns the tree of a Cluster.
func (c *Cluster) Describe(ctx context.Context, name string) (*clustertree.Node, error) {
	cluster, err := c.GetCluster(ctx, name)
	if err != nil {
		return nil, err
	}

	return clustertree.Discover(ctx, c.Client, cluster)
}

// ListOtherClusters returns the other Clusters as namespace/name. The options may limit them.
func (c *Cluster) ListOtherClusters(ctx context.Context, name string, in ...client.ListOption) ([]string, error) {
	var list clusterv1.ClusterList
	if err := c.List(ctx, &list, in...); err != nil {
		return nil, fmt.Errorf("failed to list the Clusters: %w", err)
	}

	var out []string

	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		if key != (client.ObjectKey{Namespace: c.Namespace, Name: name}) {
			out = append(out, key.String())
		}
	}

	return out, nil
}

// ClusterctlAccess returns the connection to the cluster for clusterctl.
func (c *Cluster) ClusterctlAccess() clusterctl.Management {
	return clusterctl.Management{Kubeconfig: c.Kubeconfig, Config: c.read, Client: c.Client, MayAct: c.mayAct}
}

// WithFence returns the same cluster with a client that calls mayAct before each write, as clusterctl does.
func (c *Cluster) WithFence(mayAct func(context.Context) error) *Cluster {
	out := *c
	out.Client = &fencedclient.Client{Client: c.Client, MayAct: mayAct}
	out.mayAct = mayAct

	return &out
}

// ServerAt returns the URL of the API server of a Cluster, or "" if it has no endpoint yet.
func ServerAt(cluster *clusterv1.Cluster) string {
	if !cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return ""
	}

	return "https://" + cluster.Spec.ControlPlaneEndpoint.String()
}
