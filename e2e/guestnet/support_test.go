package guestnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
)

// site is a cluster with a support service. It consists of the manager's server on the network, and a fake API server.
type site struct {
	*cluster
	api    client.Client
	server *userdataserver.Server
	// stop stops the server; nil while it is not running.
	stop func()
}

func init() { ctrl.SetLogger(logr.Discard()) }

// managerAddress is the address at which VMs reach the manager.
const managerAddress = "10.99.0.240"

// newSupported returns a site with the manager. The site's nodes listen on port 6443 of their own addresses.
func newSupported(l *lan, name string) *site {
	l.t.Helper()
	scheme := runtime.NewScheme()
	check.Error(l.t, errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)), "")
	s := &site{
		cluster: newCluster(l, name, "10.99.0.5", 51, bootstrap.NoLoadBalancer),
		api:     fake.NewClientBuilder().WithScheme(scheme).Build(),
	}
	l.manager = l.namespace("manager")
	l.connect(l.manager, managerAddress)

	var err error
	s.server, err = userdataserver.New(l.t.Context(), userdataserver.Options{
		Client:    s.api,
		Metadata:  s.api,
		Recorder:  events.NewFakeRecorder(100),
		URL:       "https://" + managerAddress + ":9445",
		Authority: client.ObjectKey{Namespace: "capolvm-system", Name: "authority"},
		Lifetime:  time.Hour,
	})
	check.Error(l.t, err, "")
	s.serveVMs()
	l.t.Cleanup(s.leave)

	return s
}

// serveVMs makes the manager answer VMs.
func (s *site) serveVMs() {
	t := s.lan.t
	t.Helper()
	listener, err := listenIn(s.lan.manager, managerAddress+":9445")
	check.Error(t, err, "")

	runnable, ok := s.server.NewRunnable(listener).(*manager.Server)
	check.Equal(t, "the server can be run", ok, true)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = runnable.Start(ctx)
	}()
	s.stop = func() {
		cancel()
		<-ended
	}
}

// leave stops the manager.
func (s *site) leave() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// supportVM is a VM of a support service.
type supportVM struct {
	*node
	site    *site
	machine *infrav1.OLVMMachine
	user    []byte
}

// supportVM registers a VM of a service without starting it.
func (s *site) supportVM(name string, address string) *supportVM {
	s.lan.t.Helper()
	m := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name),
		Labels: map[string]string{infrav1alpha1.SupportServiceLabel: "lb"},
	}}
	n := &node{cluster: s.cluster, name: name, address: netip.MustParseAddr(address), worker: true}
	n.namespace = s.lan.namespace(name)
	s.lan.connect(n.namespace, address)
	n.root = filepath.Join(s.lan.dir, name)

	return &supportVM{node: n, site: s, machine: m}
}

// configure publishes a configuration for a VM.
func (v *supportVM) configure(files []bootstrap.File) userdataserver.Report {
	t := v.site.lan.t
	t.Helper()
	archive, err := support.PackArchive(files)
	check.Error(t, err, "")
	report, err := v.site.server.PublishConfiguration(
		t.Context(),
		v.machine,
		archive,
		func(p bootstrap.Pointer) ([]byte, error) {
			v.user, err = support.RenderUserData(p)
			return v.user, err
		},
	)
	check.Error(t, err, "")

	return report
}

// begin starts a VM with its user data.
func (v *supportVM) begin() {
	v.site.lan.t.Helper()
	v.installUserData(v.user, hostNamed(v.name))
	v.power()
	v.site.lan.t.Cleanup(v.off)
}

// expectUsed waits until a VM uses its latest configuration, and returns the time that this took.
func (v *supportVM) expectUsed(files []bootstrap.File) time.Duration {
	v.site.lan.t.Helper()

	return v.site.lan.eventually(v.name+" uses its configuration", func() error {
		if report := v.configure(files); !report.Current || report.Problem != "" {
			content, _ := os.ReadFile(filepath.Join(v.root, "capolvm-service.timer.log"))
			return fmt.Errorf("%+v\n%s", report, content[max(0, len(content)-2000):])
		}

		return nil
	})
}

// pair consists of the two load balancers of a site, with their wanted configuration.
type pair struct {
	site    *site
	vms     []*supportVM
	service support.Service
	spec    infrav1.OLVMClusterSpec
	asked   *infrav1alpha1.OLVMSupportServices
	nodes   []support.Node
}

