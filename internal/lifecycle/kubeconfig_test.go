package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// clusterNamed is a cluster file for an endpoint.
func clusterNamed(name, host string, port int64) clusterfile.Loaded {
	out := clusterfile.Loaded{Source: &clusterfile.Source{}, Path: "cluster.yaml"}
	out.Name, out.Providers.OLVM.Namespace = name, name
	out.Objects = []*unstructured.Unstructured{{
		Object: map[string]any{
			"kind": "OLVMCluster",
			"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": port}},
		},
	}}

	return out
}

func TestAsksItself(t *testing.T) {
	const own = "https://127.0.0.1:1"

	for name, test := range map[string]struct {
		write        func(t *testing.T, path string)
		unsure, fail string
	}{
		"there is no kubeconfig": {write: func(*testing.T, string) {}},
		"its server does not answer": {
			write:  func(t *testing.T, path string) { testenv.WriteKubeconfig(t, path, own) },
			unsure: "does not answer",
		},
		"the kubeconfig is another cluster's": {
			write: func(t *testing.T, path string) { testenv.WriteKubeconfig(t, path, "https://127.0.0.1:2") },
			fail: "its server is https://127.0.0.1:2, that of prod is " + own +
				"; name another file with --kubeconfig-out",
		},
		"the file is no kubeconfig": {
			write: func(t *testing.T, path string) {
				if err := os.WriteFile(path, []byte("no: ["), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			fail: "--kubeconfig-out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig.prod")
			test.write(t, path)
			c := &creation{workload: &management{options: mgmtcluster.Options{Kubeconfig: path, Namespace: "prod"}}}
			c.File, c.KubeconfigOut = clusterNamed("prod", "127.0.0.1", 1), path

			managesItself, unsure, err := c.asksItself(t.Context())
			if managesItself {
				t.Error("it manages itself")
			}

			wantError(t, "unsure", unsure, test.unsure)
			wantError(t, "error", err, test.fail)
		})
	}
}

// wantError fails unless an error has a text in it; an empty text wants no error.
func wantError(t *testing.T, what string, err error, text string) {
	t.Helper()

	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %q", what, err, text)
	}
}

func TestKeepKubeconfig(t *testing.T) {
	const server, other = "https://prod:6443", "https://other:6443"
	from := filepath.Join(t.TempDir(), "from")
	testenv.WriteKubeconfig(t, from, server)
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		// there is the server of the file that is there; empty for none.
		there string
		own   bool
		fail  string
		want  string
	}{
		"there is none":                               {"", false, "", server},
		"its own is written again":                    {server, false, "", server},
		"another's is left":                           {other, false, "--kubeconfig-out", other},
		"its own with another address stays as it is": {other, true, "", other},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ".kube", "kubeconfig.prod")
			if test.there != "" {
				testenv.WriteKubeconfig(t, path, test.there)
			}

			wantError(t, "error", keepKubeconfig(path, "prod", content, test.own), test.fail)

			if got, err := mgmtcluster.ServerOf(path); err != nil || got != test.want {
				t.Errorf("its server is %s, %v, want %s", got, err, test.want)
			}
		})
	}
}
