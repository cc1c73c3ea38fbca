package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

// sourceFlags say where manifests and credentials come from.
type sourceFlags struct {
	files []string
	accessFlags
	// cluster is how a cluster file is read, if it is one.
	cluster clusterFileFlags
}

func (f *sourceFlags) addFlags(command *cobra.Command) {
	command.Flags().StringSliceVarP(&f.files, "filename", "f", nil,
		"manifests: a file, a folder, or - for standard input; can be repeated. Or one cluster file")
	f.cluster.addFormatFlags(command)
	f.accessFlags.bound = true
	f.accessFlags.addFlags(command.Flags())
}

// load reads the manifests, or those that a cluster file asks for.
func (f *sourceFlags) load(s streams) (*preview.Manifests, error) {
	var err error
	if f.cluster.path, err = clusterFileAmong(f.files); err != nil {
		return nil, err
	}

	if f.cluster.path == "" {
		return preview.Load(f.files, s.in)
	}

	cluster, err := f.cluster.load(s.err)
	if err != nil {
		return nil, err
	}

	if !cluster.ByTerraform() {
		return nil, fmt.Errorf("%s: provider: Terraform makes the machines of %s alone; see what %s is given with "+
			"olvmctl template", f.cluster.path, clusterfile.OLVMProvider, cluster.ProviderName())
	}

	return preview.LoadObjects(cluster.Objects)
}

// clusterFileAmong is the cluster file among paths, empty where all are manifests.
func clusterFileAmong(paths []string) (string, error) {
	found := ""

	for _, path := range paths {
		if path == "-" || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			continue
		}

		content, err := os.ReadFile(path)
		if err != nil {
			continue // a folder, or an error of the reader of manifests
		}

		if clusterfile.IsClusterFile(content) {
			found = path
		}
	}

	if found != "" && len(paths) > 1 {
		return "", fmt.Errorf("%s is a cluster file; give nothing beside it, for it has all manifests", found)
	}

	return found, nil
}
