package guest

import (
	"fmt"

	"github.com/coreos/go-semver/semver"
	unknown "github.com/flatcar/ignition/config/shared/errors"
	"github.com/flatcar/ignition/config/v2_4"
	"github.com/flatcar/ignition/config/v2_4/types"
	"github.com/flatcar/ignition/config/validate/report"
)

// readIgnition2 reads a payload of the second generation, the format of Cluster API without changes.
func readIgnition2(raw []byte, highest semver.Version, where *initramfs) (*ignitionConfig, error) {
	out := &ignitionConfig{initramfs: where}
	config, err := out.parseV2(raw, highest, 0)
	if err != nil {
		return nil, err
	}

	for _, written := range config.Storage.Files {
		if written.Filesystem != "root" {
			out.warnings = append(
				out.warnings,
				fmt.Sprintf(
					"ignition: %s is on filesystem %q, which the simulated guest does not have", written.Path,
					written.Filesystem,
				),
			)
			continue
		}

		contents := resource{
			source:      written.Contents.Source,
			compression: written.Contents.Compression,
			hash:        deref(written.Contents.Verification.Hash),
		}
		file := ignitionFile{path: written.Path, mode: written.Mode, owner: root}
		if user := written.User; user != nil {
			file.owner = ownerOf(user.ID, user.Name)
		}

		if written.Append {
			file.extend = []resource{contents}
		} else {
			file.contents = &contents
		}

		out.files = append(out.files, file)
	}

	for _, u := range config.Systemd.Units {
		converted := unit{
			name:     u.Name,
			contents: u.Contents,
			masked:   u.Mask,
			enabled:  u.Enable || u.Enabled != nil && *u.Enabled,
			disabled: u.Enabled != nil && !*u.Enabled,
		}
		for _, dropin := range u.Dropins {
			converted.dropins = append(converted.dropins, dropin.Contents)
		}

		out.units = append(out.units, converted)
	}

	return out, nil
}

// parseV2 parses a config with Ignition's own parser, and adds the configs to which it refers.
func (c *ignitionConfig) parseV2(raw []byte, highest semver.Version, depth int) (types.Config, error) {
	if depth > maxConfigs {
		return types.Config{}, errTooDeep
	}

	if version, err := semver.NewVersion(payloadVersion(raw)); err == nil && highest.LessThan(*version) {
		return types.Config{}, versionTooNewError(unknown.ErrUnknownVersion, *version, highest)
	}

	config, messages, err := v2_4.Parse(raw)
	if err != nil {
		return types.Config{}, withReport(err, fatalMessagesV2(messages))
	}

	for _, message := range messages.Entries {
		c.warnings = append(c.warnings, "ignition: "+message.String())
	}

	if replacement := config.Ignition.Config.Replace; replacement != nil {
		return c.fetchV2(*replacement, highest, depth)
	}

	for _, reference := range config.Ignition.Config.Append {
		more, err := c.fetchV2(reference, highest, depth)
		if err != nil {
			return types.Config{}, err
		}

		config = v2_4.Append(config, more)
	}

	return config, nil
}

func (c *ignitionConfig) fetchV2(
	reference types.ConfigReference, highest semver.Version, depth int,
) (types.Config, error) {
	source := resource{source: reference.Source, hash: deref(reference.Verification.Hash)}
	raw, err := c.initramfs.fetchResource(&source)
	if err != nil {
		return types.Config{}, fmt.Errorf("config: %w", err)
	}

	return c.parseV2([]byte(raw), highest, depth+1)
}

// fatalMessagesV2 returns the fatal messages of a report.
func fatalMessagesV2(messages report.Report) string {
	var only report.Report

	for _, message := range messages.Entries {
		if message.Kind == report.EntryError {
			only.Add(message)
		}
	}

	return only.String()
}
