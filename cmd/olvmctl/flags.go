package main

import (
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

const managementHelp = `The management cluster is the one of --kubeconfig, of KUBECONFIG or of kubectl's own
file. Where there is none (--driver process: in any case) start runs one as processes of this
machine; see olvmctl local.`

// managementFlags are about the management cluster.
type managementFlags struct {
	mgmtcluster.Options
	driver, clusterctlConfig, providerVersion string
	preserve                                  bool
	timeout                                   time.Duration
}

func (f *managementFlags) addFlags(set *pflag.FlagSet) {
	f.addKubeconfigFlag(set)
	set.StringVarP(&f.Namespace, "namespace", "n", "",
		"namespace of the cluster; empty means that of the kubeconfig")
}

func (f *managementFlags) addKubeconfigFlag(set *pflag.FlagSet) {
	set.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the management cluster; empty means that of kubectl")
}

func (f *managementFlags) addTimeoutFlag(set *pflag.FlagSet) {
	set.DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long to wait for each step")
}

// addProviderFlags are for commands that may install providers.
func (f *managementFlags) addProviderFlags(set *pflag.FlagSet) {
	f.addTimeoutFlag(set)
	set.StringVar(&f.clusterctlConfig, "clusterctl-config", "",
		"clusterctl's configuration file, which says where providers come from; empty means clusterctl's own")
	set.StringVar(&f.providerVersion, "provider-version", releasedVersion(),
		"version of this provider to install; empty means the newest")
}

// addDriverFlags are for commands that may start a management cluster.
func (f *managementFlags) addDriverFlags(set *pflag.FlagSet) {
	set.StringVar(&f.driver, "driver", mgmtcluster.DriverAuto,
		"management cluster: existing, process (of this machine), or auto: process where there is no kubeconfig")
	set.BoolVar(&f.preserve, "preserve", false,
		"keep the local management cluster when no cluster is left in it")
}

// common are the options that the flags mean.
func (f *managementFlags) common(s streams) lifecycle.Common {
	return lifecycle.Common{
		Management: f.Options,
		Driver:     f.driver,
		Preserve:   f.preserve,
		Providers:  clusterctl.Providers{Config: f.clusterctlConfig, Version: f.providerVersion},
		Timeout:    f.timeout,
		Display:    progress.To(s.err),
	}
}

// released are versions that there are releases of; not those of builds between them, such as v0.1.0-dev and
// v0.1.0-3-g1a2b3c4.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`)

// releasedVersion is that of this build, empty where it is none of a release.
func releasedVersion() string { return released.FindString(version.Version) }

// clusterFileFlags say which cluster file, and how it is read.
type clusterFileFlags struct {
	path, defaults, flavor string
}

func (f *clusterFileFlags) addFlags(command *cobra.Command) {
	command.Flags().StringVarP(&f.path, "filename", "f", "", "cluster file")
	f.addFormatFlags(command)
	_ = command.MarkFlagRequired("filename")
}

func (f *clusterFileFlags) addFormatFlags(command *cobra.Command) {
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

func (f *clusterFileFlags) addDefaultsFlag(set *pflag.FlagSet) {
	set.StringVar(&f.defaults, "defaults", clusterfile.DefaultsPath(),
		"file with defaults for cluster files, in their format; empty for none")
}

// load reads the cluster file, and writes what is wrong with it. One that is not valid ends with errInvalid.
func (f *clusterFileFlags) load(problemsTo io.Writer) (clusterfile.Loaded, error) {
	cluster, problems, err := clusterfile.Load(f.path, f.defaults, f.flavor)
	if err != nil {
		return clusterfile.Loaded{}, err
	}

	if err := printProblems(problemsTo, problems); err != nil {
		return clusterfile.Loaded{}, err
	}

	if clusterfile.Failed(problems) {
		return clusterfile.Loaded{}, errInvalid
	}

	return cluster, nil
}
