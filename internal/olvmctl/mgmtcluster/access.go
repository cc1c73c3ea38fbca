package mgmtcluster

import (
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
)

// ShellAccess pins a management cluster in commands that people copy into a shell of another folder, or later.
type ShellAccess struct {
	// Kubeconfigs is a list of files for KUBECONFIG; "" if Flags name one.
	Kubeconfigs string
	// Flags of olvmctl and kubectl.
	Flags []string
}

// ShellAccess returns the kubeconfig with its absolute path, and the context. A list of files in KUBECONFIG is one
// kubeconfig: no flag takes it.
func (c *Cluster) ShellAccess() ShellAccess {
	var out ShellAccess

	list := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))

	path, err := c.KubeconfigFile()
	switch {
	case c.Kubeconfig == "" && c.read == nil: // in a pod
	case err == nil:
		out.Flags = append(out.Flags, "--kubeconfig", path)
	case c.Kubeconfig == "" && len(list) > 1:
		for i := range list {
			if absolute, err := filepath.Abs(list[i]); err == nil && list[i] != "" {
				list[i] = absolute
			}
		}

		out.Kubeconfigs = strings.Join(list, string(filepath.ListSeparator))
	}

	if c.Context != "" {
		out.Flags = append(out.Flags, "--context", c.Context)
	}

	return out
}

// CommandLine returns a command as a line for a shell.
func (a ShellAccess) CommandLine(words ...string) string {
	var out []string

	if a.Kubeconfigs != "" {
		out = append(out, clientcmd.RecommendedConfigPathEnvVar+"="+shellword.QuoteWord(a.Kubeconfigs))
	}

	for _, list := range [][]string{words, a.Flags} {
		for _, word := range list {
			out = append(out, shellword.QuoteWord(word))
		}
	}

	return strings.Join(out, " ")
}
