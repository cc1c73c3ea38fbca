package bootstrap

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// written returns the contents of files by path.
func written(files []File) map[string]string {
	out := map[string]string{}
	for _, file := range files {
		out[file.Path] = file.Content
	}

	return out
}

// TestServicesListenAtTheFamiliesOfTheEndpoint checks that services listen on no other family. If an image has IPv6
// disabled, a service cannot listen on ::.
func TestServicesListenAtTheFamiliesOfTheEndpoint(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.20.30.5"), netip.MustParseAddr("fd00::5")

	for name, test := range map[string]struct {
		first, second  netip.Addr
		haproxy, nginx []string
		asked          string
		ingress        string
	}{
		"IPv4": {
			v4, netip.Addr{}, []string{"bind 0.0.0.0:6443"}, []string{"listen 0.0.0.0:6443;"},
			"https://127.0.0.1:6443/readyz", "for at in 127.0.0.1; do",
		},
		"IPv6": {
			v6, netip.Addr{}, []string{"bind :::6443 v6only"}, []string{"listen [::]:6443 ipv6only=on;"},
			"https://[::1]:6443/readyz", "for at in ::1; do",
		},
		"both": {
			v4, v6, []string{"bind 0.0.0.0:6443", "bind :::6443 v6only"},
			[]string{"listen 0.0.0.0:6443;", "listen [::]:6443 ipv6only=on;"},
			"https://127.0.0.1:6443/readyz", "for at in 127.0.0.1 ::1; do",
		},
	} {
		t.Run(name, func(t *testing.T) {
			listeners := func(balancer LoadBalancer, path, word string) []string {
				files := written(served(balancer, func(s *Services) {
					s.API.Address, s.API.Additional = test.first, test.second
					s.Ingress = &VirtualAddress{Address: test.first, Additional: test.second, RouterID: 52}
				}).buildFiles(false))
				check.Contains(t, "check of the API", files["/etc/keepalived/capolvm-check-api.sh"], test.asked)
				check.Contains(t, "check of ingress", files["/etc/keepalived/capolvm-check-ingress.sh"], test.ingress)

				var out []string

				for line := range strings.Lines(files[path]) {
					if line = strings.TrimSpace(line); strings.HasPrefix(line, word+" ") {
						out = append(out, line)
					}
				}

				return out
			}
			check.Equal(t, "haproxy", listeners(HAProxy, "/etc/capolvm/haproxy.cfg", "bind"), test.haproxy)
			check.Equal(t, "nginx", listeners(Nginx, "/etc/capolvm/nginx.conf", "listen"), test.nginx)
		})
	}
}

// TestAnIngressOfIPv6IsAskedAtTheNodesOwnAddress covers the ports of pods, because they are not mapped on ::1.
func TestAnIngressOfIPv6IsAskedAtTheNodesOwnAddress(t *testing.T) {
	s := &Services{
		Self:    netip.MustParseAddr("fd00::7"),
		Ingress: &VirtualAddress{Address: netip.MustParseAddr("fd00::6")},
	}
	check.Equal(t, "hosts", s.collectIngressHosts(), []string{"::1", "fd00::7"})
}

// TestTheAPIServerIsWhereTheEndpointLooksForIt checks kubeadm's port. The endpoint, its checks and its load balancer
// use this port.
func TestTheAPIServerIsWhereTheEndpointLooksForIt(t *testing.T) {
	const start = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: "

	for name, test := range map[string]struct {
		config   string
		services *Services
		want     string
	}{
		"another port without a load balancer": {
			start + "InitConfiguration\n", served(NoLoadBalancer, func(s *Services) { s.API.Port = 8443 }), "bindPort: 8443",
		},
		"another port with kube-vip": {
			start + "JoinConfiguration\ncontrolPlane: {}\n",
			served(NoLoadBalancer, func(s *Services) { s.API.Port, s.API.KubeVIPImage = 443, "kube-vip" }), "bindPort: 443",
		},
		"the same port, which is written": {
			start + "InitConfiguration\nlocalAPIEndpoint: {bindPort: 8443}\n",
			served(NoLoadBalancer, func(s *Services) { s.API.Port = 8443 }), "bindPort: 8443",
		},
		"kubeadm's own port": {start + "InitConfiguration\n", served(NoLoadBalancer, nil), ""},
		"a load balancer": {
			start + "InitConfiguration\n", served(HAProxy, func(s *Services) { s.API.Port = 8443 }), "bindPort: 6444",
		},
		"API servers at kubeadm's own port": {
			start + "InitConfiguration\n",
			served(HAProxy, func(s *Services) { s.API.Port, s.API.ServerPort = 443, 6443 }), "",
		},
		"a worker": {
			start + "JoinConfiguration\n", served(NoLoadBalancer, func(s *Services) { s.API.Port = 8443 }), "",
		},
		"an endpoint of others": {start + "InitConfiguration\n", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			edit, err := editKubeadm(test.config, Guest{Services: test.services})
			check.Error(t, err, "")

			if test.want == "" {
				check.Lacks(t, "configuration", edit.text, "bindPort")
			} else {
				check.Contains(t, "configuration", edit.text, test.want)
			}
		})
	}

	_, err := editKubeadm(start+"InitConfiguration\nlocalAPIEndpoint: {bindPort: 6444}\n",
		Guest{Services: served(NoLoadBalancer, nil)})
	check.Error(t, err, "localAPIEndpoint.bindPort is 6444, and without a load balancer API servers are at port 6443")

	script := served(NoLoadBalancer, func(s *Services) { s.API.Port = 8443 }).renderFollowScript()
	check.Contains(t, "the script that follows nodes", script, "--server https://10.20.30.7:8443")
}

