package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

const managementHelp = `olvmctl takes the management cluster from --kubeconfig, from KUBECONFIG, or from kubectl's
default kubeconfig. Without a kubeconfig, or with --driver process, start runs a local
management cluster on this machine; see olvmctl local.`

// managementFlags select the management cluster.
type managementFlags struct {
	mgmtcluster.Options
	driver, clusterctlConfig, providerVersion string
	preserve                                  bool
	timeout                                   time.Duration
}

// addFlags adds the flags that select a management cluster and its namespace.
func (f *managementFlags) addFlags(command *cobra.Command) {
	flags := &genericclioptions.ConfigFlags{KubeConfig: &f.Kubeconfig, Context: &f.Context, Namespace: &f.Namespace}
	flags.AddFlags(command.Flags())

	for name, usage := range usages {
		command.Flags().Lookup(name).Usage = usage
	}

	registerCompletion(command, "context", f.completeContexts)
	registerCompletion(command, "namespace", f.completeNamespaces)
}

// isGiven reports whether a flag selects the management cluster.
func (f *managementFlags) isGiven() bool { return f.Kubeconfig != "" || f.Context != "" }

// connectAllNamespaces connects to the management cluster, without limiting the client to one namespace.
func (f *managementFlags) connectAllNamespaces(ctx context.Context) (*mgmtcluster.Cluster, error) {
	return mgmtcluster.ConnectInstalled(ctx, mgmtcluster.Options{Kubeconfig: f.Kubeconfig, Context: f.Context})
}

// checkNamespace rejects a namespace other than that of the cluster file.
func (f *managementFlags) checkNamespace(path, namespace string) error {
	if f.Namespace == "" || f.Namespace == namespace {
		return nil
	}

	return fmt.Errorf("--namespace %s does not match %s, whose cluster is in namespace %s; omit --namespace",
		f.Namespace, path,
		namespace)
}

// usages are the help texts of kubectl's flags in olvmctl.
var usages = map[string]string{
	"kubeconfig": "kubeconfig of the management cluster (default: kubectl's, or that of the local management cluster)",
	"context":    "context in the kubeconfig (default: its current context)",
	"namespace":  "namespace of the cluster (default: from the cluster file, or from the kubeconfig)",
}

func (f *managementFlags) addTimeoutFlag(set *pflag.FlagSet) {
	set.DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long to wait for each step")
}

// addProviderFlags adds the flags of commands that can install providers.
func (f *managementFlags) addProviderFlags(set *pflag.FlagSet) {
	f.addTimeoutFlag(set)
	set.StringVar(&f.clusterctlConfig, "clusterctl-config", "",
		"clusterctl configuration file with the URLs of the providers (default: clusterctl's)")
	set.StringVar(&f.providerVersion, "provider-version", releasedVersion(),
		"version of this provider to install; empty for the newest")
}

// addDriverFlags adds the flags of commands that can start a management cluster.
func (f *managementFlags) addDriverFlags(command *cobra.Command) {
	set := command.Flags()
	set.StringVar(&f.driver, "driver", mgmtcluster.DriverAuto,
		"management cluster: existing, process (local processes), or auto (process if there is no kubeconfig)")
	set.BoolVar(&f.preserve, "preserve", false,
		"keep the local management cluster after its last cluster is gone")
	registerCompletion(command, "driver", func(*cobra.Command) []string { return mgmtcluster.Drivers })
}

// commonOptions converts the flags to options.
func (f *managementFlags) commonOptions(s streams) lifecycle.Common {
	return lifecycle.Common{
		Management: f.Options,
		Driver:     f.driver,
		Preserve:   f.preserve,
		Providers:  clusterctl.Providers{Config: f.clusterctlConfig, Version: f.providerVersion},
		Timeout:    f.timeout,
		Display:    progress.NewDisplay(s.err),
	}
}

// released matches the versions of releases. Other builds have versions such as v0.1.0-dev and v0.1.0-3-g1a2b3c4.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`)

// releasedVersion returns the version of a released build, or "" for a development build.
func releasedVersion() string { return released.FindString(version.Version) }

