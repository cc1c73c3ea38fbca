package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
)

// errInvalid ends a command after printing its problems.
var errInvalid = errors.New("the cluster file is invalid")

// validateFlags are the flags of the validate command.
type validateFlags struct {
	file clusterFileFlags
	accessFlags
	engine bool
	output outputFlag
}

func newValidateCommand(s streams) *cobra.Command {
	var v validateFlags
	command := &cobra.Command{
		Use:   "validate FILE",
		Short: "Validate a cluster file",
		Long: `Validate a cluster file, and print all problems at once. The command finds unknown keys and invalid
values. With --engine, it also checks the login, all names, and whether addresses are free. On OCI,
it checks the compartment and the images instead.

` + credentialsHelp + `

Exit codes: 0 if the file is valid, even with warnings; 1 if it is invalid, or on an error.`,
		Example: `  olvmctl validate cluster.yaml
  OLVM_USERNAME=admin@internal OLVM_PASSWORD=... olvmctl validate cluster.yaml --engine -o json`,
		RunE: func(command *cobra.Command, _ []string) error {
			return v.validateFile(command.Context(), s)
		},
	}
	v.file.addFlags(command)
	command.Flags().BoolVar(&v.engine, "engine", false, "also check the objects in the engine or the cloud")
	v.addFlags(command.Flags())
	v.output.addFlag(command, formatText)

	return command
}

func (v *validateFlags) validateFile(ctx context.Context, s streams) error {
	cluster, problems, err := clusterfile.Load(v.file.path, v.file.defaults, v.file.flavor)
	if err != nil && v.output.isForPeople() {
		return err
	}

	if err != nil {
		problems = append(problems, asProblem(err, v.file.path))
	}

	if v.engine && !clusterfile.HasErrors(problems) {
		for _, err := range v.askEngine(ctx, cluster) {
			problems = append(problems, cluster.EngineProblem(err))
		}
	}

	if err := v.printResult(s.out, problems); err != nil {
		return err
	}

	if clusterfile.HasErrors(problems) {
		return errInvalid
	}

	return nil
}

func (v *validateFlags) askEngine(ctx context.Context, cluster clusterfile.Loaded) []error {
	credentials, err := v.loadCredentials(v.file.path)
	if err != nil {
		return []error{err}
	}

	provider, err := lifecycle.NewProvider(cluster.ProviderName(), lifecycle.ProviderOptions{Engine: credentials})
	if err != nil {
		return []error{err}
	}

	return lifecycle.CheckInfrastructure(ctx, cluster, provider)
}

func (v *validateFlags) printResult(out io.Writer, problems []clusterfile.Problem) error {
	if !v.output.isForPeople() {
		return encodeValue(out, v.output.format, map[string]any{
			"valid":    !clusterfile.HasErrors(problems),
			"problems": append([]clusterfile.Problem{}, problems...),
		})
	}

	if err := printProblems(out, problems); err != nil || clusterfile.HasErrors(problems) {
		return err
	}

	_, err := fmt.Fprintln(out, colorize(out, green, v.file.path+" is valid"))

	return err
}

func printProblems(out io.Writer, problems []clusterfile.Problem) error {
	for _, p := range problems {
		in := red
		if p.Warning {
			in = yellow
		}

		if _, err := fmt.Fprintln(out, colorize(out, in, p.Error())); err != nil {
			return err
		}
	}

	return nil
}

// asProblem converts an error from reading a cluster file to a problem.
func asProblem(err error, path string) clusterfile.Problem {
	var problem clusterfile.Problem
	if errors.As(err, &problem) {
		return problem
	}

	return clusterfile.Problem{File: path, Path: "file", Message: err.Error()}
}
