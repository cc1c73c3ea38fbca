package guest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// site creates user data like the kubeadm bootstrap provider, and runs VMs.
type site struct {
	t        *testing.T
	guests   *Guests
	endpoint string
	ca, etcd *authority
}

func newSite(t *testing.T, endpoint string) *site {
	t.Helper()
	guests, err := New(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(guests.Close)

	return &site{t: t, guests: guests, endpoint: endpoint, ca: newAuthority(t), etcd: newAuthority(t)}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := certs.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}

	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "ca"}, key)
	if err != nil {
		t.Fatal(err)
	}

	return &authority{cert: cert, key: key}
}

func indent(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      ") }

func (s *site) pki() string {
	var out strings.Builder
	for path, a := range map[string]*authority{"ca": s.ca, "etcd/ca": s.etcd} {
		fmt.Fprintf(&out, "-   path: /etc/kubernetes/pki/%s.crt\n    content: |\n      %s\n", path,
			indent(string(certs.EncodeCertPEM(a.cert))))
		fmt.Fprintf(&out, "-   path: /etc/kubernetes/pki/%s.key\n    content: |\n      %s\n", path,
			indent(string(certs.EncodePrivateKeyPEM(a.key))))
	}

	return out.String()
}

func (s *site) initData(version string) string {
	return s.merged(
		"## template: jinja\n#cloud-config\nwrite_files:\n" + s.pki() + fmt.Sprintf(`-   path: /run/kubeadm/kubeadm.yaml
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: ClusterConfiguration
      controlPlaneEndpoint: %s
      kubernetesVersion: %s
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      nodeRegistration: {}
runcmd:
- kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success
`, s.endpoint, version),
	)
}

func (s *site) joinData(token, hash string, controlPlane bool) string {
	extra, files := "", ""
	if controlPlane {
		extra, files = "\n      controlPlane: {}", s.pki()
	}

	return s.merged(
		"#cloud-config\nwrite_files:\n" + files + fmt.Sprintf(`-   path: /run/kubeadm/kubeadm-join-config.yaml
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: JoinConfiguration
      discovery:
        bootstrapToken:
          apiServerEndpoint: %s
          token: %s
          caCertHashes: ["%s"]
      nodeRegistration:
        kubeletExtraArgs:
        - {name: node-labels, value: pool=a}%s
runcmd:
- kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success
`, s.endpoint, token, hash, extra),
	)
}

// merged adds the controller's data to the user data, as both sides expect it.
func (s *site) merged(data string) string {
	s.t.Helper()
	out, err := bootstrap.Merge([]byte(data), bootstrap.CloudConfig, bootstrap.Guest{})
	if err != nil {
		s.t.Fatal(err)
	}

	return string(out)
}

func machine(name, address, data string) api.GuestVM {
	return api.GuestVM{
		ID:                "id-" + name,
		Name:              name,
		HostName:          name,
		UserData:          data,
		KubernetesVersion: "v1.36.1",
		Interfaces:        []api.GuestInterface{{Name: "enp1s0", MAC: "56:6f:1a:00:00:01"}},
		NICs: []api.GuestNIC{
			{
				Interface:    "enp1s0",
				BootProtocol: "static",
				Address:      address,
				Netmask:      "255.255.255.0",
				Gateway:      "127.40.0.1",
			},
		},
	}
}

// powered is a running VM.
type powered struct {
	site     *site
	id       string
	off      context.CancelFunc
	done     chan error // the result of Boot
	reported chan store.AgentReport
}

// start powers on a VM.
func (s *site) start(m api.GuestVM) *powered {
	ctx, cancel := context.WithCancel(s.t.Context())
	p := &powered{
		site:     s,
		id:       m.ID,
		off:      cancel,
		done:     make(chan error, 1),
		reported: make(chan store.AgentReport, 1),
	}
	go func() {
		p.done <- s.guests.Boot(ctx, m, func(report store.AgentReport) { p.reported <- report })
	}()

	return p
}

// up waits until the VM is a ready node or Boot returns.
func (p *powered) up() error {
	p.site.t.Helper()
	var err error
	returned := false
	wait.Until(p.site.t, "VM "+p.id+" comes up or fails", func() bool {
		select {
		case err = <-p.done:
			returned = true
		default:
		}

		n, ok := p.site.guests.Node(p.id)

		return returned || ok && n.Ready == "True"
	})

	return err
}

// halt powers off the VM like the engine.
func (p *powered) halt() {
	p.off()
	<-p.done
	p.site.guests.HandleHalt(p.id)
}

// mustStart powers on a VM, and waits until it is a ready node.
func (s *site) mustStart(m api.GuestVM) *powered {
	s.t.Helper()
	p := s.start(m)
	if err := p.up(); err != nil {
		s.t.Fatal(err)
	}

	return p
}

// token creates a bootstrap token in the workload cluster, like the kubeadm bootstrap provider.
func (s *site) token() string {
	s.t.Helper()
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Data:       map[string][]byte{"token-secret": []byte("0123456789abcdef")},
	}
	if err := s.client().Create(s.t.Context(), token); err != nil {
		s.t.Fatal(err)
	}

	return "abcdef.0123456789abcdef"
}

