package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// versions is the output of the version command.
type versions struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Executor is the Terraform or OpenTofu executable used by plan and image template. It is empty if olvmctl finds
	// neither.
	Executor string `json:"executor,omitempty"`
}

func newVersionCommand(s streams) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of olvmctl, and of Terraform or OpenTofu",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return printVersion(command.Context(), s, output)
		},
	}
	output.addFlag(command, formatText)

	return command
}

func printVersion(ctx context.Context, s streams, output outputFlag) error {
	out := versions{
		Version:  version.Version,
		Go:       runtime.Version(),
		Platform: version.Platform(),
	}

	tools, err := toolchain.NewEmbedded()
	if err != nil {
		return err
	}

	executor, missing := tools.FindExecutor(ctx)
	if missing == nil {
		out.Executor = executor.String()
	}

	if !output.isForPeople() {
		return encodeValue(s.out, output.format, out)
	}

	if _, err := fmt.Fprintln(s.out, version.FormatLine("olvmctl")); err != nil {
		return err
	}

	if missing != nil {
		_, err = fmt.Fprintf(s.out, "no Terraform or OpenTofu: %v\n", missing)
		return err
	}

	_, err = fmt.Fprintln(s.out, out.Executor)

	return err
}
