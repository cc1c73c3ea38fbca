package localplane

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/heartbeat"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// Programs are the names of the plane's own programs among the tools.
var Programs = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "capi-core", "capi-bootstrap-kubeadm",
	"capi-controlplane-kubeadm",
}

const (
	// startLimit is the time a process gets to start serving, even on a very busy machine. If the process ends, nothing
	// waits for it any longer.
	startLimit = 5 * time.Minute
	// stopGrace is the time a process gets to end. This provider's manager saves states during this time.
	stopGrace = 60 * time.Second
	// brokenGrace is the time a process gets to end after the end of etcd or kube-apiserver.
	brokenGrace = 3 * time.Second
)

// Options configure a plane.
type Options struct {
	// Tools are the tools, already built.
	Tools *toolchain.Toolchain
	// Dir is the folder for logs, kubeconfigs and data.
	Dir string
	// BinDir is the folder with this provider's manager.
	BinDir string
	// Manager is the command of this provider's manager. It replaces the manager in BinDir.
	Manager []string
	// ManagerArgs are additional arguments for this provider's manager, such as --drift-interval=20s.
	ManagerArgs []string
	// DataDir keeps the plane's data after a restart. If empty, the data is discarded.
	DataDir string
	// OnlyAPI runs only etcd and kube-apiserver.
	OnlyAPI bool
	// NoProvider leaves out Cluster API Provider OLVM. InstallProvider can add this provider later, and RunProvider its
	// manager.
	NoProvider bool
	// FeatureGates are feature gates of Cluster API to enable in addition to ClusterTopology.
	FeatureGates []string
	// Progress receives lines for users, one at a time. If nil, the lines are discarded.
	Progress func(format string, args ...any)
}

// workDirIn returns the working directory of this provider's manager in the folder of a plane.
func workDirIn(dir string) string { return filepath.Join(dir, "terraform") }

// managerUser is a user with the rights of this provider's manager.
const managerUser = "capolvm-manager"

// Plane is a running management plane.
type Plane struct {
	options Options
	control *envtest.ControlPlane
	undo    []func()
	// The plane renews certificates while it runs.
	certificates certificates
	// processes are the processes started so far. If a process is stopped on purpose, this is not a failure.
	mu        sync.Mutex
	processes []*Process
	tools     string
	// saying is held while a line is printed.
	saying sync.Mutex

	// Config and Client have all rights.
	Config *rest.Config
	Client client.Client
	// Kubeconfig is a file with all rights. ManagerKubeconfig has only the rights of this provider's manager.
	Kubeconfig, ManagerKubeconfig string
	// WorkDir is the working directory of this provider's manager.
	WorkDir string
	// Manager is the process of this provider's manager.
	Manager  *Process
	executor terraform.Executable
}

// Scheme returns a scheme with all types that the plane serves.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), bootstrapv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme), ipamv1.AddToScheme(scheme), api.AddToScheme(scheme),
	)

	return scheme, err
}

// step is one step in the start of a plane.
type step struct {
	phrase string
	run    func(context.Context) error
}

// Start starts a plane step by step. If a step fails, it stops everything already started.
func Start(ctx context.Context, options Options) (_ *Plane, err error) {
	if err := CheckPlatform(goruntime.GOOS); err != nil {
		return nil, err
	}

	p := &Plane{options: options, WorkDir: workDirIn(options.Dir)}
	if p.tools, err = options.Tools.Dir("plane"); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to create %s: %w", options.Dir, err)
	}

	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	steps := []step{
		{"start etcd and kube-apiserver", p.startControlPlane},
		{"start kube-controller-manager", p.startControllerManager},
		{"install Cluster API and start its managers", p.startClusterAPI},
	}

	if options.OnlyAPI {
		steps = steps[:1]
	}

	for _, step := range steps {
		if err := p.RunStep(ctx, step.phrase, step.run); err != nil {
			return nil, err
		}
	}

	if options.OnlyAPI || options.NoProvider {
		return p, nil
	}

	return p, p.InstallProvider(ctx)
}

