package guest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// system is what cloud-init leaves behind: files, and the kubeadm command that it ran.
type system struct {
	files   map[string]string
	kubeadm string // "init" or "join"; empty when no command runs kubeadm
	config  string // the path of kubeadm's configuration
}

// cloudConfig is the part of a cloud-config document that makes a node.
type cloudConfig struct {
	WriteFiles []struct {
		Path     string `json:"path"`
		Encoding string `json:"encoding"`
		Content  string `json:"content"`
		Append   bool   `json:"append"`
	} `json:"write_files"`
	RunCmd []any `json:"runcmd"`
}

var (
	kubeadmCommand = regexp.MustCompile(`^kubeadm (init|join) --config (\S+)`)
	// substituteVMID is the one command beside kubeadm that changes what a node becomes: the VM's UUID is written
	// into a file, read from where the firmware shows it.
	substituteVMID = regexp.MustCompile(`^sed -i "s/([^/"]+)/\$\(tr '\[:upper:\]' '\[:lower:\]' < /sys/class/dmi/id/product_uuid\)/g" (\S+)$`)
)

// runCloudInit does what cloud-init does with the user data of a new VM: write_files, then runcmd. Commands that are not
// understood are the guest's own business and are passed over.
func runCloudInit(userData, vmID string) (*system, error) {
	// The engine puts the custom script behind its own "#cloud-config" line, so a jinja header has no effect on oVirt.
	var config cloudConfig
	if err := yaml.Unmarshal([]byte(userData), &config); err != nil {
		return nil, fmt.Errorf("cloud-init: user data is not a cloud-config: %w", err)
	}
	result := &system{files: map[string]string{}}
	for _, file := range config.WriteFiles {
		content, err := decode(file.Encoding, file.Content)
		if err != nil {
			return nil, fmt.Errorf("cloud-init: write_files %s: %w", file.Path, err)
		}
		if file.Append {
			content = result.files[file.Path] + content
		}
		result.files[file.Path] = content
	}
	for _, entry := range config.RunCmd {
		command, ok := entry.(string)
		if !ok {
			continue
		}
		if match := substituteVMID.FindStringSubmatch(command); match != nil {
			content, exists := result.files[match[2]]
			if !exists {
				return nil, fmt.Errorf("sed: can't read %s: No such file or directory", match[2])
			}
			result.files[match[2]] = strings.ReplaceAll(content, match[1], vmID)
			continue
		}
		if match := kubeadmCommand.FindStringSubmatch(command); match != nil {
			if _, exists := result.files[match[2]]; !exists {
				return nil, fmt.Errorf("kubeadm: unable to read config from %q: no such file or directory", match[2])
			}
			result.kubeadm, result.config = match[1], match[2]
			break
		}
	}
	return result, nil
}

// decode undoes the encoding of a file's content.
func decode(encoding, content string) (string, error) {
	raw := []byte(content)
	switch encoding {
	case "", "text/plain":
		return content, nil
	case "b64", "base64":
		return decodeBase64(content)
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		plain, err := decodeBase64(content)
		if err != nil {
			return "", err
		}
		raw = []byte(plain)
	case "gz", "gzip":
	default:
		return "", fmt.Errorf("unknown encoding %q", encoding)
	}
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("failed to unpack: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, 16<<20))
	return string(plain), err
}

func decodeBase64(content string) (string, error) {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(content))
	return string(plain), err
}
