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
		Short: "Make a disk of an image file",
		Long: `upload makes a disk of a qcow2 or raw image; one that is compressed with gzip, xz, bzip2
or zstd is decompressed first. The header of a qcow2 image and the boot sector of a raw one are
checked, and the checksum of the file, where one is given. Parts that are lost on the way are sent again, and an
upload that was killed, or lost its network, goes on where it was when it is started again within
ten minutes; one that was killed in its first or last second names the disk to delete. Where it
fails, or is interrupted, no disk is left behind. A disk that has the image already stays as it is.`,
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
	set.StringVar(&f.template.Size, "size", "", "size to which the disk is grown, such as 50GB")
	set.StringVar(&f.template.SHA256, "sha256", "", "SHA-256 of the image file, in hexadecimal")
}
