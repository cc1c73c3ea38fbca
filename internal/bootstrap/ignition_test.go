package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	ignitionconfig "github.com/coreos/ignition/v2/config"
	ignitionerrors "github.com/coreos/ignition/v2/config/shared/errors"
	"github.com/coreos/ignition/v2/config/v3_0"
	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/ignition/v2/config/v3_6/types"
	"github.com/vincent-petithory/dataurl"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const joinConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
nodeRegistration:
  kubeletExtraArgs:
  - name: v
    value: "2"
`

// stockIgnition returns the configuration of Cluster API's kubeadm bootstrap provider for a worker.
func stockIgnition(t testing.TB, change func(*ignition.NodeInput)) []byte {
	t.Helper()
	input := &ignition.NodeInput{NodeInput: &cloudinit.NodeInput{
		JoinConfiguration: joinConfiguration,
		BaseUserData: cloudinit.BaseUserData{
			KubernetesVersion:   semver.MustParse("1.36.1"),
			PreKubeadmCommands:  []string{"echo before"},
			PostKubeadmCommands: []string{"echo after"},
			Users:               []bootstrapv1.User{{Name: "ops", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"}}},
			AdditionalFiles: []bootstrapv1.File{
				{Path: "/etc/motd", Owner: "root:root", Permissions: "0644", Content: "hello\n"},
			},
		},
	}}
	if change != nil {
		change(input)
	}

	data, _, err := ignition.NewNode(input)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

// opened is an Ignition configuration with the contents of its files.
type opened struct {
	types.Config
	files map[string]string
	modes map[string]int
}

func open(t testing.TB, data []byte) opened {
	t.Helper()
	config, messages, err := v3_6.ParseCompatibleVersion(data)
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, messages.String(), data)
	}

	if len(messages.Entries) > 0 {
		t.Errorf("Ignition reports: %s", messages.String())
	}

	out := opened{Config: config, files: map[string]string{}, modes: map[string]int{}}
	for _, file := range config.Storage.Files {
		url, err := dataurl.DecodeString(*file.Contents.Source)
		if err != nil {
			t.Fatal(err)
		}

		content := url.Data
		if file.Contents.Compression != nil && *file.Contents.Compression == "gzip" {
			reader, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}

			if content, err = io.ReadAll(reader); err != nil {
				t.Fatal(err)
			}
		}

		out.files[file.Path] = string(content)
		if file.Mode != nil {
			out.modes[file.Path] = *file.Mode
		}
	}

	return out
}

// ignitionGuest returns a guest that uses every feature.
func ignitionGuest() Guest {
	return Guest{
		HostName: "demo-1",
		Interfaces: []render.GuestNIC{
			{
				Name:         "enp1s0",
				DefaultRoute: true,
				IPv4: render.IP{
					Method:  render.Static,
					Address: netip.MustParsePrefix("10.20.30.7/24"),
					Gateway: netip.MustParseAddr("10.20.30.1"),
				},
				IPv6: render.IP{Method: render.AutoConf},
			},
			{
				Name: "enp2s0",
				IPv4: render.IP{Method: render.DHCP},
				IPv6: render.IP{Method: render.Static, Address: netip.MustParsePrefix("fd00::7/64")},
			},
		},
		DNSServers: []netip.Addr{
			netip.MustParseAddr("10.20.30.53"),
			netip.MustParseAddr("fd00::53"),
			netip.MustParseAddr("10.20.30.54"),
		},
		SearchDomains: []string{"example.com", "lab.example.com"},
		NodeIPs:       []netip.Addr{netip.MustParseAddr("10.20.30.7"), netip.MustParseAddr("fd00::7")},
		Proxy: &Proxy{
			HTTP:    "http://proxy:3128",
			HTTPS:   `http://u:p%20"@proxy:3128`,
			NoProxy: []string{"localhost", "10.20.30.0/24"},
		},
		SSH:   &SSH{AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}},
		Files: []File{{Path: "/etc/ours", Content: strings.Repeat("all work and no play\n", 100), Mode: 0o600}},
		Units: []Unit{
			{Name: "keepalived.service"},
			{Name: "ours.service", Contents: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"},
		},
		Extra: []Extra{
			{
				Source: "extra 1",
				Data: []byte(
					"variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: /etc/butane\n    contents: " +
						"{inline: butane}\nsystemd:\n  units:\n  - name: kubeadm.service\n    dropins:\n    - " +
						"{name: 20-user.conf, contents: \"[Service]\\nEnvironment=A=B\\n\"}\n",
				),
			},
			{
				Source: "extra 2",
				Data: []byte(
					`{"ignition":{"version":"3.1.0"},"passwd":{"users":[{"name":"ops","sshAuthorizedKeys":["ssh-ed25519 AAAA other"]}]}}`,
				),
			},
			{
				Source: "extra 3",
				Data: []byte(
					`{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"/etc/old","mode":384,"contents":{"source":"data:,old"}}]}}`,
				),
			},
		},
	}
}

