package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// This file kills commands in separate processes, before and after each of their writes to a Kubernetes API. It then
// runs the same command again, or delete. The API servers are real, and the simulator is the engine. A stand-in
// replaces Cluster API's controllers, so a cluster takes only a second. The end-to-end tests kill commands with the
// real controllers.

// pairsOfClusters is how many cases have management clusters at a time. The fast tier makes one pair.
const pairsOfClusters = 3

// clusterPair is two API servers with all kinds and without controllers.
type clusterPair [2]*testsite.APIServer

// clusterPairs are the pairs that run, and those of them that no case uses.
var clusterPairs struct {
	mu        sync.Mutex
	all, free []*clusterPair
}

// usedPairs limits how many pairs are in use.
var usedPairs = make(chan struct{}, pairsOfClusters)

func stopManagementClusters() {
	for _, pair := range clusterPairs.all {
		for _, server := range pair {
			server.Stop()
		}
	}
}

// takeManagementClusters returns a pair for this case alone. A case leaves nothing in it.
func takeManagementClusters(t *testing.T) *clusterPair {
	t.Helper()
	usedPairs <- struct{}{}

	clusterPairs.mu.Lock()
	defer clusterPairs.mu.Unlock()

	if len(clusterPairs.free) == 0 {
		pair := &clusterPair{}
		clusterPairs.all = append(clusterPairs.all, pair)
		check.Error(t, pair.start(testenv.Toolchain(t)), "")
		clusterPairs.free = append(clusterPairs.free, pair)
	}

	pair := clusterPairs.free[0]
	clusterPairs.free = clusterPairs.free[1:]
	t.Cleanup(func() {
		clusterPairs.mu.Lock()
		defer clusterPairs.mu.Unlock()
		clusterPairs.free = append(clusterPairs.free, pair)
		<-usedPairs
	})

	return pair
}

func (p *clusterPair) start(tools toolchainOf) error {
	ctrllog.SetLogger(logr.Discard())

	objects, err := manifest.Read(clusterctlconfig.ClusterctlAPIManifest)
	if err != nil {
		return err
	}

	dir, err := tools.Dir("plane")
	if err != nil {
		return err
	}

	for _, name := range []string{"capi-bootstrap-kubeadm", "capi-controlplane-kubeadm"} {
		crds, err := manifest.ReadFiles(filepath.Join(dir, "manifests", name, "crd"))
		if err != nil {
			return err
		}

		objects = append(objects, crds...)
	}

	for i := range p {
		if p[i], err = newManagementCluster(tools, objects); err != nil {
			return err
		}
	}

	return nil
}

// stand has two management clusters, and a stand-in for the controllers of both. The second one is also the workload
// cluster.
type stand struct {
	*site
	servers         *clusterPair
	gate            *writeGate
	dir, file       string
	environment     []string
	name, namespace string
	// kubeconfigs are those of both management clusters. out is the kubeconfig written by start.
	kubeconfigs [2]string
	out         string
}

// writeGate sends a signal to a process at one of its write requests.
type writeGate struct {
	mu     sync.Mutex
	writes int
	// group has the writes that count. The zero group has all writes.
	group writeGroup
	// at is the number of this write, or 0 for none. If after is set, the write first reaches the API server.
	at     int
	after  bool
	signal syscall.Signal
	// again repeats the signal until the process has ended, like an impatient user.
	again   bool
	process *os.Process
	gone    chan struct{}
	what    string
	// output is the file with the output of the process.
	output string
	// seen has the group of each write.
	seen []writeGroup
}

// begin starts to watch a process.
func (g *writeGate) begin(process *os.Process, gone chan struct{}) {
	g.process, g.gone = process, gone
	g.mu.Unlock()
}

// wrap puts the gate in front of a server.
func (g *writeGate) wrap(next http.Handler) http.Handler { return g.wrapServer("", next) }

