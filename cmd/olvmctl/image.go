package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

// engineFlags say which engine, and what in it; a cluster file has them, too.
type engineFlags struct {
	file   clusterFile
	server string
	access
	insecure                  bool
	dataCenter, cluster       string
	storageDomain, disk, name string
	size                      string
	sessions                  *engine.Sessions
}

func (f *engineFlags) addFlags(command *cobra.Command) {
	set := command.PersistentFlags()
	set.StringVarP(&f.file.path, "filename", "f", "", "cluster file, which has the values of the other flags")
	f.file.addDefaultsFlag(set)
	set.StringVar(&f.server, "server", "", "URL of the engine, such as https://engine.example.com/ovirt-engine")
	f.access.addFlags(set)
	set.BoolVar(&f.insecure, "insecure-skip-tls-verify", false, "do not verify the engine's certificate")
	set.StringVar(&f.dataCenter, "data-center", "", "name of the data center (default \"Default\")")
}

// client reads the cluster file, and logs in when it is first used.
func (f *engineFlags) client() (*engine.Client, engine.Config, error) {
	credentials, err := f.read()
	if err != nil {
		return nil, engine.Config{}, err
	}

	config := engine.Config{
		URL:      f.server,
		Username: credentials.Username,
		Password: credentials.Password,
		CA:       credentials.CA,
		Insecure: f.insecure,
	}
	if f.file.path != "" {
		if err := f.completeFrom(f.file.path, &config); err != nil {
			return nil, engine.Config{}, err
		}
	}

	if f.dataCenter == "" {
		f.dataCenter = "Default"
	}

	switch {
	case config.URL == "":
		return nil, engine.Config{}, errors.New("which engine is not said; give --server, or a cluster file with -f")
	case config.Username == "":
		return nil, engine.Config{}, errors.New(
			"the credentials of the engine are not there; set OLVM_USERNAME and OLVM_PASSWORD, or give --credentials")
	}

	f.sessions = &engine.Sessions{}
	client, err := f.sessions.Get(config)

	return client, config, err
}

// completeFrom takes from a cluster file what no flag says.
func (f *engineFlags) completeFrom(path string, config *engine.Config) error {
	file, err := clusterfile.Read(path, f.file.defaults)
	if err != nil {
		return err
	}

	o := file.Providers.OLVM
	for flag, value := range map[*string]string{
		&config.URL:      o.OvirtAPIServer.ServerURL,
		&f.dataCenter:    o.DatacenterName,
		&f.cluster:       o.ControlPlaneMachine.OvirtClusterName,
		&f.storageDomain: o.OCK.StorageDomainName,
		&f.disk:          o.OCK.DiskName,
		&f.size:          o.OCK.DiskSize,
		&f.name:          o.ControlPlaneMachine.VMTemplateName,
	} {
		if *flag == "" {
			*flag = value
		}
	}

	config.Insecure = config.Insecure || o.OvirtAPIServer.InsecureSkipTLSVerify
	if len(config.CA) > 0 || config.Insecure {
		return nil
	}

	certificates, err := file.CA()
	if err != nil {
		return fmt.Errorf("%s: the CA of the engine: %w", path, err)
	}

	config.CA = slices.Concat(certificates...)

	return nil
}

// close ends the session.
func (f *engineFlags) close(ctx context.Context) {
	if f.sessions != nil {
		f.sessions.Close(context.WithoutCancel(ctx))
	}
}

// checkFlags names the flags that are missing.
func checkFlags(flags map[string]string) error {
	var lacking []string

	for name, value := range flags {
		if value == "" {
			lacking = append(lacking, "--"+name)
		}
	}

	if len(lacking) == 0 {
		return nil
	}

	slices.Sort(lacking)

	return fmt.Errorf("give %s, or a cluster file that says it with -f", strings.Join(lacking, ", "))
}

func newImageCommand(s streams) *cobra.Command {
	f := &engineFlags{}
	command := &cobra.Command{
		Use:   "image",
		Short: "Make images of nodes, and bring them to the engine",
		Long: `image makes disk images, uploads them, and makes templates of virtual machines from
them. The credentials of the engine come from the environment variables OLVM_USERNAME and
OLVM_PASSWORD; the rest from flags, or from a cluster file.`,
	}
	f.addFlags(command)
	command.AddCommand(newImageCreateCommand(s, f), newImageListCommand(s, f), newImageUploadCommand(s, f),
		newImageTemplateCommand(s, f))

	return command
}

// listedTemplate is a line of image list.
type listedTemplate struct {
	Name     string `json:"name"`
	Version  int    `json:"version"`
	UserData string `json:"userData"`
	OSType   string `json:"osType"`
	ID       string `json:"id"`
}

