package bootstrap

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// initData is a cloud-config of the kubeadm bootstrap provider, with additions of users.
const initData = `## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      -----BEGIN CERTIFICATE-----
-   path: /run/kubeadm/kubeadm.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      apiServer:
        certSANs:
        - "localhost"
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: ClusterConfiguration
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      nodeRegistration:
        name: '{{ ds.meta_data.local_hostname }}'
        taints: null
runcmd:
  - 'echo "a && b" > /tmp/x'
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete'
users:
  - name: core
`

type parsed struct {
	WriteFiles []struct{ Path, Owner, Permissions, Content string } `yaml:"write_files"`
	RunCmd     []string
	Users      []map[string]string
}

func read(t *testing.T, data []byte) parsed {
	t.Helper()
	var p parsed
	if err := yaml.Unmarshal(data, &p); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}

	return p
}

func TestTheProviderIDIsAddedAndNothingElseChanges(t *testing.T) {
	merged, err := Merge([]byte(initData), CloudConfig, Guest{HostName: "demo-1"})
	if err != nil {
		t.Fatal(err)
	}

	if !strings.HasPrefix(string(merged), "## template: jinja\n#cloud-config\n") {
		t.Errorf("the header is gone:\n%s", merged)
	}

	before, after := read(t, []byte(initData)), read(t, merged)
	check.Length(t, "after.WriteFiles", after.WriteFiles, 3)
	check.Equal(t, "after.WriteFiles[0]", after.WriteFiles[0], before.WriteFiles[0])
	check.Equal(t, "after.WriteFiles[1].Permissions", after.WriteFiles[1].Permissions, "0640")
	check.Length(t, "after.Users", after.Users, 1)

	check.Length(t, "after.RunCmd", after.RunCmd, 3)
	check.Equal(t, `strings.HasPrefix(after.RunCmd[0], "sed -i ")`, strings.HasPrefix(after.RunCmd[0], "sed -i "), true)
	check.Equal(
		t, `strings.HasSuffix(after.RunCmd[0], " /run/kubeadm/kubeadm.yaml")`,
		strings.HasSuffix(after.RunCmd[0], " /run/kubeadm/kubeadm.yaml"), true,
	)
	check.Equal(t, "after.RunCmd[1]", after.RunCmd[1], before.RunCmd[0])
	check.Equal(t, "after.RunCmd[2]", after.RunCmd[2], before.RunCmd[1])

	decoder := yaml.NewDecoder(strings.NewReader(after.WriteFiles[1].Content))
	var cluster, init struct {
		Kind      string
		APIServer struct {
			CertSANs []string `yaml:"certSANs"`
		} `yaml:"apiServer"`
		NodeRegistration struct {
			Name             string
			KubeletExtraArgs []map[string]string `yaml:"kubeletExtraArgs"`
		} `yaml:"nodeRegistration"`
	}
	if err := decoder.Decode(&cluster); err != nil {
		t.Fatal(err)
	}

	if err := decoder.Decode(&init); err != nil {
		t.Fatal(err)
	}

	check.Equal(t, "cluster.Kind", cluster.Kind, "ClusterConfiguration")
	check.Length(t, "cluster.APIServer.CertSANs", cluster.APIServer.CertSANs, 1)
	check.Equal(t, "init.NodeRegistration.Name", init.NodeRegistration.Name, "demo-1")

	args := init.NodeRegistration.KubeletExtraArgs
	check.Length(t, "args", args, 1)
	check.Equal(t, `args[0]["name"]`, args[0]["name"], "provider-id")
	check.Equal(t, `args[0]["value"]`, args[0]["value"], "olvm://__OLVM_VM_UUID__")

	again, err := Merge(merged, CloudConfig, Guest{})
	if err != nil || string(again) != string(merged) {
		t.Errorf("a second merge changes it: %v", err)
	}
}

// TestWhatTheEngineOpensIsClosed covers the text that the engine puts before the data, and its command for later boots:
// D10, D12.
func TestWhatTheEngineOpensIsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		ssh  *SSH
		want []string
		not  string
	}{
		"data that says nothing": {"#cloud-config\nruncmd: [last]\n", nil,
			[]string{"\nssh_pwauth: false\n", "\ndisable_root: true\n", "path: /etc/cloud/cloud.cfg.d/99-capolvm.cfg",
				"datasource_list: [NoCloud, ConfigDrive]"}, ""},
		"a flow mapping, which cannot stand behind the engine's part": {"{runcmd: [last]}\n", nil,
			[]string{"#cloud-config\nruncmd: [last]\n", "\nssh_pwauth: false\n"}, "{"},
		"data that wants passwords": {"#cloud-config\nssh_pwauth: " +
			"true\ndisable_root: false\n", nil, []string{"ssh_pwauth: true\n", "disable_root: false\n"},
			"disable_root: true"},
		"keys for root": {"#cloud-config\nruncmd: [last]\n", &SSH{
			User:           "root",
			AuthorizedKeys: []string{"ssh-ed25519 AAAA"},
		}, []string{"disable_root: false\n"}, ""},
		"sources of its own": {"#cloud-config\ndatasource_list: [OpenStack]\n", nil, nil, "99-capolvm"},
		"sources of its own in a file of cloud-init's": {"#cloud-config\nwrite_files:\n- path: " +
			"/etc/cloud/cloud.cfg.d/my.cfg\n  content: 'datasource_list: [None]'\n", nil, nil, "99-capolvm"},
	} {
		t.Run(name, func(t *testing.T) {
			merged, err := Merge([]byte(test.data), CloudConfig, Guest{HostName: "demo-1", SSH: test.ssh})
			if err != nil {
				t.Fatal(err)
			}

			for _, want := range test.want {
				if !strings.Contains(string(merged), want) {
					t.Errorf("%q is missing:\n%s", want, merged)
				}
			}

			if test.not != "" && strings.Contains(string(merged), test.not) {
				t.Errorf("%q is there:\n%s", test.not, merged)
			}
		})
	}
}

