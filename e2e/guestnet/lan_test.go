package guestnet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kyaml "sigs.k8s.io/yaml"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// needs are the programs that the tests need from the images.
var needs = []string{"keepalived", "haproxy", "nginx", "curl", "ip", "unshare"}

// lan is an isolated network with a client on it.
type lan struct {
	t      *testing.T
	dir    string
	prefix string // prefix of the names of network namespaces
	bridge string
	client string
	// manager is the network namespace of the manager, or "" without a manager.
	manager string
	// kubectl and coredns are the paths of these programs.
	kubectl, coredns string
	made             int
}

// lans counts the networks, for unique names of their namespaces on the host.
var lans atomic.Int32

// newLAN creates a bridge in a network namespace. It skips the test if it lacks the rights, or if a program is missing.
func newLAN(t *testing.T, more ...string) *lan {
	t.Helper()
	testenv.SkipInShort(t, "runs keepalived, haproxy and the like in network namespaces")
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}

	for _, program := range slices.Concat(needs, more) {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf(
				"%s is not installed; on Debian: apt-get install keepalived haproxy nginx "+
					"libnginx-mod-stream curl iproute2 openssh-server openssh-client",
				program,
			)
		}
	}

	l := &lan{
		t:      t,
		dir:    t.TempDir(),
		prefix: fmt.Sprintf("capolvm-%d-%d", os.Getpid(), lans.Add(1)),
	}
	l.kubectl, l.coredns = l.tool("plane", "kubectl"), l.tool("dns", "coredns")
	l.bridge = l.namespace("lan")
	l.in(l.bridge, "ip", "link", "add", "lan", "type", "bridge", "forward_delay", "0")
	l.in(l.bridge, "ip", "link", "set", "lan", "up")
	l.client = l.namespace("client")
	l.connect(l.client, "10.99.0.250")

	return l
}

// tool returns the path of a tool in a module, and builds the tool if necessary.
func (l *lan) tool(module, name string) string {
	l.t.Helper()
	tools, err := toolchain.New()
	if err == nil {
		err = tools.Build(l.t.Context(), module)
	}

	path := ""
	if err == nil {
		path, err = tools.Path(module, name)
	}

	if err != nil {
		l.t.Fatal(err)
	}

	return path
}

// namespace creates a network namespace. The end of the test removes it.
func (l *lan) namespace(name string) string {
	l.t.Helper()
	name = l.prefix + "-" + name
	run(l.t, "ip", "netns", "add", name)
	l.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })

	return name
}

// v6 returns the IPv6 address that belongs to an IPv4 address on the network.
func v6(address string) string { return "fd00:99::" + address[strings.LastIndex(address, ".")+1:] }

// connect connects a namespace to the bridge as enp1s0. The interface has an IPv4 address and the IPv6 address that
// belongs to it.
func (l *lan) connect(namespace, address string) {
	l.t.Helper()
	l.made++
	outside := fmt.Sprintf("v%d", l.made)
	run(l.t, "ip", "link", "add", outside, "netns", l.bridge, "type", "veth", "peer", "name", "enp1s0", "netns",
		namespace)
	l.in(l.bridge, "ip", "link", "set", outside, "master", "lan", "up")
	l.in(namespace, "ip", "address", "add", address+"/24", "dev", "enp1s0")
	l.in(namespace, "ip", "address", "add", v6(address)+"/64", "dev", "enp1s0", "nodad")
	l.in(namespace, "ip", "link", "set", "lo", "up")
	l.in(namespace, "ip", "link", "set", "enp1s0", "up")
}

func (l *lan) in(namespace string, command ...string) string {
	l.t.Helper()
	return run(l.t, "ip", append([]string{"netns", "exec", namespace}, command...)...)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}

	return string(out)
}

// ask sends a request from the client to a host and port, and returns the body of the response. It returns "" if there
// is no answer for a while.
func (l *lan) ask(endpoint string) string {
	body, _ := l.request(endpoint, 5*time.Second)
	return body
}

// errNoAnswer is the error of a request without an answer in time, perhaps because this host is busy. Other errors come
// from the other side, which refused or closed the connection.
var errNoAnswer = errors.New("no answer in time")

// timedOut is curl's exit code for a timeout.
const timedOut = 28

