// Package command is the command line of the manager. The manager program uses it. olvmctl also uses it, because
// olvmctl runs the manager in local management clusters.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capolvm/cluster-api-provider-olvm/api"
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
	"github.com/capolvm/cluster-api-provider-olvm/internal/fencedclient"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
	"github.com/capolvm/cluster-api-provider-olvm/internal/otherprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	controllerName = "cluster-api-provider-olvm-controller-manager"

	// shutdownTimeout is longer than the sum of the executor's grace after an interrupt and the time to save a state.
	// It is shorter than the pod's terminationGracePeriodSeconds of 90.
	shutdownTimeout = 80 * time.Second

	// authoritySecret is the Secret with the certificate authority of the user data server, in the manager's namespace.
	authoritySecret = "capolvm-user-data-authority" //nolint:gosec // its name

	// tokenGrace is the maximum time from the end of a run for a VM to the VM's request for user data.
	tokenGrace = 15 * time.Minute

	// deliveryQPS and deliveryBurst limit the user data server's requests to the API server. It makes four requests for
	// each VM.
	deliveryQPS, deliveryBurst = 50, 200

	// maxVerbosity is the highest log level. With a higher level, the Kubernetes client logs the bodies of all requests
	// and responses, including every Secret it reads.
	maxVerbosity = 7
)

// defaultWorkDir is in a folder writable by all users.
var defaultWorkDir = filepath.Join(os.TempDir(), "capolvm")

// options are the values of all flags.
type options struct {
	leaderElect         bool
	leaseDuration       time.Duration
	renewDeadline       time.Duration
	retryPeriod         time.Duration
	leaderNamespace     string
	namespace           string
	watchFilter         string
	profilerAddress     string
	contentionProfiling bool
	syncPeriod          time.Duration
	qps                 float32
	burst               int
	healthAddr          string
	needEngines         bool
	clusterConcurrency  int
	machineConcurrency  int
	terraformRuns       int
	terraformLimit      time.Duration
	keepUserData        bool
	driftInterval       time.Duration
	workDir             string
	confinement         string
	unboundCredentials  bool
	approveServing      bool
	labelNodes          bool
	fenceNodes          bool
	bootstrapURL        string
	bootstrapListen     string
	manager             flags.ManagerOptions
	logs                *logs.Options
	gates               featuregate.MutableFeatureGate
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	o.logs = logs.NewOptions()
	logsv1.AddFlags(o.logs, fs)
	o.addLeaderFlags(fs)
	o.addWatchFlags(fs)
	o.addTerraformFlags(fs)
	o.addTenantFlags(fs)
	flags.AddManagerOptions(fs, &o.manager)
	o.gates = newGates()
	o.gates.AddFlag(fs)
}

// addLeaderFlags adds the flags of leader election.
func (o *options) addLeaderFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.leaderElect, "leader-elect", false,
		"Enable leader election, so that only one of several replicas is active.")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"Duration that other replicas wait before they take over a lease that is not renewed.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"Duration that the leader retries renewing its lease before it gives up leadership.")
	fs.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"Interval between leader election attempts.")
	fs.StringVar(&o.leaderNamespace, "leader-elect-namespace", "",
		"Namespace of the leader election lease. Defaults to the namespace of the pod.")
}

// addWatchFlags adds the flags for the selection of watched objects, and for the time and manner of their
// reconciliation.
func (o *options) addWatchFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.namespace, "namespace", "", "Namespace to watch. If empty, the manager watches all namespaces.")
	fs.StringVar(
		&o.watchFilter, "watch-filter", "",
		fmt.Sprintf("Value of the label %s on the objects to reconcile. If empty, the manager reconciles all objects.",
			clusterv1.WatchLabel),
	)
	fs.StringVar(&o.profilerAddress, "profiler-address", "",
		"Bind address of the pprof profiler, such as localhost:6060.")
	fs.BoolVar(&o.contentionProfiling, "contention-profiling", false, "Enable block profiling.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute,
		"Maximum interval until every object is reconciled again.")
	fs.Float32Var(&o.qps, "kube-api-qps", 200, "Maximum number of queries per second to the Kubernetes API server.")
	fs.IntVar(&o.burst, "kube-api-burst", 400, "Maximum burst of queries to the Kubernetes API server.")
	fs.StringVar(&o.healthAddr, "health-addr", ":9440", "Bind address of the health probes.")
	fs.BoolVar(&o.needEngines, "ready-needs-engines", false,
		"Report an error at /readyz while the engine of an OLVMCluster or OLVMInventory is unavailable. "+
			"/readyz/engines always reports it.")
	fs.IntVar(&o.clusterConcurrency, "olvmcluster-concurrency", 10,
		"Maximum number of OLVMClusters per engine that are reconciled concurrently.")
	fs.IntVar(&o.machineConcurrency, "olvmmachine-concurrency", 20,
		"Maximum number of OLVMMachines per engine that are reconciled concurrently.")
}

