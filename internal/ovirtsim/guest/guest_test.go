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
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// site makes user data as the kubeadm bootstrap provider does, and runs VMs.
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
		fmt.Fprintf(&out, "-   path: /etc/kubernetes/pki/%s.crt\n    content: |\n      %s\n", path, indent(string(certs.EncodeCertPEM(a.cert))))
		fmt.Fprintf(&out, "-   path: /etc/kubernetes/pki/%s.key\n    content: |\n      %s\n", path, indent(string(certs.EncodePrivateKeyPEM(a.key))))
	}
	return out.String()
}

func (s *site) initData(version string) string {
	return s.merged("## template: jinja\n#cloud-config\nwrite_files:\n" + s.pki() + fmt.Sprintf(`-   path: /run/kubeadm/kubeadm.yaml
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
`, s.endpoint, version))
}

func (s *site) joinData(token, hash string, controlPlane bool) string {
	extra, files := "", ""
	if controlPlane {
		extra, files = "\n      controlPlane: {}", s.pki()
	}
	return s.merged("#cloud-config\nwrite_files:\n" + files + fmt.Sprintf(`-   path: /run/kubeadm/kubeadm-join-config.yaml
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
`, s.endpoint, token, hash, extra))
}

// merged passes data through what the controller adds, so that both sides agree on it.
func (s *site) merged(data string) string {
	s.t.Helper()
	out, err := bootstrap.WithProviderID([]byte(data), bootstrap.CloudConfig)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

func machine(name, address, data string) ovirtsim.GuestVM {
	return ovirtsim.GuestVM{
		ID: "id-" + name, Name: name, HostName: name, UserData: data, KubernetesVersion: "v1.36.1", Interfaces: []ovirtsim.GuestInterface{{Name: "enp1s0", MAC: "56:6f:1a:00:00:01"}},
		NICs: []ovirtsim.GuestNIC{{Interface: "enp1s0", BootProtocol: "static", Address: address, Netmask: "255.255.255.0", Gateway: "127.40.0.1"}},
	}
}

func (s *site) boot(m ovirtsim.GuestVM) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
	defer cancel()
	return s.guests.Boot(ctx, m, func([]ovirtsim.ReportedInterface) {})
}

func (s *site) client() client.Client {
	s.t.Helper()
	c, err := client.New(&rest.Config{Host: "https://" + s.endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: certs.EncodeCertPEM(s.ca.cert)}}, client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func TestVMsBecomeNodesOfTheClusterThatTheirUserDataNames(t *testing.T) {
	first, second := newSite(t, "127.40.0.5:6443"), newSite(t, "127.40.1.5:6443")
	for _, s := range []*site{first, second} { // both on port 6443 at once
		if err := s.boot(machine("cp-1", "127.40.0.10", s.initData("v1.36.1"))); err != nil {
			t.Fatal(err)
		}
	}
	s := first
	c := s.client()
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Data: map[string][]byte{"token-secret": []byte("0123456789abcdef")}}
	if err := c.Create(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	good := "abcdef.0123456789abcdef"
	if err := s.boot(machine("cp-2", "127.40.0.11", s.joinData(good, s.ca.hash(), true))); err != nil {
		t.Fatal(err)
	}
	if err := s.boot(machine("worker-1", "127.40.0.12", s.joinData(good, s.ca.hash(), false))); err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := c.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 3 {
		t.Fatalf("%d nodes", len(nodes.Items))
	}
	for _, n := range nodes.Items {
		if n.Spec.ProviderID != "olvm://id-"+n.Name || n.Status.NodeInfo.KubeletVersion != "v1.36.1" {
			t.Errorf("node %s has provider ID %s and version %s", n.Name, n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion)
		}
		if n.Name == "worker-1" && n.Labels["pool"] != "a" {
			t.Errorf("labels of the worker: %v", n.Labels)
		}
	}

	// The leader of etcd dies: another member takes over, and the endpoint goes on being served.
	s.guests.Halted("id-cp-1")
	s.guests.Removed("id-cp-1")
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": "etcd"}); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Annotations["etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from"] == "" {
		t.Errorf("etcd members: %+v", pods.Items)
	}
	s.guests.Halted("id-cp-2")
	if err := c.List(t.Context(), &nodes); err == nil {
		t.Error("the endpoint is served without an API server")
	}
	if err := s.boot(machine("cp-2", "127.40.0.11", "")); err != nil {
		t.Errorf("a control plane that comes back: %v", err)
	}
	if err := s.client().List(t.Context(), &nodes); err != nil {
		t.Errorf("the endpoint is not served again: %v", err)
	}
	s.guests.Removed("id-cp-2")
	if len(s.guests.clusters) != 0 {
		t.Error("the cluster outlives its last control plane node")
	}
}

func TestGuestsThatWouldNotComeUpSayWhy(t *testing.T) {
	s := newSite(t, "127.40.2.5:6443")
	if err := s.boot(machine("cp-1", "127.40.0.10", s.initData("v1.36.1"))); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*ovirtsim.GuestVM)) ovirtsim.GuestVM {
		m := machine("x", "127.40.0.20", "#cloud-config\n")
		change(&m)
		return m
	}
	tests := map[string]struct {
		machine ovirtsim.GuestVM
		want    string
	}{
		"no network interface":      {with(func(m *ovirtsim.GuestVM) { m.Interfaces = nil }), "no network interface"},
		"no configuration, no DHCP": {with(func(m *ovirtsim.GuestVM) { m.NICs = nil }), "no DHCP"},
		"another interface":         {with(func(m *ovirtsim.GuestVM) { m.NICs[0].Interface = "eth0" }), "no interface \"eth0\""},
		"gateway elsewhere":         {with(func(m *ovirtsim.GuestVM) { m.NICs[0].Gateway = "127.50.0.1" }), "not in the subnet"},
		"no address":                {with(func(m *ovirtsim.GuestVM) { m.NICs[0].Address = "" }), "unusable"},
		"an image without kubeadm":  {with(func(m *ovirtsim.GuestVM) { m.UserData, m.KubernetesVersion = s.initData("v1.36.1"), "" }), "command not found"},
		"another version":           {with(func(m *ovirtsim.GuestVM) { m.UserData = s.initData("v1.35.0") }), "does not deploy"},
		"an endpoint that is taken": {with(func(m *ovirtsim.GuestVM) { m.UserData = s.initData("v1.36.1") }), "already serves"},
		"an unknown token":          {with(func(m *ovirtsim.GuestVM) { m.UserData = s.joinData("aaaaaa.bbbb", s.ca.hash(), false) }), "does not know the bootstrap token"},
		"another CA":                {with(func(m *ovirtsim.GuestVM) { m.UserData = s.joinData("aaaaaa.bbbb", "sha256:00", false) }), "caCertHashes"},
		"user data that is none":    {with(func(m *ovirtsim.GuestVM) { m.UserData = "a: [" }), "not a cloud-config"},
		"Ignition":                  {with(func(m *ovirtsim.GuestVM) { m.Ignition = true }), "Ignition"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := s.boot(test.machine); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