// request sends a request from the client to a host and port, and returns the body of the response.
func (l *lan) request(endpoint string, patience time.Duration) (string, error) {
	out, err := exec.Command("ip", "netns", "exec", l.client, "curl", "--silent", "--show-error", "--insecure",
		"--max-time", fmt.Sprint(patience.Seconds()), "https://"+endpoint+"/readyz").Output()
	var exit *exec.ExitError

	switch {
	case errors.As(err, &exit) && exit.ExitCode() == timedOut:
		return "", errNoAnswer
	case errors.As(err, &exit):
		return "", fmt.Errorf("%w: %s", err, exit.Stderr)
	}

	return string(out), err
}

// cluster is a workload cluster that consists only of its endpoint.
type cluster struct {
	lan      *lan
	name     string
	endpoint netip.Addr
	services bootstrap.APIEndpoint
	ingress  *bootstrap.VirtualAddress
	// domain is the domain of the DNS on the nodes, or "" without such a DNS.
	domain string
	// joining reports that nodes have just joined, instead of long ago.
	joining bool

	mu    sync.Mutex
	nodes []*node
	// applied are the objects that nodes have applied, by their paths.
	applied map[string][]byte
}

// node is a VM of the cluster.
type node struct {
	cluster   *cluster
	name      string
	address   netip.Addr
	namespace string
	root      string
	process   *exec.Cmd
	worker    bool
	// unlisted reports that the cluster does not list the node as a control plane node yet.
	unlisted bool
	server   *httptest.Server
}

// list makes the cluster list a node as part of its control plane, as kubeadm join does at its end.
func (c *cluster) list(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.unlisted = false
}

// start runs a control plane node from its user data. The data contains the names of the existing nodes.
func (c *cluster) start(address string) *node {
	c.lan.t.Helper()
	return c.startNode(address, false)
}

func (c *cluster) startNode(address string, worker bool) *node {
	t := c.lan.t
	t.Helper()
	n := &node{
		cluster:  c,
		worker:   worker,
		unlisted: c.joining && len(c.nodes) > 0,
		name:     fmt.Sprintf("%s-%d", c.name, len(c.nodes)+1),
		address:  netip.MustParseAddr(address),
	}
	n.namespace = c.lan.namespace(n.name)
	c.lan.connect(n.namespace, address)
	n.root = filepath.Join(c.lan.dir, n.name)
	c.mu.Lock()

	api := c.services
	for _, other := range c.nodes {
		api.Nodes = append(api.Nodes, other.address)
	}

	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	services := &bootstrap.Services{HostName: n.name, Interface: "enp1s0", Self: n.address, Ingress: c.ingress}
	if c.domain != "" {
		services.DNS = &bootstrap.DNS{
			Domain:       c.domain,
			Addresses:    []netip.Addr{n.address, netip.MustParseAddr(v6(address))},
			Endpoint:     api.All(),
			ControlPlane: !worker,
			Servers:      append(api.All(), api.Nodes...),
			Image:        "coredns",
			Upstream:     []netip.Addr{netip.MustParseAddr("10.99.0.250")},
		}
		if c.ingress != nil {
			services.DNS.Ingress = c.ingress.All()
		}
	}

	if !worker {
		services.API = &api
		if c.domain != "" {
			services.DNS.Floating = api.All()
		}
	}

	n.install(bootstrap.Guest{HostName: n.name, Services: services})
	if !worker {
		n.serve()
	}

	n.power()
	t.Cleanup(n.off)

	return n
}

// install writes the files of the user data.
func (n *node) install(guest bootstrap.Guest) {
	t := n.cluster.lan.t
	t.Helper()
	join := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"
	if !n.worker {
		join += "controlPlane: {}\n"
	}

	stock, err := cloudinit.NewNode(&cloudinit.NodeInput{JoinConfiguration: join})
	if err != nil {
		t.Fatal(err)
	}

	n.installUserData(stock, guest)
}

// hostNamed returns a guest with only a host name.
func hostNamed(name string) bootstrap.Guest { return bootstrap.Guest{HostName: name} }

