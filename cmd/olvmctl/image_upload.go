package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newImageUploadCommand(s streams, f *engineFlags) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use:   "upload FILE",
		Short: "Upload an image file as a disk",
		Long: `Upload a qcow2 or raw image as a disk. The command decompresses gzip, xz, bzip2 and zstd. It checks
the header of a qcow2 image, the boot sector of a raw image, and the checksum of --sha256. It sends
lost parts again.

If an upload is killed or loses its connection, run the command again within ten minutes to resume
it. An upload killed in its first or last second cannot resume; the command then names the disk to
delete. After a failure or an interrupt, the command deletes the incomplete disk. It keeps a disk
that already contains the image.`,
		Example: "  olvmctl image upload ock-1.33.qcow2 --server https://engine.example.com/ovirt-engine --ca-file " +
			"ca.pem --storage-domain data --disk ock-1.33",
		Args: oneArgument("FILE", "an image file"),
		RunE: func(command *cobra.Command, args []string) error {
			return f.withEngine(command.Context(), func(session *engineSession) error {
				f.template.Path, f.template.Out = args[0], s.err
				disk, _, err := f.template.EnsureDisk(command.Context(), session.Client)
				if err != nil {
					return err
				}

				return printID(s, output, string(disk.ID))
			})
		},
	}
	f.addUploadFlags(command.Flags())
	output.addFlag(command, formatText)

	return command
}

// printID writes the ID of an object created in the engine.
func printID(s streams, output outputFlag, id string) error {
	return output.printValue(s.out, map[string]string{"id": id}, func() error {
		_, err := fmt.Fprintln(s.out, id)
		return err
	})
}

func (f *engineFlags) addUploadFlags(set *pflag.FlagSet) {
	set.StringVar(&f.template.StorageDomain, "storage-domain", "", "name of the storage domain of the disk")
	set.StringVar(&f.template.Disk, "disk", "", "name of the disk")
	set.StringVar(&f.template.Size, "size", "", "size of the disk, such as 50GB (default: the size of the image)")
	set.StringVar(&f.template.SHA256, "sha256", "", "expected SHA-256 checksum of the image file, in hexadecimal")
}
