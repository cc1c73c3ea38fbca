package bootstrap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	butaneutil "github.com/coreos/butane/base/util"
	butane "github.com/coreos/butane/config"
	butanecommon "github.com/coreos/butane/config/common"
	"github.com/coreos/go-semver/semver"
	"github.com/coreos/ign-converter/translate/v23tov30"
	"github.com/coreos/ignition/config/v2_3"
	types2 "github.com/coreos/ignition/config/v2_3/types"
	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/vcontext/report"
	"github.com/vincent-petithory/dataurl"
)

// kubeadmUnit is the unit by which the kubeadm bootstrap provider runs kubeadm.
const kubeadmUnit = "kubeadm.service"

// ignitionConfig is an Ignition configuration of the third generation during the merge. It is JSON, so that it keeps
// fields unknown to this version of Ignition. Ignition's own parser decides about them.
type ignitionConfig struct {
	root map[string]any
	// version is the highest version that a part needs.
	version semver.Version
	// sources maps each part, by its place, to its source.
	sources sources
}

// mergeIgnition merges the guest's configuration into an Ignition configuration of any generation. The result has the
// third generation.
func mergeIgnition(data []byte, guest Guest) ([]byte, error) {
	c := &ignitionConfig{root: map[string]any{}, version: semver.Version{Major: 3}, sources: sources{}}
	if err := c.addConfig(data, providerSource); err != nil {
		return nil, fmt.Errorf("bootstrap data: %w", err)
	}

	for _, extra := range guest.Extra {
		raw := extra.Data
		if !isJSON(raw) {
			var messages report.Report
			var err error
			raw, messages, err = butane.TranslateBytes(raw, butanecommon.TranslateBytesOptions{Raw: true})
			if err != nil {
				return nil, fmt.Errorf(
					"%s is neither Ignition nor Butane: %w", extra.Source, withMessages(err, messages),
				)
			} else if len(messages.Entries) > 0 {
				return nil, fmt.Errorf("%s: %w", extra.Source,
					withMessages(errors.New("it has warnings of Butane"), messages))
			}
		}

		if err := c.addConfig(raw, extra.Source); err != nil {
			return nil, fmt.Errorf("%s: %w", extra.Source, err)
		}
	}

	ours, err := c.buildOverlay(guest)
	if err != nil {
		return nil, err
	}

	if err := c.mergeObject(c.root, ours, "", machineSource); err != nil {
		return nil, err
	}

	return c.encodeConfig()
}

func isJSON(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) }

// addConfig merges a configuration of any generation.
func (c *ignitionConfig) addConfig(data []byte, source string) error {
	data, err := removeEmptyReplace(data)
	if err != nil {
		return err
	}

	version, messages, err := util.GetConfigVersion(data)
	if err != nil {
		return withMessages(fmt.Errorf("it is not an Ignition configuration: %w", err), messages)
	}

	if version.Major == 2 {
		if data, err = translateV2(data); err != nil {
			return err
		}

		version = semver.Version{Major: 3}
	}

	if _, messages, err := v3_6.ParseCompatibleVersion(data); err != nil {
		return withMessages(fmt.Errorf("it is not a valid Ignition configuration: %w", err), messages)
	}

	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}

	if c.version.LessThan(version) {
		c.version = version
	}

	delete(root["ignition"].(map[string]any), "version") // the parser has already checked it

	return c.mergeObject(c.root, root, "", source)
}

// removeEmptyReplace removes a config.replace without a source, because Ignition itself would reject its URL. Oracle's
// command writes such an entry. Everything else stays unchanged.
func removeEmptyReplace(data []byte) ([]byte, error) {
	if !json.Valid(data) {
		return data, nil // the parser reports the error later
	}

	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("it is not an Ignition configuration: %w", err)
	}

	ignition, _ := root["ignition"].(map[string]any)
	config, _ := ignition["config"].(map[string]any)
	replace, _ := config["replace"].(map[string]any)
	if source, given := replace["source"]; !given || source != nil && source != "" {
		return data, nil
	}

	delete(config, "replace")
	out, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("failed to encode Ignition: %w", err)
	}

	return out, nil
}

// translateV2 translates a configuration of the second generation to the third.
func translateV2(data []byte) ([]byte, error) {
	old, messages, err := v2_3.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("it is not a valid Ignition 2 configuration: %w: %s", err,
			strings.TrimSpace(messages.String()))
	}

	old.Storage.Files = dropOverwritten(old.Storage.Files)
	config, err := v23tov30.Translate(old, collectMountPoints(old))
	if err != nil {
		return nil, fmt.Errorf("it cannot be translated to Ignition 3: %w", err)
	}

	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("failed to encode Ignition 3: %w", err)
	}

	return raw, nil
}

