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
		Short: "Create a cluster from a cluster file, and wait until its nodes are ready",
		Long: `Create or update the cluster of a cluster file. The command:

- checks that all objects in the cluster file exist in the engine
- installs Cluster API and its providers in the management cluster, if they are missing
- applies the manifests of the cluster file
- waits for the control plane, and writes the kubeconfig
- installs add-ons
- waits for the nodes

You can run the command again at any time. It skips completed steps, and resumes after an interrupt.
If the cluster file has fewer machines than the cluster, the command asks for confirmation before it
deletes machines. Without a terminal, use --yes.

` + managementHelp + `

The credentials of the engine come from OLVM_USERNAME and OLVM_PASSWORD, or from the Secret of the
cluster file in the management cluster. Set the credentials of the storage driver, which are on
every node, in OLVM_CSI_USERNAME and OLVM_CSI_PASSWORD.

With --self-managed, or selfManaged in the cluster file, the command installs the providers in the
new cluster, and moves the objects of the cluster into it.

With --provider, the command requires no cluster file. Names and sizes have defaults, and the file
of --defaults contains the other values, such as the compartment or the engine.

With --bootstrap vm, a temporary VM in the engine is the management cluster until the cluster
manages itself. The VM is configured like a control plane machine, and takes the last of their
addresses.`,
		Example: `  olvmctl start -f cluster.yaml --kubeconfig management.kubeconfig
  olvmctl start -f cluster.yaml --image ock-1.33.qcow2 --cni calico --self-managed
  olvmctl start -f cluster.yaml --bootstrap vm
  olvmctl start --provider oci`,
		RunE: func(command *cobra.Command, _ []string) error {
			if f.bootstrap != "" && f.bootstrap != bootstrapByVM {
				return fmt.Errorf("--bootstrap %q is not supported; use %s, or omit it", f.bootstrap, bootstrapByVM)
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
		"network plugin: flannel or calico, optionally with @VERSION; a file or https URL with manifests; or none "+
			"(default: cni in the cluster file, or flannel)")
	set.StringSliceVar(&f.addOns.Manifests, "add-on", nil,
		"manifests to apply to the cluster: a file, a folder or an https URL; can be repeated")
	set.StringVar(&f.addOns.List, "add-ons", "",
		"file with a list of add-ons: manifests, and Helm charts with their values")
	set.StringArrayVar(&f.images, "image", nil,
		"image file for the VM template, if the template does not exist; on OCI, ARCHITECTURE=FILE, or "+
			"ARCHITECTURE=REFERENCE of a container image with the disk; can be repeated on OCI")
	set.BoolVar(&f.selfManaged, "self-managed", false,
		"make the cluster manage itself; it must be the only cluster in its namespace")
	set.StringVar(&f.bootstrap, "bootstrap", "",
		"vm: use a temporary VM in the engine as management cluster until the cluster manages itself")
	set.StringVar(&f.kubeconfigOut, "kubeconfig-out", "",
		"output file for the cluster's kubeconfig (default ~/.kube/kubeconfig.NAME)")
	set.BoolVar(&f.force, "force-conflicts", false,
		"overwrite fields changed by other field managers, such as replicas")
	f.output.addFlag(command, formatText)
	set.BoolVarP(&f.yes, "yes", "y", false, "skip the confirmation")
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
		_, err := fmt.Fprintf(s.out, "Cluster %s is ready, with %s. To access it, run:\n  %s\n  export KUBECONFIG=%s\n",
			created.Name, english.Plural(created.Nodes, "node", ""), describe, shellword.QuoteWord(created.Kubeconfig))

		return err
	})
}