func (s *site) client() client.Client {
	s.t.Helper()
	c, err := client.New(&rest.Config{
		Host:            "https://" + s.endpoint,
		TLSClientConfig: rest.TLSClientConfig{CAData: certs.EncodeCertPEM(s.ca.cert)},
	}, client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}

	return c
}

func TestVMsBecomeNodesOfTheClusterThatTheirUserDataNames(t *testing.T) {
	first, second := newSite(t, "127.40.0.5:6443"), newSite(t, "127.40.1.5:6443")

	var leader *powered
	for _, s := range []*site{second, first} { // both serve port 6443 at the same time
		leader = s.mustStart(machine("cp-1", "127.40.0.10", s.initData("v1.36.1")))
	}

	s := first
	c := s.client()
	good := s.token()
	other := s.mustStart(machine("cp-2", "127.40.0.11", s.joinData(good, s.ca.publicKeyHash(), true)))
	s.mustStart(machine("worker-1", "127.40.0.12", s.joinData(good, s.ca.publicKeyHash(), false)))
	var nodes corev1.NodeList
	if err := c.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}

	if len(nodes.Items) != 3 {
		t.Fatalf("%d nodes", len(nodes.Items))
	}

	for _, n := range nodes.Items {
		if n.Spec.ProviderID != "olvm://id-"+n.Name || n.Status.NodeInfo.KubeletVersion != "v1.36.1" {
			t.Errorf("node %s has provider ID %s and version %s", n.Name, n.Spec.ProviderID,
				n.Status.NodeInfo.KubeletVersion)
		}

		if n.Name == "worker-1" && n.Labels["pool"] != "a" {
			t.Errorf("labels of the worker: %v", n.Labels)
		}
	}

	// The leader of etcd dies. Another member takes over, and the endpoint stays available.
	leader.halt()
	s.guests.HandleRemoval("id-cp-1")
	var pods corev1.PodList
	err := c.List(t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": "etcd"})
	if err != nil {
		t.Fatal(err)
	}

	if len(pods.Items) != 1 ||
		pods.Items[0].Annotations["etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from"] == "" {
		t.Errorf("etcd members: %+v", pods.Items)
	}

	other.halt()
	if err := c.List(t.Context(), &nodes); err == nil {
		t.Error("the endpoint is served without an API server")
	}

	s.mustStart(machine("cp-2", "127.40.0.11", "")) // cloud-init does not run twice
	if err := s.client().List(t.Context(), &nodes); err != nil {
		t.Errorf("the endpoint is not served again: %v", err)
	}

	s.guests.HandleRemoval("id-cp-2")
	if len(s.guests.clusters) != 0 {
		t.Error("the cluster outlives its last control plane node")
	}

	if _, ok := second.guests.Node("id-cp-1"); !ok {
		t.Error("the other cluster went with it")
	}
}

// TestANodeIsOnItsDisk replaces the root disk of a node. The VM is then another machine.
func TestANodeIsOnItsDisk(t *testing.T) {
	s := newSite(t, "127.40.0.11:6443")
	vm := machine("cp-0", "127.40.0.1", s.initData("v1.36.1"))
	vm.RootDisk = "one"
	first := s.start(vm)
	check.Error(t, first.up(), "")
	first.halt()

	vm.UserData, vm.RootDisk = "", "two"
	second := s.start(vm)
	<-second.reported
	if node, is := s.guests.Node(vm.ID); is {
		t.Errorf("a VM with a new disk is the node %v", node)
	}

	second.halt()
}

