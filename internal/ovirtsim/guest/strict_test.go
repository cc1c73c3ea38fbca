package guest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// initFor returns Cluster API's data for the first node of a Kubernetes version, with the controller's additions.
func (s *site) initFor(version string, guest bootstrap.Guest) string {
	s.t.Helper()
	parsed := semver.MustParse(strings.TrimPrefix(version, "v"))
	cluster, err := kubeadmtypes.MarshalClusterConfigurationForVersion(&bootstrapv1.ClusterConfiguration{
		ControlPlaneEndpoint: s.endpoint,
	}, parsed, &upstream.AdditionalData{KubernetesVersion: &version})
	check.Error(s.t, err, "")
	init, err := kubeadmtypes.MarshalInitConfigurationForVersion(&bootstrapv1.InitConfiguration{}, parsed)
	check.Error(s.t, err, "")
	data, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		Certificates: s.certificates(), ClusterConfiguration: cluster, InitConfiguration: init,
	})
	check.Error(s.t, err, "")
	data, err = bootstrap.Merge(data, bootstrap.CloudConfig, guest)
	check.Error(s.t, err, "")

	return string(data)
}

// ofVersion returns a VM whose image has the given Kubernetes version.
func ofVersion(name, version, data string) api.GuestVM {
	m := machine(name, "127.40.0.10", data)
	m.KubernetesVersion = version

	return m
}

// endpointOn returns the services that hold the endpoint's address.
func endpointOn(s *site, change func(*bootstrap.APIEndpoint)) *bootstrap.Services {
	address := netip.MustParseAddrPort(s.endpoint)
	api := &bootstrap.APIEndpoint{
		VirtualAddress: bootstrap.VirtualAddress{Address: address.Addr(), RouterID: 7}, Port: int32(address.Port()),
		ServerPort: int32(address.Port()),
	}
	change(api)

	return &bootstrap.Services{
		HostName: "cp-1", Interface: "enp1s0", Self: netip.MustParseAddr("127.40.0.10"), API: api,
	}
}

// try runs a VM and removes it.
func (s *site) try(m api.GuestVM) error {
	s.t.Helper()
	vm := s.start(m)
	err := vm.up()
	vm.off()
	s.guests.HandleRemoval(vm.id)

	return err
}

// TestEachKubeadmReadsWhatIsWrittenForItsVersion covers the data of Cluster API and the controller for several
// versions. The versions are before and after changes of kubeadm's configuration and of kubeconfigs.
func TestEachKubeadmReadsWhatIsWrittenForItsVersion(t *testing.T) {
	for i, version := range []string{"v1.27.16", "v1.28.15", "v1.29.0", "v1.30.14", "v1.31.0", "v1.36.1"} {
		t.Run(version, func(t *testing.T) {
			s := newSite(t, fmt.Sprintf("127.40.8.%d:6443", i+5))
			services := endpointOn(
				s, func(e *bootstrap.APIEndpoint) { e.KubeVIPImage = "ghcr.io/kube-vip/kube-vip:v1" },
			)
			s.mustStart(ofVersion("cp-1", version, s.initFor(version, bootstrap.Guest{Services: services})))
		})
	}
}

func TestKubeadmRefusesWhatItsTypesDoNotHave(t *testing.T) {
	s := newSite(t, "127.40.9.5:6443")
	init := s.initData("v1.30.0")
	older := strings.ReplaceAll(init, "v1beta4", "v1beta3")

	for name, tt := range map[string]struct{ data, want string }{
		"v1beta4 for a kubeadm of 1.30": {
			init, `is registered for version "kubeadm.k8s.io/v1beta4"; this kubeadm reads kubeadm.k8s.io/v1beta3`,
		},
		"a list of arguments in v1beta3": {older, "cannot unmarshal array into Go struct field"},
		"a field of nobody's": {
			strings.NewReplacer("kubernetesVersion:", "kubernetesversion: a\n      kubernetesVersion:").Replace(older),
			`unknown field "kubernetesversion"`,
		},
		"a kind twice": {
			strings.ReplaceAll(older, "kind: InitConfiguration", "kind: ClusterConfiguration"),
			`kind "ClusterConfiguration" is specified twice`,
		},
		"a document without a kind": {
			strings.ReplaceAll(older, "kind: InitConfiguration", "name: a"),
			"kind and apiVersion is mandatory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			check.Error(t, s.try(ofVersion("x", "v1.30.0", tt.data)), tt.want)
		})
	}
}