// wrapServer puts the gate in front of one of several servers.
func (g *writeGate) wrapServer(server string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		renewal := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/") // its timing varies
		if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method) ||
			strings.Contains(r.URL.Path, "selfsubject") || renewal {
			next.ServeHTTP(w, r)
			return
		}

		g.mu.Lock()
		group := writeGroup{readStep(g.output), r.Method, kindOfPath(r.URL.Path), server}
		g.seen = append(g.seen, group)

		if g.group == (writeGroup{}) || g.group == group {
			g.writes++
		}

		now := g.at != 0 && g.writes == g.at && g.what == ""
		if now {
			g.what = r.Method + " " + r.URL.Path
		}

		process, gone := g.process, g.gone
		g.mu.Unlock()

		if !now {
			next.ServeHTTP(w, r)
			return
		}

		if g.after {
			next.ServeHTTP(&lost{}, r)
		}

		_ = process.Signal(g.signal)
		if g.again {
			repeatSignal(process, g.signal, gone)
		}

		if g.signal == syscall.SIGKILL {
			<-gone
		} else if !g.again { // until the command knows of the signal: it gives its request up
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		}

		if g.signal == syscall.SIGKILL || g.after || g.again {
			panic(http.ErrAbortHandler)
		}

		next.ServeHTTP(w, r)
	})
}

// repeatSignal repeats a signal until the process has ended.
func repeatSignal(process *os.Process, signal syscall.Signal, gone <-chan struct{}) {
	for {
		select {
		case <-gone:
			return
		case <-time.After(5 * time.Millisecond):
			_ = process.Signal(signal)
		}
	}
}

// lost is a response that never reaches the client.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header {
	if l.header == nil {
		l.header = http.Header{}
	}

	return l.header
}
func (*lost) Write(content []byte) (int, error) { return len(content), nil }
func (*lost) WriteHeader(int)                   {}

// standNumber makes names and addresses unique.
var standNumber atomic.Int32

func newStand(t *testing.T) *stand {
	t.Helper()
	endpoint, number := listenAtEndpoint(t)
	s := &stand{
		site:    newSiteAlone(t, ovirtsim.Options{Timings: ovirtsim.DefaultTimings().Faster(20)}),
		servers: takeManagementClusters(t), gate: &writeGate{}, dir: t.TempDir(), name: "prod",
		namespace: fmt.Sprintf("interrupted-%d", number),
	}
	s.environment = append(s.site.environment(), "XDG_CACHE_HOME="+filepath.Join(s.dir, "cache"))
	s.out = filepath.Join(s.dir, ".kube", "kubeconfig."+s.name)
	subnet := subnetOf(number)

	for i := range s.servers {
		s.kubeconfigs[i] = filepath.Join(s.dir, fmt.Sprintf("management-%d", i))
		content := testsite.NewKubeconfig(t, s.servers[i].Config, func(next http.Handler) http.Handler {
			return s.gate.wrapServer(nameOfEnd(i), next)
		})
		check.Error(t, os.WriteFile(s.kubeconfigs[i], content, 0o600), "")
	}

	s.file = filepath.Join(s.dir, "cluster.yaml")
	machine := func(first int) string {
		return fmt.Sprintf(`
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.36
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        memory: 4GB
        network:
          ipv4: {subnet: %[1]s.0/24, ipAddresses: %[1]s.%[2]d-%[1]s.%[3]d}`, subnet, first, first+9)
	}
	check.Error(t, os.WriteFile(s.file, fmt.Appendf(nil, `name: %s
provider: olvm
virtualIp: %s.5
kubernetesVersion: 1.36.1
providers:
  olvm:
    namespace: %s
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: %s, serverCAPath: %s}
    controlPlaneMachine:%s
    workerMachine:%s
`, s.name, subnet, s.namespace, s.sim.URL(), s.caFile, machine(10), machine(20)), 0o600), "")

	controllers := &standIn{stand: s, kubeconfig: s.serve(endpoint)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { controllers.run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		s.clear()
	})

	return s
}

// subnetOf returns the first three numbers of the addresses of a stand.
func subnetOf(number int32) string { return fmt.Sprintf("127.77.%d", number%250) }