// addTerraformFlags adds the flags of Terraform runs.
func (o *options) addTerraformFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.terraformRuns, "terraform-concurrency", 4,
		"Maximum number of concurrent Terraform runs. Each run uses about 100 MB of memory. The runs of one engine "+
			"leave a slot for other engines.")
	fs.DurationVar(
		&o.terraformLimit,
		"terraform-timeout",
		30*time.Minute,
		"Maximum duration of a Terraform run. After that, the run is interrupted, and the next run continues where "+
			"it stopped. Must be at least 1m, and longer than the engine needs to copy a template's disks.",
	)
	fs.DurationVar(&o.driftInterval, "drift-interval", 24*time.Hour,
		"Interval between comparisons of each machine with the engine. A comparison is a plan that is never applied. "+
			"The DriftDetected condition reports the differences. 0 disables the comparisons.")
	fs.StringVar(&o.workDir, "work-dir", defaultWorkDir,
		"Directory for rendered configurations and Terraform's working files. Only the manager's user may have "+
			"access to it.")
	fs.StringVar(
		&o.confinement, "confinement", confinementAuto,
		"Whether to confine Terraform and its provider with Landlock. With auto, the manager also starts if Landlock "+
			"is unavailable, and reports it in the log, the metric capolvm_confined and /readyz?verbose. With "+
			"required, the manager refuses to start.",
	)
}

// addTenantFlags adds the flags for the rights of tenants and of their guests.
func (o *options) addTenantFlags(fs *pflag.FlagSet) {
	fs.BoolVar(
		&o.unboundCredentials, "allow-unbound-credentials", false,
		"Send credentials to any engine named by an OLVMCluster if their Secret does not restrict the engines "+
			"(allowedServerURLs). Users with write access to OLVMClusters can then obtain the passwords of such "+
			"Secrets.",
	)
	fs.BoolVar(
		&o.labelNodes, "label-nodes", true,
		"Label the Nodes of workload clusters with the zone (failure domain), region (data center), instance type "+
			"and host of their machines. Labels set by others do not change.",
	)
	fs.BoolVar(
		&o.fenceNodes, "fence-nodes", false,
		"Add the taint node.kubernetes.io/out-of-service to Nodes of workload clusters while the engine proves that "+
			"their VM has failed, so that pods and volumes move to other Nodes. The proof has not been confirmed on "+
			"a real engine yet. If false, the manager only removes its own taints.",
	)
	fs.BoolVar(
		&o.approveServing, "approve-kubelet-serving-csrs", true,
		"Approve certificate signing requests of kubelets in workload clusters if the names and addresses match "+
			"those of the machine. The manager ignores all other requests.",
	)
	fs.BoolVar(
		&o.keepUserData, "keep-user-data", false,
		"Keep the user data of VMs in the engine and in Terraform's states after the VMs have become nodes. User "+
			"data contains private keys of the clusters, and every user with access to a VM in the engine can read "+
			"it.",
	)
	fs.StringVar(
		&o.bootstrapURL, "bootstrap-url", "",
		"URL at which VMs fetch user data from this manager (bootstrapDelivery Pointer), such as "+
			"https://10.20.30.4:9445. If empty, the manager does not serve user data.",
	)
	fs.StringVar(&o.bootstrapListen, "bootstrap-listen", ":9445",
		"Bind address of the user data server for --bootstrap-url.")
}

