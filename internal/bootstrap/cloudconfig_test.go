package bootstrap

import (
	"net/netip"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestEverythingIsMergedIntoACloudConfig(t *testing.T) {
	guest := ignitionGuest()
	guest.SSH.User = "ops"
	guest.NodeIPs = []netip.Addr{netip.MustParseAddr("10.20.30.7"), netip.MustParseAddr("fd00::7")}
	guest.Extra = []Extra{
		{
			Source: "extra 1",
			Data: []byte(
				"#cloud-config\nntp: {servers: [a]}\npackages: [keepalived]\nwrite_files:\n- {path: /etc/more, " +
					"content: more}\n- {path: /etc/kubernetes/pki/ca.crt, append: true, " +
					"content: more}\nruncmd: [last]\n",
			),
		},
		{Source: "extra 2", Data: []byte("ntp: {enabled: true}\npackages: [nginx]\npower_state:\n")},
	}
	merged, err := Merge([]byte(initData), CloudConfig, guest)
	if err != nil {
		t.Fatal(err)
	}

	var got struct {
		parsed   `yaml:",inline"`
		Packages []string
		NTP      struct {
			Servers []string
			Enabled bool
		}
	}
	var users struct{ Users []any }
	text := strings.Replace(string(merged), "users:", "everybody:", 1)
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v\n%s", err, merged)
	}

	if err := yaml.Unmarshal(merged, &users); err != nil {
		t.Fatal(err)
	}

	if len(users.Users) != 2 || users.Users[1].(map[string]any)["name"] != "ops" {
		t.Errorf("users: %v", users.Users)
	}

	check.Equal(t, `strings.Join(got.Packages, " ")`, strings.Join(got.Packages, " "), "keepalived nginx")
	check.Equal(t, "got.NTP.Enabled", got.NTP.Enabled, true)
	check.Length(t, "got.NTP.Servers", got.NTP.Servers, 1)

	files := map[string]string{}
	for _, file := range got.WriteFiles {
		files[file.Path] += file.Permissions + " " + file.Content
	}

	for path, want := range map[string]string{
		"/etc/more":                        " more",
		"/etc/ours":                        "0600 " + guest.Files[0].Content,
		"/etc/systemd/system/ours.service": "0644 " + guest.Units[1].Contents,
		"/etc/kubernetes/pki/ca.crt":       "0640 -----BEGIN CERTIFICATE-----\n more",
	} {
		if files[path] != want {
			t.Errorf("%s: %q", path, files[path])
		}
	}

	if !strings.Contains(files["/run/kubeadm/kubeadm.yaml"],
		"value: 10.20.30.7,fd00::7") || files["/etc/systemd/system/containerd.service.d/10-capolvm-proxy.conf"] == "" {
		t.Errorf("files: %q", files)
	}

	if files["/etc/hostname"] != "" {
		t.Error("there is /etc/hostname, and the engine tells cloud-init the host name")
	}

	want := []string{
		insertUUIDCommand("/run/kubeadm/kubeadm.yaml"),
		"nmcli connection reload",
		"nmcli --wait 60 connection up enp1s0",
		"nmcli --wait 60 connection up enp2s0",
		"systemctl daemon-reload",
		"systemctl try-restart containerd.service crio.service kubelet.service",
		"systemctl enable --now keepalived.service",
		"systemctl enable --now ours.service",
		`echo "a && b" > /tmp/x`,
	}
	check.Length(t, "got.RunCmd", got.RunCmd, 11)
	check.Equal(t, `strings.Join(got.RunCmd[:9], "\\n")`, strings.Join(got.RunCmd[:9], "\n"), strings.Join(want, "\n"))
	check.Equal(t, "got.RunCmd[10]", got.RunCmd[10], "last")
}

func TestKeysOfTheDefaultUser(t *testing.T) {
	merged, err := Merge([]byte("#cloud-config\nssh_authorized_keys: [a]\n"), CloudConfig, Guest{
		SSH: &SSH{AuthorizedKeys: []string{"b"}},
	})
	if err != nil || !strings.Contains(string(merged), "ssh_authorized_keys: [a, b]") {
		t.Errorf("%v\n%s", err, merged)
	}

	merged, err = Merge([]byte("#cloud-config\n{}\n"), CloudConfig, Guest{
		SSH: &SSH{User: "ops", AuthorizedKeys: []string{"b"}},
	})
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(merged)), " "),
		"users: - default") && !strings.Contains(string(merged), "default") {
		t.Errorf("%v\n%s", err, merged)
	}
}

