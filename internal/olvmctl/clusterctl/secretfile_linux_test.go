package clusterctl

import (
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAKilledCommandLeavesNoKubeconfig checks that clusterctl's kubeconfig is on no disk, although clusterctl reads it
// more than once.
func TestAKilledCommandLeavesNoKubeconfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)

	config := clientcmdapi.NewConfig()
	config.Clusters["prod"] = &clientcmdapi.Cluster{Server: "https://prod.example.com"}
	config.Contexts["prod"] = &clientcmdapi.Context{Cluster: "prod"}
	config.CurrentContext = "prod"

	file, done, err := Management{Config: config}.writeKubeconfig()
	check.Error(t, err, "")

	for range 2 {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file.Path}
		read, err := rules.Load()
		check.Error(t, err, "")
		check.Equal(t, "the server", read.Clusters["prod"].Server, "https://prod.example.com")
	}

	left, err := os.ReadDir(dir)
	check.Error(t, err, "")
	check.Length(t, "files on the disk", left, 0)

	done()
	_, err = os.Stat(file.Path)
	check.Error(t, err, "no such file")
}
