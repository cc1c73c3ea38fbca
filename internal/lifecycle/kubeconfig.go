package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

// KubeconfigPath is where Create puts the kubeconfig of a cluster: ~/.kube/kubeconfig.NAME.
func KubeconfigPath(cluster string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return filepath.Join(home, ".kube", "kubeconfig."+cluster), nil
}

// keepKubeconfig writes the kubeconfig of a cluster to a file, unless that is of another one; own reports that it is
// known to be of this one, maybe at an address that the user has chosen.
func keepKubeconfig(path, name string, content []byte, own bool) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return fmt.Errorf("the kubeconfig of %s: %w", name, err)
	}

	if fileExists(path) {
		server, err := mgmtcluster.ServerOf(path)
		switch {
		case err != nil:
			return fmt.Errorf("%w; move it away, or name another file with --kubeconfig-out", err)
		case server != config.Host && own:
			return nil
		case server != config.Host:
			return otherServerError(path, server, name, config.Host)
		}
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return nil
}

// otherServerError reports that a kubeconfig is that of another cluster.
func otherServerError(path, server, name, wanted string) error {
	return fmt.Errorf("%s is the kubeconfig of another cluster: its server is %s, that of %s is %s; name another file "+
		"with --kubeconfig-out, or move it away", path, server, name, wanted)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
