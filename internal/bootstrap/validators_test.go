package bootstrap

import (
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

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// needProgram skips a test that asks a program of the images whether it reads what is written for it.
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

	for _, file := range guest.networkFiles() {
		name := strings.TrimSuffix(filepath.Base(file.Path), ".nmconnection")
		if filepath.Ext(file.Path) != ".nmconnection" {
			continue
		}

		read++

		// It reads the profile, changes nothing that matters, and writes what it understood.
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

			// What the engine makes of it: its own first line goes before the data.
			if err := os.WriteFile(path, append([]byte("#cloud-config\n"), merged...), 0o600); err != nil {
				t.Fatal(err)
			}

			out, err := exec.CommandContext(t.Context(), "cloud-init", "schema", "--config-file", path).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Valid cloud-config") {
				t.Errorf("%v: %s\n%s", err, out, merged)
			}
		})
	}
}