// keepalivedInit returns the user data of a first node with keepalived and haproxy, after replacing old in it.
func keepalivedInit(s *site, old, replacement string) string {
	services := endpointOn(s, func(e *bootstrap.APIEndpoint) {
		e.LoadBalancer, e.ServerPort = bootstrap.HAProxy, bootstrap.DefaultAPIServerPort
	})
	data := s.initFor("v1.36.1", bootstrap.Guest{Services: services})
	// The script starts services after it has changed their configuration. This would hide that a unit is not enabled.
	data = strings.ReplaceAll(data, "systemctl --no-block", "echo")
	check.Contains(s.t, "the user data", data, old)

	return strings.ReplaceAll(data, old, replacement)
}

// TestNobodyHasTheEndpointOfANodeThatDoesNotServeIt makes one change at a time to the controller's data.
func TestNobodyHasTheEndpointOfANodeThatDoesNotServeIt(t *testing.T) {
	s := newSite(t, "127.40.10.5:6443")

	for name, tt := range map[string]struct{ old, replacement, want string }{
		"nothing": {"#cloud-config", "#cloud-config", ""},
		"keepalived is not enabled": {
			"systemctl enable --now keepalived.service", "echo", "keepalived.service does not run",
		},
		"keepalived is enabled for the next boot only": {
			"systemctl enable --now keepalived.service", "systemctl enable keepalived.service",
			"keepalived.service does not run",
		},
		"keepalived is masked": {
			"systemctl enable --now keepalived.service", "systemctl mask --now keepalived",
			"keepalived.service does not run",
		},
		"the load balancer is not enabled": {
			"systemctl enable --now haproxy.service", "echo",
			"the API server of this node listens at port 6444",
		},
		"the API server has the load balancer's port": {
			"bindPort: 6444", "bindPort: 6443", "[ERROR Port-6443]: Port 6443 is in use",
		},
		"a configuration that can be executed": {
			"path: /etc/capolvm/keepalived.conf\n    owner: root:root\n    permissions: '0644'",
			"path: /etc/capolvm/keepalived.conf\n    owner: root:root\n    permissions: '0755'",
			"is not a regular non-executable file",
		},
		"a script that others can write": {
			"path: /etc/keepalived/capolvm-check-api.sh\n    owner: root:root\n    permissions: '0755'",
			"path: /etc/keepalived/capolvm-check-api.sh\n    owner: root:root\n    permissions: '0777'",
			"keepalived: Unsafe permissions found for script",
		},
		"a script of somebody else": {
			"path: /etc/keepalived/capolvm-check-api.sh\n    owner: root:root",
			"path: /etc/keepalived/capolvm-check-api.sh\n    owner: nobody:nobody",
			"it is owned by nobody",
		},
		"a script that is not executable, called by its path": {
			"track_script {", "notify /etc/capolvm/control-plane\n                track_script {",
			"is not executable for uid:gid 0:0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			check.Error(t, s.try(ofVersion("cp-1", "v1.36.1", keepalivedInit(s, tt.old, tt.replacement))), tt.want)
		})
	}
}

func TestAnEndpointAtAnotherPortNeedsSomethingThatListensThere(t *testing.T) {
	s := newSite(t, "127.40.11.5:8443")
	bare := s.initFor("v1.36.1", bootstrap.Guest{})
	held := s.initFor("v1.36.1", bootstrap.Guest{Files: []bootstrap.File{{
		Path:    "/etc/kubernetes/manifests/vip.yaml",
		Content: "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: kube-vip, image: kube-vip}]}\n",
	}}})

	check.Error(t, s.try(ofVersion("a", "v1.36.1", held)),
		"timed out waiting for the control plane at 127.40.11.5:8443: the API server of this node listens at port 6443")
	// A load balancer on another machine may use a port other than the nodes' port.
	check.Error(t, s.try(ofVersion("b", "v1.36.1", bare)), "")
}