// TestSLAACOfACloudInitGuest covers SLAAC by NetworkManager, because the engine refuses to configure it in cloud-init.
func TestSLAACOfACloudInitGuest(t *testing.T) {
	static := render.GuestNIC{
		Name:         "enp1s0",
		DefaultRoute: true,
		IPv4: render.IP{
			Method:  render.Static,
			Address: netip.MustParsePrefix("10.0.0.5/24"),
			Gateway: netip.MustParseAddr("10.0.0.1"),
		},
	}
	slaac := static
	slaac.IPv6.Method = render.AutoConf
	data := []byte("#cloud-config\nruncmd: [last]\n")

	without, err := Merge(data, CloudConfig, Guest{Interfaces: []render.GuestNIC{static}})
	check.Error(t, err, "")
	check.Lacks(t, "string(without)", string(without), "NetworkManager")
	check.Contains(t, "string(without)", string(without), "runcmd: [last]")

	merged, err := Merge(data, CloudConfig, Guest{
		Interfaces: []render.GuestNIC{slaac},
		DNSServers: []netip.Addr{netip.MustParseAddr("10.0.0.53")},
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"path: /etc/NetworkManager/system-connections/enp1s0.nmconnection", "permissions: '0600'",
		"autoconnect-priority=200",
		"address1=10.0.0.5/24,10.0.0.1", "dns=10.0.0.53;", "[ipv6]\n      method=auto\n      addr-gen-mode=eui64",
		`runcmd: [nmcli connection reload, nmcli --wait 60 connection up enp1s0, last]`,
	} {
		if !strings.Contains(string(merged), want) {
			t.Errorf("%q is missing:\n%s", want, merged)
		}
	}
}

func TestConflictsInACloudConfigAreNamed(t *testing.T) {
	extra := func(texts ...string) []Extra {
		var out []Extra
		for i, text := range texts {
			out = append(out, Extra{Source: "extra " + string(rune('1'+i)), Data: []byte(text)})
		}

		return out
	}
	for name, test := range map[string]struct {
		data  string
		guest Guest
		want  string
	}{
		"a file of the bootstrap data": {"write_files: [{path: /a, content: b}]\n", Guest{
			Files: []File{{Path: "/a", Content: "c"}},
		}, "the file /a is set differently by the bootstrap data and by the OLVMMachine or OLVMCluster"},
		"a file of a user": {"{}\n", Guest{
			Files: []File{{Path: "/a", Content: "c"}},
			Extra: extra("write_files: [{path: /a, content: b}]"),
		}, "the file /a is set differently by extra 1 and by"},
		"a value": {"timezone: UTC\n", Guest{
			Extra: extra("timezone: CET"),
		}, "timezone of the cloud-config is set differently by the bootstrap data and by extra 1"},
		"a value within": {"{}\n", Guest{
			Extra: extra("ntp: {enabled: true}", "ntp: {enabled: false}"),
		}, "ntp.enabled of the cloud-config is set differently by extra 1 and by extra 2"},
		"a list and a value": {"packages: [a]\n", Guest{
			Extra: extra("packages: a"),
		}, "packages of the cloud-config is set differently"},
		"a file without a path": {"{}\n", Guest{
			Extra: extra("write_files: [{content: b}]"),
		}, "extra 1: a file of write_files has no path"},
		"no cloud-config": {"{}\n", Guest{Extra: extra("- a")}, "extra 1 is not a cloud-config"},
		"a port of the API server": {"write_files: [{path: /run/kubeadm/kubeadm.yaml, content: \"kind: " +
			"InitConfiguration\\nlocalAPIEndpoint: {bindPort: 6443}\"}]\n", Guest{
			Services: &Services{API: &APIEndpoint{LoadBalancer: HAProxy, ServerPort: 6444}},
		}, "bootstrap data: /run/kubeadm/kubeadm.yaml: localAPIEndpoint.bindPort is 6443, and the load balancer of " +
			"controlPlaneServices looks for API servers at port 6444"},
		"nobody knows the host name": {"a: '{{ local_hostname }}'\n", Guest{}, "there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			merged, err := Merge([]byte(test.data), CloudConfig, test.guest)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\n%s\nwant %q", err, merged, test.want)
			}
		})
	}

	merged, err := Merge([]byte("write_files: [{path: /a, content: b}]\ntimezone: UTC\n"), CloudConfig, Guest{
		Extra: extra("write_files: [{path: /a, content: b}]\ntimezone: UTC"),
	})
	if err != nil || strings.Count(string(merged), "/a") != 1 {
		t.Errorf("what both say the same: %v\n%s", err, merged)
	}
}