func newImageListCommand(s streams, f *engineFlags) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the templates of the engine",
		Example: "  olvmctl image list --server https://engine.example.com/ovirt-engine --ca-file ca.pem",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			client, _, err := f.client()
			if err != nil {
				return err
			}
			defer f.close(command.Context())
			templates, err := client.Templates(command.Context())
			if err != nil {
				return preview.Explain(err)
			}

			list := []listedTemplate{}

			for _, t := range templates {
				if t.ID == engine.BlankTemplateID {
					continue
				}

				reads := "cloud-init"
				if t.OS.Type == desired.IgnitionOS {
					reads = "Ignition"
				}

				list = append(list, listedTemplate{t.Name, t.Version.Number, reads, t.OS.Type, t.ID.String()})
			}

			slices.SortFunc(list, func(a, b listedTemplate) int {
				return strings.Compare(fmt.Sprintf("%s %06d", a.Name, a.Version),
					fmt.Sprintf("%s %06d", b.Name, b.Version))
			})

			return printTemplates(s.out, output, list)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "table", "output: table, json or yaml")

	return command
}

func printTemplates(out io.Writer, output string, list []listedTemplate) error {
	if output != "table" {
		return encode(out, output, list)
	}

	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)

	_, _ = fmt.Fprintln(table, "NAME\tVERSION\tUSER DATA\tOS TYPE\tID")
	for _, t := range list {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", t.Name, t.Version, t.UserData, t.OSType, t.ID)
	}

	return table.Flush()
}

func newImageUploadCommand(s streams, f *engineFlags) *cobra.Command {
	var checksum string
	command := &cobra.Command{
		Use:   "upload FILE",
		Short: "Make a disk of an image file",
		Long: `upload makes a disk of a qcow2 or raw image. The header of the image is checked
first, and its checksum, where one is given. Parts that are lost on the way are sent again, and an
upload that was killed, or lost its network, goes on where it was when it is started again within
ten minutes; one that was killed in its first or last second names the disk to delete. Where it
fails, or is interrupted, no disk is left behind. A disk that has the image already stays as it is.`,
		Example: "  olvmctl image upload ock-1.33.qcow2 --server https://engine.example.com/ovirt-engine --ca-file " +
			"ca.pem --storage-domain data --disk ock-1.33",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, _, err := f.client()
			if err != nil {
				return err
			}
			defer f.close(command.Context())
			disk, _, err := f.upload(command.Context(), s, client, args[0], checksum)
			if err != nil {
				return err
			}

			_, err = fmt.Fprintln(s.out, disk.ID)

			return err
		},
	}
	f.addUploadFlags(command, &checksum)

	return command
}

func (f *engineFlags) addUploadFlags(command *cobra.Command, checksum *string) {
	command.Flags().StringVar(&f.storageDomain, "storage-domain", "", "name of the storage domain of the disk")
	command.Flags().StringVar(&f.disk, "disk", "", "name of the disk")
	command.Flags().StringVar(&f.size, "size", "", "size to which the disk is grown, such as 50GB")
	command.Flags().StringVar(checksum, "sha256", "", "SHA-256 of the image file, in hexadecimal")
}

// imageFile is an image to upload.
type imageFile struct {
	*os.File
	header engine.Image
	sum    string // SHA-256
}

// lock locks it, as whoever uploads it does: an upload goes on that nobody is at any more. It fails where others have
// it locked.
func (i *imageFile) lock(how int) error { return syscall.Flock(int(i.Fd()), how|syscall.LOCK_NB) }

// openImage opens an image and reads its header.
func openImage(path string) (*imageFile, error) {
	file, header, err := engine.OpenImage(path)
	if err != nil {
		return nil, err
	}

	return &imageFile{File: file, header: header}, nil
}

// sumUp makes the checksum, and compares it with one that is given.
func (i *imageFile) sumUp(ctx context.Context, given string) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, engine.ReaderUntil(ctx, io.NewSectionReader(i, 0, i.header.FileSize))); err != nil {
		return fmt.Errorf("failed to read the image: %w", err)
	}

	i.sum = hex.EncodeToString(hash.Sum(nil))
	if given != "" && !strings.EqualFold(i.sum, given) {
		return fmt.Errorf("%s has the SHA-256 %s, and not %s; get it again", i.Name(), i.sum, given)
	}

	return nil
}

