package bootstrap

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// needProgram skips a test if a program that validates its configuration is not installed.
func needProgram(t *testing.T, name, pack string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed; on Debian: apt-get install %s", name, pack)
	}
}

func TestNetworkManagerReadsItsProfiles(t *testing.T) {
	needProgram(t, "nmcli", "network-manager")
	guest := ignitionGuest()
	guest.Interfaces = append(guest.Interfaces,
		render.GuestNIC{
			Name: "enp3s0",
			IPv4: render.IP{Method: render.Off},
			IPv6: render.IP{
				Method:  render.Static,
				Address: netip.MustParsePrefix("fd00:1::7/64"),
				Gateway: netip.MustParseAddr("fe80::1"),
			},
		},
		render.GuestNIC{Name: "enp4s0", IPv4: render.IP{Method: render.DHCP}, IPv6: render.IP{Method: render.DHCP}, DefaultRoute: true})
	want := map[string][]string{
		"enp1s0": {
			"address1=10.20.30.7/24,10.20.30.1",
			"dns=10.20.30.53;10.20.30.54;",
			"dns-search=example.com;lab.example.com;",
			"dns=fd00::53;",
			"method=manual",
			"method=auto",
			"interface-name=enp1s0",
		},
		"enp2s0": {"address1=fd00::7/64", "method=auto", "never-default=true"},
		"enp3s0": {"method=disabled", "address1=fd00:1::7/64,fe80::1"},
		"enp4s0": {"method=auto", "method=dhcp"},
	}
	read := 0

	for _, file := range guest.buildNetworkFiles() {
		name := strings.TrimSuffix(filepath.Base(file.Path), ".nmconnection")
		if filepath.Ext(file.Path) != ".nmconnection" {
			continue
		}

		read++

		// nmcli parses the profile, changes nothing important, and prints the result.
		command := exec.CommandContext(t.Context(), "nmcli", "--offline", "connection", "modify",
			"connection.autoconnect", "yes")
		command.Stdin = strings.NewReader(file.Content)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, file.Content)
			continue
		}

		for _, line := range want[name] {
			if !strings.Contains(string(out), "\n"+line+"\n") {
				t.Errorf("%s: NetworkManager did not understand %q:\n%s", name, line, out)
			}
		}

		if never := strings.Contains(string(out), "never-default=true"); never != (name == "enp2s0") {
			t.Errorf("%s: never-default is %t:\n%s", name, never, out)
		}
	}

	if read != len(want) {
		t.Errorf("%d profiles", read)
	}
}

func TestCloudInitAcceptsWhatIsMerged(t *testing.T) {
	needProgram(t, "cloud-init", "cloud-init")
	base := cloudinit.BaseUserData{
		KubernetesVersion: semver.MustParse("1.36.1"), PreKubeadmCommands: []string{"echo \"a && b\" > /tmp/x"},
		Users: []bootstrapv1.User{{Name: "ops", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"}}},
		NTP:   &bootstrapv1.NTP{Servers: []string{"ntp.example.com"}},
	}
	first, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		BaseUserData: base,
		Certificates: secret.Certificates{},
		ClusterConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer:\n  " +
			"certSANs: [fd00::5, api.one.example.com, api-int.one.example.com]\n",
		InitConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n",
	})
	if err != nil {
		t.Fatal(err)
	}

	worker, err := cloudinit.NewNode(&cloudinit.NodeInput{BaseUserData: base, JoinConfiguration: joinConfiguration})
	if err != nil {
		t.Fatal(err)
	}

	vip := VirtualAddress{Address: netip.MustParseAddr("10.20.30.5"), RouterID: 51}
	services := func(api APIEndpoint) *Services {
		api.VirtualAddress, api.Port, api.ServerPort = vip, 6443, 6444

		return &Services{
			HostName:  "demo-1",
			Interface: "enp1s0",
			Self:      netip.MustParseAddr("10.20.30.7"),
			API:       &api,
			Ingress:   &VirtualAddress{Address: netip.MustParseAddr("10.20.30.6"), RouterID: 52},
		}
	}
	dual := services(APIEndpoint{KubeVIPImage: "kube-vip"})
	dual.API.Additional = netip.MustParseAddr("fd00::5")
	dual.DNS = &DNS{
		Domain:       "one.example.com",
		Addresses:    []netip.Addr{dual.Self},
		Endpoint:     dual.API.All(),
		ControlPlane: true,
		Image:        "coredns",
	}
	everything := ignitionGuest()
	everything.Extra = []Extra{
		{
			Source: "extra",
			Data:   []byte("packages: [keepalived]\nwrite_files:\n- {path: /etc/more, content: more, append: true}\n"),
		},
	}

	for name, test := range map[string]struct {
		data     []byte
		services *Services
		keys     *SSH
	}{
		"a worker": {worker, nil, &SSH{AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}}},
		"the first node with HAProxy": {first, services(APIEndpoint{
			LoadBalancer: HAProxy,
		}), &SSH{User: "ops", AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}}},
		"the first node with Nginx": {first, services(APIEndpoint{
			LoadBalancer: Nginx,
			NginxImage:   "nginx",
		}), &SSH{User: "me", AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}}},
		"the first node with kube-vip":    {first, services(APIEndpoint{KubeVIPImage: "kube-vip"}), nil},
		"the first node of dual stack":    {first, dual, nil},
		"bootstrap data that does little": {[]byte("#cloud-config\n{}\n"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			guest := everything
			guest.Services, guest.SSH = test.services, test.keys
			merged, err := Merge(test.data, CloudConfig, guest)
			if err != nil {
				t.Fatal(err)
			}

			path := filepath.Join(t.TempDir(), "user-data")

			// Prepend the engine's own first line, like the engine.
			if err := os.WriteFile(path, append([]byte("#cloud-config\n"), merged...), 0o600); err != nil {
				t.Fatal(err)
			}

			out, err := exec.CommandContext(t.Context(), "cloud-init", "schema", "--config-file", path).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Valid ") { // cloud-config, or from 23.3 on schema
				t.Errorf("%v: %s\n%s", err, out, merged)
			}
		})
	}
}

