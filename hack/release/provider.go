package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// providerProgram is the name of the plug-in, and the prefix of the names of its packages.
const providerProgram = "terraform-provider-ovirt"

// providerManifest tells registries which protocol the plug-in uses.
const providerManifest = `{"version":1,"metadata":{"protocol_versions":["5.0"]}}` + "\n"

// writeProviderPackages packs the plug-ins in a folder for a registry or a mirror of Terraform providers. It writes a
// zip file for each platform, the manifest, and their checksums.
func writeProviderPackages(out, release string) error {
	number := version.FormatProvider(release)
	files := map[string][]byte{fmt.Sprintf("%s_%s_manifest.json", providerProgram, number): []byte(providerManifest)}

	for _, platform := range binaries[providerProgram] {
		system, architecture, _ := strings.Cut(platform, "/")

		content, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("%s-%s-%s", providerProgram, system, architecture)))
		if err != nil {
			return fmt.Errorf("failed to read the plug-in: %w", err)
		}

		name := fmt.Sprintf("%s_%s_%s_%s.zip", providerProgram, number, system, architecture)
		if files[name], err = zipProgram(providerProgram+"_v"+number, content); err != nil {
			return err
		}
	}

	var sums []string

	for name, content := range files {
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}

	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[65:], b[65:]) })
	name := fmt.Sprintf("%s_%s_SHA256SUMS", providerProgram, number)
	if err := os.WriteFile(filepath.Join(out, name), []byte(strings.Join(sums, "")), 0o644); err != nil {
		return fmt.Errorf("failed to write %s: %w", name, err)
	}

	return nil
}

// zipProgram returns a zip file with one program. The file contains no times, so the same program always results in the
// same file.
func zipProgram(name string, program []byte) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)

	file, err := archive.CreateHeader(header)
	if err == nil {
		_, err = file.Write(program)
	}

	if err == nil {
		err = archive.Close()
	}

	if err != nil {
		return nil, fmt.Errorf("failed to pack %s: %w", name, err)
	}

	return out.Bytes(), nil
}