func (o *options) validate() error {
	for name, value := range map[string]int{
		"olvmcluster-concurrency": o.clusterConcurrency,
		"olvmmachine-concurrency": o.machineConcurrency,
		"terraform-concurrency":   o.terraformRuns,
	} {
		if value < 1 {
			return fmt.Errorf("--%s must be at least 1", name)
		}
	}

	if o.leaderElect && (o.retryPeriod <= 0 || o.retryPeriod >= o.renewDeadline || o.renewDeadline >= o.leaseDuration) {
		return fmt.Errorf(
			"--leader-elect-retry-period (%s), --leader-elect-renew-deadline (%s) and --leader-elect-lease-duration "+
				"(%s) must each be shorter than the next",
			o.retryPeriod, o.renewDeadline, o.leaseDuration,
		)
	}

	if o.confinement != confinementAuto && o.confinement != confinementRequired {
		return fmt.Errorf("--confinement must be %s or %s, not %q", confinementAuto, confinementRequired, o.confinement)
	}

	if o.driftInterval < 0 || o.driftInterval > 0 && o.driftInterval < time.Second {
		return fmt.Errorf("--drift-interval must be 0 or at least 1s, not %s", o.driftInterval)
	}

	if o.terraformLimit < time.Minute {
		return fmt.Errorf("--terraform-timeout must be at least 1m, not %s", o.terraformLimit)
	}

	return nil
}

// NewFlags returns the flags of the manager. The reference documentation is generated from them.
func NewFlags() *pflag.FlagSet {
	var o options
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.addFlags(set)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)

	return set
}

// Main runs the manager with the arguments of the process until it is interrupted. It returns the exit code.
func Main() int {
	liftEmptyMemoryLimit()
	hostos.KeepFilesPrivate() // Terraform stores state and user data on disk

	var o options
	o.addFlags(pflag.CommandLine)
	pflag.CommandLine.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	showVersion := pflag.Bool("version", false, "print the version and exit")
	pflag.Parse()

	if *showVersion {
		fmt.Println(version.FormatLine("manager"))
		return 0
	}

	o.logs.Verbosity = min(o.logs.Verbosity, maxVerbosity)
	if err := logsv1.ValidateAndApply(o.logs, nil); err != nil {
		fmt.Fprintln(os.Stderr, "invalid logging flags:", err)
		return 1
	}

	if err := applyGates(o.gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	ctrl.SetLogger(klog.Background())
	if err := runManager(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "Manager ended with an error")
		klog.Flush()
		return 1
	}

	return 0
}

func runManager(ctx context.Context, o options) error {
	if err := o.validate(); err != nil {
		return err
	}

	if o.workDir == defaultWorkDir {
		if err := ensurePrivateFolder(o.workDir); err != nil {
			return err
		}
	}

	executable, err := terraform.FindExecutable(ctx)
	if err != nil {
		return err
	}

	ctrl.Log.WithName("setup").Info("Starting", "version", version.Version, "executor", executable.String())
	if o.contentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}

	mgr, leads, err := newElectedManager(o)
	if err != nil {
		return err
	}

	if err := otherprovider.CheckAbsent(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}

	runs := workspace.NewRunQueue(o.terraformRuns, o.terraformLimit)
	runs.DriftInterval = o.driftInterval
	if leads != nil {
		leads.mayAct = leads.newFence(mgr.GetAPIReader())
		runs.Fence, runs.States = leads.mayAct, leads.states
	}

	provider := newProvider(mgr, runs.Fence, o)
	userData, err := addUserDataServer(ctx, mgr, runs.Fence, o)
	if err != nil {
		return err
	}

	if err := addControllers(ctx, mgr, o, executable, provider, runs, userData); err != nil {
		return err
	}

	if err := addCare(mgr, runs, o); err != nil {
		return err
	}

	lost, err := serveUntilEnd(ctx, mgr, runs, leads, o)
	if lost {
		provider.KillProcesses() // skips the slow logout, because another manager may act at any moment
		return err
	}

	provider.Close()
	provider.Sessions.Close(context.WithoutCancel(ctx))

	return err
}

// newElectedManager returns the manager and its leadership. The leadership is nil without leader election.
func newElectedManager(o options) (ctrl.Manager, *leadership, error) {
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("failed to load the kubeconfig: %w", err)
	}

	restConfig.QPS, restConfig.Burst, restConfig.UserAgent = o.qps, o.burst, controllerName+"/"+version.Version

	var leads *leadership
	if o.leaderElect {
		if leads, err = newLeadership(restConfig, o); err != nil {
			return nil, nil, err
		}
	}

	mgr, err := newManager(restConfig, leads, o)

	return mgr, leads, err
}