// configurations returns the configurations of nodes with a load balancer, for endpoints of each family. It completes
// templates like follow.sh.
func configurations(t *testing.T, balancer LoadBalancer, path, backend string) map[string]string {
	t.Helper()
	out := map[string]string{}

	for name, addresses := range map[string][]string{
		"IPv4": {"127.0.0.5"}, "IPv6": {"fd00::5"}, "both": {"127.0.0.5", "fd00::5"},
	} {
		peer := "10.20.30.8"
		files := written(served(balancer, func(s *Services) {
			s.Interface, s.API.Port = anInterface(t), freePort(t)
			s.API.Address = netip.MustParseAddr(addresses[0])
			if s.API.Address.Is6() {
				s.Self, peer = netip.MustParseAddr("fd00::7"), "fd00::8"
				s.IngressSelf = netip.MustParseAddr("10.20.30.7")
			}

			s.Ingress = &VirtualAddress{Address: netip.MustParseAddr("127.0.0.6"), RouterID: 52}

			if len(addresses) > 1 {
				s.API.Additional = netip.MustParseAddr(addresses[1])
			}
		}).buildFiles(false))
		check.Set(t, path, files[path])
		lines := strings.ReplaceAll(backend, "%", "10.20.30.7") + "\n" + strings.ReplaceAll(backend, "%", "10.20.30.8")
		out[name] = strings.NewReplacer("\n@BACKENDS@\n", "\n"+lines+"\n", "\n@PEERS@\n", "\n        "+peer+"\n",
			"\n@NODES@\n", "\n        10.20.30.8\n").
			Replace(files[path])
	}

	return out
}

// anInterface returns a network interface of this machine, because keepalived rejects unknown ones and the loopback.
func anInterface(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	check.Error(t, err, "")

	for _, each := range all {
		if each.Flags&net.FlagLoopback == 0 && each.Flags&net.FlagMulticast != 0 {
			return each.Name
		}
	}

	t.Skip("this machine has no network interface")

	return ""
}

// freePort returns an unused port, because nginx binds its ports when it checks a configuration.
func freePort(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Error(t, err, "")
	port := listener.Addr().(*net.TCPAddr).Port
	check.Error(t, listener.Close(), "")

	return int32(port)
}

// accepts fails the test unless a program accepts a configuration.
func accepts(t *testing.T, config, program string, arguments ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	check.Error(t, os.WriteFile(path, []byte(config), 0o600), "")
	out, err := exec.CommandContext(t.Context(), program, append(arguments, path)...).CombinedOutput()
	if err != nil || strings.Contains(strings.ToLower(string(out)), "unknown keyword") {
		t.Errorf("%s: %v: %s\n%s", program, err, out, config)
	}
}

// TestHAProxyReadsTheConfigurationOfANode checks the configuration with the installed haproxy. docs/user/images.md
// lists the versions that were tried.
func TestHAProxyReadsTheConfigurationOfANode(t *testing.T) {
	needProgram(t, "haproxy", "haproxy")

	for name, config := range configurations(t, HAProxy, "/etc/capolvm/haproxy.cfg", "    server % %:6444") {
		t.Run(name, func(t *testing.T) { accepts(t, config, "haproxy", "-c", "-f") })
	}
}

func TestNginxReadsTheConfigurationOfANode(t *testing.T) {
	needProgram(t, "nginx", "libnginx-mod-stream")

	for name, config := range configurations(t, Nginx, "/etc/capolvm/nginx.conf",
		"        server %:6444 max_fails=1 fail_timeout=5s;") {
		config = strings.ReplaceAll(config, "/run/capolvm-nginx.pid", filepath.Join(t.TempDir(), "pid"))
		t.Run(name, func(t *testing.T) { accepts(t, config, "nginx", "-t", "-c") })
	}
}

func TestKeepalivedReadsTheConfigurationOfANode(t *testing.T) {
	needProgram(t, "keepalived", "keepalived")

	for name, config := range configurations(t, HAProxy, "/etc/capolvm/keepalived.conf", "") {
		t.Run(name, func(t *testing.T) { accepts(t, config, "keepalived", "--config-test", "--use-file") })
	}
}