// dropOverwritten omits files that later ones replace. The second generation writes files one after another, but the
// third rejects duplicates.
func dropOverwritten(files []types2.File) []types2.File {
	var out []types2.File

	for _, file := range files {
		if !file.Append {
			out = slices.DeleteFunc(out, func(before types2.File) bool {
				return before.Path == file.Path &&
					before.Filesystem == file.Filesystem
			})
		}

		out = append(out, file)
	}

	return out
}

// collectMountPoints returns the mount points of second-generation file systems, from their mount units. The third
// generation requires mount points.
func collectMountPoints(config types2.Config) map[string]string {
	out := map[string]string{}

	for _, system := range config.Storage.Filesystems {
		if system.Path != nil {
			out[system.Name] = *system.Path
			continue
		}

		out[system.Name] = "/"
		for _, unit := range config.Systemd.Units {
			if system.Mount == nil || path.Ext(unit.Name) != ".mount" {
				continue
			}

			what, where := findSetting(unit.Contents, "What"), findSetting(unit.Contents, "Where")
			if what == system.Mount.Device ||
				system.Mount.Label != nil && what == "/dev/disk/by-label/"+*system.Mount.Label {
				out[system.Name] = where
			}
		}
	}

	return out
}

// findSetting returns the value of a setting in a unit.
func findSetting(contents, key string) string {
	for line := range strings.Lines(contents) {
		if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}

	return ""
}

// buildOverlay returns the guest's additions as an Ignition configuration. It edits kubeadm's configuration in place.
func (c *ignitionConfig) buildOverlay(guest Guest) (map[string]any, error) {
	commands, superAdmin, err := c.editKubeadm(guest)
	if err != nil {
		return nil, err
	}

	files := slices.Concat(guest.buildNetworkFiles(), guest.Files, guest.Services.buildFiles(superAdmin),
		guest.Proxy.buildFiles(slices.Concat(updatingServices, guest.Services.pullingUnits())))
	units := toIgnitionUnits(slices.Concat(guest.Units, guest.Services.buildUnits()))
	if len(commands) > 0 {
		files = append(files, File{
			Path:    kubeadmPrepare,
			Mode:    0o700,
			Content: "#!/bin/bash\nset -e\n" + strings.Join(commands, "\n") + "\n",
		})
		units = append(units, map[string]any{
			"name": kubeadmUnit,
			"dropins": []any{map[string]any{
				"name": "10-capolvm.conf",
				"contents": "[Unit]\nWants=network-online.target\nAfter=network-online.target\n" +
					"[Service]\nExecStartPre=/bin/bash " + kubeadmPrepare + "\n",
			}},
		})
	}

	out := map[string]any{"ignition": map[string]any{}}
	if len(units) > 0 {
		out["systemd"] = map[string]any{"units": units}
	}

	made, err := toIgnitionFiles(files)
	if err != nil {
		return nil, err
	}

	if len(made) > 0 {
		out["storage"] = map[string]any{"files": made}
	}

	if guest.SSH != nil && len(guest.SSH.AuthorizedKeys) > 0 {
		out["passwd"] = map[string]any{"users": []any{map[string]any{
			"name":              cmp.Or(guest.SSH.User, "core"),
			"sshAuthorizedKeys": asList(guest.SSH.AuthorizedKeys),
		}}}
	}

	return out, nil
}

// asList converts texts to a JSON list that can be merged with others.
func asList(texts []string) []any {
	var out []any
	for _, text := range texts {
		out = append(out, text)
	}

	return out
}

func toIgnitionUnits(units []Unit) []any {
	var out []any

	for _, unit := range units {
		made := map[string]any{"name": unit.Name, "enabled": true}
		if unit.Contents != "" {
			made["contents"] = unit.Contents
		}

		out = append(out, made)
	}

	return out
}

// toIgnitionFiles converts files to Ignition's form. They replace files of the image.
func toIgnitionFiles(files []File) ([]any, error) {
	var out []any

	for _, file := range files {
		contents, err := encodeContents(file.Content)
		if err != nil {
			return nil, err
		}

		out = append(out, map[string]any{
			"path":      file.Path,
			"mode":      float64(file.Mode),
			"overwrite": true,
			"contents":  contents,
		})
	}

	return out, nil
}

// encodeContents returns the shortest encoding of a file's contents.
func encodeContents(content string) (map[string]any, error) {
	source, compression, err := butaneutil.MakeDataURL([]byte(content), nil, true)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a file: %w", err)
	}

	out := map[string]any{"source": source}
	if compression != nil && *compression != "" {
		out["compression"] = *compression
	}

	return out, nil
}

