package mgmtcluster

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestCommandsForAShellPinTheManagementCluster has a kubeconfig without flags, with a relative path, and as a list of
// files. Without flags, a switch of the current context would change the commands.
func TestCommandsForAShellPinTheManagementCluster(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)

	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443"}
	config.Contexts["it's mine"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "it's mine"
	check.Error(t, clientcmd.WriteToFile(*config, "one"), "")
	check.Error(t, os.WriteFile("two", nil, 0o600), "")

	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")

	for name, test := range map[string]struct{ flag, env, want string }{
		"a flag":          {"one", "", "kubectl get x --kubeconfig " + one + ` --context 'it'\''s mine'`},
		"KUBECONFIG":      {"", one, "kubectl get x --kubeconfig " + one + ` --context 'it'\''s mine'`},
		"a list of files": {"", "two:one", "KUBECONFIG=" + two + ":" + one + ` kubectl get x --context 'it'\''s mine'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.env)

			in, err := Connect(Options{Kubeconfig: test.flag})
			check.Error(t, err, "")
			check.Equal(t, "line", in.ShellAccess().CommandLine("kubectl", "get", "x"), test.want)
		})
	}
}
