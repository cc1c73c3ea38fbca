package main

import (
	"context"
	"fmt"
	"os"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
)

// bootstrapByVM is the value of --bootstrap that selects a bootstrap VM.
const bootstrapByVM = "vm"

// startFlags are the flags of the start command.
type startFlags struct {
	management    managementFlags
	access        accessFlags
	file          clusterFileFlags
	addOns        addon.Sources
	images        []string
	selfManaged   bool
	bootstrap     string
	kubeconfigOut string
	force, yes    bool
	output        outputFlag
}

func newStartCommand(s streams) *cobra.Command {
	var f startFlags
	command := &cobra.Command{
		Use:   "start FILE",
		Short: "Make the cluster of a cluster file, from nothing to nodes that are ready",
		Long: `start asks the engine whether all that the cluster file names is there, installs
Cluster API and its providers into a management cluster without them, applies the manifests of
the cluster file, waits for the control plane, writes its kubeconfig, installs add-ons, and waits
for the nodes. It can be run again at any time: what is done already stays as it is, and where it
was interrupted it goes on. A cluster file with fewer machines than the cluster has takes machines
away: it asks before; --yes answers, and is needed where there is no terminal.

` + managementHelp + `

The credentials of the engine are those of the environment variables OLVM_USERNAME and
OLVM_PASSWORD, or of the Secret in the management cluster that the cluster file names. Those of the
storage driver, which are on every node, are OLVM_CSI_USERNAME and OLVM_CSI_PASSWORD.

With --self-managed, or selfManaged in the cluster file, the cluster gets the providers itself, and
its objects are moved into it.

With --provider, a cluster file is not needed: names and sizes have their defaults, and the file of
--defaults says the rest, such as the compartment or the engine.

With --bootstrap vm a temporary VM in the engine is the management cluster until the cluster manages
itself. It is made like a machine of the control plane, with the last address of these.`,
		Example: `  olvmctl start -f cluster.yaml --kubeconfig management.kubeconfig
  olvmctl start -f cluster.yaml --image ock-1.33.qcow2 --cni calico --self-managed
  olvmctl start -f cluster.yaml --bootstrap vm
  olvmctl start --provider oci`,
		RunE: func(command *cobra.Command, _ []string) error {
			if f.bootstrap != "" && f.bootstrap != bootstrapByVM {
				return fmt.Errorf("--bootstrap: %q is not known; write %s, or leave it away", f.bootstrap,
					bootstrapByVM)
			}

			return f.createCluster(command.Context(), s)
		},
	}
	f.addFlags(command)

	return command
}

func (f *startFlags) addFlags(command *cobra.Command) {
	set := command.Flags()
	f.file.addFlags(command)
	f.file.addProviderFlag(command)
	f.management.addFlags(command)
	f.management.addProviderFlags(set)
	f.management.addDriverFlags(command)
	f.access.addFlags(set)
	set.StringVar(&f.addOns.CNI, "cni", "",
		"network plugin: flannel or calico, with @VERSION for another one than olvmctl knows; a file or an https URL "+
			"with manifests; or none (default: what the cluster file has in cni, and else flannel)")
	set.StringSliceVar(&f.addOns.Manifests, "add-on", nil,
		"manifests to apply to the cluster, such as those of a CNI: a file, a folder or an https URL; can be repeated")
	set.StringVar(&f.addOns.List, "add-ons", "",
		"file with a list of add-ons: manifests and Helm charts with their values")
	set.StringArrayVar(&f.images, "image", nil,
		"image file to make the template of, where the engine does not have it yet; on OCI ARCHITECTURE=FILE or "+
			"ARCHITECTURE=REFERENCE of a container image with the disk, which can be repeated")
	set.BoolVar(&f.selfManaged, "self-managed", false,
		"let the cluster manage itself; it must be the only one of its namespace")
	set.StringVar(&f.bootstrap, "bootstrap", "",
		"vm: let a temporary VM in the engine manage the cluster until it manages itself")
	set.StringVar(&f.kubeconfigOut, "kubeconfig-out", "",
		"file for the kubeconfig of the cluster (default ~/.kube/kubeconfig.NAME)")
	set.BoolVar(&f.force, "force-conflicts", false, "take back fields that others have changed since, such as replicas")
	f.output.addFlag(command, formatText)
	set.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

func (f *startFlags) createCluster(ctx context.Context, s streams) error {
	file, err := f.file.loadClusterFile(s.err)
	if err != nil {
		return err
	}

	if err := f.management.checkNamespace(f.file.path, file.Namespace()); err != nil {
		return err
	}

	credentials, err := f.access.loadCredentials(f.file.path)
	if err != nil {
		return err
	}

	var driver lifecycle.Login
	driver.Username, driver.Password = engine.CleanLogin(os.Getenv("OLVM_CSI_USERNAME"), os.Getenv("OLVM_CSI_PASSWORD"))

	provider, err := lifecycle.NewProvider(file.ProviderName(), lifecycle.ProviderOptions{
		Engine:        credentials,
		EngineFrom:    f.access.describeSource(),
		StorageDriver: driver,
		Images:        f.images,
	})
	if err != nil {
		return err
	}

	created, err := lifecycle.Create(ctx, lifecycle.CreateOptions{
		Common:         f.management.commonOptions(s),
		File:           file,
		Provider:       provider,
		AddOns:         f.addOns,
		SelfManaged:    f.selfManaged,
		BootstrapVM:    f.bootstrap == bootstrapByVM,
		KubeconfigOut:  f.kubeconfigOut,
		ForceConflicts: f.force,
		Confirm: func(question, word string) error {
			return confirmWord(ctx, s, f.yes, question, word)
		},
	})
	if err != nil {
		return err
	}

	return f.output.printValue(s.out, created, func() error {
		describe := created.Access.CommandLine("olvmctl", "describe", created.Name, "-n", file.Namespace())
		_, err := fmt.Fprintf(s.out, "The cluster %s has %s. Look at it with:\n  %s\n  export KUBECONFIG=%s\n",
			created.Name, english.Plural(created.Nodes, "node", ""), describe, shellword.QuoteWord(created.Kubeconfig))

		return err
	})
}