// listenAtEndpoint returns a listener at the endpoint of the cluster of a new stand. It skips the endpoints that
// another run of the tests uses.
func listenAtEndpoint(t *testing.T) (listener net.Listener, number int32) {
	t.Helper()

	for range 250 {
		number = standNumber.Add(1)

		var err error

		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", subnetOf(number)+".5:6443")
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}

		check.Error(t, err, "")

		return listener, number
	}

	t.Fatal("other processes use all endpoints")

	return nil, 0
}

// serve makes the API server of the workload cluster available at the endpoint of the cluster. It returns the
// kubeconfig that Cluster API would create.
func (s *stand) serve(endpoint net.Listener) []byte {
	s.t.Helper()
	address := endpoint.Addr().String()
	config := s.servers[1].Config
	target, err := url.Parse(config.Host)
	check.Error(s.t, err, "")
	transport, err := rest.TransportFor(config)
	check.Error(s.t, err, "")

	server := httptest.NewUnstartedServer(s.gate.wrapServer(nameOfEnd(1), &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}))
	host, _, err := net.SplitHostPort(address)
	check.Error(s.t, err, "")
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	check.Error(s.t, err, "")
	pair, err := tls.X509KeyPair(certificate, key)
	check.Error(s.t, err, "")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	_ = server.Listener.Close()
	server.Listener = endpoint
	server.StartTLS()
	s.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"%[1]s-admin@%[1]s",
