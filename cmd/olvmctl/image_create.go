package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// bootArchs are the architectures for which boot images exist.
var bootArchs = []string{"amd64", "arm64"}

func newImageCreateCommand(s streams, f *engineFlags) *cobra.Command {
	var version, provider string
	output := outputFlag{file: "--out"}
	var o image.Options
	command := &cobra.Command{
		Use:   "create",
		Short: "Create a node image from an OCK boot image",
		Long: `Download the OCK boot image for a Kubernetes version from Oracle's registry, and adapt it to the
engine: Ignition reads the config drive (ignition.platform.id=openstack), the console is tty0, and
each machine generates its own machine ID. The command prints the name of the file. The next step is
olvmctl image template --file.

For Oracle Cloud (--provider oci, or provider in the cluster file), Ignition reads the instance
metadata (ignition.platform.id=oraclecloud), and the console remains serial. Cluster API Provider
OCI cannot boot such an image with the user data of the released bootstrap provider.

A registry in the cluster file replaces Oracle's. The command uses the logins of podman and docker,
and the proxy in HTTPS_PROXY and NO_PROXY. It edits the image with guestfish (libguestfs). After a
failure or an interrupt, it removes incomplete files.`,
		Example: `  olvmctl image create -f cluster.yaml
  olvmctl image create --version 1.33 --arch arm64 --kernel-arg console=ttyAMA0 --out ock-arm.qcow2
  olvmctl image create --from boot.qcow2 --out ock-1.33.qcow2
  olvmctl image create --provider oci --version 1.33 --arch arm64`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := f.chooseProvider(command, provider, &o); err != nil {
				return err
			}

			return f.createImage(command.Context(), s, version, o, output)
		},
	}
	set := command.Flags()
	set.StringVar(&version, "version", "", "Kubernetes version, such as 1.33")
	set.StringVar(
		&o.From, "from", "",
		"source image: a reference of a container image with a disk in disk/, an archive of docker save, or a "+
			"qcow2 or raw file (default: Oracle's boot image)",
	)
	set.StringVar(&o.Arch, "arch", bootArchs[0], "architecture: "+strings.Join(bootArchs, " or "))
	set.StringArrayVar(&o.Arguments.More, "kernel-arg", nil, "additional kernel argument; can be repeated")
	set.StringVar(&o.Arguments.Platform, "ignition-platform", "openstack",
		"Ignition platform, which is the source of its configuration")
	set.StringVar(&provider, "provider", "",
		"provider of the machines: "+strings.Join(clusterfile.ProviderNames(), " or ")+
			" (default: from the cluster file, or olvm)")
	set.StringVar(&o.Output, "out", "", "output file (default ock-VERSION-ARCH.qcow2; required with --from)")
	set.BoolVar(&o.Force, "force", false, "overwrite an existing file")
	output.addFlag(command, formatText)
	command.MarkFlagsMutuallyExclusive("version", "from")

	return command
}

// chooseProvider sets provider-specific options: for the flag's provider, or else the cluster file's.
func (f *engineFlags) chooseProvider(command *cobra.Command, provider string, o *image.Options) error {
	if provider != "" && !slices.Contains(clusterfile.ProviderNames(), provider) {
		return fmt.Errorf("--provider %q is not supported; use %s", provider,
			strings.Join(clusterfile.ProviderNames(), " or "))
	}

	if provider == "" && f.file.path != "" {
		source, err := clusterfile.Read(f.file.path, f.file.defaults)
		if err != nil {
			return err
		}

		provider = source.ProviderName()
	}

	if provider != clusterfile.OCIProvider {
		return nil
	}

	o.Arguments.KeepConsole = true
	if !command.Flags().Changed("ignition-platform") {
		o.Arguments.Platform = image.OracleCloud
	}

	return nil
}

// createImage creates the image, and prints the name of its file.
func (f *engineFlags) createImage(
	ctx context.Context, s streams, version string, o image.Options, output outputFlag,
) error {
	if !slices.Contains(bootArchs, o.Arch) {
		return fmt.Errorf("--arch %q is not supported; use %s", o.Arch, strings.Join(bootArchs, " or "))
	}

	switch {
	case o.From == "":
		tag, err := f.setBootImage(version, &o.From)
		if err != nil {
			return err
		}

		o.Output = cmp.Or(o.Output, imageName(tag, o))
	case o.Output == "": // no version for the default name
		return errors.New("--from requires --out")
	}

	o.Say = func(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format+"\n", args...) }
	o.Progress = func(what string) func(done, total int64) { return progress.TransferProgress(s.err, what) }
	if err := image.Create(ctx, o); err != nil {
		return err
	}

	return output.printValue(s.out, map[string]string{"file": o.Output}, func() error {
		_, err := fmt.Fprintln(s.out, o.Output)
		return err
	})
}

// imageName returns the default name of an image file. The names differ by provider, so images for both providers can
// be in one folder.
func imageName(tag string, o image.Options) string {
	name := fmt.Sprintf("ock-%s-%s", tag, o.Arch)
	if o.Arguments.KeepConsole {
		name += "-oci"
	}

	return name + ".qcow2"
}

// setBootImage sets the boot image for the given version or, without one, for the version in the cluster file.
func (f *engineFlags) setBootImage(version string, image *string) (tag string, err error) {
	var file clusterfile.File
	if f.file.path != "" {
		source, err := clusterfile.Read(f.file.path, f.file.defaults)
		if err != nil {
			return "", err
		}

		file = source.File
	}

	field := f.file.path + ": kubernetesVersion"
	if version != "" {
		file.KubernetesVersion, field = version, "--version"
	}

	if *image, tag, err = file.BootImage(); err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}

	return tag, nil
}
