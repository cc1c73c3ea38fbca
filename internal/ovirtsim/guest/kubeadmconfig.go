package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta3"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
)

// kubeadmConfig is a configuration file in kubeadm's internal types, with kubeadm's defaults.
type kubeadmConfig struct {
	cluster *kubeadm.ClusterConfiguration
	init    *kubeadm.InitConfiguration
	join    *kubeadm.JoinConfiguration
}

// strictKubeadm decodes kubeadm's types and rejects unknown fields. The real kubeadm only warns about unknown fields
// and ignores them.
var strictKubeadm = json.NewSerializerWithOptions(json.DefaultMetaFactory, kubeadmscheme.Scheme, kubeadmscheme.Scheme,
	json.SerializerOptions{Yaml: true, Strict: true})

// supportedVersions returns the versions of the configuration that a kubeadm version supports. The types come from the
// newest kubeadm. Therefore, an older kubeadm also accepts fields added to v1beta4 later.
func supportedVersions(kubeadmVersion string) ([]string, error) {
	v, err := version.ParseGeneric(kubeadmVersion)
	if err != nil {
		return nil, fmt.Errorf("the version of kubeadm in the image is none: %w", err)
	}

	if v.LessThan(version.MajorMinor(1, 31)) {
		return []string{v1beta3.SchemeGroupVersion.String()}, nil
	}

	return []string{v1beta3.SchemeGroupVersion.String(), v1beta4.SchemeGroupVersion.String()}, nil
}

// readKubeadmConfig reads the documents of a file in the way of the given kubeadm version.
func readKubeadmConfig(text, kubeadmVersion string) (*kubeadmConfig, error) {
	known, err := supportedVersions(kubeadmVersion)
	if err != nil {
		return nil, err
	}

	out, seen := &kubeadmConfig{}, map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))

	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}

		if err != nil {
			return nil, err
		}

		if len(strings.TrimSpace(strings.Trim(string(document), "-\n"))) == 0 {
			continue
		}

		gvk, err := parseKind(document)
		if err != nil {
			return nil, err
		}

		if seen[gvk.Kind] {
			return nil, fmt.Errorf("invalid configuration: kind %q is specified twice in YAML file", gvk.Kind)
		}

		seen[gvk.Kind] = true
		if gvk.Group != kubeadm.GroupName {
			continue // a document of the kubelet or kube-proxy, or an unknown one
		}

		if err := out.decodeDocument(document, *gvk, known); err != nil {
			return nil, err
		}
	}
}

// parseKind returns the kind of a document.
func parseKind(document []byte) (*schema.GroupVersionKind, error) {
	asJSON, err := utilyaml.ToJSON(document)
	if err != nil {
		return nil, err
	}

	gvk, err := json.DefaultMetaFactory.Interpret(asJSON)
	if err != nil {
		return nil, err
	}

	if gvk.Group == "" || gvk.Version == "" || gvk.Kind == "" {
		return nil, fmt.Errorf("invalid configuration for GroupVersionKind %+v: kind and apiVersion is mandatory "+
			"information that must be specified", gvk)
	}

	return gvk, nil
}

// decodeDocument decodes one document into the strict types of its version, and converts them.
func (c *kubeadmConfig) decodeDocument(document []byte, gvk schema.GroupVersionKind, known []string) error {
	if !slices.Contains(known, gvk.GroupVersion().String()) {
		return fmt.Errorf("no kind %q is registered for version %q; this kubeadm reads %s", gvk.Kind,
			gvk.GroupVersion(), strings.Join(known, " and "))
	}

	versioned, _, err := strictKubeadm.Decode(document, &gvk, nil)
	if err != nil {
		return fmt.Errorf("error unmarshaling configuration %s: %w", gvk, err)
	}

	kubeadmscheme.Scheme.Default(versioned)

	convert := func(into runtime.Object) error { return kubeadmscheme.Scheme.Convert(versioned, into, nil) }

	switch gvk.Kind {
	case "ClusterConfiguration":
		c.cluster = &kubeadm.ClusterConfiguration{}
		return convert(c.cluster)
	case "InitConfiguration":
		c.init = &kubeadm.InitConfiguration{}
		return convert(c.init)
	case "JoinConfiguration":
		c.join = &kubeadm.JoinConfiguration{}
		return convert(c.join)
	}

	return nil
}

// argumentMap returns extra arguments by name. The last argument with a name wins.
func argumentMap(list []kubeadm.Arg) map[string]string {
	out := map[string]string{}
	for _, argument := range list {
		out[argument.Name] = argument.Value
	}

	return out
}
