package guest

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"github.com/coreos/go-semver/semver"
	unknown "github.com/coreos/ignition/v2/config/shared/errors"
	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/ignition/v2/config/v3_6/types"
	"github.com/coreos/vcontext/report"
)

// readIgnition3 reads a payload of the third generation, the format for images of OLVM.
func readIgnition3(raw []byte, highest semver.Version, where *initramfs) (*ignitionConfig, error) {
	out := &ignitionConfig{initramfs: where}
	config, err := out.parseV3(raw, highest, 0)
	if err != nil {
		return nil, err
	}

	for _, written := range config.Storage.Files {
		file := ignitionFile{path: written.Path, mode: written.Mode, owner: root}
		if user := written.User; user.ID != nil || user.Name != nil {
			file.owner = ownerOf(user.ID, deref(user.Name))
		}

		if written.Contents.Source != nil {
			contents := resourceFromV3(written.Contents)
			file.contents = &contents
		}

		for _, more := range written.Append {
			file.extend = append(file.extend, resourceFromV3(more))
		}

		out.files = append(out.files, file)
	}

	for _, u := range config.Systemd.Units {
		converted := unit{
			name:     u.Name,
			contents: deref(u.Contents),
			enabled:  u.Enabled != nil && *u.Enabled,
			disabled: u.Enabled != nil && !*u.Enabled,
			masked:   u.Mask != nil && *u.Mask,
		}
		for _, dropin := range u.Dropins {
			converted.dropins = append(converted.dropins, deref(dropin.Contents))
		}

		out.units = append(out.units, converted)
	}

	return out, nil
}

// parseV3 parses a config with Ignition's own parser, and adds the configs to which it refers.
func (c *ignitionConfig) parseV3(raw []byte, highest semver.Version, depth int) (types.Config, error) {
	if depth > maxConfigs {
		return types.Config{}, errTooDeep
	}

	version, messages, err := util.GetConfigVersion(raw)
	if err != nil {
		return types.Config{}, withReport(err, messages.String())
	}

	if version.Major != highest.Major || highest.LessThan(version) {
		return types.Config{}, versionTooNewError(unknown.ErrUnknownVersion, version, highest)
	}

	config, messages, err := v3_6.ParseCompatibleVersion(raw)
	if err != nil {
		return types.Config{}, withReport(err, fatalMessagesV3(messages))
	}

	for _, message := range messages.Entries {
		c.warnings = append(c.warnings, "ignition: "+message.String())
	}

	var authorities []resource
	for _, authority := range config.Ignition.Security.TLS.CertificateAuthorities {
		authorities = append(authorities, resourceFromV3(authority))
	}

	if err := c.initramfs.addAuthorities(authorities); err != nil {
		return types.Config{}, err
	}

	if config.Ignition.Config.Replace.Source != nil {
		return c.fetchV3(config.Ignition.Config.Replace, highest, depth)
	}

	for _, reference := range config.Ignition.Config.Merge {
		more, err := c.fetchV3(reference, highest, depth)
		if err != nil {
			return types.Config{}, err
		}

		config = v3_6.Merge(config, more)
	}

	return config, nil
}

func (c *ignitionConfig) fetchV3(reference types.Resource, highest semver.Version, depth int) (types.Config, error) {
	source := resourceFromV3(reference)
	raw, err := c.initramfs.fetchResource(&source)
	if err != nil {
		return types.Config{}, fmt.Errorf("config: %w", err)
	}

	return c.parseV3([]byte(raw), highest, depth+1)
}

func resourceFromV3(r types.Resource) resource {
	out := resource{
		source:      deref(r.Source),
		compression: deref(r.Compression),
		hash:        deref(r.Verification.Hash),
		headers:     http.Header{},
	}
	for _, header := range r.HTTPHeaders {
		out.headers.Set(header.Name, deref(header.Value))
	}

	return out
}

// fatalMessagesV3 returns the fatal messages of a report.
func fatalMessagesV3(messages report.Report) string {
	var only report.Report

	for _, message := range messages.Entries {
		if message.Kind == report.Error {
			only.Entries = append(only.Entries, message)
		}
	}

	return only.String()
}

// payloadVersion returns the version in a payload of either generation, or "".
func payloadVersion(raw []byte) string {
	version, _, err := util.GetConfigVersion(raw)
	if err != nil {
		return ""
	}

	return version.String()
}

func deref(text *string) string {
	if text == nil {
		return ""
	}

	return *text
}

// ownerOf returns the user to whom a payload gives a file.
func ownerOf(id *int, name string) string {
	if id != nil && *id != 0 {
		return strconv.Itoa(*id)
	}

	return cmp.Or(name, root)
}