// editKubeadm edits kubeadm's configuration. It returns the commands to run before kubeadm, and whether kubeadm writes
// a super-admin.conf on the node.
func (c *ignitionConfig) editKubeadm(guest Guest) (commands []string, superAdmin bool, err error) {
	storage, _ := c.root["storage"].(map[string]any)

	files, _ := storage["files"].([]any)
	for _, each := range files {
		file, _ := each.(map[string]any)
		where, _ := file["path"].(string)
		contents, _ := file["contents"].(map[string]any)
		source, _ := contents["source"].(string)
		compression, _ := contents["compression"].(string)
		if !isKubeadmFile(where) || !strings.HasPrefix(source, "data:") || compression != "" {
			continue
		}

		url, err := dataurl.DecodeString(source)
		if err != nil {
			return nil, false, fmt.Errorf("bootstrap data: %s: failed to read a data URL: %w", where, err)
		}

		edit, err := editKubeadm(string(url.Data), guest)
		if err != nil {
			return nil, false, fmt.Errorf("bootstrap data: %s: %w", where, err)
		}

		superAdmin = superAdmin || edit.hasSuperAdmin()
		if edit.changed {
			if file["contents"], err = encodeContents(edit.text); err != nil {
				return nil, false, err
			}
		}

		if edit.needsUUID {
			commands = append(commands, insertUUIDCommand(where))
		}
	}

	return commands, superAdmin, nil
}

// identities are the keys that identify the elements of a list.
var identities = []string{"path", "name", "device", "source"}

func elementIdentity(element any) string {
	object, ok := element.(map[string]any)
	if !ok {
		return fmt.Sprint(element)
	}

	for _, key := range identities {
		if name, ok := object[key].(string); ok {
			return name
		}
	}

	return ""
}

// mergeObject adds one object to another. It merges list elements with the same path, name or device. Any other
// differing values are a conflict.
func (c *ignitionConfig) mergeObject(into, from map[string]any, at, source string) error {
	for key, given := range from {
		where := strings.TrimPrefix(at+"."+key, ".")
		there, known := into[key]
		if !known || there == nil {
			into[key] = given
			c.sources[where] = source
			continue
		}

		if err := c.mergeValue(func(merged any) { into[key] = merged }, there, given, where, source); err != nil {
			return err
		}
	}

	return nil
}

func (c *ignitionConfig) mergeValue(set func(any), there, given any, where, source string) error {
	switch given := given.(type) {
	case nil:
		return nil
	case map[string]any:
		if object, ok := there.(map[string]any); ok {
			return c.mergeObject(object, given, where, source)
		}
	case []any:
		if list, ok := there.([]any); ok {
			merged, err := c.mergeList(list, given, where, source)
			set(merged)
			return err
		}
	default:
		if there == given {
			return nil
		}
	}

	return newConflictError(where+" of the Ignition configuration", c.sources.findSource(where), source)
}

func (c *ignitionConfig) mergeList(list, more []any, where, source string) ([]any, error) {
	places := make(map[string]int, len(list))
	for at, element := range list {
		if name := elementIdentity(element); name != "" {
			if _, twice := places[name]; !twice {
				places[name] = at
			}
		}
	}

	for _, element := range more {
		name := elementIdentity(element)
		place := fmt.Sprintf("%s[%s]", where, name)
		at, known := places[name]
		if !known {
			if name != "" {
				places[name] = len(list)
			}

			list = append(list, element)
			c.sources[place] = source
			continue
		}

		if err := c.mergeValue(func(merged any) { list[at] = merged }, list[at], element, place, source); err != nil {
			return list, err
		}
	}

	return list, nil
}

// encodeConfig encodes the configuration. It fails if Ignition's parser rejects the configuration.
func (c *ignitionConfig) encodeConfig() ([]byte, error) {
	header, _ := c.root["ignition"].(map[string]any)
	if header == nil {
		header = map[string]any{}
		c.root["ignition"] = header
	}

	header["version"] = c.version.String()
	out, err := json.Marshal(c.root)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the Ignition configuration: %w", err)
	}

	if _, messages, err := v3_6.ParseCompatibleVersion(out); err != nil {
		return nil, withMessages(fmt.Errorf("the merged Ignition configuration is not valid: %w", err), messages)
	}

	return out, nil
}

// withMessages adds the parser's messages to an error.
func withMessages(err error, messages report.Report) error {
	if text := strings.Join(strings.Fields(messages.String()), " "); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}

	return err
}
