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
		Short: "Make an image for the engine of a boot image of OCK",
		Long: `create gets the boot image of OCK for a version of Kubernetes from Oracle's
registry, and makes an image for the engine of it: Ignition reads the config drive
(ignition.platform.id=openstack), the console is the engine's (tty0), and machines choose their own
machine ID. It prints the name of the file. What comes next is image template --file.

For Oracle Cloud (--provider oci, or that of the cluster file), Ignition reads the instance's
metadata (ignition.platform.id=oraclecloud), and the console stays the serial one. Cluster API
Provider OCI cannot boot such an image with what the released bootstrap provider writes.

The registry of a cluster file is asked in place of Oracle's. A login is that of podman or docker; a
proxy comes from HTTPS_PROXY and NO_PROXY. guestfish (libguestfs) edits the image. Where it fails,
or is interrupted, nothing is left behind.`,
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
	set.StringVar(&version, "version", "", "version of Kubernetes, such as 1.33")
	set.StringVar(
		&o.From, "from", "",
		"other image: the reference of a container image with a disk below disk/, a file of docker save with one, "+
			"or a qcow2 or raw file",
	)
	set.StringVar(&o.Arch, "arch", bootArchs[0], "architecture: "+strings.Join(bootArchs, " or "))
	set.StringArrayVar(&o.Arguments.More, "kernel-arg", nil, "further argument of the kernel; can be repeated")
	set.StringVar(&o.Arguments.Platform, "ignition-platform", "openstack",
		"where Ignition gets its configuration, as it spells it")
	set.StringVar(&provider, "provider", "",
		"where the image boots: "+strings.Join(clusterfile.ProviderNames(), " or ")+
			" (default that of the cluster file, and else olvm)")
	set.StringVar(&o.Output, "out", "", "file to make (default ock-VERSION-ARCH.qcow2; needed with --from)")
	set.BoolVar(&o.Force, "force", false, "replace a file that is there")
	output.addFlag(command, formatText)
	command.MarkFlagsMutuallyExclusive("version", "from")

	return command
}

// chooseProvider sets provider-specific options: for the flag's provider, or else the cluster file's.
func (f *engineFlags) chooseProvider(command *cobra.Command, provider string, o *image.Options) error {
	if provider != "" && !slices.Contains(clusterfile.ProviderNames(), provider) {
		return fmt.Errorf("--provider %q is not supported; write %s", provider,
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
		return fmt.Errorf("--arch: %q is not known; write %s", o.Arch, strings.Join(bootArchs, " or "))
	}

	switch {
	case o.From == "":
		tag, err := f.setBootImage(version, &o.From)
		if err != nil {
			return err
		}

		o.Output = cmp.Or(o.Output, imageName(tag, o))
	case o.Output == "": // no version for the default name
		return errors.New("--out: with --from, say which file to make")
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
