// Package reliability tests the promise: whatever is killed or cut, and whenever, each OLVMMachine ends with exactly the VM
// it asked for, or none once deleted. Real manager processes, with the shipped roles only, real Terraform or OpenTofu, a
// real API server behind a gate, and an engine simulator behind another.
package reliability

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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

var suite struct {
	api *testsite.APIServer
	// shipped is a user with the shipped roles only.
	shipped  *rest.Config
	executor terraform.Executable
	manager  string // the program
	dir      string
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx := context.Background()
	tools, err := toolchain.New()
	if err != nil {
		return 0, err
	}
	suite.dir = filepath.Join(toolchain.CacheDir(), "reliability", time.Now().Format("20060102-150405"))
	if err := tools.BuildProject(ctx, filepath.Join(suite.dir, "bin"), "manager"); err != nil {
		return 0, err
	}
	suite.manager = filepath.Join(suite.dir, "bin", "manager")
	if suite.executor, err = tools.FindExecutor(ctx); err != nil {
		return 0, err
	}
	suite.api, err = testsite.StartAPIServer(ctx, tools)
	defer suite.api.Stop()
	if err != nil {
		return 0, err
	}
	const user = "capolvm-manager"
	if err := localplane.BindRoles(ctx, suite.api.Client, filepath.Join(tools.Root(), "config", "rbac"), user); err != nil {
		return 0, err
	}
	added, err := suite.api.Env.AddUser(envtest.User{Name: user}, nil)
	if err != nil {
		return 0, err
	}
	suite.shipped = added.Config()
	code := m.Run()
	if code != 0 {
		fmt.Printf("reliability: the logs of all managers are in %s\n", suite.dir)
	} else {
		_ = os.RemoveAll(suite.dir)
	}
	return code, nil
}

// manager is a manager process, its API server behind a gate.
type manager struct {
	dir  string // of its log, kubeconfig and work
	args []string
	// executor is the one to use; empty means that of the suite.
	executor string
	// metrics is their URL.
	metrics string
	api     *gate
	process *localplane.Process
}

var managers atomic.Int32

// newManager starts nothing yet. args add to those that each manager has.
func newManager(t *testing.T, args ...string) *manager {
	t.Helper()
	m := &manager{dir: filepath.Join(suite.dir, fmt.Sprintf("manager-%d", managers.Add(1))), api: &gate{name: writeCall}}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(suite.shipped.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(suite.shipped)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(m.api.wrap(proxy))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	kubeconfig := filepath.Join(m.dir, "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
"clusters":[{"name":"a","cluster":{"server":%q}}],"users":[{"name":"a","user":{}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	m.args = append([]string{"--kubeconfig=" + kubeconfig, "--work-dir=" + m.workDir(), "--kube-api-qps=200", "--kube-api-burst=400"}, args...)
	t.Cleanup(func() {
		if m.process != nil {
			m.process.Kill()
		}
	})
	return m
}

func (m *manager) workDir() string { return filepath.Join(m.dir, "work") }

// start starts the process, and waits until it is ready.
func (m *manager) start(ctx context.Context) error {
	ports, err := localplane.FreePorts(2)
	if err != nil {
		return err
	}
	m.metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1])
	m.process, err = localplane.StartProcess("manager", m.dir, suite.manager, append(slices.Clone(m.args),
		fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[0]), fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", ports[1]), "--insecure-diagnostics",
	), []string{terraform.ExecutableEnv + "=" + cmp.Or(m.executor, suite.executor.Path)})
	if err != nil {
		return err
	}
	return m.process.WaitUntil(ctx, "ready", localplane.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0])))
}

// executors are the process IDs of the executors that the manager runs.
func (m *manager) executors() []int {
	var out []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid: comm may hold anything.
		_, rest, _ := strings.Cut(string(content[bytes.LastIndexByte(content, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(m.process.PID()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// killExecutors kills what the manager runs, and says whether there was something.
func (m *manager) killExecutors() bool {
	found := m.executors()
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(found) > 0
}

// provider plays the IPAM provider of a namespace: it fulfils claims out of 10.9.0.0/16 and takes addresses back.
func provider(t *testing.T, namespace string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	next := 1
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var claims ipamv1.IPAddressClaimList
			_ = suite.api.Client.List(ctx, &claims, client.InNamespace(namespace))
			held := map[string]bool{}
			for i := range claims.Items {
				claim := &claims.Items[i]
				held[claim.Name] = true
				if claim.Status.AddressRef.Name != "" || !claim.DeletionTimestamp.IsZero() {
					continue
				}
				next++
				address := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim.Name}, Spec: ipamv1.IPAddressSpec{
					ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef, Address: fmt.Sprintf("10.9.%d.%d", next/250, next%250+1),
					Prefix: ptr.To(int32(16)), Gateway: "10.9.255.1",
				}}
				if err := suite.api.Client.Create(ctx, address); err == nil {
					claim.Status.AddressRef.Name = claim.Name
					_ = suite.api.Client.Status().Update(ctx, claim)
				}
			}
			var addresses ipamv1.IPAddressList
			_ = suite.api.Client.List(ctx, &addresses, client.InNamespace(namespace))
			for i := range addresses.Items {
				if !held[addresses.Items[i].Name] {
					_ = suite.api.Client.Delete(ctx, &addresses.Items[i])
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}

// bench is one manager with one cluster, in which case after case is tried.
type bench struct {
	*manager
	site   *testsite.Site
	engine *gate
}

func newBench(t *testing.T, change func(*infrav1.OLVMCluster), args ...string) *bench {
	t.Helper()
	b := newColdBench(t, change, args...)
	if err := b.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// newColdBench is newBench with a manager that is not started.
func newColdBench(t *testing.T, change func(*infrav1.OLVMCluster), args ...string) *bench {
	t.Helper()
	b := &bench{engine: &gate{name: engineCall}}
	b.site = testsite.New(t, suite.api.Client, testsite.Options{Gate: b.engine.wrap, Change: func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		if change != nil {
			change(c)
		}
	}})
	provider(t, b.site.Namespace)
	b.manager = newManager(t, append(args, "--namespace="+b.site.Namespace)...)
	return b
}