// newProvider returns the Terraform provider process used by all runs. It does not start the process yet.
func newProvider(mgr ctrl.Manager, fence func(context.Context) error, o options) *providerprocess.Provider {
	sessions := &engine.Sessions{MayAct: fence}
	if namespace, err := o.ownNamespace(); err == nil {
		sessions.Refusals = &refusalSecret{
			client: mgr.GetClient(),
			reader: mgr.GetAPIReader(),
			key:    client.ObjectKey{Namespace: namespace, Name: refusedSecret},
		}
	}

	return &providerprocess.Provider{Sessions: sessions, Fence: fence, Log: ctrl.Log.WithName("provider")}
}

// addCare adds the probes to the manager. Unless GOGC is set, it also adds a Runnable that releases memory after
// bursts.
func addCare(mgr ctrl.Manager, runs *workspace.RunQueue, o options) error {
	if os.Getenv("GOGC") == "" {
		if err := mgr.Add(memory{busy: runs.HasRuns}); err != nil {
			return fmt.Errorf("failed to add the care for memory: %w", err)
		}
	}

	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("failed to add the health probe: %w", err)
	}

	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return fmt.Errorf("failed to add the readiness probe: %w", err)
	}

	if err := mgr.AddReadyzCheck(enginesCheck, checkEngines(mgr.GetClient(), o.needEngines)); err != nil {
		return fmt.Errorf("failed to add the readiness probe of the engines: %w", err)
	}

	return nil
}

// serveUntilEnd runs the manager until it ends, and then waits until all runs have saved their states. A manager that
// has lost its lease does not wait for its Runnables. lost reports whether the manager has lost its lease.
func serveUntilEnd(
	ctx context.Context, mgr ctrl.Manager, runs *workspace.RunQueue, leads *leadership, o options,
) (lost bool, err error) {
	err = mgr.Start(ctx)
	lost = err != nil && leads != nil && ctx.Err() == nil

	if lost {
		runs.Shutdown(o.lostLease())
	} else {
		runs.Shutdown(shutdownTimeout)
	}

	if err != nil {
		err = fmt.Errorf("failed to run the manager: %w", err)
	}

	return lost, err
}

func newManager(restConfig *rest.Config, leads *leadership, o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), ipamv1.AddToScheme(scheme),
		api.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("failed to build the scheme: %w", err)
	}

	_, metrics, err := flags.GetManagerOptions(o.manager)
	if err != nil {
		return nil, fmt.Errorf("invalid flags: %w", err)
	}

	var lock resourcelock.Interface

	newClient := client.New
	if leads != nil {
		lock, newClient = leads.lock, leads.newClient
	}

	var namespaces map[string]cache.Config
	if o.namespace != "" {
		namespaces = map[string]cache.Config{o.namespace: {}}
	}

	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme: scheme,
		Controller: config.Controller{
			UsePriorityQueue: ptr.To(o.gates.Enabled(feature.PriorityQueue)),
		},
		LeaderElection:                      o.leaderElect,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionID:                    o.leaseName(), // names the metric
		LeaderElectionReleaseOnCancel:       true,          // the process ends right after the manager
		LeaseDuration:                       &o.leaseDuration,
		RenewDeadline:                       &o.renewDeadline,
		RetryPeriod:                         &o.retryPeriod,
		GracefulShutdownTimeout:             ptr.To(shutdownTimeout),
		HealthProbeBindAddress:              o.healthAddr,
		PprofBindAddress:                    o.profilerAddress,
		Metrics:                             *metrics,
		Cache: cache.Options{
			DefaultNamespaces: namespaces,
			SyncPeriod:        &o.syncPeriod,
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          LeanCache(),
		},
		NewClient: newClient,
		Client: client.Options{Cache: &client.CacheOptions{
			// Read Secrets and ConfigMaps only on demand. A cache would hold every secret of the management cluster in
			// memory.
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to make the manager: %w", err)
	}

	return mgr, nil
}