// RunStep runs one step in the start of the plane, and reports its duration. phrase is an imperative such as "start
// etcd".
func (p *Plane) RunStep(ctx context.Context, phrase string, run func(context.Context) error) error {
	begin := time.Now()
	stop := heartbeat.Start(
		func(since time.Duration) { p.ReportProgress("  %s: %.0f s elapsed", phrase, since.Seconds()) },
	)
	err := run(ctx)

	stop()

	if err != nil {
		// The end of another process may be the cause of the error.
		return fmt.Errorf("failed to %s: %w", phrase, cmp.Or(p.Failed(), err))
	}

	p.ReportProgress("%s: %.1f s", phrase, time.Since(begin).Seconds())

	return nil
}

// ReportProgress reports a line to whoever started the plane.
func (p *Plane) ReportProgress(format string, args ...any) {
	p.saying.Lock()
	defer p.saying.Unlock()

	if p.options.Progress != nil {
		p.options.Progress(format, args...)
	}
}

// Stop undoes all steps in reverse order.
func (p *Plane) Stop() {
	stop := heartbeat.Start(func(since time.Duration) {
		p.ReportProgress("  stopping all processes: %.0f s elapsed", since.Seconds())
	})
	defer stop()

	for i := len(p.undo) - 1; i >= 0; i-- {
		p.undo[i]()
	}

	p.undo = nil
}

// RunProcess starts a process of the plane. Stop stops this process. If the process ends before, Failed reports it.
func (p *Plane) RunProcess(name, program string, args []string, env ...string) (*Process, error) {
	process, err := StartProcess(name, p.options.Dir, program, args, env)
	if err != nil {
		return nil, err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.processes = append(p.processes, process)
	p.undo = append(p.undo, func() { process.Stop(p.gracePeriod()) })

	return process, nil
}

// gracePeriod returns the time that a process now gets to end. Without an API server, a process can no longer save
// anything.
func (p *Plane) gracePeriod() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, process := range p.processes {
		if process.command != nil { // not a process of envtest
			continue
		}

		select {
		case <-process.Done():
			return brokenGrace
		default:
		}
	}

	return stopGrace
}

// runOther is like RunProcess, for a third-party program. It passes on GOGC of this process, as envtest does for etcd
// and kube-apiserver. This provider's manager controls its own memory if GOGC is unset.
func (p *Plane) runOther(name, program string, args []string, env ...string) (*Process, error) {
	if percent, set := os.LookupEnv("GOGC"); set {
		env = append(env, "GOGC="+percent)
	}

	return p.RunProcess(name, program, args, env...)
}

func (p *Plane) startControllerManager(ctx context.Context) error {
	ports, err := FreePorts(1)
	if err != nil {
		return err
	}

	process, err := p.runOther("kube-controller-manager", filepath.Join(p.tools, "kube-controller-manager"), []string{
		"--kubeconfig=" + p.Kubeconfig,
		"--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d",
			ports[0]),
		"--cert-dir=" + filepath.Join(p.options.Dir, "kcm-certs"),
		"--kube-api-qps=100",
		"--kube-api-burst=200",
	})
	if err != nil {
		return err
	}

	return process.WaitUntil(ctx, "listening", func() bool {
		connection, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]), time.Second)
		if err != nil {
			return false
		}

		_ = connection.Close()

		return true
	})
}

