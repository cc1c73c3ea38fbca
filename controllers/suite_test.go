package controllers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/access"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/cluster"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/inventoryvm"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/machine"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/machinetemplate"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/node"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/remediation"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/state"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/supportservices"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// managerNamespace is the namespace of the manager, with the objects named by OLVMClusterIdentities.
const managerNamespace = "capolvm-system"

// suite is a real kube-apiserver, with the controllers in this process. Cluster API does not run. Instead, the tests
// write owners and status.
var suite struct {
	client client.Client
	// config connects to the API server.
	config   *rest.Config
	workDir  string
	sessions *engine.Sessions
	// assets is the folder with the binaries of etcd and kube-apiserver.
	assets string
	// userDataURL is the URL at which VMs reach the user data server.
	userDataURL string
	// stopWorkload stops the workload cluster, if one was started.
	stopWorkload func()
	// cached reads from the controllers' cache. passes counts the passes of the controllers. touches counts the calls
	// of touch.
	cached  client.Reader
	passes  passes
	touches atomic.Int32
	// versions checks the patches of the controllers.
	versions versionGuard
}

// skipProved skips a test in short mode. The named unit test proves the same decision without an API server.
func skipProved(t *testing.T, unitTest string) {
	t.Helper()
	t.Log("the unit test is", unitTest)
	testenv.SkipInShort(t, "repeats a unit test with an API server")
}

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(code)
}

