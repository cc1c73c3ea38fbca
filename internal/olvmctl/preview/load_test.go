package preview

import (
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

func load(paths []string, stdin io.Reader) (*Manifests, error) {
	return loadWith(paths, stdin, source.Options{})
}

func loadWith(paths []string, stdin io.Reader, options source.Options) (*Manifests, error) {
	input, err := planinput.LoadWith(paths, stdin, options)
	if err != nil {
		return nil, err
	}

	return NewManifests(input), nil
}

func loadClusterFile(objects []*unstructured.Unstructured) (*Manifests, error) {
	input, err := planinput.LoadClusterFile(objects)
	if err != nil {
		return nil, err
	}

	return NewManifests(input), nil
}