// TestTheProxyReachesEachUnitThatPulls looks for pull commands in units. Such units need the proxy, because they do not
// use the container runtime of Kubernetes.
func TestTheProxyReachesEachUnitThatPulls(t *testing.T) {
	proxy := &Proxy{HTTPS: "http://proxy:3128"}

	for name, services := range map[string]*Services{
		"nginx in a container": served(Nginx, func(s *Services) { s.API.NginxImage = "nginx" }),
		"nginx of the image":   served(Nginx, nil),
		"haproxy":              served(HAProxy, nil),
		"no services":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			files := written(proxy.buildFiles(services.pullingUnits()))

			for _, unit := range services.buildUnits() {
				dropIn := files["/etc/systemd/system/"+unit.Name+".d/10-capolvm-proxy.conf"]
				pulls := strings.Contains(unit.Contents, "podman run")
				check.Equal(
					t, "a proxy of "+unit.Name, strings.Contains(dropIn, `"HTTPS_PROXY=http://proxy:3128"`), pulls,
				)
			}

			check.Set(t, "a proxy of crio", files["/etc/systemd/system/crio.service.d/10-capolvm-proxy.conf"])
		})
	}

	merged, err := Merge([]byte(initData), CloudConfig, Guest{
		HostName: "demo-1", Proxy: proxy, Services: served(Nginx, func(s *Services) { s.API.NginxImage = "nginx" }),
	})
	check.Error(t, err, "")
	check.Contains(
		t, "user data", string(merged), "path: /etc/systemd/system/capolvm-nginx.service.d/10-capolvm-proxy.conf",
	)

	// OCK images pull their updates themselves.
	merged, err = Merge([]byte(`{"ignition":{"version":"3.0.0"}}`), Ignition, Guest{HostName: "demo-1", Proxy: proxy})
	check.Error(t, err, "")

	for _, unit := range []string{"crio", "ocne-update", "rpm-ostreed"} {
		check.Contains(t, "Ignition", string(merged), "/etc/systemd/system/"+unit+".service.d/10-capolvm-proxy.conf")
	}
}

// TestKubeVIPOutlivesAStallOfEtcd checks the default timings, which kube-vip and other providers share, and custom
// ones.
func TestKubeVIPOutlivesAStallOfEtcd(t *testing.T) {
	for name, test := range map[string]struct {
		lease Lease
		want  [3]string
	}{
		"nothing is asked for": {Lease{}, [3]string{"15", "10", "2"}},
		"some of it":           {Lease{Duration: 60}, [3]string{"60", "10", "2"}},
		"all of it":            {Lease{Duration: 5, RenewDeadline: 3, RetryPeriod: 1}, [3]string{"5", "3", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var pod corev1.Pod
			text := renderKubeVIPPod(
				served(NoLoadBalancer, func(s *Services) { s.API.KubeVIPLease = test.lease }), false,
			)
			check.Error(t, kyaml.UnmarshalStrict([]byte(text), &pod), "")
			env := map[string]string{}

			for _, each := range pod.Spec.Containers[0].Env {
				env[each.Name] = each.Value
			}

			got := [3]string{env["vip_leaseduration"], env["vip_renewdeadline"], env["vip_retryperiod"]}
			check.Equal(t, "lease", got, test.want)
		})
	}
}