// TestIgnitionOfImagesOfOCKRefusesWhatClusterAPIWrites proves that these images boot no machine on Oracle Cloud.
// Cluster API Provider OCI passes on what the bootstrap provider writes, and the parser of Ignition 3 refuses it in
// each version. On an engine, the manager translates it.
func TestIgnitionOfImagesOfOCKRefusesWhatClusterAPIWrites(t *testing.T) {
	stock := stockIgnition(t, nil)

	_, _, err := ignitionconfig.Parse(stock)
	check.Equal(t, "the newest Ignition", errors.Is(err, ignitionerrors.ErrUnknownVersion), true)

	_, _, err = v3_0.Parse(stock)
	check.Equal(t, "the oldest Ignition 3", errors.Is(err, ignitionerrors.ErrUnknownVersion), true)

	translated, err := Merge(stock, Ignition, Guest{})
	check.Error(t, err, "")
	_, _, err = ignitionconfig.Parse(translated)
	check.Error(t, err, "")
}

func TestStockIgnitionBecomesOneOfTheThirdGeneration(t *testing.T) {
	stock := stockIgnition(t, nil)
	if !bytes.Contains(stock, []byte(`"version":"2.3.0"`)) {
		t.Fatalf("Cluster API writes another version now:\n%s", stock)
	}

	merged, err := Merge(stock, Ignition, Guest{})
	if err != nil {
		t.Fatal(err)
	}

	// The oldest images of the third generation must read it, too.
	if _, messages, err := v3_0.Parse(merged); err != nil || len(messages.Entries) > 0 {
		t.Fatalf("%v: %s\n%s", err, messages.String(), merged)
	}

	got := open(t, merged)
	if got.files["/etc/motd"] != "hello\n\n" && got.files["/etc/motd"] != "hello\n" || got.modes["/etc/motd"] != 0o644 {
		t.Errorf("the user's file: %q, %o", got.files["/etc/motd"], got.modes["/etc/motd"])
	}

	script := got.files["/etc/kubeadm.sh"]
	check.Contains(t, "script", script, "echo before\n")
	check.Contains(t, "script", script, "kubeadm join --config /etc/kubeadm.yml")
	check.Contains(t, "script", script, "echo after\n")

	config := got.files["/etc/kubeadm.yml"]
	if !strings.Contains(config, "olvm://__OLVM_VM_UUID__") || !strings.Contains(config, `value: "2"`) {
		t.Errorf("the configuration of kubeadm:\n%s", config)
	}

	if !strings.Contains(got.files[kubeadmPrepare], "/sys/class/dmi/id/product_uuid") {
		t.Errorf("the script before kubeadm: %q", got.files[kubeadmPrepare])
	}

	if len(got.Passwd.Users) != 1 || got.Passwd.Users[0].Name != "ops" {
		t.Errorf("users: %+v", got.Passwd.Users)
	}

	unit := got.Systemd.Units[0]
	check.Equal(t, "unit.Name", unit.Name, kubeadmUnit)
	check.Equal(t, "*unit.Enabled", *unit.Enabled, true)
	check.Contains(t, "*unit.Contents", *unit.Contents, "ExecStart=/bin/bash /etc/kubeadm.sh")
	check.Length(t, "unit.Dropins", unit.Dropins, 1)
}

