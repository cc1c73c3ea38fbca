package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
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
