package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// clusterNamed returns a cluster file for an endpoint.
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
			unsure: "is unreachable",
		},
		"the kubeconfig is another cluster's": {
			write: func(t *testing.T, path string) { testenv.WriteKubeconfig(t, path, "https://127.0.0.1:2") },
			fail: "its server is https://127.0.0.1:2, but the server of prod is " + own +
				"; specify another file with --kubeconfig-out",
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

			managesItself, unsure, err := c.detectSelfManaged(t.Context())
			if managesItself {
				t.Error("it manages itself")
			}

			wantError(t, "unsure", unsure, test.unsure)
			wantError(t, "error", err, test.fail)
		})
	}
}

// merged returns a kubeconfig in the form of Cluster API, for a CA.
func merged(t *testing.T, name, server, ca, certificate string) []byte {
	t.Helper()

	config := clientcmdapi.NewConfig()
	config.CurrentContext = contextName(name)
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte(ca)}
	config.AuthInfos[name+"-admin"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: []byte(certificate), ClientKeyData: []byte(certificate),
	}
	config.Contexts[contextName(name)] = &clientcmdapi.Context{Cluster: name, AuthInfo: name + "-admin"}
	content, err := clientcmd.Write(*config)
	check.Error(t, err, "")

	return content
}

// TestAKubeconfigOfOthersIsAddedTo names kubectl's file with --kubeconfig-out.
func TestAKubeconfigOfOthersIsAddedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	testenv.WriteKubeconfig(t, path, "https://theirs:6443")
	check.Error(t, mergeKubeconfig(path, "prod", merged(t, "prod", "https://prod:6443", "ca", "first"), false), "")

	config, err := clientcmd.LoadFromFile(path)
	check.Error(t, err, "")
	check.Equal(t, "the current context", config.CurrentContext, "test")
	check.Equal(t, "their server", config.Clusters["test"].Server, "https://theirs:6443")
	check.Equal(t, "our context", contextIn(config, path, "prod"), "prod-admin@prod")
	check.Equal(t, "the context of another cluster", contextIn(config, path, "other"), "")

	removed, err := dropKubeconfig(path, "prod", &clientcmdapi.Cluster{CertificateAuthorityData: []byte("ca")})
	check.Error(t, err, "")
	check.Equal(t, "whether ours is removed", removed, true)

	config, err = clientcmd.LoadFromFile(path)
	check.Error(t, err, "")
	check.Equal(t, "contexts that are left", len(config.Contexts), 1)
	check.Equal(t, "the current context after that", config.CurrentContext, "test")
}

// TestWhatAUserHasChangedInAKubeconfigStays merges a kubeconfig again after the user's changes.
func TestWhatAUserHasChangedInAKubeconfigStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig.prod")
	keep := func(server, ca, certificate string) error {
		return mergeKubeconfig(path, "prod", merged(t, "prod", server, ca, certificate), false)
	}
	check.Error(t, keep("https://prod:6443", "ca", "first"), "")

	config, err := clientcmd.LoadFromFile(path)
	check.Error(t, err, "")
	config.Clusters["prod"].Server, config.Clusters["prod"].ProxyURL = "https://localhost:6443", "socks5://jump:1080"
	config.AuthInfos["oidc"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "kubelogin", InteractiveMode: "Never",
	}}
	config.Contexts["mine"] = &clientcmdapi.Context{Cluster: "prod", AuthInfo: "oidc"}
	config.CurrentContext = "mine"
	check.Error(t, clientcmd.WriteToFile(*config, path), "")
	check.Error(t, keep("https://prod:6443", "ca", "second"), "")

	config, err = clientcmd.LoadFromFile(path)
	check.Error(t, err, "")
	check.Equal(t, "the server", config.Clusters["prod"].Server, "https://localhost:6443")
	check.Equal(t, "the proxy", config.Clusters["prod"].ProxyURL, "socks5://jump:1080")
	check.Equal(t, "the current context", config.CurrentContext, "mine")
	check.Equal(t, "the program", config.AuthInfos["oidc"].Exec.Command, "kubelogin")
	check.Equal(t, "our certificate", string(config.AuthInfos["prod-admin"].ClientCertificateData), "second")
	check.Error(t, keep("https://prod:6443", "other ca", "third"), "is the kubeconfig of another cluster")
}

// TestANameThatAnotherClusterHasIsRefused has a file with an entry of the same name for another site.
func TestANameThatAnotherClusterHasIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	check.Error(t, os.WriteFile(path, merged(t, "prod", "https://prod:6443", "one", "one"), 0o600), "")
	before, err := os.ReadFile(path)
	check.Error(t, err, "")
	check.Error(t, mergeKubeconfig(path, "prod", merged(t, "prod", "https://prod:6443", "two", "two"), false),
		"its CA is different")

	after, err := os.ReadFile(path)
	check.Error(t, err, "")
	check.Equal(t, "the file", string(after), string(before))
}

func TestTheURLsOfASharedSecretStay(t *testing.T) {
	const one, other = "https://one/ovirt-engine/api", "https://other/ovirt-engine/api"
	for name, test := range map[string]struct{ list, want string }{
		"there is none":              {"", one},
		"it is there":                {one, one},
		"it is there beside another": {other + ", " + one, other + ", " + one},
		"another is there":           {other, other + "\n" + one},
	} {
		check.Equal(t, name, string(withURL([]byte(test.list), one)), test.want)
	}
}

// wantError fails unless the error contains a text. An empty text means no error.
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
		// there is the server in an existing file, or "" for no file.
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

			wantError(t, "error", mergeKubeconfig(path, "prod", content, test.own), test.fail)

			if got, err := mgmtcluster.ServerOf(path); err != nil || got != test.want {
				t.Errorf("its server is %s, %v, want %s", got, err, test.want)
			}
		})
	}
}
