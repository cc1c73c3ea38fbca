package guest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	substitution = `sed -i "s/__OLVM_VM_UUID__/$(tr '[:upper:]' '[:lower:]' < /sys/class/dmi/id/product_uuid)/g" /etc/kubeadm.yml`
	keyfilePath  = keyfileFolder + "/enp1s0.nmconnection"
)

func keyfileFor(address string) string {
	return "[connection]\nid=enp1s0\ntype=ethernet\ninterface-name=enp1s0\n[ipv4]\nmethod=manual\naddress1=" + address +
		"/24,127.40.0.1\n"
}

func (s *site) clusterConfig(version string) string {
	return fmt.Sprintf(
		"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: "+
			"%s\nkubernetesVersion: %s\n",
		s.endpoint,
		version,
	)
}

const nodeArguments = "nodeRegistration:\n  kubeletExtraArgs:\n  - {name: provider-id, value: " +
	"'olvm://__OLVM_VM_UUID__'}\n"

func (s *site) joinConfig(token string) string {
	return fmt.Sprintf(
		"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n    "+
			"apiServerEndpoint: %s\n    token: %s\n    caCertHashes: [%q]\n",
		s.endpoint, token, s.ca.publicKeyHash(),
	) + nodeArguments
}

// stock returns a user's additions to the kubeadm bootstrap provider's data for one of our images.
func (s *site) stock(name, address string) cloudinit.BaseUserData {
	return cloudinit.BaseUserData{
		PreKubeadmCommands:  []string{"systemctl start crio", substitution},
		PostKubeadmCommands: []string{"echo done"},
		AdditionalFiles: []bootstrapv1.File{
			{Path: keyfilePath, Permissions: "0600", Content: keyfileFor(address)},
			{
				Path:        "/etc/hostname",
				Permissions: "0644",
				Owner:       "root:root",
				Content:     base64.StdEncoding.EncodeToString([]byte(name)),
				Encoding:    bootstrapv1.Base64,
			},
		},
		Users: []bootstrapv1.User{
			{Name: "core", Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA"}},
		},
		NTP: &bootstrapv1.NTP{Enabled: new(bool), Servers: []string{"pool.ntp.org"}},
	}
}

func (s *site) certificates() secret.Certificates {
	certificate := func(purpose secret.Purpose, a *authority, path string) *secret.Certificate {
		return &secret.Certificate{
			Purpose: purpose, CertFile: path + ".crt", KeyFile: path + ".key",
			KeyPair: &certs.KeyPair{Cert: certs.EncodeCertPEM(a.cert), Key: certs.EncodePrivateKeyPEM(a.key)},
		}
	}

	return secret.Certificates{
		certificate(secret.ClusterCA, s.ca, "/etc/kubernetes/pki/ca"),
		certificate(secret.EtcdCA, s.etcd, "/etc/kubernetes/pki/etcd/ca"),
	}
}

func ignitionMachine(name string, data []byte, specification string) api.GuestVM {
	m := machine(name, "", string(data))
	m.Ignition, m.IgnitionVersion, m.HostName, m.NICs = true, specification, "", nil
	return m
}

func TestStockCloudConfigBecomesNodes(t *testing.T) {
	s := newSite(t, "127.40.6.5:6443")
	payload := func(data []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}

		return s.merged(string(data))
	}
	arguments := strings.ReplaceAll(nodeArguments, "provider-id", "v")
	bare := func() cloudinit.BaseUserData {
		base := s.stock("ignored", "")
		base.PreKubeadmCommands, base.AdditionalFiles = []string{"hostname || true", "a: b"}, base.AdditionalFiles[1:]
		return base
	}
	s.mustStart(machine("cp-1", "127.40.0.61", payload(cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		BaseUserData: bare(), Certificates: s.certificates(), ClusterConfiguration: s.clusterConfig("v1.36.1"),
		InitConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n" + arguments,
	}))))
	join := strings.ReplaceAll(s.joinConfig(s.token()), "provider-id", "v")
	s.mustStart(machine("cp-2", "127.40.0.62", payload(cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{
		BaseUserData: bare(), Certificates: s.certificates(), JoinConfiguration: join + "controlPlane: {}\n",
	}))))
	s.mustStart(machine("worker-1", "127.40.0.63", payload(cloudinit.NewNode(&cloudinit.NodeInput{
		BaseUserData:      bare(),
		JoinConfiguration: join,
	}))))

	for i, name := range []string{"cp-1", "cp-2", "worker-1"} {
		var n corev1.Node
		if err := s.client().Get(t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
			t.Fatal(err)
		}

		if n.Spec.ProviderID != "olvm://id-"+name || n.Status.Addresses[0].Address != fmt.Sprintf("127.40.0.6%d", i+1) {
			t.Errorf("%s: provider ID %s, addresses %v", name, n.Spec.ProviderID, n.Status.Addresses)
		}
	}
}