func TestEverythingIsMergedIntoIgnition(t *testing.T) {
	merged, err := Merge(stockIgnition(t, nil), Ignition, ignitionGuest())
	if err != nil {
		t.Fatal(err)
	}

	got := open(t, merged)
	var version struct{ Ignition struct{ Version string } }

	// This is Butane's fcos 1.5.0.
	if err := json.Unmarshal(merged, &version); err != nil || version.Ignition.Version != "3.4.0" {
		t.Errorf("version %q, %v", version.Ignition.Version, err)
	}

	want := map[string]string{
		"/etc/hostname": "demo-1\n",
		"/etc/NetworkManager/system-connections/enp1s0.nmconnection": `[connection]
id=enp1s0
type=ethernet
interface-name=enp1s0
autoconnect-priority=100

[ipv4]
method=manual
address1=10.20.30.7/24,10.20.30.1
dns=10.20.30.53;10.20.30.54;
dns-search=example.com;lab.example.com;

[ipv6]
method=auto
addr-gen-mode=eui64
dns=fd00::53;
`,
		"/etc/NetworkManager/system-connections/enp2s0.nmconnection": `[connection]
id=enp2s0
type=ethernet
interface-name=enp2s0
autoconnect-priority=100

[ipv4]
method=auto
never-default=true

[ipv6]
method=manual
address1=fd00::7/64
`,
		"/etc/butane": "butane",
		"/etc/old":    "old",
		"/etc/ours":   strings.Repeat("all work and no play\n", 100),
		"/etc/systemd/system/crio.service.d/10-capolvm-proxy.conf": "[Service]\nEnvironment=\"HTTP_PROXY=http://proxy:3128\"\nEnvironment=\"http_proxy=http://proxy:3128\"\n" +
			"Environment=\"HTTPS_PROXY=http://u:p%%20\\\"@proxy:3128\"\nEnvironment=\"https_proxy=http://u:p%%20\\\"@proxy:3128\"\nEnvironment=\"NO_PROXY=localhost,10.20.30.0/24\"\nEnvironment=\"no_proxy=localhost,10.20.30.0/24\"\n",
	}
	for path, content := range want {
		if got.files[path] != content {
			t.Errorf("%s:\n%s", path, got.files[path])
		}
	}

	for _, secret := range []string{"/etc/NetworkManager/system-connections/enp1s0.nmconnection",
		"/etc/systemd/system/crio.service.d/10-capolvm-proxy.conf", "/etc/ours"} {
		if got.modes[secret] != 0o600 {
			t.Errorf("%s has mode %o", secret, got.modes[secret])
		}
	}

	config := got.files["/etc/kubeadm.yml"]
	if !strings.Contains(config, "name: node-ip\n") || !strings.Contains(config, "value: 10.20.30.7,fd00::7\n") {
		t.Errorf("the configuration of kubeadm:\n%s", config)
	}

	var units, keys []string
	for _, unit := range got.Systemd.Units {
		units = append(units, unit.Name)
		if unit.Name == kubeadmUnit && len(unit.Dropins) != 2 {
			t.Errorf("drop-ins of kubeadm: %+v", unit.Dropins)
		}

		if !*unit.Enabled {
			t.Errorf("%s is not enabled", unit.Name)
		}
	}

	if slices.Sort(units); !slices.Equal(units, []string{"keepalived.service", kubeadmUnit, "ours.service"}) {
		t.Errorf("units: %q", units)
	}

	for _, user := range got.Passwd.Users {
		for _, key := range user.SSHAuthorizedKeys {
			keys = append(keys, user.Name+" "+string(key))
		}
	}

	slices.Sort(keys)
	if !slices.Equal(
		keys,
		[]string{"core ssh-ed25519 AAAA me", "ops ssh-ed25519 AAAA ops", "ops ssh-ed25519 AAAA other"},
	) {
		t.Errorf("keys: %q", keys)
	}

	if bytes.Contains(merged, []byte("all work and no play")) || len(merged) > 12000 {
		t.Errorf("what can be packed is not: %d bytes", len(merged))
	}
}