// newPair registers two load balancers for the control plane.
func newPair(s *site) *pair {
	p := &pair{site: s, asked: &infrav1alpha1.OLVMSupportServices{}}
	p.spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "10.99.0.5", Port: 6443}
	p.asked.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{
		{Name: "api", Role: infrav1.ControlPlaneRole, Replicas: 2, VirtualIP: "10.99.0.5"},
	}
	p.service = support.CollectServices(p.asked)[0]

	for i, address := range []string{"10.99.0.31", "10.99.0.32"} {
		p.vms = append(p.vms, s.supportVM(fmt.Sprintf("%s-lb-%d", s.name, i), address))
	}

	return p
}

// files returns the configuration of one of the VMs.
func (p *pair) files(v *supportVM) []bootstrap.File {
	t := p.site.lan.t
	t.Helper()
	out, err := p.service.NewBalancer(p.spec, p.nodes)
	check.Error(t, err, "")
	out.Name, out.Interface, out.RouterID, out.Self = v.name, "enp1s0", 77, v.address

	for _, other := range p.vms {
		if other != v {
			out.Peers = append(out.Peers, other.address)
		}
	}

	return out.BuildFiles()
}

// know tells the load balancers these nodes, as machines of the role that they balance.
func (p *pair) know(nodes []*node) {
	p.nodes = nil
	for _, n := range nodes {
		p.nodes = append(p.nodes, support.Node{
			Name: n.name, Address: n.address, ControlPlane: p.service.Balancer.Role == infrav1.ControlPlaneRole,
		})
	}
}

// serve makes all VMs forward connections to these nodes, and returns the time that this took.
func (p *pair) serve(nodes ...*node) time.Duration {
	p.site.lan.t.Helper()

	p.know(nodes)

	longest := time.Duration(0)
	for _, v := range p.vms {
		longest = max(longest, v.expectUsed(p.files(v)))
	}

	return longest
}

// askInVain waits until each VM has sent a request to the absent manager.
func (p *pair) askInVain() {
	p.site.lan.t.Helper()

	for _, v := range p.vms {
		failed := func() int {
			content, _ := os.ReadFile(filepath.Join(v.root, "capolvm-service.timer.log"))
			return strings.Count(string(content), "curl: (")
		}
		before := failed()
		wait.Until(p.site.lan.t, v.name+" asks and gets no answer", func() bool { return failed() > before })
	}
}

// begin publishes the first configuration, and starts the VMs.
func (p *pair) begin(nodes ...*node) {
	p.site.lan.t.Helper()

	p.know(nodes)

	for _, v := range p.vms {
		v.configure(p.files(v))
		v.begin()
	}

	for _, v := range p.vms {
		v.expectUsed(p.files(v))
	}
}

// backend starts a node whose API server is at the node's own address.
func (s *site) backend(address string) *node {
	s.lan.t.Helper()
	n := &node{
		cluster: s.cluster,
		name:    fmt.Sprintf("%s-cp-%s", s.name, address[strings.LastIndex(address, ".")+1:]),
		address: netip.MustParseAddr(address),
	}
	n.namespace = s.lan.namespace(n.name)
	s.lan.connect(n.namespace, address)
	n.serve()
	s.lan.t.Cleanup(n.fail)

	return n
}

// idle opens a connection to a server through the endpoint. It returns the connection and the server's name.
func (s *site) idle(port int) (net.Conn, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := dialIn(ctx, s.lan.client, "tcp", fmt.Sprintf("10.99.0.5:%d", port))
	if err != nil {
		return nil, "", err
	}

	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	name, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		c.Close()
		return nil, "", err
	}

	return c, strings.TrimSpace(name), nil
}