// TestALoadBalancerInAContainerNeedsTheProxy covers a network in which a proxy is the only way out.
func TestALoadBalancerInAContainerNeedsTheProxy(t *testing.T) {
	s := newSite(t, "127.40.12.5:6443")
	start := func(name string, change func(string) string) error {
		services := endpointOn(s, func(e *bootstrap.APIEndpoint) {
			e.LoadBalancer, e.ServerPort = bootstrap.Nginx, bootstrap.DefaultAPIServerPort
			e.NginxImage = "registry.example.com/nginx:1"
		})
		vm := ofVersion(name, "v1.36.1", change(s.initFor("v1.36.1", bootstrap.Guest{
			Services: services, Proxy: &bootstrap.Proxy{HTTPS: "http://proxy:3128"},
		})))
		vm.Interfaces[0].Proxy = "http://proxy:3128"

		return s.try(vm)
	}
	dropins := func(unit string) string { return "/etc/systemd/system/" + unit + ".d/" }
	// The image does not run this runtime, so its drop-in serves for nginx.
	told := func(data string) string {
		return strings.ReplaceAll(data, dropins("crio.service"), dropins("capolvm-nginx.service"))
	}

	check.Error(t, start("a", func(data string) string {
		return strings.ReplaceAll(told(data), dropins("containerd.service"), "/etc/nowhere/")
	}), "containerd.service: failed to pull an image")
	check.Error(t, start("b", func(data string) string {
		return strings.ReplaceAll(data, dropins("capolvm-nginx.service"), "/etc/nowhere/")
	}), "capolvm-nginx.service: failed to pull an image")
	check.Error(t, start("c", told), "")
}

// ockInit returns a handwritten payload for a first node with an image of OCK.
func (s *site) ockInit(change func(config3)) api.GuestVM {
	config := newConfig3("3.4.0").file("/etc/hostname", 0o644, "cp-1\n").
		file(keyfilePath, 0o600, keyfileFor("127.40.0.41")).
		file("/etc/kubeadm.yml", 0o600, s.clusterConfig("v1.36.1")+"---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: "+
			"InitConfiguration\n"+nodeArguments+"  criSocket: unix:///var/run/crio/crio.sock\n").
		file("/etc/kubeadm.sh", 0o700, "#!/bin/bash\n"+substitution+"\nkubeadm init --config /etc/kubeadm.yml\n").
		unit(kubeadmService(kubeadmUnit))
	for _, each := range s.certificates() {
		config.file(each.CertFile, 0o640, string(each.KeyPair.Cert)).
			file(each.KeyFile, 0o600, string(each.KeyPair.Key))
	}

	change(config)
	vm := ignitionMachine("cp-1", config.raw(), "")
	vm.Image = store.ImageOCK

	return vm
}

func TestAnImageOfOCKMakesItsOwnClusterUnlessToldOtherwise(t *testing.T) {
	s := newSite(t, "127.40.13.5:6443")
	set := func(name string, enabled bool) map[string]any {
		return map[string]any{"name": name, "enabled": enabled}
	}
	off, crio := set("ocne.service", false), set("crio.service", true)

	for name, tt := range map[string]struct {
		change func(config3)
		want   string
	}{
		"told nothing": {func(config3) {}, "ocne.service, which the image enables, has made a cluster of its own"},
		"told to start its runtime alone": {
			func(c config3) { c.unit(crio) }, "ocne.service, which the image enables, has made a cluster of its own",
		},
		"told to make none, without a runtime": {
			func(c config3) { c.unit(off) }, "[ERROR CRI]: could not connect to the container runtime",
		},
		"told by masking": {
			func(c config3) { c.unit(map[string]any{"name": "ocne.service", "mask": true}) }, "[ERROR CRI]",
		},
		"told to have a load balancer that it has not": {
			func(c config3) {
				c.unit(off).unit(crio).unit(set("haproxy.service", true)).unit(set("keepalived.service", true)).
					file("/etc/capolvm/haproxy.cfg", 0o644, "bind :::6443 v4v6\n").
					file("/etc/capolvm/keepalived.conf", 0o644, "127.40.13.5/32 dev enp1s0\n").
					file("/etc/kubeadm.yml.d", 0o600, "")
			}, "",
		},
		"told to make none, and to start its runtime": {func(c config3) { c.unit(off).unit(crio) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check.Error(t, s.try(s.ockInit(tt.change)), tt.want)
		})
	}
}

