package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// streams are the standard streams of the process, or those of a test.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func newCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "olvmctl",
		Short:         "Run Kubernetes clusters on Oracle Linux Virtualization Manager and oVirt",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Version,
	}

	// The name can be kubectl-olvm or clusterctl-olvm.
	if tool, plugin, ok := strings.Cut(filepath.Base(os.Args[0]), "-"); ok && plugin == "olvm" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: tool + " " + plugin}
	}

	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(
		newInitCommand(s),
		newValidateCommand(s),
		newDoctorCommand(s),
		newTemplateCommand(s),
		newPlanCommand(s),
		newRenderCommand(s),
		newImageCommand(s),
		newDescribeCommand(s),
		newGetCommand(s),
		newInventoryCommand(s),
		newScaleCommand(s),
		newStartCommand(s),
		newMoveCommand(s),
		newUpgradeCommand(s),
		newUICommand(s),
		newLogsCommand(s),
		newSupportBundleCommand(s),
		newDeleteCommand(s),
		newLocalCommand(s),
		newVersionCommand(s),
	)
	root.SetFlagErrorFunc(flagError)
	finishCommands(root)

	return root
}