// TestALoadBalancerFollowsTheControlPlane (row 51) runs real haproxy and keepalived on two VMs in front of three API
// servers. Machines come and go, the manager disappears and returns, and the VM with the address fails.
func TestALoadBalancerFollowsTheControlPlane(t *testing.T) {
	l := newLAN(t)
	s := newSupported(l, "s")
	p := newPair(s)
	one, two, three := s.backend("10.99.0.11"), s.backend("10.99.0.12"), s.backend("10.99.0.13")
	p.begin(one, two)
	s.answers(one.name, two.name)
	l.eventually("both get connections", func() error { return s.spread([]*node{one, two}) })

	took := p.serve(one, two, three)
	l.eventually("all three get connections", func() error { return s.spread([]*node{one, two, three}) })
	t.Logf("a machine more was used after %.1f s", took.Seconds())

	three.fail()

	for range 20 { // even before a health check notices the failure
		s.expectAnswer(one.name, two.name)
	}

	s.leave()
	p.askInVain()
	s.answers(one.name, two.name)
	s.serveVMs()
	p.serve(one)
	l.eventually("one is left", func() error { return s.spread([]*node{one}) })

	holder, err := holderOf(p.vms, s.endpoint)
	if err != nil || holder == nil {
		t.Fatalf("the address is held by %v, %v", holder, err)
	}

	holder.off()
	_, took = s.answers(one.name)
	t.Logf("the endpoint answers again %.1f s after the VM that held it was switched off", took.Seconds())
}

// holderOf returns the VM with an address, or nil if no VM has it. It returns an error if two VMs have it.
func holderOf(vms []*supportVM, address netip.Addr) (*supportVM, error) {
	var found *supportVM

	for _, v := range vms {
		if !v.has(address) {
			continue
		}

		if found != nil {
			return nil, fmt.Errorf("%s and %s both have %s", found.name, v.name, address)
		}

		found = v
	}

	return found, nil
}

// TestAConfigurationThatIsRefusedChangesNothing gives a load balancer a configuration that haproxy rejects.
func TestAConfigurationThatIsRefusedChangesNothing(t *testing.T) {
	l := newLAN(t)
	s := newSupported(l, "r")
	p := newPair(s)
	one := s.backend("10.99.0.11")
	p.begin(one)
	s.answers(one.name)

	broken := p.files(p.vms[0])
	for i := range broken {
		if broken[i].Path == "haproxy.cfg" {
			broken[i].Content += "\n    balance by-magic\n"
		}
	}

	l.eventually("the VM says that it has refused it", func() error {
		if report := p.vms[0].configure(
			broken,
		); report.Current ||
			!strings.Contains(report.Problem, "balance only supports") {
			return fmt.Errorf("it reports %+v", report)
		}

		return nil
	})
	check.Lacks(t, "the configuration that is used", p.vms[0].config("haproxy/haproxy.cfg"), "by-magic")
	s.answers(one.name)
	p.vms[0].expectUsed(p.files(p.vms[0]))

	// haproxy accepts the next configuration, but cannot run it.
	other, err := listenIn(p.vms[0].namespace, ":6444")
	check.Error(t, err, "")
	p.asked.Spec.LoadBalancers[0].Ports = []string{"6443", "6444"}
	l.eventually("the VM says that a port is another's", func() error {
		report := p.vms[0].configure(p.files(p.vms[0]))
		if report.Current || !strings.Contains(report.Problem, "does not come up") {
			return fmt.Errorf("it reports %+v", report)
		}

		return nil
	})
	check.Lacks(t, "the configuration that is used", p.vms[0].config("haproxy/haproxy.cfg"), "6444")
	s.answers(one.name)
	check.Error(t, other.Close(), "")
	p.asked.Spec.LoadBalancers[0].Ports = []string{"6443-6444"} // a refused one is not retried at once
	p.serve(one, s.backend("10.99.0.12"))
}

// TestIdleConnectionsOutliveAChange (row 52) keeps connections open through a range of ports while workers come and go.
func TestIdleConnectionsOutliveAChange(t *testing.T) {
	l := newLAN(t)
	s := newSupported(l, "w")
	p := newPair(s)
	balancer := &p.asked.Spec.LoadBalancers[0]
	balancer.Role, balancer.Ports = infrav1.WorkerRole, []string{"30002-30011"}
	p.spec.ControlPlaneEndpoint.Host = "10.99.0.7"
	p.service = support.CollectServices(p.asked)[0]

	one, two := s.greeter("10.99.0.11", 30002, 30011), s.greeter("10.99.0.12", 30002, 30011)
	p.begin(one)

	held := map[int]net.Conn{}

	for _, port := range []int{30002, 30011} {
		l.eventually(fmt.Sprintf("port %d answers", port), func() (err error) {
			held[port], _, err = s.idle(port)
			return err
		})
	}

	p.serve(one, two)
	seen := map[string]bool{}
	l.eventually("both get connections", func() error {
		c, name, err := s.idle(30011)
		if err == nil {
			c.Close()
			seen[name] = true
		}

		if len(seen) < 2 {
			return fmt.Errorf("%v answer, %w", seen, err)
		}

		return nil
	})
	p.serve(two) // the first worker is removed, but its connections stay open

	for port, c := range held {
		_ = c.SetDeadline(time.Now().Add(wait.Limit))
		if _, err := fmt.Fprintln(c, "still there"); err != nil {
			t.Errorf("port %d: %v", port, err)
		}

		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "still there\n" {
			t.Errorf("the connection at port %d says %q, %v", port, line, err)
		}

		c.Close()
	}
}