// upload makes the disk, unless there is one with the image; sent reports that this one was sent now.
func (f *engineFlags) upload(
	ctx context.Context, s streams, client *engine.Client, path, checksum string,
) (disk *engine.Disk, sent bool, err error) {
	if err := checkFlags(map[string]string{"storage-domain": f.storageDomain, "disk": f.disk}); err != nil {
		return nil, false, err
	}

	image, err := openImage(path)
	if err != nil {
		return nil, false, err
	}
	defer image.Close()

	size, err := f.diskSize(image)
	if err != nil {
		return nil, false, err
	}

	if err := image.sumUp(ctx, checksum); err != nil {
		return nil, false, err
	}

	_ = image.lock(syscall.LOCK_SH) // some file systems cannot
	options, err := f.uploadOptions(ctx, s, client, image)
	if err != nil {
		return nil, false, err
	}

	disk, sent, err = client.UploadImage(ctx, options, transferProgress(s.err, "uploading "+filepath.Base(path)))
	if err != nil {
		return nil, false, err
	}

	if size > disk.ProvisionedSize {
		if err := growDisk(ctx, client, disk, size, sent); err != nil {
			return nil, false, err
		}
	}

	if !sent {
		_, err = fmt.Fprintf(s.err, "the disk %s has the image already\n", f.disk)
	}

	return disk, sent, err
}

// diskSize is the size in bytes to which the disk is to be grown; 0 where it is not said.
func (f *engineFlags) diskSize(image *imageFile) (int64, error) {
	if f.size == "" {
		return 0, nil
	}

	size, err := desired.ParseMemory(f.size)
	if err != nil {
		return 0, fmt.Errorf("--size: %w", err)
	}

	if size < image.header.VirtualSize {
		return 0, fmt.Errorf("--size: %s is less than the image has, which is %d bytes", f.size,
			image.header.VirtualSize)
	}

	return size, nil
}

// uploadOptions resolves the names of the flags, and refuses to write beside a disk that has something else in it.
func (f *engineFlags) uploadOptions(
	ctx context.Context, s streams, client *engine.Client, image *imageFile,
) (engine.UploadOptions, error) {
	dc, err := client.DataCenter(ctx, f.dataCenter)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	domain, err := client.StorageDomain(ctx, dc, f.storageDomain)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	sparse, err := client.SparseOn(ctx, domain.ID, image.header.Format)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	options := engine.UploadOptions{
		Image:           image,
		Size:            image.header.FileSize,
		StorageDomainID: domain.ID,
		Alias:           f.disk,
		Sparse:          sparse,
		Fingerprint:     "sha256=" + image.sum,
		Idle:            uploadIdle,
		Resume: func(sent int64) error {
			if errors.Is(image.lock(syscall.LOCK_EX), syscall.EWOULDBLOCK) {
				return fmt.Errorf("%s is being uploaded already, by another process", image.Name())
			}

			_, err := fmt.Fprintf(s.err, "going on with an upload that was broken off: %d MiB are there\n", sent>>20)

			return err
		},
	}

	there, err := client.FindImageDisks(ctx, f.disk)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	for i := range there {
		if !options.Earlier(&there[i]) {
			return engine.UploadOptions{}, fmt.Errorf("there is a disk %q already (%s), with something else in it; "+
				"choose another name with --disk, or delete it", f.disk, there[i].ID)
		}
	}

	return options, nil
}

// growDisk grows a disk to a size in bytes. Where that fails, a disk that was just made does not stay.
func growDisk(ctx context.Context, client *engine.Client, disk *engine.Disk, size int64, made bool) error {
	err := client.GrowDisk(ctx, disk.ID, size, nil)
	if err != nil && made {
		err = errors.Join(err, client.RemoveDisk(context.WithoutCancel(ctx), disk.ID, nil))
	}

	return err
}

// uploadIdle is for how long an upload can be broken off.
const uploadIdle = 10 * time.Minute

// transferProgress shows a bar on a terminal, and a line for each tenth elsewhere.
func transferProgress(out io.Writer, what string) func(done, total int64) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		var bar *progressbar.ProgressBar

		return func(done, total int64) {
			if bar == nil {
				bar = progressbar.NewOptions64(
					total,
					progressbar.OptionSetWriter(out),
					progressbar.OptionSetDescription(what),
					progressbar.OptionShowBytes(true),
					progressbar.OptionFullWidth(),
					progressbar.OptionOnCompletion(func() {
						_, _ = fmt.Fprintln(out)
					}),
				)
			}

			_ = bar.Set64(done)
		}
	}

	tenth := int64(-1)

	return func(done, total int64) {
		if now := done * 10 / total; now != tenth {
			tenth = now
			_, _ = fmt.Fprintf(out, "%s: %d of %d MiB\n", what, done>>20, total>>20)
		}
	}
}

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