func runSuite(m *testing.M) (int, error) {
	ctrl.SetLogger(logr.Discard())
	tools, err := toolchain.New()
	if err != nil {
		return 0, err
	}

	executable, err := tools.FindExecutor(context.Background())
	if err != nil {
		return 0, err
	}

	if suite.workDir, err = os.MkdirTemp("", "capolvm-test-"); err != nil {
		return 0, err
	}

	defer os.RemoveAll(suite.workDir)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	api, err := testsite.StartAPIServer(ctx, tools)
	defer api.Stop()
	if err != nil {
		return 0, err
	}

	suite.client, suite.assets, suite.stopWorkload = api.Client, api.Assets, func() {}
	suite.config = api.Config
	suite.versions.seen = map[string]int{}
	config := rest.CopyConfig(api.Config)
	config.Wrap(suite.versions.wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  api.Scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: ptr.To(wait.Limit),
		Cache:                   cache.Options{ByObject: command.LeanCache()},
		Client: client.Options{
			Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}},
		},
	})
	if err != nil {
		return 0, err
	}

	suite.cached = mgr.GetCache()
	suite.sessions = &engine.Sessions{}
	engines := &enginepool.Registry{
		Reader: mgr.GetAPIReader(), Metadata: mgr.GetCache(), Sessions: suite.sessions,
		Policy: connection.Policy{IdentityNamespace: managerNamespace},
	}
	provider := providerprocess.InProcess{Options: tfprovider.Options{Sessions: suite.sessions, ReturnOnStart: true}}
	executor := terraform.NewExecutor(executable, provider, filepath.Join(suite.workDir, ".init"))
	runs := workspace.NewRunQueue(4, time.Minute)
	runs.Executor, runs.WorkDir = executor, suite.workDir
	runs.Client, runs.APIReader, runs.Metadata = mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it serves this process only
	if err != nil {
		return 0, err
	}

	userData, err := userdataserver.New(ctx, userdataserver.Options{
		Client:    mgr.GetClient(),
		Metadata:  mgr.GetCache(),
		Recorder:  mgr.GetEventRecorder("test"),
		URL:       "https://" + listener.Addr().String(),
		Authority: client.ObjectKey{Namespace: "default", Name: "authority"},
		Lifetime:  time.Hour,
	})
	if err != nil {
		return 0, err
	}

	suite.userDataURL = "https://" + listener.Addr().String()
	userData.EnableHosts(&jumphost.Hosts{
		Client:   mgr.GetClient(),
		Engines:  engines,
		Recorder: mgr.GetEventRecorder("test"),
	})
	if err := mgr.Add(userData.NewRunnable(listener)); err != nil {
		return 0, err
	}

	addresses := &addressing.Allocator{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), CacheHasAll: true}
	err = (&cluster.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Engines:   engines,
		Runs:      runs,
		Addresses: addresses,
		Recorder:  mgr.GetEventRecorder("test"),
	}).SetupWithManager(ctx, mgr, suite.passes.options(1))
	if err != nil {
		return 0, err
	}

	err = (&supportservices.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Runs:      runs,
		Addresses: addresses,
		Recorder:  mgr.GetEventRecorder("test"),
		Delivery:  userData,
	}).SetupWithManager(ctx, mgr, suite.passes.options(1))
	if err != nil {
		return 0, err
	}

	if err := access.AddAll(ctx, mgr, mgr.GetAPIReader(), managerNamespace, suite.passes.options(1)); err != nil {
		return 0, err
	}

	err = (&inventory.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Engines:   engines,
		Addresses: addresses,
		Recorder:  mgr.GetEventRecorder("test"),
	}).SetupWithManager(ctx, mgr, suite.passes.options(1))
	if err != nil {
		return 0, err
	}

	err = (&inventoryvm.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Engines:   engines,
		Runs:      runs,
		Addresses: addresses,
		Recorder:  mgr.GetEventRecorder("test"),
	}).SetupWithManager(ctx, mgr, suite.passes.options(4))
	if err != nil {
		return 0, err
	}

	workloads, err := node.NewClusterCache(ctx, mgr, "test", "")
	if err != nil {
		return 0, err
	}

	err = (&remediation.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Engines: engines, Runs: runs,
		Recorder: mgr.GetEventRecorder("test"), Workloads: workloads,
	}).SetupWithManager(ctx, mgr, suite.passes.options(1))
	if err != nil {
		return 0, err
	}

	err = (&state.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).
		SetupWithManager(ctx, mgr, suite.passes.options(1))
	if err != nil {
		return 0, err
	}

	err = (&machinetemplate.Reconciler{
		Client:   mgr.GetClient(),
		Recorder: mgr.GetEventRecorder("test"),
	}).SetupWithManager(ctx, mgr, suite.passes.options(1))
	if err != nil {
		return 0, err
	}

	connections := workloads.(interface {
		SetConnectionCreationRetryInterval(interval time.Duration)
		Shutdown()
	})
	connections.SetConnectionCreationRetryInterval(time.Second)
	err = (&node.Reconciler{
		Client:                     mgr.GetClient(),
		ClusterCache:               workloads,
		Recorder:                   mgr.GetEventRecorder("test"),
		LabelNodes:                 true,
		FenceNodes:                 true,
		ApproveServingCertificates: true,
	}).SetupWithManager(ctx, mgr, suite.passes.options(4))
	if err != nil {
		return 0, err
	}

	if err := (&machine.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Engines: engines, Runs: runs,
		Recorder: mgr.GetEventRecorder("test"), Addresses: addresses, Delivery: userData,
		FailureDelay: time.Second,
	}).SetupWithManager(ctx, mgr, suite.passes.options(4)); err != nil {
		return 0, err
	}

	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	code := testenv.RunAfterSetup(m)
	cancel()
	err = <-ended
	connections.Shutdown() // its watches would keep the API server running
	suite.stopWorkload()

	if bad := suite.versions.problems(); len(bad) > 0 {
		return 1, fmt.Errorf("patches of lists that name no version:\n%s", strings.Join(bad, "\n"))
	}

	return code, err
}

// site is a site of internal/test/testsite, with further methods for these tests. looks counts the calls of look.
type site struct {
	*testsite.Site
	looks int
}

// newSite starts an engine. It creates a Cluster with its OLVMCluster, the Secret and the CA. change may edit them.
func newSite(t *testing.T, change func(*corev1.Secret, *corev1.ConfigMap, *infrav1.OLVMCluster)) *site {
	t.Helper()
	return newSiteIn(t, ovirtsim.Inventory{}, change)
}

// newSiteIn is like newSite, but the engine has another inventory.
func newSiteIn(
	t *testing.T, inventory ovirtsim.Inventory, change func(*corev1.Secret, *corev1.ConfigMap, *infrav1.OLVMCluster),
) *site {
	t.Helper()
	t.Parallel()
	return &site{Site: testsite.New(t, suite.client, testsite.Options{Inventory: inventory, Change: change})}
}

// change reads, changes and writes an object. It repeats this on conflicts.
func change[T client.Object](s *site, object T, apply func(T)) {
	s.T.Helper()
	testsite.UpdateObject(s.Site, object, apply)
}
