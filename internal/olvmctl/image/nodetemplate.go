package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// NodeTemplate defines a VM template and its disk.
type NodeTemplate struct {
	// Upload defines the disk to upload. If its Path is empty, the disk already exists.
	Upload
	// Name is the name of the template, and Cluster is its cluster in the engine.
	Name, Cluster string
	// OSType is the operating system, as the engine spells it.
	OSType string
}

// SetDefaults sets empty names to those in a cluster file.
func (t *NodeTemplate) SetDefaults(file *clusterfile.Source) {
	o := file.Providers.OLVM

	for name, value := range map[*string]string{
		&t.DataCenter:    o.DatacenterName,
		&t.Cluster:       o.ControlPlaneMachine.OvirtClusterName,
		&t.StorageDomain: o.OCK.StorageDomainName,
		&t.Disk:          o.OCK.DiskName,
		&t.Size:          o.OCK.DiskSize,
		&t.Name:          o.ControlPlaneMachine.VMTemplateName,
	} {
		*name = cmp.Or(*name, value)
	}
}

// CreateInEngine creates the template with Terraform, and returns its UUID. It removes the disk it has uploaded,
// because the template has a copy of the disk. If it fails, or if the context ends, it leaves nothing behind, or the
// error names what is left. dir is an empty folder.
func (t NodeTemplate) CreateInEngine(
	ctx context.Context, client *engine.Client, at render.Engine, executor workspace.Executor, dir string,
) (string, error) {
	if t.Disk == "" && t.Path != "" {
		t.Disk = t.Name
	}

	if err := checkFlags(map[string]string{"name": t.Name, "cluster": t.Cluster, "disk": t.Disk}); err != nil {
		return "", err
	}

	dc, err := client.FindDataCenter(ctx, cmp.Or(t.DataCenter, defaultDataCenter))
	if err != nil {
		return "", err
	}

	cluster, err := client.FindCluster(ctx, dc, t.Cluster)
	if err != nil {
		return "", err
	}

	begun, err := beginRun()
	if err != nil {
		return "", err
	}
	defer begun.endRun()

	if err := t.removeLeftovers(ctx, client, dc); err != nil {
		return "", err
	}

	if err := checkFree(ctx, client, dc, t.Name); err != nil { // checked before an upload
		return "", err
	}

	t.run = begun.id

	diskID, sent, err := t.findOrUploadDisk(ctx, client, dc)
	if err != nil {
		return "", err
	}

	_, _ = fmt.Fprintf(t.Out, "creating the template %s\n", t.Name)
	id, err := MakeTemplate(ctx, client, executor, at, Template{
		Name:        t.Name,
		Description: "Image of nodes, by olvmctl",
		DataCenter:  dc,
		ClusterID:   cluster.ID.String(),
		DiskID:      diskID.String(),
		OSType:      t.OSType,
		Run:         begun.id,
	}, filepath.Join(dir, "image"))
	if sent { // the template has a copy, or there is no template
		if removed := client.RemoveDisk(context.WithoutCancel(ctx), diskID, nil); removed != nil {
			err = errors.Join(err, fmt.Errorf("failed to delete the disk %s: %w", diskID, removed))
		}
	}

	return id, err
}

// findOrUploadDisk returns the disk for the template. sent reports whether findOrUploadDisk has uploaded the disk.
func (t NodeTemplate) findOrUploadDisk(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter,
) (id engine.ID, sent bool, err error) {
	if t.Path != "" {
		disk, sent, err := t.EnsureDisk(ctx, client)
		if err != nil {
			return "", false, err
		}

		return disk.ID, sent, nil
	}

	there, err := client.FindDisksNotFromTemplates(ctx, dc, t.Disk)
	if err != nil {
		return "", false, err
	}

	if len(there) != 1 {
		return "", false, fmt.Errorf("--disk: %s has %d disks named %q, not one; upload the disk, or use a unique "+
			"name", engine.DescribeScope(dc), len(there), t.Disk)
	}

	return there[0].ID, false, nil
}