// installUserData writes the files of a cloud-config merged with the guest's configuration. It also prepares what the
// commands of the cloud-config need.
func (n *node) installUserData(stock []byte, guest bootstrap.Guest) {
	t := n.cluster.lan.t
	t.Helper()
	merged, err := bootstrap.Merge(stock, bootstrap.CloudConfig, guest)
	if err != nil {
		t.Fatal(err)
	}

	var config struct {
		WriteFiles []struct{ Path, Permissions, Content string } `yaml:"write_files"`
		RunCmd     []string                                      `yaml:"runcmd"`
	}
	if err := yaml.Unmarshal(merged, &config); err != nil {
		t.Fatal(err)
	}

	for _, folder := range []string{"etc", "work", "bin"} {
		if err := os.MkdirAll(filepath.Join(n.root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	for _, file := range config.WriteFiles {
		rest, ok := strings.CutPrefix(file.Path, "/etc/")
		if !ok {
			continue
		}

		n.write(filepath.Join("etc", rest), file.Content, false)
		mode, err := strconv.ParseUint(cmp.Or(file.Permissions, "0644"), 8, 32)
		if err == nil {
			err = os.Chmod(filepath.Join(n.root, "etc", rest), os.FileMode(mode))
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	kubeconfig := fmt.Sprintf(
		"apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: 'https://%s', "+
			"insecure-skip-tls-verify: true}\ncontexts:\n- name: c\n  context: {cluster: c, user: "+
			"c}\ncurrent-context: c\nusers: [{name: c, user: {token: %s}}]\n",
		netip.AddrPortFrom(n.cluster.endpoint, 6443), "%s",
	)
	n.write("etc/kubernetes/kubelet.conf", fmt.Sprintf(kubeconfig, kubeletToken), false)
	if !n.worker {
		n.write("etc/kubernetes/admin.conf", fmt.Sprintf(kubeconfig, "admin"), false)
	}

	for _, file := range []string{"etc/capolvm/joined", "etc/capolvm/joined-ingress"} {
		if n.cluster.joining {
			break
		}

		n.write(file, "", false)
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(n.root, file), long, long); err != nil {
			t.Fatal(err)
		}
	}

	// The test skips commands of kubeadm and for the firmware, because only a real guest can run them.
	commands := slices.DeleteFunc(config.RunCmd, func(command string) bool {
		return !strings.HasPrefix(command, "systemctl ")
	})
	if len(commands) < 4 && !n.worker {
		t.Fatalf("the user data starts nothing:\n%s", merged)
	}

	n.write("commands.sh", "set -e\n"+strings.Join(commands, "\n")+"\n"+n.staticPods(), true)
	systemctl, err := os.ReadFile("testdata/systemctl")
	if err != nil {
		t.Fatal(err)
	}

	n.write("bin/systemctl", string(systemctl), true)

	for name, path := range map[string]string{"kubectl": n.cluster.lan.kubectl, "coredns": n.cluster.lan.coredns} {
		if err := os.Symlink(path, filepath.Join(n.root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// staticPods returns the commands that run the static pods instead of a kubelet. For each container, it runs the
// program that has the name of the container's image. The program sees its volumes at their mount paths, and restarts
// after it exits.
func (n *node) staticPods() string {
	t := n.cluster.lan.t
	paths, err := filepath.Glob(filepath.Join(n.root, "etc/kubernetes/manifests/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder

	for _, path := range paths {
		content, err := os.ReadFile(path)
		var pod corev1.Pod
		if err == nil {
			err = kyaml.UnmarshalStrict(content, &pod)
		}

		if err != nil {
			t.Fatal(err)
		}

		if !pod.Spec.HostNetwork {
			t.Fatalf("%s would need the cluster's network:\n%s", path, content)
		}

		for _, container := range pod.Spec.Containers {
			for _, mount := range container.VolumeMounts {
				at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
				fmt.Fprintf(&out, "mkdir -p %[2]s\nmount --bind %[1]s %[2]s\n", pod.Spec.Volumes[at].HostPath.Path,
					mount.MountPath)
			}

			fmt.Fprintf(&out, "while sleep 0.3; do %s %s; done >>\"$ROOT/%s.log\" 2>&1 &\n", container.Image,
				strings.Join(container.Args, " "), pod.Name)
		}
	}

	return out.String()
}

func (n *node) write(path, content string, executable bool) {
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}

	path = filepath.Join(n.root, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), mode)
	}

	if err != nil {
		n.cluster.lan.t.Fatal(err)
	}
}

// power starts the processes of the node.
func (n *node) power() {
	t := n.cluster.lan.t
	script, err := filepath.Abs("testdata/node.sh")
	if err != nil {
		t.Fatal(err)
	}

	n.process = exec.Command("ip", "netns", "exec", n.namespace, "unshare", "--mount", "--pid", "--fork",
		"--kill-child", "--mount-proc", "/bin/bash", script)
	n.process.Env = append(os.Environ(), "ROOT="+n.root, "PATH="+filepath.Join(n.root, "bin")+":"+os.Getenv("PATH"),
		"HOME="+n.root)
	if _, err := n.process.StdinPipe(); err != nil {
		t.Fatal(err)
	}

	log, err := os.Create(filepath.Join(n.root, "node.log"))
	if err != nil {
		t.Fatal(err)
	}

	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		t.Fatal(err)
	}

	n.cluster.lan.eventually(n.name+" has started", func() error {
		if content, _ := os.ReadFile(log.Name()); !bytes.Contains(content, []byte("started")) {
			return fmt.Errorf("its log: %s", content)
		}

		return nil
	})
}

// off cuts the power.
func (n *node) off() {
	if n.process == nil {
		return
	}

	defer func() {
		_ = n.process.Process.Kill()
		_ = n.process.Wait()
		n.process = nil
		n.fail()
	}()
	if n.cluster.lan.t.Failed() {
		out, err := exec.Command("ip", "netns", "exec", n.namespace, n.cluster.lan.kubectl, "--kubeconfig",
			filepath.Join(n.root, "etc/kubernetes/admin.conf"), "--request-timeout", "5s", "get", "nodes", "--selector",
			"node-role.kubernetes.io/control-plane").
			CombinedOutput()
		n.cluster.lan.t.Logf("%s: kubectl: %v\n%s", n.name, err, out)

		logs, _ := filepath.Glob(filepath.Join(n.root, "*.log"))
		for _, path := range append(logs, filepath.Join(n.root, "etc/keepalived/keepalived.conf")) {
			content, _ := os.ReadFile(path)
			n.cluster.lan.t.Logf("%s %s:\n%s", n.name, filepath.Base(path), content[max(0, len(content)-1500):])
		}
	}
}

// serve runs the node's API server. The server is ready, and lists the control plane nodes.
func (n *node) serve() {
	t := n.cluster.lan.t
	port := int32(6443)
	if n.cluster.services.LoadBalancer != bootstrap.NoLoadBalancer {
		port = n.cluster.services.ServerPort
	}

	listener, err := listenIn(n.namespace, fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal(err)
	}

	n.server = &httptest.Server{
		Listener: listener,
		Config:   &http.Server{Handler: n, ReadHeaderTimeout: wait.Limit},
		TLS:      &tls.Config{MinVersion: tls.VersionTLS12},
	}
	n.server.Config.ErrorLog = nil
	n.server.StartTLS()
}

// fail stops only the API server.
func (n *node) fail() {
	if n.server != nil {
		n.server.CloseClientConnections()
		n.server.Close()
		n.server = nil
	}
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") == "Bearer "+kubeletToken && !n.cluster.allowsKubelets(r) {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(failure(metav1.StatusReasonForbidden, http.StatusForbidden))

		return
	}

	var out any

	switch r.URL.Path {
	case "/readyz":
		_, _ = fmt.Fprint(w, n.name)
		return
	case "/api":
		out = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		version := metav1.GroupVersionForDiscovery{GroupVersion: rbacv1.SchemeGroupVersion.String(), Version: "v1"}
		out = metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{
				{Name: rbacv1.GroupName, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version},
			},
		}
	case "/apis/rbac.authorization.k8s.io/v1":
		out = metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: rbacv1.SchemeGroupVersion.String(),
			APIResources: []metav1.APIResource{
				{Name: "roles", SingularName: "role", Kind: "Role", Namespaced: true, Verbs: []string{"get", "patch"}},
				{
					Name: "rolebindings", SingularName: "rolebinding", Kind: "RoleBinding", Namespaced: true,
					Verbs: []string{"get", "patch"},
				},
			},
		}
	case "/api/v1":
		out = metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "v1",
			APIResources: []metav1.APIResource{
				{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: []string{"get", "list"}},
				{
					Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true,
					Verbs: []string{"get", "patch"},
				},
			},
		}
	case "/api/v1/nodes":
		out = n.cluster.nodeList()
	default:
		n.cluster.serveObject(w, r)
		return
	}

	_ = json.NewEncoder(w).Encode(out)
}

// kubeletToken is the token of kubelets. Control plane nodes also have the token of an administrator.
const kubeletToken = "kubelet"

func failure(reason metav1.StatusReason, code int32) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: code,
	}
}

