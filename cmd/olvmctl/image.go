package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
)

// engineFlags select an engine, and objects in this engine. A cluster file can provide the same values.
type engineFlags struct {
	file     clusterFileFlags
	server   string
	access   accessFlags
	insecure bool
	// template has the names of objects in the engine. Flags of subcommands set these names.
	template image.NodeTemplate
}

func (f *engineFlags) addFlags(set *pflag.FlagSet) {
	set.StringVarP(&f.file.path, "filename", "f", "", "cluster file with defaults for the other flags")
	f.file.addDefaultsFlag(set)
	set.StringVar(&f.server, "server", "", "URL of the engine, such as https://engine.example.com/ovirt-engine")
	f.access.addFlags(set)
	set.BoolVar(&f.insecure, "insecure-skip-tls-verify", false, "do not verify the engine's certificate")
	set.StringVar(&f.template.DataCenter, "data-center", "", "name of the data center (default \"Default\")")
}

// completeConfig returns the configuration of the connection to the engine. It takes missing values from the cluster
// file.
func (f *engineFlags) completeConfig() (engine.Config, error) {
	credentials, err := f.access.loadCredentials(f.file.path)
	if err != nil {
		return engine.Config{}, err
	}

	config := engine.Config{
		URL:      f.server,
		Username: credentials.Username,
		Password: credentials.Password,
		CA:       credentials.CA,
		Insecure: f.insecure,
	}
	if f.file.path != "" {
		file, err := clusterfile.Read(f.file.path, f.file.defaults)
		if err != nil {
			return engine.Config{}, err
		}

		f.template.SetDefaults(file)
		if err := file.CompleteEngine(&config); err != nil {
			return engine.Config{}, fmt.Errorf("%s: %w", f.file.path, err)
		}
	}

	switch {
	case config.URL == "":
		return engine.Config{}, errors.New("the engine is missing; use --server, or specify a cluster file with -f")
	case config.Username == "":
		return engine.Config{}, errors.New(
			"the credentials of the engine are missing; set OLVM_USERNAME and OLVM_PASSWORD, or use --credentials")
	}

	return config, credentials.CheckServer(config.URL)
}

// withEngine connects to the engine, calls do, and ends the session.
func (f *engineFlags) withEngine(ctx context.Context, do func(*engineSession) error) error {
	config, err := f.completeConfig()
	if err != nil {
		return err
	}

	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	client, err := sessions.Get(config)
	if err != nil {
		return err
	}

	at := f.access.credentialPlaces(f.file.path, true)
	if f.server != "" {
		at.URL = "--server"
	}

	if f.file.path == "" {
		at.CA = "--ca-file"
	}

	return blocker.AddRemedy(do(&engineSession{Client: client, config: config, sessions: sessions}), at)
}

// engineSession is a client of an engine, with the configuration of its connection.
type engineSession struct {
	*engine.Client
	config   engine.Config
	sessions *engine.Sessions
}

func newImageCommand(s streams) *cobra.Command {
	f := &engineFlags{}
	command := &cobra.Command{
		Use:   "image",
		Short: "Create node images and upload them to the engine",
		Long: `Create, check and upload disk images, and create VM templates from them. Set the credentials of the
engine in OLVM_USERNAME and OLVM_PASSWORD. Other values come from flags, or from a cluster file.`,
	}
	f.addFlags(command.PersistentFlags())
	command.AddCommand(newImageCheckCommand(s, f), newImageCreateCommand(s, f), newImageListCommand(s, f),
		newImageUploadCommand(s, f),
		newImageTemplateCommand(s, f))

	return command
}