// clusterFileFlags select a cluster file, and configure how to read it.
type clusterFileFlags struct {
	path, defaults, flavor string
	// provider replaces a cluster file whose only content is the provider, if the command has this flag.
	provider string
}

// addFlags adds the flag -f. The file may also be the argument of the command.
func (f *clusterFileFlags) addFlags(command *cobra.Command) {
	command.Flags().StringVarP(&f.path, "filename", "f", "", "cluster file; replaces the argument")
	f.addFormatFlags(command)
	command.Args, command.PreRunE = f.takeArgument, f.checkGiven
}

// addProviderFlag adds the flag --provider, which replaces a cluster file.
func (f *clusterFileFlags) addProviderFlag(command *cobra.Command) {
	command.Flags().StringVar(&f.provider, "provider", "",
		"provider of the cluster, if you have no cluster file: "+
			strings.Join(clusterfile.ProviderNames(), " or ")+"; other values come from --defaults")
	registerCompletion(command, "provider", func(*cobra.Command) []string { return clusterfile.ProviderNames() })
}

// checkGiven returns an error if neither a file nor its replacement is given.
func (f *clusterFileFlags) checkGiven(command *cobra.Command, _ []string) error {
	switch {
	case f.provider != "" && f.path != "":
		return fmt.Errorf("--provider replaces a cluster file; omit --provider and set provider in %s%s",
			f.path, helpHint(command))
	case f.provider != "" && !slices.Contains(clusterfile.ProviderNames(), f.provider):
		return fmt.Errorf("--provider %q is not supported; use %s%s", f.provider,
			strings.Join(clusterfile.ProviderNames(), " or "), helpHint(command))
	case f.provider != "":
		return nil
	}

	if f.path == "" {
		return fmt.Errorf("FILE is missing: specify a cluster file; create one with olvmctl init%s",
			helpHint(command))
	}

	return nil
}

// takeArgument takes the file from -f or from the argument.
func (f *clusterFileFlags) takeArgument(command *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%s takes one cluster file: unexpected argument %q%s", command.CommandPath(), args[1],
			helpHint(command))
	case len(args) == 1 && command.Flags().Changed("filename"):
		return fmt.Errorf("specify the cluster file as the argument %q or with -f, not both", args[0])
	case len(args) == 1:
		f.path = args[0]
	}

	return nil
}

func (f *clusterFileFlags) addFormatFlags(command *cobra.Command) {
	f.addDefaultsFlag(command.Flags())
	command.Flags().StringVar(&f.flavor, "flavor", clusterfile.DefaultFlavor,
		"flavor of the manifests: "+strings.Join(clusterfile.Flavors(), ", "))
	registerCompletion(command, "flavor", func(*cobra.Command) []string { return clusterfile.Flavors() })
}

func (f *clusterFileFlags) addDefaultsFlag(set *pflag.FlagSet) {
	set.StringVar(&f.defaults, "defaults", clusterfile.DefaultsPath(),
		"file with default values, in the format of a cluster file; empty for none")
}

// loadClusterFile reads the cluster file, and prints the problems in it. It returns errInvalid for an invalid file.
func (f *clusterFileFlags) loadClusterFile(problemsTo io.Writer) (clusterfile.Loaded, error) {
	cluster, problems, err := f.readClusterFile()
	if err != nil {
		return clusterfile.Loaded{}, err
	}

	if err := printProblems(problemsTo, problems); err != nil {
		return clusterfile.Loaded{}, err
	}

	if clusterfile.HasErrors(problems) {
		return clusterfile.Loaded{}, errInvalid
	}

	return cluster, nil
}

// readClusterFile reads the cluster file or, if there is none, the defaults of a provider.
func (f *clusterFileFlags) readClusterFile() (clusterfile.Loaded, []clusterfile.Problem, error) {
	if f.provider == "" {
		return clusterfile.Load(f.path, f.defaults, f.flavor)
	}

	cluster, problems, err := clusterfile.LoadDefaults(f.provider, f.defaults, f.flavor)
	f.path = cluster.Path

	return cluster, problems, err
}
