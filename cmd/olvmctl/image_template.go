package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

func newImageTemplateCommand(s streams, f *engineFlags) *cobra.Command {
	var path, checksum, osType string
	command := &cobra.Command{
		Use:   "template",
		Short: "Make a template of virtual machines from a disk, or from an image file",
		Long: `template makes a template with Terraform (tfmodules/image): a virtual machine gets
the disk, the template is made of it, and the virtual machine goes. With --file the image is
uploaded first, and its disk goes, too: the template has a copy. A disk that had the image before
stays. Where it fails, or is interrupted, nothing is left behind.`,
		Example: `  olvmctl image template --file ock-1.33.qcow2 -f cluster.yaml
  olvmctl image template --disk ol9 --name ol9-v1.36.1 \
    --cluster Default --os-type other_linux --server https://engine.example.com/ovirt-engine --ca-file ca.pem`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.template(command.Context(), s, path, checksum, osType)
		},
	}
	f.addUploadFlags(command, &checksum)
	command.Flags().StringVar(&f.name, "name", "", "name of the template")
	command.Flags().StringVar(&f.cluster, "cluster", "", "name of the engine's cluster")
	command.Flags().StringVar(&path, "file", "", "image file to upload")
	command.Flags().StringVar(&osType, "os-type", desired.IgnitionOS,
		"operating system as the engine spells it; other than "+desired.IgnitionOS+" for images with cloud-init")

	return command
}

func (f *engineFlags) template(ctx context.Context, s streams, path, checksum, osType string) error {
	client, config, err := f.client()
	if err != nil {
		return err
	}
	defer f.close(ctx)
	if f.disk == "" && path != "" {
		f.disk = f.name
	}

	if err := checkFlags(map[string]string{"name": f.name, "cluster": f.cluster, "disk": f.disk}); err != nil {
		return err
	}

	executor, scratch, remove, err := newExecutor(ctx, f.sessions)
	if err != nil {
		return err
	}
	defer remove()
	dc, err := client.DataCenter(ctx, f.dataCenter)
	if err != nil {
		return preview.Explain(err)
	}

	cluster, err := client.Cluster(ctx, dc, f.cluster)
	if err != nil {
		return preview.Explain(err)
	}

	if there, err := client.FindTemplates(ctx, f.name); err != nil {
		return preview.Explain(err)
	} else if len(there) > 0 { // before an upload
		return &image.ExistsError{Name: f.name, ID: there[0].ID.String()}
	}

	diskID, ours, err := f.templateDisk(ctx, s, client, path, checksum)
	if err != nil {
		return err
	}

	_, _ = fmt.Fprintf(s.err, "making the template %s\n", f.name)
	id, err := image.MakeTemplate(ctx, client, executor, connection.RenderEngine(client, config), image.Template{
		Name:        f.name,
		Description: "Image of nodes, by olvmctl",
		ClusterID:   cluster.ID.String(),
		DiskID:      diskID.String(),
		OSType:      osType,
	}, filepath.Join(scratch, "image"))
	if ours { // the template has a copy, or there is none
		if removed := client.RemoveDisk(context.WithoutCancel(ctx), diskID, nil); removed != nil {
			err = errors.Join(err, fmt.Errorf("the disk %s is left behind: %w", diskID, removed))
		}
	}

	if err != nil {
		return err
	}

	_, err = fmt.Fprintln(s.out, id)

	return err
}

// templateDisk is the disk to make the template of. ours reports that it was uploaded for that.
func (f *engineFlags) templateDisk(
	ctx context.Context, s streams, client *engine.Client, path, checksum string,
) (id engine.ID, ours bool, err error) {
	if path != "" {
		disk, sent, err := f.upload(ctx, s, client, path, checksum)
		if err != nil {
			return "", false, err
		}

		return disk.ID, sent, nil
	}

	there, err := client.FindImageDisks(ctx, f.disk)
	if err != nil {
		return "", false, preview.Explain(err)
	}

	if len(there) != 1 {
		return "", false, fmt.Errorf("--disk: the engine has %d disks named %q, not one; upload it, or give it a "+
			"name of its own", len(there), f.disk)
	}

	return there[0].ID, false, nil
}
