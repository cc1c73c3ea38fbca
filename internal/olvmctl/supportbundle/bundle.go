package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/redact"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// Options select the content of a bundle.
type Options struct {
	// In is the management cluster, with the namespace of the cluster.
	In *mgmtcluster.Cluster
	// Name is the name of the cluster.
	Name string
	// Engine asks the engine for the VMs of the cluster, with the credentials of the cluster.
	Engine bool
	// Now is the current time.
	Now time.Time
}

// File is a file in a bundle.
type File struct {
	// Path is the path in the archive, with slashes.
	Path    string
	Content []byte
}

// Bundle is the collected content.
type Bundle struct {
	Files []File
	// Problems explain what is missing, and why.
	Problems []error
}

// gathering is a running collection of a bundle.
type gathering struct {
	Options

	cluster *clusterv1.Cluster
	bundle  Bundle
	objects []*unstructured.Unstructured
	// secrets are values to remove everywhere. names are words to show nevertheless.
	secrets, names []string
}

// Gather collects all content. If content is unavailable, this is a problem in the bundle. Gather returns an error only
// if the cluster does not exist.
func Gather(ctx context.Context, o Options) (*Bundle, error) {
	cluster, err := o.In.GetCluster(ctx, o.Name)
	if err != nil {
		return nil, err
	}

	g := &gathering{Options: o, cluster: cluster}

	// Collect Secrets first, because their values are removed from all other content.
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"Secrets", g.addSecrets},
		{"objects", g.addObjects},
		{"tree", g.addTree},
		{"events", g.addEvents},
		{"Terraform states", g.addStates},
		{"history of machines", g.addHistories},
		{"manager logs", g.addLogs},
		{"engine", g.addEngine},
	} {
		if err := step.run(ctx); err != nil {
			g.addProblem(step.what, err)
		}

		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}

	g.redactFiles()
	g.addReadme()
	slices.SortFunc(g.bundle.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })

	return &g.bundle, nil
}

func (g *gathering) addProblem(what string, err error) {
	g.bundle.Problems = append(g.bundle.Problems, fmt.Errorf("%s: %w", what, err))
}

func (g *gathering) addFile(name string, content []byte) {
	g.bundle.Files = append(g.bundle.Files, File{Path: name, Content: content})
}

// redactFiles removes the secrets from all files and problems.
func (g *gathering) redactFiles() {
	redactor := redact.New(g.secrets, g.names...)

	for i := range g.bundle.Files {
		file := &g.bundle.Files[i]
		file.Content = []byte(redactor.RemoveSecrets(string(file.Content)))
	}

	for i, problem := range g.bundle.Problems {
		g.bundle.Problems[i] = errors.New(redactor.RemoveSecrets(problem.Error()))
	}
}

// addReadme adds a description of the bundle, and a list of missing content.
func (g *gathering) addReadme() {
	var out strings.Builder

	fmt.Fprintf(&out, "Cluster %s/%s at %s, collected by olvmctl %s.\n\n", g.In.Namespace, g.Name,
		g.Now.UTC().Format(time.RFC3339), version.Version)
	out.WriteString("Values of Secrets, user data, and their copies are replaced: " + redact.Mark + ".\n" +
		"The files contain names, addresses and the structure of your site. Review them before you share them.\n")

	if len(g.bundle.Problems) > 0 {
		out.WriteString("\nNot included:\n")
	}

	for _, problem := range g.bundle.Problems {
		fmt.Fprintf(&out, "- %v\n", problem)
	}

	g.addFile("README.txt", []byte(out.String()))
}

// Write writes a bundle as a compressed archive. All files are in one folder.
func (b *Bundle) Write(to io.Writer, folder string, now time.Time) error {
	packed := gzip.NewWriter(to)
	archive := tar.NewWriter(packed)

	for _, file := range b.Files {
		header := &tar.Header{
			Name: path.Join(folder, file.Path), Mode: 0o600, Size: int64(len(file.Content)), ModTime: now,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}

		if _, err := archive.Write(file.Content); err != nil {
			return err
		}
	}

	return errors.Join(archive.Close(), packed.Close())
}
