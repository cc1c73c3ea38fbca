package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
)

// upgradeFlags are the flags of the upgrade command.
type upgradeFlags struct {
	management          managementFlags
	file                clusterFileFlags
	version, vmTemplate string
	images              []string
	yes, dryRun         bool
	output              outputFlag
	changes             []string // the replacements the user has already seen
}

func newUpgradeCommand(s streams) *cobra.Command {
	var f upgradeFlags
	command := &cobra.Command{
		Use:   "upgrade CLUSTER -f FILE | --kubernetes-version VERSION | --vm-template NAME",
		Short: "Roll a cluster out with another Kubernetes version or other VMs",
		Long: `upgrade takes the Kubernetes version and the VMs of a changed cluster file, or a
version and the name of a VM template. It shows which machines a rollout replaces and why, asks, and
does it: the control plane first, then the workers, each one followed until all of its machines are
new and ready. Where VMs change it makes OLVMMachineTemplates of new names, because these cannot be
changed. It can be run again at any time, and goes on where it was interrupted.

Kubernetes is upgraded by one minor version at a time. The VM template has to have the new version;
make it with olvmctl image template. A VM template whose name has ${KUBERNETES_VERSION} in it
follows the version by itself.

Exit codes: 0 done, or nothing to do; 2 with --dry-run where something would change; 1 error.`,
		Example: `  olvmctl upgrade prod -n prod --kubernetes-version v1.34.1 --vm-template ock-1.34 --dry-run
  olvmctl upgrade prod -n prod --kubernetes-version v1.34.1 --vm-template ock-1.34 --yes`,
		Args:              requireName("CLUSTER", "the name of a cluster", clusterWords),
		ValidArgsFunction: f.management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			if err := f.validate(); err != nil {
				return err
			}

			return f.upgradeCluster(command.Context(), s, nameOf(args, clusterWords))
		},
	}
	set := command.Flags()
	f.management.addFlags(command)
	f.output.addFlag(command, formatText)
	f.management.addTimeoutFlag(set)
	set.StringVarP(&f.file.path, "filename", "f", "", "cluster file")
	f.file.addFormatFlags(command)
	set.StringVar(&f.version, "kubernetes-version", "", "version to upgrade to, such as v1.34.1; empty leaves it")
	set.StringVar(&f.vmTemplate, "vm-template", "",
		"VM template of the new machines, on OCI the OCID of their image; empty leaves it")
	set.StringArrayVar(&f.images, "image", nil,
		"on OCI ARCHITECTURE=FILE or ARCHITECTURE=REFERENCE: image to import for the version of the cluster file; "+
			"can be repeated")
	set.BoolVar(&f.dryRun, "dry-run", false, "show what would be replaced, and change nothing")
	set.BoolVarP(&f.yes, "yes", "y", false, "do not ask")

	return command
}

// validate checks the flags, and sets the full version.
func (f *upgradeFlags) validate() error {
	switch {
	case f.file.path != "" && (f.version != "" || f.vmTemplate != ""):
		return errors.New("--filename: the cluster file has the version and the VM template; leave " +
			"--kubernetes-version and --vm-template away")
	case f.file.path == "" && f.version == "" && f.vmTemplate == "":
		return errors.New("give a cluster file with -f, or --kubernetes-version, --vm-template or both")
	case f.version == "":
		return nil
	}

	f.version = "v" + strings.TrimPrefix(f.version, "v")
	if _, err := semver.ParseTolerant(f.version); err != nil || strings.Count(f.version, ".") < 2 {
		return fmt.Errorf("--kubernetes-version: %q is not a version such as v1.34.1", f.version)
	}

	return nil
}

func (f *upgradeFlags) upgradeCluster(ctx context.Context, s streams, name string) error {
	o := lifecycle.UpgradeOptions{
		Common:     f.management.commonOptions(s),
		Name:       name,
		Version:    f.version,
		VMTemplate: f.vmTemplate,
		Agree: func(changes []string, where string) (bool, error) {
			return f.confirmChanges(ctx, s, name, where, changes)
		},
	}
	if f.file.path != "" {
		file, err := f.file.loadClusterFile(s.err)
		if err != nil {
			return err
		}

		options := lifecycle.ProviderOptions{Images: f.images}
		if o.Provider, err = lifecycle.NewProvider(file.ProviderName(), options); err != nil {
			return err
		}

		o.File = &file
	}

	err := lifecycle.Upgrade(ctx, o)
	if err != nil && !errors.Is(err, errChanges) {
		return err
	}

	done := outcome{Namespace: f.management.Namespace, Name: name, Done: "upgraded", Messages: f.changes}

	switch {
	case len(f.changes) == 0:
		done.Done = "unchanged"
	case f.dryRun:
		done.Done = "planned"
	}

	return errors.Join(err, f.output.printValue(s.out, done, func() error {
		if err != nil {
			return nil //nolint:nilerr // the changes are shown, and the exit code says that there are some
		}

		_, err := fmt.Fprintf(s.out, "%s is up to date\n", name)

		return err
	}))
}

// confirmChanges shows the replacements, and asks the user to agree. It ends a dry run with changes with errChanges.
func (f *upgradeFlags) confirmChanges(
	ctx context.Context, s streams, name, where string, changes []string,
) (bool, error) {
	f.changes = changes

	to := s.out
	if !f.output.isForPeople() { // standard output is for programs
		to = s.err
	}

	for _, change := range changes {
		if _, err := fmt.Fprintln(to, change); err != nil {
			return false, err
		}
	}

	switch {
	case len(changes) == 0:
		return !f.dryRun, nil
	case f.dryRun:
		return false, errChanges
	}

	return true, confirmWord(
		ctx,
		s,
		f.yes,
		fmt.Sprintf("Roll %s %s out? The machines above are deleted with their VMs\n"+
			"and disks once new ones are ready. Type its name: ", name, where),
		name,
	)
}