// addUserDataServer adds the server of user data. It returns nil if VMs cannot reach the server.
func addUserDataServer(
	ctx context.Context, mgr ctrl.Manager, fence func(context.Context) error, o options,
) (*userdataserver.Server, error) {
	if o.bootstrapURL == "" {
		return nil, nil
	}

	namespace, err := o.ownNamespace()
	if err != nil {
		return nil, err
	}

	// Use a separate client, because requests of strangers must not delay the saving of states.
	own := rest.CopyConfig(mgr.GetConfig())
	own.QPS, own.Burst, own.RateLimiter = deliveryQPS, deliveryBurst, nil
	secrets, err := client.New(own, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("failed to make the client of the server of user data: %w", err)
	}

	writer := secrets
	if fence != nil {
		writer = &fencedclient.Client{Client: secrets, MayAct: fence}
	}

	server, err := userdataserver.New(ctx, userdataserver.Options{
		Client:    secrets,
		Writer:    writer,
		Metadata:  mgr.GetCache(),
		Recorder:  mgr.GetEventRecorder("user-data"),
		URL:       o.bootstrapURL,
		Authority: client.ObjectKey{Namespace: namespace, Name: authoritySecret},
		Lifetime:  o.terraformLimit + tokenGrace,
	})
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-url: %w", err)
	}

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.bootstrapListen)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-listen: %w", err)
	}

	if err := mgr.Add(server.NewRunnable(listener)); err != nil {
		return nil, fmt.Errorf("failed to add the server of user data: %w", err)
	}

	return server, nil
}

func addControllers(
	ctx context.Context,
	mgr ctrl.Manager,
	o options,
	executable terraform.Executable,
	provider *providerprocess.Provider,
	runs *workspace.RunQueue,
	userData *userdataserver.Server,
) error {
	reader := mgr.GetAPIReader()
	if o.namespace != "" {
		reader = &namespaceReader{Reader: reader, Namespace: o.namespace}
	}

	executor, err := newExecutor(mgr, executable, provider, o)
	if err != nil {
		return err
	}

	runs.Executor, runs.WorkDir = executor, o.workDir
	runs.Client, runs.APIReader, runs.Metadata = mgr.GetClient(), reader, mgr.GetCache()
	engines := newEnginePool(mgr, reader, provider, o)
	addresses := &addressing.Allocator{
		Client:      mgr.GetClient(),
		Reader:      reader,
		CacheHasAll: o.watchFilter == "" && o.namespace == "",
	}
	serveJumpHosts(mgr, engines, userData)
	if err := addClusterController(ctx, mgr, reader, engines, runs, addresses, o); err != nil {
		return err
	}

	if err := addSupportServices(ctx, mgr, reader, runs, addresses, userData, o); err != nil {
		return err
	}

	workloads, err := node.NewClusterCache(ctx, mgr, controllerName+"/"+version.Version, o.watchFilter)
	if err != nil {
		return err
	}

	if err := addVMControllers(ctx, mgr, reader, engines, runs, addresses, workloads, o); err != nil {
		return err
	}

	err = (&machine.Reconciler{
		Client:           mgr.GetClient(),
		APIReader:        reader,
		Engines:          engines,
		Runs:             runs,
		Recorder:         mgr.GetEventRecorder("olvmmachine-controller"),
		WatchFilterValue: o.watchFilter,
		Addresses:        addresses,
		Delivery:         userData,
		KeepUserData:     o.keepUserData,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.machineConcurrency})
	if err != nil {
		return err
	}

	return addSmallControllers(ctx, mgr, reader, workloads, o)
}

// addClusterController adds the controller of OLVMClusters.
func addClusterController(
	ctx context.Context,
	mgr ctrl.Manager,
	reader client.Reader,
	engines *enginepool.Registry,
	runs *workspace.RunQueue,
	addresses *addressing.Allocator,
	o options,
) error {
	return (&cluster.Reconciler{
		Client:           mgr.GetClient(),
		APIReader:        reader,
		Engines:          engines,
		Runs:             runs,
		Addresses:        addresses,
		Recorder:         mgr.GetEventRecorder("olvmcluster-controller"),
		WatchFilterValue: o.watchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.clusterConcurrency})
}

// newEnginePool returns the pool of engine sessions shared by all controllers.
func newEnginePool(
	mgr ctrl.Manager, reader client.Reader, provider *providerprocess.Provider, o options,
) *enginepool.Registry {
	identities := o.identityNamespace()

	return &enginepool.Registry{
		Reader:       reader,
		Metadata:     mgr.GetCache(),
		Sessions:     provider.Sessions,
		Policy:       connection.Policy{AllowAnyEngine: o.unboundCredentials, IdentityNamespace: identities},
		NoIdentities: identities == "",
	}
}