// startClusterAPI installs the CRDs and webhooks of all three managers, and then starts the managers.
func (p *Plane) startClusterAPI(ctx context.Context) error {
	names := []string{"capi-core", "capi-bootstrap-kubeadm", "capi-controlplane-kubeadm"}
	ports, err := FreePorts(3 * len(names))
	if err != nil {
		return err
	}

	certDir := filepath.Join(p.options.Dir, "webhook-certs")
	ca, err := p.writeWebhookCertificate(certDir)
	if err != nil {
		return err
	}

	crds, err := manifest.Read(clusterctlconfig.ClusterctlAPIManifest)
	if err != nil {
		return fmt.Errorf("failed to read the kind of clusterctl's inventory: %w", err)
	}

	var hooks []*unstructured.Unstructured

	for i, name := range names {
		definitions, err := manifest.ReadFiles(filepath.Join(p.tools, "manifests", name, "crd"))
		if err != nil {
			return err
		}

		configurations, err := manifest.ReadFiles(filepath.Join(p.tools, "manifests", name, "webhook"))
		if err != nil {
			return err
		}

		configurations = onlyKinds(configurations, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
		labelOwnContract(definitions)
		redirectWebhooks(definitions, name, ports[3*i], ca)
		redirectWebhooks(configurations, name, ports[3*i], ca)
		crds, hooks = append(crds, definitions...), append(hooks, configurations...)
	}

	if err := p.installCRDs(ctx, crds); err != nil {
		return err
	}

	for i, name := range names {
		if err := p.startManager(ctx, name, certDir, ports[3*i:3*i+3]); err != nil {
			return err
		}
	}

	if err := Apply(ctx, p.Client, hooks...); err != nil {
		return err
	}

	return p.addToInventory(ctx, p.clusterAPI()...)
}

// startManager starts a manager of Cluster API, and waits until it is ready. ports are the ports for webhooks, probes
// and diagnostics.
func (p *Plane) startManager(ctx context.Context, name, certDir string, ports []int) error {
	process, err := p.runOther(name, filepath.Join(p.tools, name), []string{
		"--kubeconfig=" + p.Kubeconfig,
		"--webhook-cert-dir=" + certDir,
		fmt.Sprintf("--webhook-port=%d", ports[0]),
		fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[1]),
		fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", ports[2]),
		"--insecure-diagnostics",
		"--leader-elect=false",
		"--v=2",
		"--feature-gates=" + featureGates(p.options.FeatureGates),
	})
	if err != nil {
		return err
	}

	return process.WaitUntil(ctx, "ready", NewHTTPCheck(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])))
}

// featureGates returns a list of the feature gates needed by this project, and of those in more.
func featureGates(more []string) string {
	gates := "ClusterTopology=true"
	for _, gate := range more {
		gates += "," + gate + "=true"
	}

	return gates
}

func onlyKinds(objects []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured

	for _, object := range objects {
		for _, kind := range kinds {
			if object.GetKind() == kind {
				out = append(out, object)
			}
		}
	}

	return out
}

