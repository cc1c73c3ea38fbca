// Package bootstrap adds to the bootstrap data of a machine what only the
// infrastructure knows.
//
// For now that is the node's provider ID. A VM gets its UUID from the engine
// when it is made, so it cannot stand in the user data; but the firmware shows
// it to the guest. The kubelet argument gets a placeholder, which a command
// replaces at boot before kubeadm runs. Everything else in the data stays as
// it is. Ignition data is passed through.
package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format of bootstrap data, as the bootstrap Secret names it.
type Format string

// The formats; a Secret that names none means cloud-config.
const (
	CloudConfig Format = "cloud-config"
	Ignition    Format = "ignition"
)

const (
	// ProviderIDPrefix precedes the UUID of a VM in a provider ID.
	ProviderIDPrefix = "olvm://"

	vmUUIDPlaceholder = "__OLVM_VM_UUID__"
	kubeletArgument   = "provider-id"
)

// kubeadmFiles are where the kubeadm bootstrap provider puts kubeadm's configuration.
var kubeadmFiles = []string{"/run/kubeadm/kubeadm.yaml", "/run/kubeadm/kubeadm-join-config.yaml"}

// WithProviderID makes the node register with the provider ID of its VM, unless the data already names one. Data
// without kubeadm's configuration is returned unchanged.
func WithProviderID(data []byte, format Format) ([]byte, error) {
	switch format {
	case Ignition:
		return data, nil
	case CloudConfig, "":
	default:
		return nil, fmt.Errorf("bootstrap data has format %q; cloud-config and ignition are supported", format)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("bootstrap data is not a cloud-config: %w", err)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("bootstrap data is not a cloud-config: it is no mapping")
	}
	root := document.Content[0]
	changed := ""
	if files := value(root, "write_files"); files != nil {
		for _, file := range files.Content {
			path, content := value(file, "path"), value(file, "content")
			if path == nil || content == nil || !isKubeadmFile(path.Value) {
				continue
			}
			text, ok, err := addKubeletArgument(content.Value)
			if err != nil {
				return nil, fmt.Errorf("bootstrap data: %s: %w", path.Value, err)
			}
			if ok {
				content.Value, content.Style, changed = text, yaml.LiteralStyle, path.Value
			}
		}
	}
	if changed == "" {
		return data, nil
	}
	prependCommand(root, fmt.Sprintf(`sed -i "s/%s/$(tr '[:upper:]' '[:lower:]' < /sys/class/dmi/id/product_uuid)/g" %s`, vmUUIDPlaceholder, changed))
	var out bytes.Buffer
	out.WriteString(header(data))
	root.HeadComment = ""
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("failed to encode the cloud-config: %w", err)
	}
	return out.Bytes(), nil
}

// header is the comment lines that tell cloud-init what the data is.
func header(data []byte) string {
	var lines strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		lines.WriteString(line)
	}
	if lines.Len() == 0 {
		return "#cloud-config\n"
	}
	return lines.String()
}

func isKubeadmFile(path string) bool {
	for _, known := range kubeadmFiles {
		if path == known {
			return true
		}
	}
	return false
}

// value returns the value of a key in a mapping, nil where it has none.
func value(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// ensure returns the value of a key in a mapping, and makes it where there is none.
func ensure(mapping *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	if found := value(mapping, key); found != nil && found.Kind == kind {
		return found
	} else if found != nil && found.Tag == "!!null" {
		*found = yaml.Node{Kind: kind}
		return found
	}
	made := &yaml.Node{Kind: kind}
	mapping.Content = append(mapping.Content, text(key), made)
	return made
}

func text(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// prependCommand puts a command before all others of runcmd.
func prependCommand(root *yaml.Node, command string) {
	list := ensure(root, "runcmd", yaml.SequenceNode)
	list.Content = append([]*yaml.Node{text(command)}, list.Content...)
}

// addKubeletArgument adds the argument to the node registration in kubeadm's configuration, and says whether it did.
func addKubeletArgument(config string) (string, bool, error) {
	decoder := yaml.NewDecoder(strings.NewReader(config))
	var documents []*yaml.Node
	added := false
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return "", false, fmt.Errorf("it is not YAML: %w", err)
		}
		if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
			continue
		}
		root := document.Content[0]
		documents = append(documents, root)
		kind := value(root, "kind")
		if kind == nil || kind.Value != "InitConfiguration" && kind.Value != "JoinConfiguration" {
			continue
		}
		registration := ensure(root, "nodeRegistration", yaml.MappingNode)
		if setArgument(registration, kubeletArgument, ProviderIDPrefix+vmUUIDPlaceholder) {
			added = true
		}
	}
	if !added {
		return config, false, nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	for _, document := range documents {
		if err := encoder.Encode(document); err != nil {
			return "", false, fmt.Errorf("failed to encode it: %w", err)
		}
	}
	return out.String(), true, nil
}

// setArgument adds a kubelet argument in the shape that is there: a mapping (kubeadm v1beta3), else a list (v1beta4).
func setArgument(registration *yaml.Node, name, argument string) bool {
	if args := value(registration, "kubeletExtraArgs"); args != nil && args.Kind == yaml.MappingNode {
		if value(args, name) != nil {
			return false
		}
		args.Content = append(args.Content, text(name), text(argument))
		return true
	}
	args := ensure(registration, "kubeletExtraArgs", yaml.SequenceNode)
	for _, arg := range args.Content {
		if n := value(arg, "name"); n != nil && n.Value == name {
			return false
		}
	}
	args.Content = append(args.Content, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("name"), text(name), text("value"), text(argument)}})
	return true
}