// serveJumpHosts makes the user data server, if there is one, handle the requests of jump hosts.
func serveJumpHosts(mgr ctrl.Manager, engines *enginepool.Registry, userData *userdataserver.Server) {
	if userData != nil {
		userData.EnableHosts(&jumphost.Hosts{
			Client:   mgr.GetClient(),
			Engines:  engines,
			Recorder: mgr.GetEventRecorder("jump-host"),
		})
	}
}

// addSupportServices adds the controller of support services. userData is nil if the manager serves nothing to VMs.
func addSupportServices(
	ctx context.Context,
	mgr ctrl.Manager,
	reader client.Reader,
	runs *workspace.RunQueue,
	addresses *addressing.Allocator,
	userData *userdataserver.Server,
	o options,
) error {
	return (&supportservices.Reconciler{
		Client:           mgr.GetClient(),
		APIReader:        reader,
		Runs:             runs,
		Addresses:        addresses,
		Recorder:         mgr.GetEventRecorder("olvmsupportservices-controller"),
		WatchFilterValue: o.watchFilter,
		Delivery:         userData,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.clusterConcurrency})
}

// addVMControllers adds the controllers of VM pools and of remediations.
func addVMControllers(
	ctx context.Context,
	mgr ctrl.Manager,
	reader client.Reader,
	engines *enginepool.Registry,
	runs *workspace.RunQueue,
	addresses *addressing.Allocator,
	workloads clustercache.ClusterCache,
	o options,
) error {
	err := (&inventory.Reconciler{
		Client:           mgr.GetClient(),
		APIReader:        reader,
		Engines:          engines,
		Addresses:        addresses,
		Recorder:         mgr.GetEventRecorder("olvminventory-controller"),
		WatchFilterValue: o.watchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.clusterConcurrency})
	if err != nil {
		return err
	}

	err = (&inventoryvm.Reconciler{
		Client:           mgr.GetClient(),
		APIReader:        reader,
		Engines:          engines,
		Runs:             runs,
		Addresses:        addresses,
		Recorder:         mgr.GetEventRecorder("olvminventoryvm-controller"),
		WatchFilterValue: o.watchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.machineConcurrency})
	if err != nil {
		return err
	}

	return (&remediation.Reconciler{
		Client:           mgr.GetClient(),
		APIReader:        reader,
		Engines:          engines,
		Runs:             runs,
		Recorder:         mgr.GetEventRecorder("olvmremediation-controller"),
		Workloads:        workloads,
		WatchFilterValue: o.watchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.machineConcurrency})
}

// newExecutor returns the executor for all runs, and prepares it while the manager starts.
func newExecutor(
	mgr ctrl.Manager, executable terraform.Executable, provider terraform.Provider, o options,
) (*terraform.Executor, error) {
	executor := terraform.NewExecutor(executable, provider, filepath.Join(o.workDir, ".init"))
	if err := reportConfinement(mgr, executor.Confinement(), o.confinement); err != nil {
		return nil, err
	}

	log := ctrl.Log.WithName("setup")
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if err := executor.WarmUp(ctx, o.terraformRuns); err != nil { // a run reports it again, where users can see it
			log.Error(err, "Failed to prepare the executors")
		}

		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("failed to add the preparation of executors: %w", err)
	}

	return executor, nil
}

// addSmallControllers adds the controllers without Terraform runs.
func addSmallControllers(
	ctx context.Context, mgr ctrl.Manager, reader client.Reader, workloads clustercache.ClusterCache, o options,
) error {
	identities := o.identityNamespace()
	if err := access.AddAll(ctx, mgr, reader, identities, controller.Options{}); err != nil {
		return err
	}

	err := (&state.Reconciler{Client: mgr.GetClient(), APIReader: reader}).
		SetupWithManager(ctx, mgr, controller.Options{})
	if err != nil {
		return err
	}

	err = (&machinetemplate.Reconciler{
		Client:           mgr.GetClient(),
		Recorder:         mgr.GetEventRecorder("olvmmachinetemplate-controller"),
		WatchFilterValue: o.watchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{})
	if err != nil {
		return err
	}

	return (&node.Reconciler{
		Client:                     mgr.GetClient(),
		ClusterCache:               workloads,
		Recorder:                   mgr.GetEventRecorder("olvmnode-controller"),
		LabelNodes:                 o.labelNodes,
		FenceNodes:                 o.fenceNodes,
		ApproveServingCertificates: o.approveServing,
		WatchFilterValue:           o.watchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.clusterConcurrency})
}