// writeWebhookCertificate writes the certificate for webhooks, and returns its CA.
func (p *Plane) writeWebhookCertificate(dir string) ([]byte, error) {
	by, err := newAuthority("webhook-ca")
	if err != nil {
		return nil, err
	}

	return by.PEM(), p.certificates.issueCertificate(by, certs.Config{
		CommonName: "webhooks", AltNames: loopbackNames(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
}

// installCRDs applies CRDs with the label for clusterctl's move. It waits until the CRDs are served, because managers
// end if a kind is missing.
func (p *Plane) installCRDs(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		setLabel(crd, "clusterctl.cluster.x-k8s.io", "")
	}

	if err := Apply(ctx, p.Client, crds...); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()

	for _, crd := range crds {
		for {
			current := crd.DeepCopy()
			if err := p.Client.Get(
				ctx, client.ObjectKeyFromObject(crd), current,
			); err == nil &&
				isEstablished(current) {
				break
			}

			select {
			case <-ctx.Done():
				return fmt.Errorf("CRD %s is not established: %w", crd.GetName(), ctx.Err())
			case <-time.After(50 * time.Millisecond):
			}
		}
	}

	return nil
}

func isEstablished(crd *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, entry := range list {
		if c, ok := entry.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}

	return false
}

// InstallProvider installs the CRDs, policies and roles of this provider. It starts the manager with only the rights of
// these roles.
func (p *Plane) InstallProvider(ctx context.Context) error {
	return p.RunStep(ctx, "install Cluster API Provider OLVM and start its manager", p.installProvider)
}

func (p *Plane) installProvider(ctx context.Context) error {
	config := filepath.Join(p.options.Tools.Root(), "config")
	crds, err := manifest.ReadFiles(filepath.Join(config, "crd", "bases"))
	if err != nil {
		return err
	}

	if err := p.installCRDs(ctx, crds); err != nil {
		return err
	}

	policies, err := manifest.ReadFiles(filepath.Join(config, "policy"))
	if err != nil {
		return err
	}

	if err := Apply(ctx, p.Client, policies...); err != nil {
		return err
	}

	own := provider{"olvm", string(clusterctlv1.InfrastructureProviderType), ManagerNamespace, version.Version}
	if err := p.addToInventory(ctx, own); err != nil {
		return err
	}

	return p.RunProvider(ctx)
}

// RunProvider binds the roles of this provider to its manager's user, and starts the manager. The CRDs and policies
// must already exist.
func (p *Plane) RunProvider(ctx context.Context) error {
	roles, err := manifest.ReadFiles(filepath.Join(p.options.Tools.Root(), "config", "rbac"))
	if err != nil {
		return err
	}

	if err := BindRoles(ctx, p.Client, roles, managerUser); err != nil {
		return err
	}

	if p.executor, err = p.options.Tools.FindExecutor(ctx); err != nil {
		return err
	}

	return p.StartManager(ctx)
}

// ManagerNamespace is the namespace of the Lease of this provider's manager.
const ManagerNamespace = "capolvm-system"

// BindRoles applies the roles in the manifests, and binds them to a user instead of the manager's service account.
func BindRoles(ctx context.Context, c client.Client, manifests []*unstructured.Unstructured, user string) error {
	ns := &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "v1",
			"kind":       "Namespace",
			"metadata":   map[string]any{"name": ManagerNamespace},
		},
	}
	if err := Apply(ctx, c, ns); err != nil {
		return err
	}

	for _, object := range onlyKinds(manifests, "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding") {
		if object.GetKind() == "ClusterRoleBinding" || object.GetKind() == "RoleBinding" {
			subject := map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
			if err := unstructured.SetNestedSlice(object.Object, []any{subject}, "subjects"); err != nil {
				return fmt.Errorf("failed to rewrite a binding: %w", err)
			}
		}

		if err := Apply(ctx, c, object); err != nil {
			return err
		}
	}

	return nil
}

// managerName is the name of the process of this provider's manager.
const managerName = "capolvm-manager"

// ManagerLog returns the path of the manager's log in the folder of a plane.
func ManagerLog(dir string) string { return filepath.Join(dir, managerName+".log") }

// StartManager starts this provider's manager, also after StopManager.
func (p *Plane) StartManager(ctx context.Context) error {
	ports, err := FreePorts(3)
	if err != nil {
		return err
	}

	userData := fmt.Sprintf("127.0.0.1:%d", ports[2])
	command := p.options.Manager
	if len(command) == 0 {
		command = []string{filepath.Join(p.options.BinDir, "manager")}
	}

	p.Manager, err = p.RunProcess(managerName, command[0], append(
		slices.Concat(command[1:], p.options.ManagerArgs),
		"--kubeconfig="+p.ManagerKubeconfig,
		"--leader-elect",
		"--leader-elect-namespace="+ManagerNamespace,
		"--work-dir="+p.WorkDir,
		fmt.Sprintf(
			"--health-addr=127.0.0.1:%d",
			ports[0],
		),
		fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", ports[1]),
		"--insecure-diagnostics",
		"--v=2",
		"--bootstrap-url=https://"+userData,
		"--bootstrap-listen="+userData,
	), terraform.ExecutableEnv+"="+p.executor.Path)
	if err != nil {
		return err
	}

	return p.Manager.WaitUntil(ctx, "ready", NewHTTPCheck(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0])))
}

// Failed returns an error with the name of the first process that has ended without being stopped. Other processes may
// have ended because of it. It returns nil while all processes are running.
func (p *Plane) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()

	var first *Process

	for _, process := range p.processes {
		select {
		case <-process.Done():
			if !process.stopped.Load() && (first == nil || process.endedAt.Before(first.endedAt)) {
				first = process
			}
		default:
		}
	}

	if first == nil {
		return nil
	}

	return first.endError()
}