// TestAStaticAddressOfIPv6WithoutAGatewayFollowsRouters checks a promise of the documentation. With the method manual,
// NetworkManager ignores router advertisements, and cloud-init's profile uses this method.
func TestAStaticAddressOfIPv6WithoutAGatewayFollowsRouters(t *testing.T) {
	nic := func(change func(*render.GuestNIC)) Guest {
		out := render.GuestNIC{
			Name: "enp1s0", DefaultRoute: true,
			IPv6: render.IP{Method: render.Static, Address: netip.MustParsePrefix("fd00::7/64")},
		}
		if change != nil {
			change(&out)
		}

		return Guest{Interfaces: []render.GuestNIC{out}}
	}
	gateway := nic(func(n *render.GuestNIC) { n.IPv6.Gateway = netip.MustParseAddr("fe80::1") })
	second := nic(func(n *render.GuestNIC) { n.DefaultRoute = false })
	const follows = "method=auto\naddr-gen-mode=eui64\naddress1=fd00::7/64\n"

	for name, test := range map[string]struct {
		guest Guest
		want  string
		// told reports whether the guest needs more than cloud-init's own profile.
		told bool
	}{
		"no gateway":         {nic(nil), "[ipv6]\n" + follows, true},
		"a gateway":          {gateway, "[ipv6]\nmethod=manual\naddress1=fd00::7/64,fe80::1\n", false},
		"a second interface": {second, "[ipv6]\nmethod=manual\naddress1=fd00::7/64\n", false},
		"IPv4 without a route": {
			nic(func(n *render.GuestNIC) { n.IPv4, n.IPv6 = n.IPv6, render.IP{} }), "[ipv4]\nmethod=manual\n", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var profile string
			for _, file := range test.guest.buildNetworkFiles() {
				profile += file.Content
			}

			check.Contains(t, "profile", profile, test.want)
			check.Lacks(t, "profile", profile, "never-default")

			merged, err := Merge([]byte("#cloud-config\n{}\n"), CloudConfig, test.guest)
			check.Error(t, err, "")
			check.Equal(t, "a profile beside cloud-init's",
				strings.Contains(string(merged), "nmcli --wait 60 connection up enp1s0"), test.told)
		})
	}
}

// TestAServiceThatEndsStartsAgain checks that services restart regardless of the image's unit. The units of keepalived,
// and of haproxy on Oracle Linux, do not restart them. The node would then never take the address again, or keep it in
// addition to the next holder.
func TestAServiceThatEndsStartsAgain(t *testing.T) {
	vip := VirtualAddress{Address: netip.MustParseAddr("10.20.30.6"), RouterID: 52}

	for name, test := range map[string]struct {
		services *Services
		want     []string
	}{
		"keepalived alone": {served(NoLoadBalancer, nil), []string{"keepalived"}},
		"haproxy":          {served(HAProxy, nil), []string{"keepalived", "haproxy"}},
		"nginx":            {served(Nginx, nil), []string{"keepalived"}},
		"kube-vip": {
			served(NoLoadBalancer, func(s *Services) { s.API.KubeVIPImage = "kube-vip" }), nil,
		},
		"a worker with ingress": {
			&Services{Self: netip.MustParseAddr("10.20.30.7"), Ingress: &vip}, []string{"keepalived"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			guest := Guest{HostName: "demo-1", Services: test.services}
			cloudConfig, err := Merge([]byte(initData), CloudConfig, guest)
			check.Error(t, err, "")
			ignition, err := Merge([]byte(`{"ignition":{"version":"3.1.0"}}`), Ignition, guest)
			check.Error(t, err, "")

			for _, unit := range []string{"keepalived", "haproxy"} {
				path := "/etc/systemd/system/" + unit + ".service.d/10-capolvm.conf"
				wanted := slices.Contains(test.want, unit)
				check.Equal(t, unit+" with cloud-init", strings.Contains(string(cloudConfig), path), wanted)
				check.Equal(t, unit+" with Ignition", strings.Contains(string(ignition), path), wanted)

				if wanted {
					restartsForever(t, unit+".service", written(test.services.buildFiles(false))[path])
				}
			}
		})
	}

	for _, image := range []string{"", "nginx"} {
		restartsForever(t, nginxService, newNginxUnit(image))
	}
}

// restartsForever checks that a unit, or its drop-in, restarts without a limit. It also has systemd parse the unit.
func restartsForever(t *testing.T, unit, content string) {
	t.Helper()
	head, service, _ := strings.Cut(content, "[Service]\n")
	check.Contains(t, unit, head, "[Unit]\n")
	check.Contains(t, unit, head, "\nStartLimitIntervalSec=0\n")
	check.Contains(t, unit, service, "Restart=always\n")
	check.Contains(t, unit, service, "RestartSec=2\n")

	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		return
	}

	path := filepath.Join(t.TempDir(), unit)
	if !strings.Contains(content, "ExecStart=") {
		check.Error(t, os.WriteFile(path, []byte("[Service]\nExecStart=/bin/true\n"), 0o600), "")
		check.Error(t, os.Mkdir(path+".d", 0o700), "")
		path += ".d/10-capolvm.conf"
	}

	check.Error(t, os.WriteFile(path, []byte(content), 0o600), "")
	command := exec.CommandContext(
		t.Context(), "systemd-analyze", "verify", strings.TrimSuffix(path, ".d/10-capolvm.conf"),
	)
	out, _ := command.CombinedOutput() // it fails if a program is not installed
	check.Lacks(t, "what systemd says of "+unit, string(out), "Unknown")
}
