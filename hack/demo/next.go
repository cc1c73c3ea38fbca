package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
)

// This file suggests next steps for a running demo.

// printSuggestions prints suggestions for the user. Their commands are not necessary for the demo itself.
func (d *demo) printSuggestions(ctx context.Context) error {
	if err := d.tools.Build(ctx, "plane", "kubectl"); err != nil {
		return err
	}

	if err := d.tools.BuildProject(ctx, d.binDir, "olvmctl"); err != nil {
		return err
	}

	environment, err := d.writeEnvironment()
	if err != nil {
		return err
	}

	fmt.Fprintln(d.out, "\nTry next, in another terminal:")
	if d.real {
		fmt.Fprintf(d.out, "  nsenter --net=/run/netns/%s  # all that follows is in this network namespace\n", d.netns)
	}

	fmt.Fprintf(d.out, "  . %s  # kubectl, olvmctl, and how to reach this demo\n", shellword.QuoteWord(environment))
	if d.real {
		fmt.Fprintf(d.out, "  kubectl --kubeconfig %s get pods -A -o wide\n", d.workload)
	}

	fmt.Fprintf(d.out, `  kubectl get clusters,machines,olvmclusters,olvmmachines
  olvmctl describe %s
  olvmctl ui  # a page with what waits for what
  kubectl scale machinedeployment demo-md-0 --replicas=3  # and watch it come on %s
  olvmctl plan -f "$DEMO/%s" --kubeconfig "$KUBECONFIG" --ca-file "$OLVM_CA_FILE"

`, clusterName, d.plane.Engine.UIURL, filepath.Base(d.manifestFile()))

	return nil
}

// writeEnvironment writes a file that a shell can source, and returns its path. It contains the connections to the
// management cluster and the engine, and the paths of the commands.
func (d *demo) writeEnvironment() (path string, err error) {
	kubectl, err := d.tools.Path("plane", "kubectl")
	if err != nil {
		return "", err
	}

	commands := filepath.Join(d.dir, "bin")
	if err := os.MkdirAll(commands, 0o700); err != nil {
		return "", fmt.Errorf("failed to make a folder for commands: %w", err)
	}

	for name, target := range map[string]string{"kubectl": kubectl, "olvmctl": filepath.Join(d.binDir, "olvmctl")} {
		if err := os.Symlink(target, filepath.Join(commands, name)); err != nil {
			return "", fmt.Errorf("failed to link a command: %w", err)
		}
	}

	path = filepath.Join(d.dir, "environment")
	content := fmt.Sprintf(`export DEMO=%s
export PATH=%s:"$PATH"
export KUBECONFIG=%s
export CAPOLVM_TERRAFORM=%s
export OLVM_USERNAME=%s OLVM_PASSWORD=%s OLVM_CA_FILE=%s OLVM_URL=%s
`, quoteWords(d.dir, commands, d.plane.Kubeconfig, d.executor.Path, d.plane.Engine.Username, d.plane.Engine.Password,
		d.plane.Engine.CAFile, d.plane.Engine.URL)...)

	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", fmt.Errorf("failed to write %s: %w", path, err)
	}

	return path, nil
}

// quoteWords quotes words for a shell.
func quoteWords(words ...string) []any {
	var out []any
	for _, word := range words {
		out = append(out, shellword.QuoteWord(word))
	}

	return out
}
