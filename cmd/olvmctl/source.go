package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

// sourceFlags select the manifests and the credentials.
type sourceFlags struct {
	files []string
	// kustomizations are the folders of kustomizations to build. substitute has values for Flux's variables in them.
	kustomizations []string
	flux           bool
	substitute     map[string]string
	accessFlags
	// mayBeEmpty accepts manifests without machines. loadManifests then sets isEmpty instead of returning an error.
	// emptyFolder also accepts a folder without manifests.
	mayBeEmpty, emptyFolder, isEmpty bool
	// cluster has the options for reading a cluster file.
	cluster clusterFileFlags
}

func (f *sourceFlags) addFlags(command *cobra.Command) {
	command.Flags().StringSliceVarP(&f.files, "filename", "f", nil,
		"cluster file, manifest file, folder, or - for standard input; can be repeated for manifests. A folder "+
			"with a kustomization.yaml is built as by kubectl kustomize")
	command.Flags().StringSliceVarP(&f.kustomizations, "kustomize", "k", nil,
		"folder with a kustomization.yaml; can be repeated")
	command.Flags().BoolVar(&f.flux, "flux", false, "substitute variables such as ${NAME}, as Flux does with postBuild")
	command.Flags().StringToStringVar(&f.substitute, "substitute", nil,
		"values for --flux, as NAME=VALUE; implies --flux")
	f.cluster.addFormatFlags(command)

	command.Args = func(_ *cobra.Command, args []string) error {
		f.files = append(f.files, args...)
		return nil
	}

	f.bound = true
	f.accessFlags.addFlags(command.Flags())
}

// loadSources reads the manifests, or renders those of a cluster file.
func (f *sourceFlags) loadSources(s streams) (*preview.Manifests, error) {
	var err error
	if f.cluster.path, err = clusterFileAmong(f.files); err != nil {
		return nil, err
	}

	if f.cluster.path == "" {
		return f.loadManifests(s)
	}

	if len(f.kustomizations) > 0 {
		return nil, fmt.Errorf("%s is a cluster file, which does not work with -k; omit -k", f.cluster.path)
	}

	cluster, err := f.cluster.loadClusterFile(s.err)
	if err != nil {
		return nil, err
	}

	if !cluster.UsesTerraform() {
		return nil, fmt.Errorf("%s: provider: Terraform creates only the machines of %s; to see the manifests for "+
			"%s, use olvmctl template", f.cluster.path, clusterfile.OLVMProvider, cluster.ProviderName())
	}

	input, err := planinput.LoadClusterFile(cluster.Objects)
	if err != nil {
		return nil, err
	}

	return preview.NewManifests(input), nil
}

// loadManifests reads the manifests, and prints notes about unusual sources.
func (f *sourceFlags) loadManifests(s streams) (*preview.Manifests, error) {
	options := source.Options{Kustomizations: f.kustomizations, MayBeEmpty: f.emptyFolder, Note: func(note string) {
		_, _ = fmt.Fprintln(s.err, plaintext.Printable(note))
	}}
	if f.flux || len(f.substitute) > 0 {
		options.Variables = f.substitute
		if options.Variables == nil {
			options.Variables = map[string]string{}
		}
	}

	input, err := planinput.LoadWith(f.files, s.in, options)
	if err != nil {
		return nil, err
	}

	manifests := preview.NewManifests(input)
	if len(f.files)+len(f.kustomizations) > 0 && !manifests.AskForMachines() {
		f.isEmpty = true
		if !f.mayBeEmpty {
			err = f.emptyError("")
		}
	}

	return manifests, err
}

// emptyError returns the error about manifests without machines.
func (f *sourceFlags) emptyError(more string) error {
	return fmt.Errorf("no machines in %s%s; specify the manifests of a Cluster with a control plane or a "+
		"MachineDeployment", strings.Join(slices.Concat(f.files, f.kustomizations), ", "), more)
}

// clusterFileAmong returns the cluster file among the given paths, or "" if all of them are manifests.
func clusterFileAmong(paths []string) (string, error) {
	found := ""

	for _, path := range paths {
		if path == "-" || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			continue
		}

		if source.CheckPath(path) != nil {
			continue // the reader of manifests reports the error
		}

		content, err := manifest.ReadNamed(path)
		if err != nil {
			continue // a folder or a pipe, or the reader of manifests reports the error
		}

		if clusterfile.IsClusterFile(content) {
			found = path
		}
	}

	if found != "" && len(paths) > 1 {
		return "", fmt.Errorf("%s is a cluster file, which contains all manifests; omit the other arguments", found)
	}

	return found, nil
}