func TestStockIgnitionPayloadsBecomeNodes(t *testing.T) {
	s := newSite(t, "127.40.3.5:6443")
	payload := func(data []byte, warnings string, err error) []byte {
		t.Helper()
		if err != nil || warnings != "" {
			t.Fatal(err, warnings)
		}

		if !bytes.Contains(data, []byte(`"version":"2.3.0"`)) {
			t.Fatalf("stock Cluster API writes another version: %.200s", data)
		}

		return data
	}
	s.mustStart(
		ignitionMachine(
			"vm-1",
			payload(
				ignition.NewInitControlPlane(
					&ignition.ControlPlaneInput{ControlPlaneInput: &cloudinit.ControlPlaneInput{
						BaseUserData:         s.stock("cp-1", "127.40.0.31"),
						Certificates:         s.certificates(),
						ClusterConfiguration: s.clusterConfig("v1.36.1"),
						InitConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n" +
							nodeArguments,
					}},
				),
			),
			"2.3.0",
		),
	)
	token := s.token()
	s.mustStart(
		ignitionMachine(
			"vm-2",
			payload(
				ignition.NewJoinControlPlane(
					&ignition.ControlPlaneJoinInput{ControlPlaneJoinInput: &cloudinit.ControlPlaneJoinInput{
						BaseUserData:      s.stock("cp-2", "127.40.0.32"),
						Certificates:      s.certificates(),
						JoinConfiguration: s.joinConfig(token) + "controlPlane: {}\n",
					}},
				),
			),
			"2.4.0",
		),
	)
	s.mustStart(ignitionMachine("vm-3", payload(ignition.NewNode(&ignition.NodeInput{NodeInput: &cloudinit.NodeInput{
		BaseUserData: s.stock("worker-1", "127.40.0.33"), JoinConfiguration: s.joinConfig(token),
	}})), "2.3.0"))

	for i, name := range []string{"cp-1", "cp-2", "worker-1"} {
		var n corev1.Node
		if err := s.client().Get(t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
			t.Fatal(err)
		}

		if n.Spec.ProviderID != fmt.Sprintf("olvm://id-vm-%d",
			i+1) || n.Status.Addresses[0].Address != fmt.Sprintf("127.40.0.3%d", i+1) {
			t.Errorf("%s: provider ID %s, addresses %v", name, n.Spec.ProviderID, n.Status.Addresses)
		}
	}
}

// config3 is a handwritten payload of the third generation.
type config3 map[string]any

func newConfig3(version string) config3 {
	return config3{
		"ignition": map[string]any{"version": version},
		"storage":  map[string]any{"files": []any{}, "directories": []any{map[string]any{"path": "/opt/x"}}},
		"systemd":  map[string]any{"units": []any{}},
	}
}

func (c config3) file(path string, mode int, content string) config3 {
	return c.fileOf(map[string]any{
		"path":     path,
		"mode":     mode,
		"contents": map[string]any{"source": "data:," + url.PathEscape(content)},
	})
}

func (c config3) fileOf(file map[string]any) config3 {
	storage := c["storage"].(map[string]any)
	storage["files"] = append(storage["files"].([]any), file)
	return c
}

func (c config3) unit(unit map[string]any) config3 {
	systemd := c["systemd"].(map[string]any)
	systemd["units"] = append(systemd["units"].([]any), unit)
	return c
}

