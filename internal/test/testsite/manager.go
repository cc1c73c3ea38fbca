package testsite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Program is our manager as users get it: the built program, and a user with exactly the shipped roles.
type Program struct {
	// Path is the path of the program.
	Path string
	// Executor is the executor of the program.
	Executor terraform.Executable
	// Dir is the folder for the logs and the work of managers.
	Dir string

	user     *envtest.AuthenticatedUser
	managers *atomic.Int32
}

// BuildManager builds the manager, finds an executor, and creates the manager's user.
func BuildManager(ctx context.Context, tools *toolchain.Toolchain, api *APIServer, dir string) (*Program, error) {
	p := &Program{Path: filepath.Join(dir, "bin", "manager"), Dir: dir, managers: &atomic.Int32{}}
	if err := tools.BuildProject(ctx, filepath.Join(dir, "bin"), "manager"); err != nil {
		return nil, err
	}

	var err error
	if p.Executor, err = tools.FindExecutor(ctx); err != nil {
		return nil, err
	}

	return p.ForServer(ctx, tools, api)
}

// ForServer returns the same program for another API server. It creates the roles and the user on that server.
func (p *Program) ForServer(ctx context.Context, tools *toolchain.Toolchain, api *APIServer) (*Program, error) {
	roles, err := manifest.ReadFiles(filepath.Join(tools.Root(), "config", "rbac"))
	if err != nil {
		return nil, err
	}

	return p.AsUser(ctx, api, "capolvm-manager", roles)
}

// AsUser returns the same program for another user of an API server. This user has the roles in the given manifests.
func (p *Program) AsUser(
	ctx context.Context, api *APIServer, user string, manifests []*unstructured.Unstructured,
) (*Program, error) {
	if err := localplane.BindRoles(ctx, api.Client, manifests, user); err != nil {
		return nil, err
	}

	out := *p
	var err error
	if out.user, err = api.Env.AddUser(envtest.User{Name: user}, nil); err != nil {
		return nil, fmt.Errorf("failed to make the manager's user: %w", err)
	}

	return &out, nil
}

// Manager is a process that runs the program.
type Manager struct {
	// Dir contains the manager's log, kubeconfig and work.
	Dir string
	// Args are the manager's arguments.
	Args []string
	// Wrapper is the command line of a program that starts instead of the manager. The manager's command line follows
	// it.
	Wrapper []string
	// Executor overrides the program's executor unless it is empty.
	Executor string
	// Metrics is the URL of the manager's metrics. Start sets it.
	Metrics string
	// Process is the manager's process. Start sets it.
	Process *localplane.Process

	program *Program
	// temp is the manager's folder for temporary files. Paths of sockets must be short, but Dir may be long.
	temp string
}

// NewManager returns a manager that is not started yet. The end of the test kills it. If gate is not nil, it stands in
// front of the API server.
func (p *Program) NewManager(t *testing.T, gate func(http.Handler) http.Handler, args ...string) *Manager {
	t.Helper()
	m := &Manager{program: p, Dir: filepath.Join(p.Dir, fmt.Sprintf("manager-%d", p.managers.Add(1)))}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		t.Fatal(err)
	}

	temp, err := os.MkdirTemp("", "capolvm-test-")
	if err != nil {
		t.Fatal(err)
	}

	m.temp = temp

	kubeconfig, err := p.user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}

	if gate != nil {
		kubeconfig = NewKubeconfig(t, p.user.Config(), gate)
	}

	path := filepath.Join(m.Dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}

	m.Args = append([]string{"--kubeconfig=" + path, "--work-dir=" + m.WorkDir()}, args...)
	t.Cleanup(func() {
		if m.Process != nil {
			m.Process.Kill()
		}

		_ = os.RemoveAll(m.temp) // a killed process leaves the sockets of its Terraform provider
	})

	return m
}

// NewKubeconfig puts a gate in front of an API server, and returns a kubeconfig for it.
func NewKubeconfig(t *testing.T, config *rest.Config, gate func(http.Handler) http.Handler) []byte {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}

	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(gate(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // forwards the events of watches at once
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	return fmt.Appendf(
		nil,
		`{"apiVersion":"v1","kind":"Config","current-context":"a",
"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
"clusters":[{"name":"a","cluster":{"server":%q}}],"users":[{"name":"a","user":{}}]}`,
		server.URL,
	)
}

// WorkDir returns the work directory of the manager.
func (m *Manager) WorkDir() string { return filepath.Join(m.Dir, "work") }

// Start starts the process, and waits until it is ready. It tries again with another port if another process takes the
// port first.
func (m *Manager) Start(ctx context.Context) error {
	for try := 1; ; try++ {
		err := m.tryStart(ctx)
		if err == nil || try == 3 || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
}

func (m *Manager) tryStart(ctx context.Context) error {
	ports, err := localplane.FreePorts(2)
	if err != nil {
		return err
	}

	m.Metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1])
	line := append(append(slices.Clone(m.Wrapper), m.program.Path), m.Args...)
	line = append(line, fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[0]),
		fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", ports[1]), "--insecure-diagnostics")
	m.Process, err = localplane.StartProcess(
		"manager", m.Dir, line[0],
		line[1:],
		[]string{terraform.ExecutableEnv + "=" + cmp.Or(m.Executor, m.program.Executor.Path), "TMPDIR=" + m.temp},
	)
	if err != nil {
		return err
	}

	err = m.Process.WaitUntil(
		ctx,
		"ready",
		localplane.NewHTTPCheck(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0])),
	)
	if err != nil {
		return err
	}

	return m.Process.WaitUntil(ctx, "serving metrics", localplane.NewHTTPCheck(m.Metrics))
}

// ListExecutors returns the process IDs of the manager's running executors.
func (m *Manager) ListExecutors() []int {
	return slices.DeleteFunc(m.Process.ListChildren(), isProvider)
}

// ListProviders returns the process IDs of the manager's Terraform providers. These processes continue after a run.
func (m *Manager) ListProviders() []int {
	return slices.DeleteFunc(m.Process.ListChildren(), func(pid int) bool { return !isProvider(pid) })
}

// isProvider reports whether a child of a manager serves the provider.
func isProvider(pid int) bool {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))

	return err == nil && bytes.Contains(command, []byte("serve-terraform-provider"))
}

// KillExecutors kills the manager's running executors.
func (m *Manager) KillExecutors() { killAll(m.ListExecutors()) }

// KillProviders kills the manager's Terraform providers.
func (m *Manager) KillProviders() { killAll(m.ListProviders()) }

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// ScrapeMetrics returns the metrics of the manager by name.
func (m *Manager) ScrapeMetrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.Metrics, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	return families
}

// SeriesValues returns the values of a counter or a gauge by their labels, such as
// {controller="olvmmachine",result="success"}.
func SeriesValues(family *dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}

	for _, m := range family.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}

		out["{"+strings.Join(labels, ",")+"}"] = m.GetCounter().
			GetValue() +
			m.GetGauge().
				GetValue() +
			m.GetUntyped().
				GetValue()
	}

	return out
}

// SumSeries returns the sum of all series with the given labels. Each label has the form name="value".
func SumSeries(family *dto.MetricFamily, labels ...string) float64 {
	total := 0.0

	for series, value := range SeriesValues(family) {
		if !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			total += value
		}
	}

	return total
}