"contexts":[{"name":"%[1]s-admin@%[1]s","context":{"cluster":%[1]q,"user":"%[1]s-admin"}}],
"clusters":[{"name":%[1]q,"cluster":{"server":%[2]q,"certificate-authority-data":%[3]q}}],
"users":[{"name":"%[1]s-admin","user":{"token":"t"}}]}`, s.name, "https://"+address, base64.StdEncoding.EncodeToString(certificate))
}

// olvmctl runs a command as a separate process until the command ends or the gate ends it.
func (s *stand) olvmctl(g *writeGate, args ...string) (code int, said string) {
	s.t.Helper()
	executable, err := os.Executable()
	check.Error(s.t, err, "")

	out, err := os.CreateTemp(s.dir, "output") // a file has the current step at once
	check.Error(s.t, err, "")
	defer out.Close()

	process := exec.CommandContext(context.WithoutCancel(s.t.Context()), executable, args...)
	process.Stdout, process.Stderr = out, out
	process.Env = slices.Concat(os.Environ(), []string{asOlvmctl + "=1", "HOME=" + s.dir, "KUBECONFIG=",
		"OCNE_DEFAULTS=", "XDG_CONFIG_HOME=" + s.dir, "XDG_STATE_HOME=" + filepath.Join(s.dir, "state"),
		"TMPDIR=" + s.tmp()}, s.environment)

	gone := make(chan struct{})
	s.gate.mu.Lock()
	s.gate.writes, s.gate.at, s.gate.after, s.gate.signal, s.gate.what = 0, g.at, g.after, g.signal, ""
	s.gate.again, s.gate.group, s.gate.output, s.gate.seen = g.again, g.group, out.Name(), nil
	check.Error(s.t, process.Start(), "")
	s.gate.begin(process.Process, gone)
	_ = process.Wait()
	close(gone)

	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	g.writes, g.what, g.seen = s.gate.writes, s.gate.what, s.gate.seen
	content, err := os.ReadFile(out.Name())
	check.Error(s.t, err, "")

	return process.ProcessState.ExitCode(), string(content)
}

// does runs a command, and expects success.
func (s *stand) does(args ...string) string {
	s.t.Helper()
	code, said := s.olvmctl(&writeGate{}, args...)
	if code != 0 {
		s.t.Fatalf("olvmctl %s: exit code %d\n%s", strings.Join(args, " "), code, said)
	}

	return said
}

func (s *stand) tmp() string {
	path := filepath.Join(s.dir, "tmp")
	_ = os.Mkdir(path, 0o700)

	return path
}

// The following methods return the arguments of commands.
func (s *stand) start(more ...string) []string {
	return append([]string{"start", "-f", s.file, "--kubeconfig", s.kubeconfigs[0], "--cni", "none", "--timeout", "60s"},
		more...)
}

func (s *stand) delete(kubeconfig string, more ...string) []string {
	return append([]string{"delete", s.name, "-n", s.namespace, "--kubeconfig", kubeconfig, "--yes", "--timeout", "60s"},
		more...)
}

func (s *stand) move() []string {
	return []string{"move", "-n", s.namespace, "--kubeconfig", s.kubeconfigs[0], "--to-kubeconfig", s.kubeconfigs[1],
		"--timeout", "60s"}
}

func (s *stand) upgrade() []string {
	return []string{"upgrade", s.name, "-n", s.namespace, "--kubeconfig", s.kubeconfigs[0], "--kubernetes-version",
		"v1.36.2", "--yes", "--timeout", "60s"}
}

// managers returns the ends with a Cluster that is not paused. clusters are all ends with a Cluster.
func (s *stand) managers() (managers, clusters []int) {
	s.t.Helper()

	for end := range s.servers {
		var list clusterv1.ClusterList
		check.Error(s.t, s.servers[end].Client.List(s.t.Context(), &list, client.InNamespace(s.namespace)), "")

		for i := range list.Items {
			clusters = append(clusters, end)
			if !ptr.Deref(list.Items[i].Spec.Paused, false) {
				managers = append(managers, end)
			}
		}
	}

	return managers, clusters
}

// left returns what commands have left: temporary files, locks, partial files, and objects of the cluster at an end
// without the Cluster.
func (s *stand) left(end int) []string {
	s.t.Helper()

	var out []string

	for _, pattern := range []string{"tmp/*", "tmp/.*", ".kube/.*", ".kube/*.lock", "state/capolvm/*/*"} {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		check.Error(s.t, err, "")
		out = append(out, found...)
	}

	for other := range s.servers {
		if other == end {
			continue
		}

		for _, object := range s.objects(s.t.Context(), other) {
			out = append(out, fmt.Sprintf("end %d: %s %s", other, object.GetKind(), object.GetName()))
		}
	}

	return out
}

// clear removes everything left by a test, because delete refuses a cluster that manages others.
func (s *stand) clear() {
	for end := range s.servers {
		c, ctx := s.servers[end].Client, context.WithoutCancel(s.t.Context())
		for _, object := range s.objects(ctx, end) {
			object.SetFinalizers(nil)
			_ = c.Update(ctx, &object)
			_ = c.Delete(ctx, &object)
		}
	}
}

// objects returns the objects of the namespace that olvmctl and Cluster API have created.
func (s *stand) objects(ctx context.Context, end int) []unstructured.Unstructured {
	s.t.Helper()

	var out []unstructured.Unstructured

	for _, kind := range append(slices.Clone(kindsOfClusters),
		clusterv1.GroupVersion.WithKind("Cluster"), corev1.SchemeGroupVersion.WithKind("Secret")) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		check.Error(s.t, s.servers[end].Client.List(ctx, list, client.InNamespace(s.namespace)), "")
		out = append(out, list.Items...)
	}

	return out
}

// expectOne expects one cluster with one manager at the given end, and no leftovers.
func (s *stand) expectOne(end int) {
	s.t.Helper()
	managers, clusters := s.managers()
	check.Equal(s.t, "management clusters that go on", managers, []int{end})
	check.Equal(s.t, "management clusters with the Cluster", clusters, []int{end})
	check.Equal(s.t, "what is left over", s.left(end), nil)

	for i := range s.servers {
		lock := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "olvmctl-move-" + s.namespace}
		err := s.servers[i].Client.Get(s.t.Context(), lock, &coordinationv1.Lease{})
		check.Equal(s.t, "the lock of a move is gone", apierrors.IsNotFound(err), true)
	}

	config, err := clientcmd.LoadFromFile(s.out)
	check.Error(s.t, err, "")
	check.Equal(s.t, "contexts of the kubeconfig", len(config.Contexts), 1)
}

// expectNone expects no cluster and no leftovers.
func (s *stand) expectNone() {
	s.t.Helper()
	_, clusters := s.managers()
	check.Equal(s.t, "management clusters with the Cluster", clusters, nil)
	check.Equal(s.t, "what is left over", s.left(-1), nil)

	if _, err := os.Stat(s.out); !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("the kubeconfig is left: %v", err)
	}
}

// interruption is one command in the table of interrupted commands.
type interruption struct {
	// prepare creates the initial state.
	prepare func(s *stand)
	command func(s *stand) []string
	// end is the end with the cluster after the command: 0 or 1, or -1 for none.
	end int
	// sample lists the writes for the fast tests.
	sample []int
	// beginsLike is another command with the same first steps. They are interrupted in that command alone.
	beginsLike string
}

var interruptions = map[string]interruption{
	"start": {
		prepare: func(*stand) {},
		command: func(s *stand) []string { return s.start() },
		sample:  []int{5},
	},
	"start --self-managed": {
		prepare: func(*stand) {},
		command: func(s *stand) []string { return s.start("--self-managed") },
		end:     1,
		sample:  []int{20},

		beginsLike: "start",
	},
	"move": {
		prepare: func(s *stand) { s.does(s.start()...) },
		command: func(s *stand) []string { return s.move() },
		end:     1,
	},
	"upgrade": {
		prepare: func(s *stand) { s.does(s.start()...) },
		command: func(s *stand) []string { return s.upgrade() },
		sample:  []int{1},
	},
	"delete": {
		prepare: func(s *stand) { s.does(s.start()...) },
		command: func(s *stand) []string { return s.delete(s.kubeconfigs[0]) },
		end:     -1,
		sample:  []int{2},
	},
	"delete of a cluster that manages itself": {
		prepare: func(s *stand) { s.does(s.start("--self-managed")...) },
		command: func(s *stand) []string { return s.delete(s.out, "--to-kubeconfig", s.kubeconfigs[0]) },
		end:     -1,
	},
}

// interruptionsAt returns all interruptions at a write.
func interruptionsAt(at int) []*writeGate {
	return []*writeGate{
		{at: at, signal: syscall.SIGKILL}, {at: at, signal: syscall.SIGKILL, after: true},
		{at: at, signal: syscall.SIGINT}, {at: at, signal: syscall.SIGINT, after: true},
		{at: at, signal: syscall.SIGINT, again: true}, {at: at, signal: syscall.SIGINT, again: true, after: true},
	}
}

// name describes the interruption.
func (g *writeGate) name() string {
	when, how := "before", g.signal.String()
	if g.after {
		when = "after"
	}

	if g.again {
		how += " again and again"
	}

	return fmt.Sprintf("%s write %d %s", when, g.at, how)
}

func (s *stand) expect(end int) {
	s.t.Helper()
	if end < 0 {
		s.expectNone()
	} else {
		s.expectOne(end)
	}
}

// interrupt runs one case of the table.
func (i interruption) interrupt(t *testing.T, g *writeGate, then string) {
	t.Helper()

	s := newStand(t)
	i.prepare(s)
	code, said := s.olvmctl(g, i.command(s)...)
	check.Set(t, "the write at which it was interrupted", g.what)
	t.Logf("at %s: exit code %d\n%s", g.what, code, said)

	if code > 0 && g.signal == syscall.SIGINT && !g.again {
		check.Contains(t, "what it says", said, "to resume, run: olvmctl "+i.command(s)[0])
	}

	if managers, _ := s.managers(); len(managers) > 1 {
		t.Errorf("management clusters %v go on with the cluster", managers)
	}

	if then == "delete" {
		s.deletes(i.command(s))
		s.expectNone()

		return
	}

	again, said := s.olvmctl(&writeGate{}, i.command(s)...)
	t.Logf("again: exit code %d\n%s", again, said)

	if again != 0 && !i.isOver(said) {
		t.Fatalf("again: exit code %d\n%s", again, said)
	}

	s.expect(i.end)
}

// isOver reports whether the first command was complete, so the second one finds nothing to do. A complete deletion has
// removed the kubeconfig that the second one names.
func (i interruption) isOver(said string) bool {
	return i.end != 0 && strings.Contains(said, " not found in namespace ") ||
		i.end != 0 && strings.Contains(said, "no Cluster to move found") ||
		i.end < 0 && strings.Contains(said, "no earlier command has deleted")
}

// deletes deletes the remains of an interrupted command. If delete fails because of an unfinished move, it first
// finishes the move.
func (s *stand) deletes(interrupted []string) {
	s.t.Helper()
	code, said := s.olvmctl(&writeGate{}, s.delete(s.kubeconfigs[0])...)
	s.t.Logf("delete: exit code %d\n%s", code, said)

	if code == 0 {
		return
	}

	if strings.Contains(said, "was interrupted") { // the error names the remedy
		check.Contains(s.t, "what delete says", said, "run the same command again")
		_, said := s.olvmctl(&writeGate{}, interrupted...)
		s.t.Logf("the command again:\n%s", said)
	}

	managers, clusters := s.managers()

	switch {
	case len(clusters) == 0: // nothing was created
	case len(managers) == 0: // a move has just begun, at the only end with the Cluster
		s.does(s.delete(s.out, "--to-kubeconfig", s.kubeconfigs[0])...)
	case managers[0] == 1 && fileIsThere(s.out):
		s.does(s.delete(s.out, "--to-kubeconfig", s.kubeconfigs[0])...)
	default:
		s.does(s.delete(s.kubeconfigs[managers[0]])...)
	}
}

// TestEachQuestionBeforeADeletionNamesTheClusterAndWhere runs commands that delete machines, without --yes. The
// questions of scale and upgrade need machine labels that the stand-in does not set.
// TestTheQuestionsOfScaleAndUpgradeSayWhere tests them.
func TestEachQuestionBeforeADeletionNamesTheClusterAndWhere(t *testing.T) {
	testenv.SkipInShort(t, "internal/olvmctl/lifecycle asks in the fast tier")

	s := newStand(t)
	smaller, err := os.ReadFile(s.file)
	check.Error(t, err, "")
	check.Error(t, os.WriteFile(s.file, append(slices.Clone(smaller), "workerNodes: 2\n"...), 0o600), "")
	s.does(s.start()...)
	check.Error(t, os.WriteFile(s.file, append(smaller, "workerNodes: 1\n"...), 0o600), "")

	without := func(args []string) []string {
		return slices.DeleteFunc(args, func(arg string) bool { return arg == "--yes" })
	}
	config, err := clientcmd.LoadFromFile(s.kubeconfigs[0])
	check.Error(t, err, "")
	server := config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server

	for name, args := range map[string][]string{
		"delete": without(s.delete(s.kubeconfigs[0])),
		"start":  s.start(),
	} {
		code, said := s.olvmctl(&writeGate{}, args...)
		t.Logf("%s:\n%s", name, said)
		check.Equal(t, name+": exit code", code, 1)

		for _, part := range []string{
			s.name, "in namespace " + s.namespace + " of " + server,
			"(context " + config.CurrentContext + " of " + s.kubeconfigs[0], "machine", "VM", "disk", "Type ",
			"use --yes",
		} {
			check.Contains(t, name, said, part)
		}
	}

	s.expectOne(0)
}

func fileIsThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// newManagementCluster starts an API server with additional kinds. It adds the inventory that clusterctl would create
// for all providers.
func newManagementCluster(tools toolchainOf, objects []*unstructured.Unstructured) (*testsite.APIServer, error) {
	ctx := context.Background()
	server, err := testsite.StartAPIServer(ctx, tools)
	if err != nil {
		return server, err
	}

	for _, object := range objects {
		object = object.DeepCopy()
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}

		labels["clusterctl.cluster.x-k8s.io"] = ""
		object.SetLabels(labels)

		if err := localplane.Apply(ctx, server.Client, object); err != nil {
			return server, err
		}
	}

	return server, installProviders(ctx, server.Client)
}
