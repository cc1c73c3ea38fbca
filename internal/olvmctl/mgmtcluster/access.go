package mgmtcluster

import (
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
)

// ShellAccess pins a management cluster in commands that users may run in another folder, or later.
type ShellAccess struct {
	// Kubeconfigs is the list of files for KUBECONFIG. It is "" if Flags name one file.
	Kubeconfigs string
	// Flags are the flags for olvmctl and kubectl.
	Flags []string
}

// ShellAccess returns the absolute path of the kubeconfig, and the context. A list of files in KUBECONFIG is one
// kubeconfig, but no flag accepts such a list.
func (c *Cluster) ShellAccess() ShellAccess {
	var out ShellAccess

	list := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))

	path, err := c.KubeconfigFile()
	switch {
	case c.Kubeconfig == "" && c.read == nil: // the command runs in a pod
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

// CommandLine returns the line for a shell that runs a command.
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
