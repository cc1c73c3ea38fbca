package clusterfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// Loaded is a cluster file together with its manifests.
type Loaded struct {
	*Source
	// Path is the path of the file. Flavor is the flavor of the manifests.
	Path, Flavor string
	// Objects are the manifests. There are none if the file is invalid, or if the manifests depend on facts known only
	// to the cloud.
	Objects []*unstructured.Unstructured
}

// Load reads and checks a cluster file, and renders its manifests from the template of a flavor. defaults is the path
// of the file of defaults, or "" for none. If a variable of the flavor is missing from the file, its value comes from
// the environment.
func Load(path, defaults, flavor string) (Loaded, []Problem, error) {
	source, err := Read(path, defaults)
	if err != nil {
		return Loaded{}, nil, err
	}

	return loadSource(source, path, flavor)
}

// LoadDefaults is like Load, but for a cluster without a file. All settings except the provider come from the defaults.
// Relative paths in the defaults start from the folder of the defaults.
func LoadDefaults(provider, defaults, flavor string) (Loaded, []Problem, error) {
	path := defaults
	if path == "" {
		path = "--provider " + provider
	}

	source := &Source{dir: filepath.Dir(defaults)}
	if err := source.parseDocument(path, []byte("provider: "+provider)); err != nil {
		return Loaded{}, nil, err
	}

	if err := source.addDefaults(defaults); err != nil {
		return Loaded{}, nil, err
	}

	out, problems, err := loadSource(source, path, flavor)
	for i := range problems {
		if problems[i].Line == 0 && !problems[i].Warning {
			problems[i].Message += "; without a cluster file, set it in the file of --defaults"
		}
	}

	return out, problems, err
}

// loadSource checks the cluster file, and renders its manifests.
func loadSource(source *Source, path, flavor string) (Loaded, []Problem, error) {
	var err error

	out := Loaded{Source: source, Path: path, Flavor: flavor}
	problems := source.Validate()
	if HasErrors(problems) {
		return out, problems, nil
	}

	if out.Objects, err = source.readDefinition(); err != nil || out.Objects != nil {
		return out, problems, err
	}

	if manifests := source.selectProvider().manifests; manifests != nil {
		out.Objects, err = manifests(source, flavor)
	}

	return out, problems, err
}

// olvmManifests renders the manifests of a flavor with the variables in the environment.
func (s *Source) olvmManifests(flavor string) ([]*unstructured.Unstructured, error) {
	return s.Manifests(flavor, os.LookupEnv)
}

// readDefinition returns the manifests in the cluster file that replace the rendered ones, or nil if there are none.
func (s *Source) readDefinition() ([]*unstructured.Unstructured, error) {
	key, content, err := "clusterDefinitionInline", []byte(nil), error(nil)

	switch {
	case s.ClusterDefinition != "":
		key = "clusterDefinition"
		content, err = manifest.ReadNamed(s.resolvePath(s.ClusterDefinition))
	default:
		content, err = inlineContent(s.ClusterDefinitionInline)
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}

	if len(content) == 0 {
		return nil, nil
	}

	objects, err := manifest.Read(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}

	for _, object := range objects {
		if object.GetKind() == "Cluster" && object.GetName() == s.Name && object.GetNamespace() == s.Namespace() {
			return objects, nil
		}
	}

	return nil, fmt.Errorf("%s: no Cluster %s in namespace %s found; correct %s or %s", key, s.Name, s.Namespace(),
		"name", s.NamespaceKey())
}

// inlineContent returns a value that the file contains as text or as YAML.
func inlineContent(node yaml.Node) ([]byte, error) {
	if node.IsZero() {
		return nil, nil
	}

	var text string
	if node.Decode(&text) == nil {
		return bytes.TrimSpace([]byte(text)), nil
	}

	var out bytes.Buffer
	if err := encodeYAML(&out, &node); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// EngineURL returns the normalized URL of the engine. It returns an invalid URL unchanged, because Validate reports it.
func (s *Source) EngineURL() string {
	written := s.Providers.OLVM.OvirtAPIServer.ServerURL
	if base, err := engine.ParseBaseURL(written); err == nil {
		return base.String()
	}

	return written
}

// CompleteEngine sets empty fields in the configuration of an engine: the URL, and the CA unless verification is off.
func (s *Source) CompleteEngine(config *engine.Config) error {
	server := s.Providers.OLVM.OvirtAPIServer
	if config.URL == "" {
		config.URL = s.EngineURL()
	}

	config.Insecure = config.Insecure || server.InsecureSkipTLSVerify
	if len(config.CA) > 0 || config.Insecure {
		return nil
	}

	certificates, err := s.CA()
	if err != nil {
		return fmt.Errorf("failed to read the CA of the engine: %w", err)
	}

	config.CA = slices.Concat(certificates...)

	return nil
}
