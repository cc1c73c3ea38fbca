package clusterfile

import (
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Loaded is a cluster file with the manifests that it asks for.
type Loaded struct {
	*Source
	// Path of the file, and Flavor of the manifests.
	Path, Flavor string
	// Objects are the manifests; none where the file is not valid.
	Objects []*unstructured.Unstructured
}

// Load reads a cluster file, checks it, and makes its manifests in the shape of a flavor. defaults is a file of
// defaults; empty for none. Variables of the flavor that the file does not set come from the environment.
func Load(path, defaults, flavor string) (Loaded, []Problem, error) {
	source, err := Read(path, defaults)
	if err != nil {
		return Loaded{}, nil, err
	}

	out := Loaded{Source: source, Path: path, Flavor: flavor}
	problems := source.Validate()
	if Failed(problems) {
		return out, problems, nil
	}

	out.Objects, err = source.Manifests(flavor, os.LookupEnv)

	return out, problems, err
}

// CompleteEngine sets what a configuration of the engine leaves empty: the URL, and the CA unless nothing is verified.
func (s *Source) CompleteEngine(config *engine.Config) error {
	server := s.Providers.OLVM.OvirtAPIServer
	if config.URL == "" {
		config.URL = server.ServerURL
	}

	config.Insecure = config.Insecure || server.InsecureSkipTLSVerify
	if len(config.CA) > 0 || config.Insecure {
		return nil
	}

	certificates, err := s.CA()
	if err != nil {
		return fmt.Errorf("the CA of the engine: %w", err)
	}

	config.CA = slices.Concat(certificates...)

	return nil
}
