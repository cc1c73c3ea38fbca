package localplane

import (
	"context"
	"os"
	"os/exec"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// MoveCommand returns the command to move a namespace between management clusters with clusterctl. `make
// tools-clusterctl` builds clusterctl. from and to are the paths of kubeconfigs. dir is the folder for clusterctl's
// configuration.
func MoveCommand(ctx context.Context, tools *toolchain.Toolchain, from, to, namespace, dir string) (*exec.Cmd, error) {
	program, err := tools.Path("clusterctl", "clusterctl")
	if err != nil {
		return nil, err
	}

	command := exec.CommandContext(ctx, program, "move", "--kubeconfig="+from, "--to-kubeconfig="+to,
		"--namespace="+namespace, "-v=2")
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+dir)

	return command, nil
}