func (c config3) refer(key string, to any) config3 {
	c["ignition"].(map[string]any)["config"] = map[string]any{key: to}
	return c
}

func (c config3) raw() []byte {
	out, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}

	return out
}

func (c config3) dataURL() string {
	return "data:;base64," + base64.StdEncoding.EncodeToString(c.raw())
}

const kubeadmUnit = "[Unit]\nDescription=kubeadm\nConditionPathExists=/etc/kubeadm.yml\n[Service]\nType=oneshot\nExecStart=/bin/bash /etc/kubeadm.sh\n[Install]\nWantedBy=multi-user.target\n"

func kubeadmService(contents string) map[string]any {
	return map[string]any{"name": "kubeadm.service", "enabled": true, "contents": contents}
}

func packed(content string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(content))
	_ = w.Close()

	return out.String()
}

func TestPayloadsOfTheThirdGenerationBecomeNodes(t *testing.T) {
	s := newSite(t, "127.40.4.5:6443")
	encoded := func(a *authority) (string, string) {
		return string(certs.EncodeCertPEM(a.cert)), string(certs.EncodePrivateKeyPEM(a.key))
	}
	caCert, caKey := encoded(s.ca)
	etcdCert, etcdKey := encoded(s.etcd)
	initial := newConfig3("3.4.0").file("/etc/hostname", 0o644, "cp-1\n").
		file(keyfilePath, 0o600, keyfileFor("127.40.0.41")).
		file("/etc/kubernetes/pki/ca.crt", 0o640, caCert).file("/etc/kubernetes/pki/ca.key", 0o600, caKey).
		file("/etc/kubernetes/pki/etcd/ca.crt", 0o640, etcdCert).
		file("/etc/kubernetes/pki/etcd/ca.key", 0o600, etcdKey).
		file("/etc/kubeadm.yml", 0o600, s.clusterConfig("v1.36.1")+"---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: "+
			"InitConfiguration\n"+nodeArguments).
		file("/etc/kubeadm.sh", 0o700, "#!/bin/bash\nset -e\n"+substitution+"\n\nkubeadm init --config "+
			"/etc/kubeadm.yml --v 0\nmv /etc/kubeadm.yml /tmp/\n").
		unit(kubeadmService(kubeadmUnit)).unit(map[string]any{"name": "crio.service", "enabled": true})
	s.mustStart(ignitionMachine("vm-1", initial.raw(), ""))
	token := s.token()

	// In this payload, a unit runs kubeadm itself after its own script. Another config includes the config with this
	// unit, and the files are compressed.
	sum := sha512.Sum512([]byte(s.joinConfig(token)))
	inner := newConfig3("3.1.0").file(keyfilePath, 0o600, keyfileFor("127.40.0.42")).
		fileOf(map[string]any{"path": "/etc/kubeadm.yml", "mode": 0o600, "contents": map[string]any{
			"source":       "data:;base64," + base64.StdEncoding.EncodeToString([]byte(s.joinConfig(token))),
			"verification": map[string]any{"hash": fmt.Sprintf("sha512-%x", sum)},
		}}).
		fileOf(map[string]any{"path": "/opt/prepare.sh", "mode": 0o755, "contents": map[string]any{
			"source":      "data:;base64," + base64.StdEncoding.EncodeToString([]byte(packed(substitution))),
			"compression": "gzip",
		}})
	outer := newConfig3("3.3.0").refer("merge", []any{map[string]any{"source": inner.dataURL()}}).
		unit(map[string]any{
			"name":     "kubeadm.service",
			"enabled":  true,
			"contents": "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n",
			"dropins": []any{
				map[string]any{
					"name": "10-join.conf",
					"contents": "[Service]\nExecStartPre=/opt/prepare.sh\nExecStart=\nExecStart=-/usr/bin/kubeadm " +
						"join \\\n  --config /etc/kubeadm.yml\n",
				},
			},
		})
	worker := ignitionMachine("vm-2", outer.raw(), "3.3.0")
	worker.HostName = "worker-1" // the engine's name, from its metadata
	s.mustStart(worker)

	for i, name := range []string{"cp-1", "worker-1"} {
		var n corev1.Node
		if err := s.client().Get(t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
			t.Fatal(err)
		}

		if n.Spec.ProviderID != fmt.Sprintf("olvm://id-vm-%d",
			i+1) || n.Status.Addresses[0].Address != fmt.Sprintf("127.40.0.4%d", i+1) {
			t.Errorf("%s: provider ID %s, addresses %v", name, n.Spec.ProviderID, n.Status.Addresses)
		}
	}
}

