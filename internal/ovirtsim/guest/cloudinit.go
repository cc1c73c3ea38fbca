package guest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxUnpacked is the maximum size of an unpacked file in bytes. User data is much smaller.
const maxUnpacked = 16 << 20

// cloudConfig is the part of a cloud-config document that is relevant for a node.
type cloudConfig struct {
	WriteFiles []struct {
		Path        string `json:"path"`
		Encoding    string `json:"encoding"`
		Content     string `json:"content"`
		Append      bool   `json:"append"`
		Permissions any    `json:"permissions"`
		Owner       string `json:"owner"`
		Defer       bool   `json:"defer"`
	} `json:"write_files"`
	RunCmd []any `json:"runcmd"`
	Users  []any `json:"users"`
}

// hasName returns a function that reports whether a user has the name.
func hasName(name string) func(any) bool {
	return func(user any) bool {
		object, _ := user.(map[string]any)
		return object["name"] == name
	}
}

// readCloudInit processes the user data of a new VM like cloud-init. It writes the files of write_files, and records
// the commands of runcmd. It ignores users, disks and everything else. It never returns a nil system, because a guest
// with invalid user data still has a network.
func readCloudInit(userData string) (*system, error) {
	out := newSystem()

	// The engine puts its own "#cloud-config" line before the custom script, so a jinja header has no effect in oVirt.
	var config cloudConfig
	if err := yaml.Unmarshal([]byte(userData), &config); err != nil {
		return out, fmt.Errorf("cloud-init: user data is not a cloud-config: %w", err)
	}

	for _, written := range config.WriteFiles {
		content, err := decodeContent(written.Encoding, written.Content)
		if err != nil {
			return out, fmt.Errorf("cloud-init: write_files %s: %w", written.Path, err)
		}

		mode, err := parsePermissions(written.Permissions)
		if err != nil {
			return out, fmt.Errorf("cloud-init: write_files %s: %w", written.Path, err)
		}

		// cloud-init creates its users later, and the simulator does not know the users of the image.
		owner, _, _ := strings.Cut(written.Owner, ":")
		owner = cmp.Or(owner, root)
		if slices.ContainsFunc(config.Users, hasName(owner)) && !written.Defer {
			return out, fmt.Errorf("cloud-init: write_files %s: Unknown user or group: %s, which cloud-init makes "+
				"later; set defer: true", written.Path, owner)
		}

		out.writeAs(owner, written.Path, content, mode, written.Append)
	}

	for _, entry := range config.RunCmd {
		command, err := shellText(entry)
		if err != nil {
			return out, fmt.Errorf("cloud-init: runcmd: %w", err)
		}

		out.commands = append(out.commands, command)
	}

	return out, nil
}

// parsePermissions parses a file mode in both notations: a string is octal, and a number is the mode itself.
func parsePermissions(raw any) (uint32, error) {
	switch mode := raw.(type) {
	case nil:
		return defaultMode, nil
	case string:
		parsed, err := strconv.ParseUint(strings.TrimPrefix(mode, "0o"), 8, 12)
		if err != nil {
			return 0, fmt.Errorf("permissions %q are not an octal number", mode)
		}

		return uint32(parsed), nil
	case float64:
		if mode >= 0 && mode <= 0o7777 {
			return uint32(mode), nil
		}
	}

	return 0, fmt.Errorf("permissions %v are not a mode", raw)
}

// shellText converts an entry of runcmd to shell text. The entry is a text or a list of arguments.
func shellText(entry any) (string, error) {
	switch command := entry.(type) {
	case nil:
		return "", nil
	case string:
		return command, nil
	case []any:
		var words []string
		for _, word := range command {
			words = append(words, fmt.Sprint(word))
		}

		if len(words) == 3 && words[1] == "-c" {
			return words[2], nil
		}

		return strings.Join(words, " "), nil
	}

	return "", fmt.Errorf("%v is neither text nor a list", entry)
}

// decodeContent decodes the content of a file.
func decodeContent(encoding, content string) (string, error) {
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

	return gunzip(raw)
}

func decodeBase64(content string) (string, error) {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(content))
	return string(plain), err
}

func gunzip(raw []byte) (string, error) {
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("failed to unpack: %w", err)
	}

	plain, err := io.ReadAll(io.LimitReader(reader, maxUnpacked))
	if err != nil {
		return "", fmt.Errorf("failed to unpack: %w", err)
	}

	return string(plain), nil
}