// serveObject serves the objects that nodes have applied, by name.
func (c *cluster) serveObject(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}

		if c.applied == nil {
			c.applied = map[string][]byte{}
		}

		c.applied[r.URL.Path] = body
	}

	if body, ok := c.applied[r.URL.Path]; ok {
		_, _ = w.Write(body)
		return
	}

	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(failure(metav1.StatusReasonNotFound, http.StatusNotFound))
}

// allowsKubelets reports whether a kubelet may make this request. Since Kubernetes 1.32, it may read only its own Node
// and the ConfigMaps of its pods, unless a Role allows more.
func (c *cluster) allowsKubelets(r *http.Request) bool {
	if !strings.Contains(r.URL.Path, "/nodes") && !strings.Contains(r.URL.Path, "/namespaces/") {
		return true // discovery of the API
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/"

	for path, content := range c.applied {
		name, ok := strings.CutPrefix(path, rbac+"rolebindings/")
		if !ok {
			continue
		}

		var binding rbacv1.RoleBinding
		var role rbacv1.Role
		if json.Unmarshal(content, &binding) != nil || json.Unmarshal(c.applied[rbac+"roles/"+binding.RoleRef.Name], &role) != nil ||
			binding.RoleRef.Kind != "Role" || name != binding.Name ||
			!slices.Contains(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}) {
			continue
		}

		for _, rule := range role.Rules {
			for _, resource := range rule.ResourceNames {
				if r.Method == http.MethodGet && slices.Equal(rule.Verbs, []string{"get"}) &&
					slices.Equal(rule.Resources, []string{"configmaps"}) && slices.Equal(rule.APIGroups, []string{""}) &&
					r.URL.Path == "/api/v1/namespaces/kube-system/configmaps/"+resource {
					return true
				}
			}
		}
	}

	return false
}