func TestPayloadsThatIgnitionRefuses(t *testing.T) {
	two := func(rest string) string { return `{"ignition":{"version":"2.3.0"}` + rest + `}` }
	file2 := func(contents string) string {
		return two(`,"storage":{"files":[{"filesystem":"root","path":"/k","contents":{` + contents + `}}]}`)
	}
	file := func(file map[string]any) string { return string(newConfig3("3.4.0").fileOf(file).raw()) }
	contents := func(contents map[string]any) string {
		return file(map[string]any{"path": "/k", "contents": contents})
	}

	itself := newConfig3("3.4.0")
	for range maxConfigs + 1 {
		itself = newConfig3("3.4.0").refer("replace", map[string]any{"source": itself.dataURL()})
	}

	itself2 := two("")
	for range maxConfigs + 1 {
		itself2 = `{"ignition":{"version":"2.3.0","config":{"append":[{"source":"data:;base64,` +
			base64.StdEncoding.EncodeToString(
				[]byte(itself2),
			) + `"}]}}}`
	}

	tests := map[string]struct {
		image, payload, want string
	}{
		"a payload of the second generation on an image of the third": {
			"",
			two(""),
			"ignition: unsupported config version: the payload has version 2.3.0, and the image reads 3.0.0 to 3.4.0",
		},
		"a payload of the third generation on an image of the second": {
			"2.3.0",
			string(newConfig3("3.4.0").raw()),
			"ignition: unsupported config version: the payload has version 3.4.0, and the image reads 2.0.0 to 2.3.0",
		},
		"a newer payload of the third generation": {
			"3.3.0",
			string(newConfig3("3.4.0").raw()),
			"ignition: unsupported config version: the payload has version 3.4.0, and the image reads 3.0.0 to 3.3.0",
		},
		"a newer payload of the second generation": {
			"2.2.0",
			two(""),
			"ignition: unsupported config version: the payload has version 2.3.0, and the image reads 2.0.0 to 2.2.0",
		},
		"a version that never was": {
			"3.9.0",
			`{"ignition":{"version":"3.8.0"}}`,
			"ignition: unsupported config version",
		},
		"a version that never was (second generation)": {
			"2.9.0",
			`{"ignition":{"version":"2.8.0"}}`,
			"ignition: unsupported config version",
		},
		"no version": {"", `{}`, "ignition: invalid config version (couldn't parse)"},
		"no JSON":    {"", `#cloud-config`, "ignition: config is not valid: error at line 1 col 2: invalid character"},
		"cloud-config on an image of the second generation": {
			"2.3.0",
			"#cloud-config\n",
			"ignition: not a config (found coreos-cloudconfig)",
		},
		"an image that reads nothing known": {
			"1.0.0",
			two(""),
			"ignition: the image reads specification 1.0.0, of which there is no reader",
		},
		"an image that reads no version": {
			"latest",
			two(""),
			`ignition: the image reads specification "latest", which is no version`,
		},
		"a file twice": {
			"",
			string(newConfig3("3.4.0").file("/k", 0o600, "a").file("/k", 0o600, "b").raw()),
			"ignition: config is not valid: error at $.storage.files.1",
		},
		"a path that does not start at the root": {"", file(map[string]any{
			"path": "k",
		}), "ignition: config is not valid: error at $.storage.files.0.path"},
		"a unit that is none": {"", string(newConfig3("3.4.0").unit(map[string]any{
			"name":     "a.service",
			"contents": "[Unit",
		}).raw()), "ignition: config is not valid: error at $.systemd.units.0.contents"},
		"a unit that is none (second generation)": {
			"2.3.0",
			two(`,"systemd":{"units":[{"name":"a.service","contents":"[Unit"}]}`),
			"ignition: config is not valid: error at",
		},
		"a file of the web": {"", contents(map[string]any{
			"source": "https://example.com/k",
		}), `ignition: files: /k: failed to fetch "https://example.com/k": the network in the initramfs is up with DHCP or router advertisements only, and no network of the VM has either`},
		"a file of the web (second generation)": {
			"2.3.0",
			file2(`"source":"https://example.com/k"`),
			`ignition: files: /k: failed to fetch`,
		},
		"a file of another kind of server": {"", contents(map[string]any{
			"source": "tftp://example.com/k",
		}), "the simulated guest reads data, http and https URLs only"},
		"a file that is not packed": {"", contents(map[string]any{
			"source":      "data:,k",
			"compression": "gzip",
		}), "ignition: files: /k: failed to unpack"},
		"a file that is packed in a way of nobody's": {"", contents(map[string]any{
			"source":      "data:,k",
			"compression": "lzma",
		}), "ignition: config is not valid: error at $.storage.files.0.contents.compression"},
		"a file with another hash": {"", contents(map[string]any{
			"source":       "data:,k",
			"verification": map[string]any{"hash": "sha256-" + strings.Repeat("0", 64)},
		}), "ignition: files: /k: hash verification failed"},
		"a hash of nobody's": {"", contents(map[string]any{
			"source":       "data:,k",
			"verification": map[string]any{"hash": "md5-00"},
		}), "ignition: config is not valid"},
		"an addition of the web": {"", file(map[string]any{
			"path":   "/k",
			"append": []any{map[string]any{"source": "https://example.com/k"}},
		}), "ignition: files: /k: failed to fetch"},
		"configs that hold each other": {
			"",
			string(itself.raw()),
			"ignition: configs refer to each other too deep",
		},
		"configs that hold each other (second generation)": {
			"2.3.0",
			itself2,
			"ignition: configs refer to each other too deep",
		},
		"a config of the web": {"", string(newConfig3("3.4.0").refer("merge", []any{
			map[string]any{"source": "https://example.com/k"},
		}).raw()), "ignition: config: failed to fetch"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sys, err := readIgnition(test.payload, test.image, &initramfs{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}

			if sys != nil {
				t.Error("there is a system all the same")
			}
		})
	}
}