// TestALargeLoadBalancerOnOneVM uses more ports and machines than one page of haproxy can hold, and only one VM for the
// address.
func TestALargeLoadBalancerOnOneVM(t *testing.T) {
	l := newLAN(t)
	s := newSupported(l, "l")
	p := newPair(s)
	balancer := &p.asked.Spec.LoadBalancers[0]
	balancer.Role, balancer.Ports, balancer.Replicas = infrav1.WorkerRole, []string{
		"443",
		"30002-30011",
		"31000-31039",
	}, 1
	p.spec.ControlPlaneEndpoint.Host = "10.99.0.7"
	p.service, p.vms = support.CollectServices(p.asked)[0], p.vms[:1]

	nodes := []*node{s.greeter("10.99.0.11", 443)}
	for i := range 60 {
		nodes = append(
			nodes, &node{name: fmt.Sprintf("away-%d", i), address: netip.AddrFrom4([4]byte{10, 99, 1, byte(i)})},
		)
	}

	p.begin(nodes...)
	l.eventually("the one that is there answers", func() error {
		c, _, err := s.idle(443)
		if err == nil {
			c.Close()
		}

		return err
	})
	p.serve(nodes[:30]...)

	// The load balancer loses the address to another owner.
	l.eventually("it has the address", func() error {
		if !p.vms[0].has(s.endpoint) {
			return errors.New("it has not")
		}

		return nil
	})
	p.asked.Spec.LoadBalancers[0].VirtualIP = ""
	p.service = support.CollectServices(p.asked)[0]
	p.serve(nodes[:1]...)
	l.eventually("it has it no more", func() error {
		if p.vms[0].has(s.endpoint) {
			return errors.New("it has")
		}

		return nil
	})
}

// greeter starts a node with servers on these ports. Each server sends its name, and then returns what it receives.
func (s *site) greeter(address string, ports ...int) *node {
	s.lan.t.Helper()
	n := &node{cluster: s.cluster, name: s.name + "-" + address, address: netip.MustParseAddr(address)}
	n.namespace = s.lan.namespace(strings.ReplaceAll(n.name, ".", "-"))
	s.lan.connect(n.namespace, address)

	for _, port := range ports {
		listener, err := listenIn(n.namespace, fmt.Sprintf(":%d", port))
		check.Error(s.lan.t, err, "")
		s.lan.t.Cleanup(func() { listener.Close() })
		go greet(listener, n.name)
	}

	return n
}

func greet(listener net.Listener, name string) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}

		go func() {
			defer c.Close()
			_, _ = fmt.Fprintln(c, name)

			lines := bufio.NewScanner(c)
			for lines.Scan() {
				_, _ = fmt.Fprintln(c, lines.Text())
			}
		}()
	}
}

// TestAStrangerGetsNoConfiguration sends requests to the manager with the token of another VM, and without a token.
func TestAStrangerGetsNoConfiguration(t *testing.T) {
	l := newLAN(t)
	s := newSupported(l, "t")
	p := newPair(s)

	for _, v := range p.vms {
		v.configure(p.files(v))
	}

	var secret corev1.Secret
	key := client.ObjectKey{Namespace: "default", Name: support.SecretName(p.vms[0].machine.Name)}
	check.Error(t, s.api.Get(t.Context(), key, &secret), "")

	for name, header := range map[string]string{
		"without a token": "Accept: */*", "with another's": "Authorization: Bearer " + string(secret.Data["token"]),
	} {
		code := l.in(l.client, "curl", "--silent", "--insecure", "--output", "/dev/null", "--write-out", "%{http_code}",
			"--header", header, "https://"+managerAddress+":9445/v1/configuration/default/"+p.vms[1].name)
		check.Equal(t, name, code, "403")
	}
}