func (c *cluster) nodeList() corev1.NodeList {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}

	for _, n := range c.nodes {
		if n.unlisted {
			continue
		}

		labels := map[string]string{"kubernetes.io/hostname": n.name}
		if !n.worker {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}

		out.Items = append(out.Items, corev1.Node{
			TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: n.name},
				{Type: corev1.NodeInternalIP, Address: n.address.String()},
				{Type: corev1.NodeInternalIP, Address: v6(n.address.String())},
			}},
		})
	}

	return out
}

// remove cuts the power of a node, and removes the node from the cluster.
func (c *cluster) remove(gone *node) {
	gone.off()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(n *node) bool { return n == gone })
}

// holder returns the node with an address, or nil if no node has it. It returns an error if two nodes have it.
func (c *cluster) holder(address netip.Addr) (*node, error) {
	var found *node

	for _, n := range c.nodes {
		if !n.has(address) {
			continue
		}

		if found != nil {
			return nil, fmt.Errorf("%s and %s both have %s", found.name, n.name, address)
		}

		found = n
	}

	return found, nil
}

// has reports whether a node runs and has an address.
func (n *node) has(address netip.Addr) bool {
	out, err := exec.Command("ip", "netns", "exec", n.namespace, "ip", "-oneline", "address", "show", "dev",
		"enp1s0").Output()

	return err == nil && n.process != nil && bytes.Contains(out, []byte(" "+address.String()+"/"))
}

// config returns the present configuration of a service.
func (n *node) config(path string) string {
	content, _ := os.ReadFile(filepath.Join(n.root, "etc", path))
	return string(content)
}

// eventually waits until check returns no error. It returns the time that this took.
func (l *lan) eventually(what string, check func() error) time.Duration {
	l.t.Helper()
	begin := time.Now()
	wait.For(l.t, what, check)

	return time.Since(begin)
}

// listenIn listens on an address in a network namespace.
func listenIn(namespace, address string) (net.Listener, error) {
	return within(namespace, func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	})
}

// dialIn connects to an address in a network namespace. The address must not contain a host name.
func dialIn(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	return within(namespace, func() (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
}

// within creates a network object, such as a listener, inside a namespace. The object stays in this namespace.
func within[T any](namespace string, do func() (T, error)) (T, error) {
	type result struct {
		made T
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		var out result
		file, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			defer file.Close()
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
		}

		if out.err = err; err == nil {
			out.made, out.err = do()
		}

		done <- out
	}()
	out := <-done

	return out.made, out.err
}