func TestWhatIsLeftAlone(t *testing.T) {
	join := strings.NewReplacer("kubeadm.yaml", "kubeadm-join-config.yaml", "InitConfiguration", "JoinConfiguration").
		Replace(initData)

	named := strings.Replace(join, "        taints: null",
		"        kubeletExtraArgs:\n        - name: provider-id\n          value: mine://1", 1)
	for name, data := range map[string]string{
		"a provider ID of the user": strings.ReplaceAll(named, "{{ ds.meta_data.local_hostname }}", "demo-1"),
		"data without kubeadm":      "#cloud-config\nruncmd: [reboot]\n",
	} {
		merged, err := Merge([]byte(data), CloudConfig, Guest{HostName: "demo-1"})
		if err != nil {
			t.Fatal(err)
		}

		before, after := read(t, []byte(data)), read(t, merged)
		if len(before.WriteFiles) > 0 {
			// These are the sources for later boots.
			before.WriteFiles = append(before.WriteFiles, after.WriteFiles[len(after.WriteFiles)-1])
		} else {
			after.WriteFiles = nil
		}

		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s:\n%s", name, merged)
		}
	}
}

func TestDataThatIsNoneIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		data   string
		format Format
	}{
		"a list":               {"- a\n", CloudConfig},
		"a script":             {"#!/bin/sh\nreboot\n", CloudConfig},
		"nothing":              {"", CloudConfig},
		"not YAML":             {"a: [\n", CloudConfig},
		"kubeadm not YAML":     {"write_files:\n- path: /run/kubeadm/kubeadm.yaml\n  content: 'a: ['\n", CloudConfig},
		"a format of nobody's": {"a: 1\n", "windows"},
	} {
		if merged, err := Merge([]byte(test.data), test.format, Guest{}); err == nil {
			t.Errorf("%s was taken:\n%s", name, merged)
		}
	}
}

func FuzzMergeCloudConfig(f *testing.F) {
	f.Add([]byte(initData))
	f.Add(
		[]byte(
			"#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  content: 'kind: InitConfiguration'\n",
		),
	)
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		merged, err := Merge(data, CloudConfig, Guest{HostName: "demo-1"})
		if err != nil {
			return
		}

		var before, after map[string]any
		if yaml.Unmarshal(data, &before) != nil {
			return // keys that are not strings
		}

		if err := yaml.Unmarshal(merged, &after); err != nil {
			t.Fatalf("%v\n%s", err, merged)
		}

		for key := range before {
			if _, ok := after[key]; !ok {
				t.Fatalf("%s was lost:\n%s", key, merged)
			}
		}
	})
}

// TestManySmallPartsMergeInLinearTime (row M6 of docs/operate/security.md) merges the maximum number of small parts.
// The merge looks up each part instead of comparing it with all others. With quadratic time, each case would take
// minutes.
func TestManySmallPartsMergeInLinearTime(t *testing.T) {
	many := func(begin string, part func(int) string, end string) []byte {
		var out strings.Builder
		out.WriteString(begin)

		for i := 0; out.Len() < MaxInput/8; i++ {
			out.WriteString(part(i))
		}

		return []byte(out.String() + end)
	}
	cloudFiles := many("#cloud-config\nwrite_files:\n", func(i int) string {
		return fmt.Sprintf("- {path: /%d}\n", i)
	}, "")
	cloudKeys := many("#cloud-config\n", func(i int) string { return fmt.Sprintf("k%d: 1\n", i) }, "")
	ignition := many(`{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":"/first"}`, func(i int) string {
		return fmt.Sprintf(`,{"path":"/%d"}`, i)
	}, "]}}")

	for name, test := range map[string]struct {
		data   []byte
		format Format
	}{
		"files of a cloud-config": {cloudFiles, CloudConfig},
		"keys of a cloud-config":  {cloudKeys, CloudConfig},
		"files of Ignition":       {ignition, Ignition},
	} {
		begin := time.Now()
		_, err := Merge(test.data, test.format, Guest{Extra: []Extra{{Source: "Secret x", Data: test.data}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}

		t.Logf("%s: %d KiB and as many again in %s", name, len(test.data)>>10, time.Since(begin))
	}

	_, err := Merge(cloudFiles, CloudConfig, Guest{
		Extra: []Extra{{Source: "Secret x", Data: bytes.Repeat(cloudFiles, 8)}},
	})
	if err == nil || !strings.Contains(err.Error(), "can have 2048") {
		t.Errorf("too much was merged: %v", err)
	}
}
