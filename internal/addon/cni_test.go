package addon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// flannel has the parts of its manifests that are looked at.
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
		"weave":         `--cni: "weave" is not known; write calico, flannel, with @VERSION`,
		"./missing.yml": "name the file",
		broken:          "no configuration that can be read",
	} {
		_, err := Sources{CNI: asked, Pods: []string{"10.244.0.0/16"}}.Load(t.Context(), nil)
		check.Error(t, err, want)
	}
}

// TestNetworkPluginsOfClusterFiles are those that have manifests, each of a version.
func TestNetworkPluginsOfClusterFiles(t *testing.T) {
	for _, name := range clusterfile.NetworkPlugins {
		known, ok := plugins[name]
		check.Equal(t, name, ok, true)
		check.Contains(t, name, known.url(known.version), "/"+known.version+"/")
	}

	check.Equal(t, "plugins", len(plugins), len(clusterfile.NetworkPlugins))
	check.Equal(t, "sorted", slices.IsSorted(clusterfile.NetworkPlugins), true)
}
