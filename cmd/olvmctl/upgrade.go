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
		Short: "Roll out a new Kubernetes version or VM template to a cluster",
		Long: `Roll out the Kubernetes version and the VMs of a changed cluster file, or a version and a VM
template. The command shows which machines the rollout replaces, and why. After your confirmation,
it replaces the machines of the control plane, and then the workers. It waits until all new machines
are ready. If the VMs change, it creates OLVMMachineTemplates with new names, because
OLVMMachineTemplates are immutable. You can run the command again at any time to resume the rollout.

Upgrade Kubernetes by one minor version at a time. The VM template must contain the new version;
create it with olvmctl image template. If the name of the VM template contains
${KUBERNETES_VERSION}, the template changes with the version.

Exit codes: 0 on success, or if nothing changes; 2 with --dry-run if something would change; 1 on an
error.`,
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
	set.StringVarP(&f.file.path, "filename", "f", "", "cluster file with the new version and VM template")
	f.file.addFormatFlags(command)
	set.StringVar(&f.version, "kubernetes-version", "", "new Kubernetes version, such as v1.34.1 (default: unchanged)")
	set.StringVar(&f.vmTemplate, "vm-template", "",
		"VM template of the new machines, or OCID of their image on OCI (default: unchanged)")
	set.StringArrayVar(&f.images, "image", nil,
		"image to import for the version of the cluster file on OCI, as ARCHITECTURE=FILE or "+
			"ARCHITECTURE=REFERENCE; can be repeated")
	set.BoolVar(&f.dryRun, "dry-run", false, "only show the machines that would be replaced")
	set.BoolVarP(&f.yes, "yes", "y", false, "skip the confirmation")

	return command
}

// validate checks the flags, and sets the full version.
func (f *upgradeFlags) validate() error {
	switch {
	case f.file.path != "" && (f.version != "" || f.vmTemplate != ""):
		return errors.New("--filename cannot be used with --kubernetes-version or --vm-template: the cluster file " +
			"contains the version and the VM template; omit these flags")
	case f.file.path == "" && f.version == "" && f.vmTemplate == "":
		return errors.New("nothing to upgrade to; specify a cluster file with -f, or use --kubernetes-version, " +
			"--vm-template or both")
	case f.version == "":
		return nil
	}

	f.version = "v" + strings.TrimPrefix(f.version, "v")
	if _, err := semver.ParseTolerant(f.version); err != nil || strings.Count(f.version, ".") < 2 {
		return fmt.Errorf("--kubernetes-version: invalid version %q; use for example v1.34.1", f.version)
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
		fmt.Sprintf("Roll out %s %s? The machines above, their VMs and their disks will be deleted\nwhen the new "+
			"machines are ready. Type the name of the cluster to confirm: ", name, where),
		name,
	)
}
