package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
)

// olvmClusterAt is the OLVMCluster of manifests.
func olvmClusterAt(host string, port int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{
		Object: map[string]any{
			"kind": "OLVMCluster",
			"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": port}},
		},
	}
}

func TestAKubeconfigThatIsThere(t *testing.T) {
	const own = "https://127.0.0.1:1"
	path := filepath.Join(t.TempDir(), "kubeconfig.prod")
	o := &start{kubeconfigOut: path, management: management{namespace: "prod"}}
	cluster := readCluster{
		Source:  &clusterfile.Source{},
		objects: []*unstructured.Unstructured{olvmClusterAt("127.0.0.1", 1)},
	}
	cluster.Name = "prod"
	expect := func(what, unsureWant, errWant string) {
		t.Helper()

		is, unsure, err := o.managesItself(t.Context(), cluster)
		for want, got := range map[string]error{unsureWant: unsure, errWant: err} {
			if (want == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), want) {
				t.Errorf("%s: %v", what, got)
			}
		}

		if is {
			t.Errorf("%s: it manages itself", what)
		}
	}
	if is, unsure, err := o.managesItself(t.Context(), cluster); is || unsure != nil || err != nil {
		t.Errorf("there is none: %t, %v, %v", is, unsure, err)
	}

	writeConfig(t, path, own)
	expect("it does not answer", "the server of "+path+" does not answer", "")
	writeConfig(t, path, "https://127.0.0.1:2")
	expect(
		"it is another's",
		"",
		"its server is https://127.0.0.1:2, that of prod is "+own+"; name another file with --kubeconfig-out",
	)
	if err := os.WriteFile(path, []byte("no: ["), 0o600); err != nil {
		t.Fatal(err)
	}

	expect("it is no kubeconfig", "", "--kubeconfig-out")
}

func TestWritingOverAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	path, from := filepath.Join(dir, ".kube", "kubeconfig.prod"), filepath.Join(dir, "from")
	writeConfig(t, from, "https://prod:6443")
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}

	for range 2 { // a second time over its own
		if err := keepKubeconfig(path, "prod", content, false); err != nil {
			t.Fatal(err)
		}
	}

	writeConfig(t, path, "https://other:6443")
	err = keepKubeconfig(path, "prod", content, false)
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig-out") {
		t.Errorf("another's: %v", err)
	}

	if err := keepKubeconfig(path, "prod", content, true); err != nil {
		t.Errorf("its own at another address: %v", err)
	}

	if server, err := serverOf(path); err != nil || server != "https://other:6443" {
		t.Errorf("it is written over: %s, %v", server, err)
	}
}