func TestWhatIgnitionLeaves(t *testing.T) {
	sys, err := readIgnition(" ", "", &initramfs{})
	if err != nil || len(sys.files)+len(sys.commands) != 0 {
		t.Errorf("an empty payload: %+v, %v", sys, err)
	}

	three := newConfig3("3.4.0").file("/mode", 0o600, "a b").
		fileOf(map[string]any{
			"path":     "/extended",
			"contents": map[string]any{"source": "data:,a"},
			"append":   []any{map[string]any{"source": "data:,b"}, map[string]any{"source": "data:;base64,Yw=="}},
		}).
		fileOf(map[string]any{"path": "/appended", "append": []any{map[string]any{"source": "data:,x"}}}).
		fileOf(map[string]any{"path": "/empty"}).
		unit(kubeadmService(kubeadmUnit)). // its condition is not met
		unit(map[string]any{
			"name":     "off.service",
			"enabled":  false,
			"contents": "[Service]\nExecStart=/off\n[Install]\nWantedBy=a.target\n",
		}).
		unit(map[string]any{
			"name":     "masked.service",
			"enabled":  true,
			"mask":     true,
			"contents": "[Service]\nExecStart=/masked\n[Install]\nWantedBy=a.target\n",
		}).
		unit(map[string]any{"name": "stray.service", "enabled": true, "contents": "[Service]\nExecStart=/stray\n"}).
		unit(map[string]any{
			"name":     "data.mount",
			"enabled":  true,
			"contents": "[Mount]\nWhat=/dev/x\n[Install]\nWantedBy=a.target\n",
		}).
		unit(map[string]any{
			"name":    "image.service",
			"enabled": true,
			"dropins": []any{map[string]any{"name": "a.conf", "contents": "[Service]\nExecStartPre=+/pre\n"}},
		}).
		unit(map[string]any{
			"name":     "on.service",
			"enabled":  true,
			"contents": "[Unit]\nConditionPathExists=!/none\n[Service]\nExecStart=/on\nExecStartPre=/before\n[Install]\nRequiredBy=a.target\n",
		})
	sys, err = readIgnition(string(three.raw()), "3.6.0", &initramfs{})
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]file{
		"/mode":     {"a b", 0o600, root},
		"/extended": {"abc", defaultMode, root},
		"/appended": {"x", defaultMode, root},
		"/empty":    {"", defaultMode, root},
	}
	for path, w := range want {
		if got, ok := sys.files[path]; !ok || got != w {
			t.Errorf("%s: got %+v, want %+v", path, got, w)
		}
	}

	if got := strings.Join(sys.commands, " "); got != "/pre /before /on" {
		t.Errorf("commands: %q", got)
	}

	for _, w := range []string{"kubeadm.service was skipped: its condition " +
		"ConditionPathExists=/etc/kubeadm.yml was not met", "stray.service has no installation config"} {
		if !strings.Contains(strings.Join(sys.warnings, "\n"), w) {
			t.Errorf("no warning that %s: %q", w, sys.warnings)
		}
	}

	replaced := newConfig3("3.4.0").file("/gone", 0o600, "a").refer("replace", map[string]any{
		"source": newConfig3("3.0.0").file("/new", 0o600, "b").dataURL(),
	})
	sys, err = readIgnition(string(replaced.raw()), "", &initramfs{})
	check.Error(t, err, "")
	check.Equal(t, `sys.read("/new")`, sys.read("/new"), "b")
	check.Equal(t, `sys.read("/gone")`, sys.read("/gone"), "")

	inner := base64.StdEncoding.EncodeToString(
		[]byte(
			`{"ignition":{"version":"2.1.0"},"storage":{"files":[{"filesystem":"root","path":"/inner","contents":{"source":"data:,c"}}]}}`,
		),
	)
	sys, err = readIgnition(
		`{"ignition":{"version":"2.3.0","config":{"append":[{"source":"data:;base64,`+inner+
			`"}]}},"storage":{"filesystems":[{"name":"data","mount":{"device":"/dev/x","format":"xfs"}}],"files":[
		{"filesystem":"root","path":"/k","mode":384,"contents":{"source":"data:,a"}},
		{"filesystem":"root","path":"/k","mode":384,"append":true,"contents":{"source":"data:;base64,`+
			base64.StdEncoding.EncodeToString(
				[]byte(packed("b")),
			)+`","compression":"gzip"}},
		{"filesystem":"data","path":"/elsewhere","contents":{"source":"data:,a"}}]},
		"systemd":{"units":[{"name":"old.service","enable":true,"contents":"[Service]\nExecStart=/old\n[Install]\nWantedBy=a.target\n"}]}}`,
		"2.4.0",
		&initramfs{},
	)
	if err != nil {
		t.Fatal(err)
	}

	check.Equal(t, `sys.files["/k"]`, sys.files["/k"], (file{"ab", 0o600, root}))
	check.Equal(t, `sys.read("/inner")`, sys.read("/inner"), "c")
	check.Equal(t, "len(sys.files)", len(sys.files), 2)
	check.Length(t, "sys.commands", sys.commands, 1)

	sys, err = readIgnition(`{"ignition":{"version":"2.3.0","config":{"replace":{"source":"data:;base64,`+inner+`"}}}}`,
		"2.3.0", &initramfs{})
	if err != nil || sys.read("/inner") != "c" {
		t.Errorf("a config of the second generation that is replaced: %+v, %v", sys, err)
	}
}