func TestGuestsThatWouldNotComeUpSayWhy(t *testing.T) {
	s := newSite(t, "127.40.2.5:6443")
	s.guests.joinTimeout = 50 * time.Millisecond // the guest tries at least once
	s.mustStart(machine("cp-1", "127.40.0.10", s.initData("v1.36.1")))
	good := s.token()
	err := s.client().Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-oldold"},
		Data: map[string][]byte{
			"token-secret": []byte("0123456789abcdef"),
			"expiration":   []byte("2001-01-01T00:00:00Z"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	with := func(change func(*api.GuestVM)) api.GuestVM {
		m := machine("x", "127.40.0.20", "#cloud-config\n")
		change(&m)
		return m
	}
	data := func(text string) api.GuestVM {
		return with(func(m *api.GuestVM) { m.UserData = text })
	}
	initData, joinData := s.initData("v1.36.1"), s.joinData(good, s.ca.publicKeyHash(), false)
	stranger := *s
	stranger.ca = newAuthority(t)

	tests := map[string]struct {
		machine api.GuestVM
		want    string
	}{
		"an image without kubeadm": {with(func(m *api.GuestVM) {
			m.UserData = initData
			m.KubernetesVersion = ""
		}), "kubeadm: command not found"},
		"kubeadm of another minor version than the cluster to be": {
			data(s.initData("v1.35.0")),
			"kubeadm: this version of kubeadm (v1.36.1) does not deploy clusters with version v1.35.0",
		},
		"kubeadm two minor versions ahead of the control plane": {
			with(func(m *api.GuestVM) {
				m.UserData = joinData
				m.KubernetesVersion = "v1.38.0"
			}), "only supports control plane versions from 1.37 on"},
		"an endpoint that another cluster serves": {data(initData), "kubeadm: another cluster already serves"},
		"an endpoint without a port": {
			data(strings.ReplaceAll(initData, s.endpoint, "127.40.2.5")),
			"is not host:port",
		},
		"an endpoint that nothing serves": {
			data(strings.ReplaceAll(joinData, s.endpoint, "127.40.2.77:6443")),
			"nothing serves the control plane endpoint 127.40.2.77:6443",
		},
		"no CA": {
			data(strings.ReplaceAll(initData, "pki/ca.crt", "pki/other.crt")),
			"kubeadm: /etc/kubernetes/pki/ca.crt is missing",
		},
		"no key of the CA of etcd": {
			data(strings.ReplaceAll(initData, "etcd/ca.key", "etcd/other.key")),
			"kubeadm: /etc/kubernetes/pki/etcd/ca.key is missing",
		},
		"a token that the cluster does not know": {
			data(s.joinData("aaaaaa.0123456789abcdef", s.ca.publicKeyHash(), false)),
			"does not know the bootstrap token",
		},
		"a token with another secret": {
			data(s.joinData("abcdef.fedcba9876543210", s.ca.publicKeyHash(), false)),
			"the bootstrap token is wrong",
		},
		"a token that expired": {
			data(s.joinData("oldold.0123456789abcdef", s.ca.publicKeyHash(), false)),
			"the bootstrap token expired",
		},
		"a token of another form": {
			data(s.joinData("abcdef", s.ca.publicKeyHash(), false)),
			"the bootstrap token is not of the form",
		},
		"a hash of another CA": {
			data(s.joinData(good, "sha256:00", false)),
			"does not match discovery.bootstrapToken.caCertHashes",
		},
		"no hash of a CA": {
			data(strings.ReplaceAll(joinData, s.ca.publicKeyHash(), "")),
			"caCertHashes",
		},
		"a control plane node with another CA": {
			data(stranger.joinData(good, s.ca.publicKeyHash(), true)),
			"/etc/kubernetes/pki/ca.crt is not the CA of this cluster",
		},
		"a name that a node has": {with(func(m *api.GuestVM) {
			m.UserData = joinData
			m.HostName = "cp-1"
		}), `a Node with name "cp-1" and status "Ready" already exists`},
		"no host name": {with(func(m *api.GuestVM) {
			m.UserData = joinData
			m.HostName = ""
		}), "the guest has no host name"},
		"a template that nothing renders": {
			data(
				strings.ReplaceAll(
					joinData, "nodeRegistration:",
					"nodeRegistration:\n        name: '{{ ds.meta_data.local_hostname }}'",
				),
			),
			"nodeRegistration.name: Invalid value: \"{{ ds.meta_data.local_hostname }}\"",
		},
		"a kubeadm API of the future": {
			data(strings.ReplaceAll(joinData, "v1beta4", "v9")),
			`no kind "JoinConfiguration" is registered for version "kubeadm.k8s.io/v9"`,
		},
		"a configuration that is none": {
			data("write_files: [{path: /k, content: 'a: ['}]\nruncmd: [kubeadm init --config /k]"),
			"kubeadm: /k: ",
		},
		"kubelet arguments that are none": {
			data(
				"write_files: [{path: /k, content: 'apiVersion: kubeadm.k8s.io/v1beta4\n\n  kind: " +
					"InitConfiguration\n\n  nodeRegistration: {kubeletExtraArgs: 3}'}]\nruncmd: " +
					"[kubeadm init --config /k]",
			),
			"cannot unmarshal number into Go struct field NodeRegistrationOptions.nodeRegistration.kubeletExtraArgs",
		},
		"an init without its configuration": {
			data("write_files: [{path: /k, content: 'apiVersion: a/v1\n\n  kind: Other'}]\nruncmd: " +
				"[kubeadm init --config /k]"),
			"it has no InitConfiguration",
		},
		"a configuration that is not there": {
			data("runcmd: [kubeadm init --config /k]"),
			`kubeadm: unable to read config from "/k"`,
		},
		"kubeadm without a configuration": {
			data("runcmd: [kubeadm join --token x]"),
			"kubeadm: join without --config",
		},
		"a substitution in a file that is not there": {
			data(`runcmd: ["sed -i \"s/A/$(tr '[:upper:]' '[:lower:]' < /sys/class/dmi/id/product_uuid)/g\" /k"]`),
			"sed: can't read /k",
		},
		"user data that is no YAML": {data("a: ["), "cloud-init: user data is not a cloud-config"},
		"user data that is a script": {
			data("#!/bin/sh\nreboot\n"),
			"cloud-init: user data is not a cloud-config",
		},
		"a file in an encoding of nobody's": {
			data("write_files: [{path: /k, encoding: rot13, content: a}]"),
			`cloud-init: write_files /k: unknown encoding "rot13"`,
		},
		"a file that is no base64": {
			data("write_files: [{path: /k, encoding: b64, content: '*'}]"),
			"cloud-init: write_files /k: illegal base64",
		},
		"a file that is not packed": {
			data("write_files: [{path: /k, encoding: gz, content: a}]"),
			"cloud-init: write_files /k: failed to unpack",
		},
		"a file with permissions in words": {
			data("write_files: [{path: /k, permissions: rwx, content: a}]"),
			`permissions "rwx" are not an octal number`,
		},
		"a file with impossible permissions": {
			data("write_files: [{path: /k, permissions: -1, content: a}]"),
			"permissions -1 are not a mode",
		},
		"a command that is a mapping": {data("runcmd: [{a: b}]"), "cloud-init: runcmd"},
		"a script that may not be executed": {
			data("write_files: [{path: /k.sh, content: reboot}]\nruncmd: [/k.sh]"),
			"bash: /k.sh: Permission denied",
		},
		"a script that is not there": {
			data("runcmd: [bash /etc/k.sh]"),
			"bash: /etc/k.sh: No such file or directory",
		},
		"a script that calls itself": {
			data("write_files: [{path: /k.sh, content: bash /k.sh}]\nruncmd: [bash /k.sh]"),
			"bash: scripts call each other",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := s.start(test.machine).up(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCommandsThatMakeANode(t *testing.T) {
	const id = "11111111-aaaa-bbbb-cccc-222222222222"
	sed := `sed -i "s/__ID__/$(tr '[:upper:]' '[:lower:]' < /sys/class/dmi/id/product_uuid)/g" /k`

	tests := map[string]struct {
		commands []string
		want     string // text of the expected error or node; "" if there is no node
	}{
		"kubeadm init, and what follows it": {
			[]string{"kubeadm init --config /k  && echo success"},
			"init __ID__",
		},
		"kubeadm join with other flags": {
			[]string{"/usr/bin/kubeadm join --v=5 --config=/k --ignore-preflight-errors=all"},
			"join __ID__",
		},
		"kubeadm with an environment, as root": {
			[]string{"sudo HTTP_PROXY=x kubeadm init --config '/k'; reboot"},
			"init __ID__",
		},
		"kubeadm after the substitution of the VM's ID":  {[]string{sed, "kubeadm init --config /k"}, "init " + id},
		"kubeadm in a script that is called by its path": {[]string{"/run.sh"}, "join " + id},
		"kubeadm in a script that a shell is given":      {[]string{"/bin/bash -x /run.sh"}, "join " + id},
		"kubeadm in the text that a shell is given": {
			[]string{`bash -c "kubeadm join --config /k"`},
			"join __ID__",
		},
		"kubeadm on a continued line": {[]string{"kubeadm init \\\n  --config /k"}, "init __ID__"},
		"kubeadm that prepares only": {
			[]string{"kubeadm version", "kubeadm init phase preflight --config /k", "kubeadm config images pull"},
			"",
		},
		"kubeadm in a comment": {[]string{"# kubeadm init --config /k"}, ""},
		"kubeadm in a here document": {
			[]string{"cat > /x <<EOF\nkubeadm init --config /k\nEOF\necho done"},
			"",
		},
		"programs of the image": {
			[]string{"systemctl start kubelet", "", "/usr/bin/update --all", "sh", "true && false"},
			"",
		},
		"the first of two": {
			[]string{"kubeadm init --config /k", "kubeadm join --config /k"},
			"init __ID__",
		},
		"kubeadm as a list of arguments, the way of Linux": {[]string{"kubeadm join --config /k"}, "join __ID__"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sys := newSystem()
			sys.write("/k", "__ID__", 0o600)
			sys.write("/run.sh", "#!/bin/bash\nset -e\n"+sed+"\nkubeadm join --config /k\n", 0o700)
			sys.commands = test.commands
			call, err := sys.runCommands(id)
			if err != nil {
				t.Fatal(err)
			}

			got := ""
			if call != nil {
				got = call.verb + " " + sys.read(call.config)
			}

			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestFilesThatCloudInitWrites(t *testing.T) {
	sys, err := readCloudInit(`#cloud-config
write_files:
- {path: /plain, content: a, permissions: '0600'}
- {path: /plain, content: b, append: true, permissions: 0640}
- {path: /base64, encoding: b64, content: aGVsbG8=}
- {path: /packed, encoding: gzip+base64, content: H4sIAAAAAAAA/8tIzcnJBwCGphA2BQAAAA==}
runcmd:
- [sh, -c, "kubeadm init --config /k"]
- [kubeadm, join, 3]
- null
users: [{name: core}]
`)
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]file{
		"/plain":  {"ab", 0o640, root},
		"/base64": {"hello", defaultMode, root},
		"/packed": {"hello", defaultMode, root},
	}
	for path, w := range want {
		if got := sys.files[path]; got != w {
			t.Errorf("%s: got %+v, want %+v", path, got, w)
		}
	}

	check.Length(t, "sys.commands", sys.commands, 3)
	check.Equal(t, "sys.commands[0]", sys.commands[0], "kubeadm init --config /k")
	check.Equal(t, "sys.commands[1]", sys.commands[1], "kubeadm join 3")
}

func TestTheNameOfANode(t *testing.T) {
	tests := map[string]struct {
		machine api.GuestVM
		file    string
		want    string
	}{
		"cloud-init: what the engine says":              {api.GuestVM{HostName: "Engine"}, "file", "engine"},
		"cloud-init: the file, when the engine is mute": {api.GuestVM{}, "file\n", "file"},
		"Ignition: the file": {api.GuestVM{
			Ignition: true,
			HostName: "engine",
		}, "File\n", "file"},
		"Ignition: what the engine says, else": {api.GuestVM{
			Ignition: true,
			HostName: "engine",
		}, "", "engine"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sys := newSystem()
			sys.write("/etc/hostname", test.file, defaultMode)
			if got := sys.hostName(test.machine); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}

	s := newSite(t, "127.40.7.5:6443")
	s.mustStart(
		machine(
			"cp-1",
			"127.40.0.10",
			strings.ReplaceAll(
				s.initData("v1.36.1"),
				"nodeRegistration: {",
				"nodeRegistration: {name: Named.Example, ",
			),
		),
	)
	if n, _ := s.guests.Node("id-cp-1"); n.Name != "named.example" || !n.ControlPlane || n.Endpoint != s.endpoint {
		t.Errorf("node: %+v", n)
	}
}