func TestConflictsInIgnitionAreNamed(t *testing.T) {
	file := func(path, content string) string {
		return `{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"` + path +
			`","contents":{"source":"data:,` + content + `"}}]}}`
	}

	guest := func(change func(*Guest)) Guest {
		g := ignitionGuest()
		g.Extra = nil
		change(&g)

		return g
	}
	for name, test := range map[string]struct {
		data  string
		guest Guest
		want  string
	}{
		"a file of the bootstrap data and ours": {file("/etc/hostname", "other"), guest(func(*Guest) {}),
			"storage.files[/etc/hostname].contents.source of the Ignition configuration is set differently by the " +
				"bootstrap data and by the OLVMMachine or OLVMCluster"},
		"a file of a user and ours": {file("/etc/x", "x"), guest(func(g *Guest) {
			g.Extra = []Extra{
				{Source: "ConfigMap a", Data: []byte(file("/etc/ours", "b"))},
			}
		}),
			"storage.files[/etc/ours].contents.source of the Ignition configuration is set differently by ConfigMap " +
				"a and by the OLVMMachine or OLVMCluster"},
		"files of two users": {file("/etc/x", "x"), guest(func(g *Guest) {
			g.Extra = []Extra{
				{Source: "ConfigMap a", Data: []byte(file("/etc/a", "b"))},
				{Source: "ConfigMap b", Data: []byte(file("/etc/a", "c"))},
			}
		}), "is set differently by ConfigMap a and by ConfigMap b"},
		"a unit": {`{"ignition":{"version":"3.0.0"},"systemd":{"units":[{"name":"ours.service","enabled":false}]}}`,
			guest(func(*Guest) {}),
			"systemd.units[ours.service].enabled of the Ignition configuration is set differently"},
		"a link where a file is": {
			`{"ignition":{"version":"3.0.0"},"storage":{"links":[{"path":"/etc/ours","target":"/x"}]}}`, guest(func(*Guest) {}), "the merged Ignition configuration is not valid",
		},
		"Butane that is none": {file("/etc/x", "x"), guest(func(g *Guest) {
			g.Extra = []Extra{
				{Source: "ConfigMap a", Data: []byte("variant: fcos\n")},
			}
		}), "ConfigMap a is neither Ignition nor Butane"},
		"Butane with unknown keys": {file("/etc/x", "x"), guest(func(g *Guest) {
			g.Extra = []Extra{{Source: "ConfigMap a", Data: []byte("variant: fcos\nversion: 1.5.0\nfiles: []\n")}}
		}), "ConfigMap a: it has warnings of Butane"},
		"a newer generation": {`{"ignition":{"version":"4.0.0"}}`, Guest{}, "bootstrap data: it is not a valid " +
			"Ignition configuration: unsupported config version"},
		"no version":     {`{}`, Guest{}, "bootstrap data: it is not an Ignition configuration"},
		"a cloud-config": {"#cloud-config\n", Guest{}, "bootstrap data: it is not an Ignition configuration"},
		"networkd": {`{"ignition":{"version":"2.3.0"},"networkd":{"units":[{"name":"a.network","contents":""}]}}`,
			Guest{}, "bootstrap data: it cannot be translated to Ignition 3"},
		"kubeadm not YAML": {file("/etc/kubeadm.yml", "a%3A%20%5B"), Guest{},
			"bootstrap data: /etc/kubeadm.yml: it is not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			merged, err := Merge([]byte(test.data), Ignition, test.guest)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\n%s\nwant %q", err, merged, test.want)
			}
		})
	}

	same := guest(func(g *Guest) { g.Extra = []Extra{{Source: "a", Data: []byte(file("/etc/a", "b"))}} })
	if _, err := Merge([]byte(file("/etc/a", "b")), Ignition, same); err != nil {
		t.Errorf("two that say the same: %v", err)
	}
}