// TestIgnitionFetchesOverTheNetwork verifies that Ignition repeats requests to a server that does not respond yet. It
// does not repeat requests to an untrusted server.
func TestIgnitionFetchesOverTheNetwork(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer token":
			http.Error(w, "forbidden", http.StatusForbidden)
		case asked.Add(1) == 1:
			http.Error(w, "later", http.StatusServiceUnavailable)
		default:
			_, _ = w.Write(newConfig3("3.4.0").file("/real", 0o600, "real").raw())
		}
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	stub := func(at, token string, authority []byte, data []byte) string {
		out, err := bootstrap.Pointer{URL: at, Token: token, CA: authority}.RenderIgnition(data)
		if err != nil {
			t.Fatal(err)
		}

		return string(out)
	}
	data := newConfig3("3.4.0").file("/real", 0o600, "real").raw()
	online := func() *initramfs {
		return &initramfs{ctx: t.Context(), interfaces: []api.GuestInterface{{Name: "enp1s0", DHCP: "10.0.0.10/24"}}}
	}
	sys, err := readIgnition(stub(server.URL, "token", authority, data), "", online())
	check.Error(t, err, "")
	check.Equal(t, `sys.read("/real")`, sys.read("/real"), "real")
	check.Equal(t, "asked.Load()", asked.Load(), 2)

	for want, payload := range map[string]string{
		"the server says 403 Forbidden": stub(server.URL, "guessed", authority, data),
		"certificate signed by unknown": strings.Replace(stub(server.URL, "token", authority, data),
			`"certificateAuthorities"`, `"others"`, 1),
		"hash verification failed": stub(server.URL, "token", authority, []byte("other data")),
		"there is no certificate":  stub(server.URL, "token", []byte("none"), data),
	} {
		if sys, err := readIgnition(payload, "", online()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", sys, err, want)
		}
	}

	off, cancel := context.WithCancel(t.Context())
	cancel()
	alone := online()
	alone.ctx = off
	_, err = readIgnition(stub(server.URL, "token", authority, data), "", alone)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the power was cut: %v", err)
	}
}