// TestANodeComesBackOnlyIfItsServicesAreEnabled restarts nodes whose services run but may not be enabled.
func TestANodeComesBackOnlyIfItsServicesAreEnabled(t *testing.T) {
	s := newSite(t, "127.40.14.5:6443")
	ock := func(unit string) api.GuestVM {
		return s.ockInit(func(c config3) {
			c.unit(map[string]any{"name": "ocne.service", "enabled": false}).
				unit(map[string]any{"name": "crio.service", "enabled": true}).
				unit(map[string]any{"name": unit, "enabled": true})
		})
	}

	vm := ock("keepalived.service")
	s.mustStart(vm).halt()
	check.Error(t, s.try(vm), "systemd: kubelet.service is not enabled, and did not start again")

	for unit, want := range map[string]string{"kubelet.service": "", "keepalived.service": "kubelet.service"} {
		sys, err := provisionSystem(t.Context(), ock(unit))
		check.Error(t, err, "")
		check.Equal(t, unit, sys.findDisabledUnit(&node{criSocket: "unix:///var/run/crio/crio.sock"}), want)
	}

	sys := newSystem()
	sys.commands = []string{"systemctl start keepalived", "systemctl enable haproxy"}
	_, err := sys.runCommands("id")
	check.Error(t, err, "")
	check.Equal(t, "started only", sys.findDisabledUnit(&node{}), "keepalived.service")
	check.Equal(t, "enabled only", sys.isRunning("haproxy.service"), false)
}

// TestSystemdDoesNotExecuteWhatSELinuxDenies puts a unit's script into folders with a label that forbids systemd to
// execute it.
func TestSystemdDoesNotExecuteWhatSELinuxDenies(t *testing.T) {
	for path, want := range map[string]int{"/opt/run.sh": 1, "/etc/capolvm/run.sh": 1, "/root/run.sh": 0, "/tmp/run.sh": 0,
		"/home/ocne/run.sh": 0, "/var/tmp/run.sh": 0} {
		config := newConfig3("3.4.0").file(path, 0o700, "true").unit(map[string]any{
			"name": "run.service", "enabled": true,
			"contents": "[Service]\nExecStart=" + path + "\n[Install]\nWantedBy=multi-user.target\n",
		})

		for _, name := range store.Images {
			sys, err := readIgnition(string(config.raw()), "", &initramfs{image: images[name]})
			check.Error(t, err, "")
			if !images[name].enforcing {
				check.Length(t, path+" without SELinux", sys.commands, 1)
				continue
			}

			check.Length(t, path+" of "+name, sys.commands, want)
			check.Equal(t, "it is told", strings.Contains(strings.Join(sys.warnings, "\n"), "SELinux"), want == 0)
		}
	}
}

// TestFilesOfOthersAreNotRead covers the owners of files that programs of root read.
func TestFilesOfOthersAreNotRead(t *testing.T) {
	sys, err := readCloudInit("write_files:\n- {path: " + keyfilePath + ", permissions: '0600', owner: 'nobody:nobody', " +
		"content: '[connection]'}\n")
	check.Error(t, err, "")
	profiles, warnings, err := readKeyfiles(sys)
	check.Error(t, err, "")
	check.Length(t, "profiles", profiles, 0)
	check.Contains(t, "warnings", strings.Join(warnings, "\n"), "its owner is nobody instead of root")

	_, err = readCloudInit("users: [{name: ops}]\nwrite_files: [{path: /a, owner: 'ops:ops', content: a}]\n")
	check.Error(t, err, "Unknown user or group: ops")
	_, err = readCloudInit(
		"users: [{name: ops}]\nwrite_files: [{path: /a, owner: 'ops:ops', content: a, defer: true}]\n",
	)
	check.Error(t, err, "")

	for user, want := range map[string]string{`{"name":"core"}`: "core", `{"id":0}`: root, `{"id":1000}`: "1000"} {
		sys, err := readIgnition(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","user":`+user+
			`,"contents":{"source":"data:,a"}}]}}`, "", &initramfs{})
		check.Error(t, err, "")
		check.Equal(t, user, sys.files["/a"].owner, want)
	}
}
