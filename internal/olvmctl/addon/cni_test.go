package addon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// flannel has the relevant parts of flannel's manifests.
const flannel = `apiVersion: v1
kind: Namespace
metadata: {name: kube-flannel}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-flannel-cfg, namespace: kube-flannel}
data:
  cni-conf.json: |
    {"name": "cbr0"}
  net-conf.json: |
    {"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}
`

func TestANetworkPluginGetsTheNetworksOfPods(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kube-flannel.yml")
	check.Error(t, os.WriteFile(path, []byte(flannel), 0o600), "")

	for name, test := range map[string]struct {
		pods []string
		want string
	}{
		"IPv4": {[]string{"10.32.0.0/12"}, `{
  "Backend": {
    "Type": "vxlan"
  },
  "EnableIPv4": true,
  "EnableNFTables": false,
  "Network": "10.32.0.0/12"
}`},
		"both": {[]string{"10.32.0.0/12", "fd00:10::/56"}, `{
  "Backend": {
    "Type": "vxlan"
  },
  "EnableIPv4": true,
  "EnableIPv6": true,
  "EnableNFTables": false,
  "IPv6Network": "fd00:10::/56",
  "Network": "10.32.0.0/12"
}`},
	} {
		addOns, err := Sources{CNI: path, Pods: test.pods}.Load(t.Context(), nil)
		check.Error(t, err, "")
		check.Length(t, name, addOns, 1)

		got, _, _ := unstructured.NestedString(addOns[0].Objects()[1].Object, "data", "net-conf.json")
		check.Equal(t, name, got, test.want)
	}

	none, err := Sources{CNI: "none"}.Load(t.Context(), nil)
	check.Error(t, err, "")
	check.Equal(t, "add-ons where none is asked for", len(none), 0)
}

func TestANetworkPluginThatIsNotKnown(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.yml")
	content := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-flannel-cfg}\ndata: {net-conf.json: \"{\"}\n"
	check.Error(t, os.WriteFile(broken, []byte(content), 0o600), "")

	for asked, want := range map[string]string{
		"weave":         `--cni: "weave" is not supported; use calico, flannel, optionally with @VERSION`,
		"./missing.yml": "specify a file",
		broken:          "invalid configuration in its ConfigMap",
	} {
		_, err := Sources{CNI: asked, Pods: []string{"10.244.0.0/16"}}.Load(t.Context(), nil)
		check.Error(t, err, want)
	}
}

// TestNetworkPluginsOfClusterFiles checks that each plugin has manifests for a version.
func TestNetworkPluginsOfClusterFiles(t *testing.T) {
	for _, name := range clusterfile.NetworkPlugins {
		known, ok := plugins[name]
		check.Equal(t, name, ok, true)
		check.Contains(t, name, known.url(known.version), "/"+known.version+"/")
	}

	check.Equal(t, "plugins", len(plugins), len(clusterfile.NetworkPlugins))
	check.Equal(t, "sorted", slices.IsSorted(clusterfile.NetworkPlugins), true)
}

// daemonSet mounts a folder of its hosts.
const daemonSet = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %s, namespace: kube-system}
spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers: [{name: x, image: example.com/x}]
      volumes: [{name: x, hostPath: {path: %s}}]
`

// withFlannelAt replaces the manifests of flannel by a file.
func withFlannelAt(t *testing.T, path string) {
	t.Helper()
	before := plugins["flannel"]
	t.Cleanup(func() { plugins["flannel"] = before })
	plugins["flannel"] = plugin{before.version, func(string) string { return path }}
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifests.yaml")
	check.Error(t, os.WriteFile(path, []byte(content), 0o600), "")

	return path
}

func TestTheDefaultNetworkPlugin(t *testing.T) {
	withFlannelAt(t, write(t, flannel+"---\n"+fmt.Sprintf(daemonSet, "kube-flannel-ds", "/etc/cni/net.d")))

	for name, test := range map[string]struct {
		cni     string
		addOn   string
		want    []string
		because string
	}{
		"nothing": {
			addOn: fmt.Sprintf(daemonSet, "logs", "/var/log"), want: []string{"flannel v0.27.0", "manifests"},
			because: "it is the default, before what may wait for pods",
		},
		"none": {
			cni: "none", addOn: fmt.Sprintf(daemonSet, "logs", "/var/log"), want: []string{"manifests"},
			because: "nobody wants one",
		},
		"another": {
			addOn: fmt.Sprintf(daemonSet, "cilium", "/etc/cni/net.d/"), want: []string{"manifests"},
			because: "an add-on is one",
		},
		"both": {
			cni: "flannel@v0.27.4", addOn: fmt.Sprintf(daemonSet, "multus", "/etc/cni/net.d"),
			want: []string{"flannel v0.27.4", "manifests"}, because: "it was asked for",
		},
	} {
		sources := Sources{CNI: test.cni, Pods: []string{"10.244.0.0/16"}, Manifests: []string{write(t, test.addOn)}}
		addOns, err := sources.Load(t.Context(), nil)
		check.Error(t, err, "")

		var got []string

		for _, one := range addOns {
			if strings.HasSuffix(one.Name, ".yaml") {
				one.Name = "manifests"
			}

			got = append(got, one.Name)
		}

		check.Equal(t, name+", because "+test.because, got, test.want)
	}
}

func TestTheDefaultIsNotInstalledBesideAnother(t *testing.T) {
	withFlannelAt(t, write(t, flannel+"---\n"+fmt.Sprintf(daemonSet, "kube-flannel-ds", "/etc/cni/net.d")))

	addOns, err := Sources{Pods: []string{"10.244.0.0/16"}}.Load(t.Context(), nil)
	check.Error(t, err, "")
	check.Length(t, "add-ons", addOns, 1)

	install := func(there string) (said string, namespaces int) {
		t.Helper()
		objects, err := readManifests(t.Context(), write(t, there))
		check.Error(t, err, "")

		c := fake.NewClientBuilder().WithReturnManagedFields().WithObjects(objects[0]).Build()

		var out strings.Builder
		check.Error(t, addOns[0].Install(t.Context(), Target{Client: c}, wait.Limit, progress.NewDisplay(&out)), "")

		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("v1")
		list.SetKind("NamespaceList")
		check.Error(t, c.List(t.Context(), list), "")

		return out.String(), len(list.Items)
	}

	said, namespaces := install(fmt.Sprintf(daemonSet, "calico-node", "/etc/cni/net.d"))
	check.Contains(t, "what is said", said, "skipping flannel v0.27.0: the cluster already has a network plugin, kube-system/calico-node")
	check.Equal(t, "namespaces beside another plugin", namespaces, 0)

	own := fmt.Sprintf(daemonSet, "kube-flannel-ds", "/etc/cni/net.d")
	said, namespaces = install(own)
	check.Contains(t, "what is said of one that somebody else has applied", said, "a network plugin, kube-system/kube-flannel-ds")
	check.Equal(t, "namespaces beside somebody else's", namespaces, 0)

	_, namespaces = install(strings.Replace(own, "namespace: kube-system",
		"namespace: kube-system, managedFields: [{manager: olvmctl, operation: Apply, "+
			"apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {}}]", 1))
	check.Equal(t, "namespaces where it is ours", namespaces, 1)
}