// TestWhatTheSecondGenerationDoesIsKept covers files that are written one after another, and files on mounted file
// systems.
func TestWhatTheSecondGenerationDoesIsKept(t *testing.T) {
	stock := stockIgnition(t, func(input *ignition.NodeInput) {
		input.DiskSetup = &bootstrapv1.DiskSetup{
			Filesystems: []bootstrapv1.Filesystem{
				{Device: "/dev/vdb", Filesystem: "xfs", Label: "images", Overwrite: new(bool)},
			},
		}
		input.Mounts = []bootstrapv1.MountPoints{{"images", "/var/lib/images"}}
		input.Ignition = &bootstrapv1.IgnitionSpec{
			ContainerLinuxConfig: bootstrapv1.ContainerLinuxConfig{
				AdditionalConfig: "storage:\n  files:\n  - path: /etc/motd\n    filesystem: root\n    contents: " +
					"{inline: later}\n  - path: /a\n    filesystem: images\n    contents: {inline: a}\n",
			},
		}
	})
	merged, err := Merge(stock, Ignition, Guest{})
	if err != nil {
		t.Fatal(err)
	}

	got := open(t, merged)
	if got.files["/etc/motd"] != "later" || got.files["/var/lib/images/a"] != "a" {
		t.Errorf("files: %q", got.files)
	}

	if len(got.Storage.Filesystems) != 1 || got.Storage.Filesystems[0].Device != "/dev/vdb" {
		t.Errorf("file systems: %+v", got.Storage.Filesystems)
	}
}

func FuzzMergeIgnition(f *testing.F) {
	f.Add(stockIgnition(f, nil))
	f.Add(
		[]byte(
			`{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/etc/kubeadm.yml","contents":{"source":"data:,kind%3A%20InitConfiguration"}}]}}`,
		),
	)
	f.Add(
		[]byte(
			`{"ignition":{"version":"2.1.0","config":{"append":[{"source":"data:,"}]}},"storage":null,"systemd":{"units":null}}`,
		),
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		merged, err := Merge(data, Ignition, Guest{HostName: "a", SSH: &SSH{AuthorizedKeys: []string{"k"}}})
		if err != nil {
			return
		}

		config, messages, err := v3_6.ParseCompatibleVersion(merged)
		if err != nil {
			t.Fatalf("%v: %s\n%s", err, messages.String(), merged)
		}

		if !slices.ContainsFunc(config.Storage.Files, func(file types.File) bool {
			return file.Path == "/etc/hostname"
		}) {
			t.Fatalf("the host name is lost:\n%s", merged)
		}
	})
}

// TestAReplaceThatNamesNothingIsPassedOver covers the Ignition configuration that Oracle's command writes.
func TestAReplaceThatNamesNothingIsPassedOver(t *testing.T) {
	for _, data := range []string{
		`{"ignition":{"config":{"replace":{"source":""}},"version":"3.4.0"}}`,
		`{"ignition":{"config":{"replace":{"source":null,"verification":{}}},"version":"3.2.0"}}`,
	} {
		merged, err := Merge([]byte(data), Ignition, Guest{HostName: "demo-1"})
		if err != nil || strings.Contains(string(merged), "replace") {
			t.Errorf("%s: %v\n%s", data, err, merged)
		}
	}

	_, err := Merge(
		[]byte(`{"ignition":{"config":{"replace":{"source":"nonsense"}},"version":"3.4.0"}}`),
		Ignition,
		Guest{
			HostName: "demo-1",
		},
	)
	if err == nil {
		t.Error("a source that is no URL is accepted")
	}
}
