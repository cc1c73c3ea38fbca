package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

// errInvalid ends a command whose problems were printed already.
var errInvalid = errors.New("the cluster file is not valid")

// clusterFile are the flags of commands that read one.
type clusterFile struct {
	path, defaults, flavor string
}

func (f *clusterFile) addFlags(command *cobra.Command) {
	command.Flags().StringVarP(&f.path, "filename", "f", "", "cluster file")
	f.addFormatFlags(command)
	_ = command.MarkFlagRequired("filename")
}

func (f *clusterFile) addFormatFlags(command *cobra.Command) {
	f.addDefaultsFlag(command.Flags())
	command.Flags().StringVar(&f.flavor, "flavor", clusterfile.DefaultFlavor,
		"template for a cluster file: "+strings.Join(clusterfile.Flavors(), ", "))
	_ = command.RegisterFlagCompletionFunc(
		"flavor",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return clusterfile.Flavors(), cobra.ShellCompDirectiveNoFileComp
		},
	)
}

func (f *clusterFile) addDefaultsFlag(set *pflag.FlagSet) {
	set.StringVar(&f.defaults, "defaults", clusterfile.DefaultsPath(),
		"file with defaults for cluster files, in their format; empty for none")
}

// readCluster is a cluster file that was read, with its manifests.
type readCluster struct {
	*clusterfile.Source
	objects []*unstructured.Unstructured
}

// read reads a cluster file and says what is wrong with it; there are no manifests then.
func (f *clusterFile) read() (readCluster, []clusterfile.Problem, error) {
	source, err := clusterfile.Read(f.path, f.defaults)
	if err != nil {
		return readCluster{}, nil, err
	}

	problems := source.Validate()
	if clusterfile.Failed(problems) {
		return readCluster{Source: source}, problems, nil
	}

	objects, err := source.Manifests(f.flavor, os.LookupEnv)

	return readCluster{Source: source, objects: objects}, problems, err
}

// valid is read, with what is wrong printed.
func (f *clusterFile) valid(to io.Writer) (readCluster, error) {
	cluster, problems, err := f.read()
	if err != nil {
		return readCluster{}, err
	}

	for _, p := range problems {
		_, _ = fmt.Fprintln(to, p.Error())
	}

	if clusterfile.Failed(problems) {
		return readCluster{}, errInvalid
	}

	return cluster, nil
}

func newTemplateCommand(s streams) *cobra.Command {
	var file clusterFile
	command := &cobra.Command{
		Use:   "template -f FILE",
		Short: "Print the manifests that a cluster file asks for",
		Long: `template checks a cluster file as validate does, and prints the Cluster API
manifests that it asks for, in the shape of a flavor of config/templates. Variables of the flavor
that the file says nothing about come from the environment.

The Secret with the credentials of the engine is not among the manifests, so that they can be kept in git.`,
		Example: `  olvmctl template -f cluster.yaml >manifests/prod.yaml
  olvmctl template -f cluster.yaml --flavor default | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cluster, err := file.valid(s.err)
			if err != nil {
				return err
			}

			return manifest.Write(s.out, cluster.objects)
		},
	}
	file.addFlags(command)

	return command
}

func newValidateCommand(s streams) *cobra.Command {
	var file clusterFile
	var output string
	var engineAccess access
	var online bool
	command := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Say what is wrong in a cluster file",
		Long: `validate checks a cluster file: unknown keys, every rule that can be checked without
the engine, and with --engine the rest: the login, each name, and whether addresses are free. All
that is wrong is said at once.

` + credentialsHelp + `

Exit codes: 0 valid, perhaps with warnings; 1 not valid, or an error.`,
		Example: `  olvmctl validate -f cluster.yaml
  OLVM_USERNAME=admin@internal OLVM_PASSWORD=... olvmctl validate -f cluster.yaml --engine -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}

			cluster, problems, err := file.read()
			if err != nil && output != "json" {
				return err
			}

			if err != nil {
				problems = append(problems, asProblem(err, file.path))
			}

			if online && !clusterfile.Failed(problems) {
				for _, err := range askEngine(command.Context(), cluster.objects, engineAccess) {
					problems = append(problems, clusterfile.Problem{
						File:    file.path,
						Path:    "engine",
						Message: err.Error(),
					})
				}
			}

			if err := printProblems(s.out, output, file.path, problems); err != nil {
				return err
			}

			if clusterfile.Failed(problems) {
				return errInvalid
			}

			return nil
		},
	}
	file.addFlags(command)
	command.Flags().BoolVar(&online, "engine", false, "ask the engine, too")
	engineAccess.addFlags(command.Flags())
	command.Flags().StringVarP(&output, "output", "o", "text", "output: text or json")

	return command
}

// asProblem is an error of reading a cluster file as a problem of it.
func asProblem(err error, path string) clusterfile.Problem {
	var problem clusterfile.Problem
	if errors.As(err, &problem) {
		return problem
	}

	return clusterfile.Problem{File: path, Path: "file", Message: err.Error()}
}

func printProblems(out io.Writer, output, file string, problems []clusterfile.Problem) error {
	if output == "json" {
		return encode(out, output, map[string]any{
			"valid":    !clusterfile.Failed(problems),
			"problems": append([]clusterfile.Problem{}, problems...),
		})
	}

	for _, p := range problems {
		if _, err := fmt.Fprintln(out, p.Error()); err != nil {
			return err
		}
	}

	if clusterfile.Failed(problems) {
		return nil
	}

	_, err := fmt.Fprintf(out, "%s is valid\n", file)

	return err
}

// askEngine resolves everything that manifests name, one machine of each kind.
func askEngine(ctx context.Context, objects []*unstructured.Unstructured, from access) []error {
	manifests, err := preview.LoadObjects(objects)
	if err != nil {
		return []error{err}
	}

	credentials, err := from.read()
	if err != nil {
		return []error{err}
	}

	machines, err := manifests.Machines()
	if err != nil {
		return []error{err}
	}

	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))
	if errs := unmakeable(ctx, manifests, machines, credentials, sessions); len(errs) > 0 {
		return errs
	}

	return preview.Taken(ctx, manifests, machines, credentials, sessions)
}

// unmakeable says why machines cannot be made, once for each owner.
func unmakeable(
	ctx context.Context,
	manifests *preview.Manifests,
	machines []preview.Machine,
	credentials preview.Credentials,
	sessions *engine.Sessions,
) []error {
	var errs []error

	var failed []string
	for _, machine := range machines {
		if slices.Contains(failed, machine.From) {
			continue // it says the same of each
		}

		if _, err := preview.Render(ctx, manifests, []preview.Machine{machine}, credentials, sessions); err != nil {
			failed = append(failed, machine.From)
			errs = append(errs, err)
		}
	}

	return errs
}

// clusterFileAmong is the cluster file among paths, empty where all are manifests.
func clusterFileAmong(paths []string) (string, error) {
	found := ""

	for _, path := range paths {
		if path == "-" || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			continue
		}

		content, err := os.ReadFile(path)
		if err != nil {
			continue // a folder, or told by who reads it
		}

		if clusterfile.IsClusterFile(content) {
			found = path
		}
	}

	if found != "" && len(paths) > 1 {
		return "", fmt.Errorf("%s is a cluster file; give nothing beside it, for it has all manifests", found)
	}

	return found, nil
}
