package localplane

import (
	"context"
	"os"
	"os/exec"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Move is the command that moves a namespace with clusterctl, which `make tools-clusterctl` has built, from the
// management cluster of one kubeconfig to that of another. dir is for its configuration.
func Move(ctx context.Context, tools *toolchain.Toolchain, from, to, namespace, dir string) (*exec.Cmd, error) {
	program, err := tools.Path("clusterctl", "clusterctl")
	if err != nil {
		return nil, err
	}

	command := exec.CommandContext(ctx, program, "move", "--kubeconfig="+from, "--to-kubeconfig="+to,
		"--namespace="+namespace, "-v=2")
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+dir)

	return command, nil
}