// TestAnIgnitionGuestWithoutItsKeyfileHasNoNetwork verifies that the engine shows why a guest did not come up. Users
// need not guess the cause from the payload.
func TestAnIgnitionGuestWithoutItsKeyfileHasNoNetwork(t *testing.T) {
	s := newSite(t, "127.40.5.5:6443")
	payload := newConfig3("3.4.0").file(keyfilePath, 0o644, keyfileFor("127.40.0.51"))
	vm := ignitionMachine("vm-1", payload.raw(), "")
	vm.NICs = machine("vm-1", "127.40.0.51", "").NICs // an Ignition guest does not see these NICs

	err := s.start(vm).up()
	for _, want := range []string{"network: no interface has an address", "has no DHCP", "NetworkManager ignores " +
		keyfilePath + ": its permissions 0644 are insecure, they must be 0600"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestAnIgnitionGuestWhoseKeyfileSaysAnotherAddressIsRefused(t *testing.T) {
	s := newSite(t, "127.40.7.5:6443")
	for name, test := range map[string]struct{ keyfile, want string }{
		"the same": {keyfileFor("127.40.0.71"), ""},
		"another address": {keyfileFor("127.40.0.72"), "says static 127.40.0.72/24 via 127.40.0.1, and the NIC " +
			"configuration of the VM's initialization says static 127.40.0.71/24 via 127.40.0.1"},
		"another gateway": {strings.Replace(keyfileFor("127.40.0.71"), ",127.40.0.1", ",127.40.0.2", 1),
			"says static 127.40.0.71/24 via 127.40.0.2"},
		"DHCP": {"[connection]\nid=enp1s0\ntype=ethernet\ninterface-name=enp1s0\n[ipv4]\nmethod=auto\n",
			"says DHCP, and the NIC"},
		"IPv6 beside it": {keyfileFor("127.40.0.71") + "[ipv6]\nmethod=dhcp\n", "says DHCP, and the NIC " +
			"configuration of the VM's initialization says none"},
		"SLAAC beside it": {keyfileFor("127.40.0.71") + "[ipv6]\nmethod=auto\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			vm := ignitionMachine(
				"vm-"+strings.ReplaceAll(name, " ", "-"),
				newConfig3("3.4.0").file("/etc/hostname", 0o644, "a\n").file(keyfilePath, 0o600, test.keyfile).raw(),
				"",
			)
			vm.NICs = machine("vm", "127.40.0.71", "").NICs
			started := s.start(vm)
			if test.want == "" {
				<-started.reported
				started.halt()
				return
			}

			if err := started.up(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
