package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// sumOf matches a placeholder in the files of hack/install. It stands for the checksum of a file of the release.
var sumOf = regexp.MustCompile(`@SHA256 ([^@\n]+)@`)

// writePackages writes the files that install olvmctl: archives for krew with their manifest, the formula for Homebrew,
// and a script for all other users.
func writePackages(root string, r release) error {
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("failed to read the licence: %w", err)
	}

	for _, platform := range binaries["olvmctl"] {
		name := strings.ReplaceAll(platform, "/", "-")
		program, err := os.ReadFile(filepath.Join(r.out, "olvmctl-"+name))
		if err != nil {
			return fmt.Errorf("failed to read olvmctl: %w", err)
		}

		archive, err := pluginArchive(program, license)
		if err != nil {
			return fmt.Errorf("failed to archive olvmctl for %s: %w", platform, err)
		}

		if err := os.WriteFile(filepath.Join(r.out, "kubectl-olvm-"+name+".tar.gz"), archive, 0o644); err != nil {
			return fmt.Errorf("failed to write an archive: %w", err)
		}
	}

	for _, name := range []string{"install.sh", "krew.yaml", "olvmctl.rb"} {
		content, err := os.ReadFile(filepath.Join(root, "hack", "install", name))
		if err != nil {
			return fmt.Errorf("failed to read a file for package managers: %w", err)
		}

		filled, err := r.fillText(string(content))
		if err != nil {
			return fmt.Errorf("hack/install/%s: %w", name, err)
		}

		if err := os.WriteFile(filepath.Join(r.out, name), []byte(filled), 0o644); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}

	return nil
}

// fillText puts the version and the checksums of the release into a text.
func (r release) fillText(text string) (string, error) {
	var failed error

	text = sumOf.ReplaceAllStringFunc(text, func(match string) string {
		content, err := os.ReadFile(filepath.Join(r.out, sumOf.FindStringSubmatch(match)[1]))
		failed = errors.Join(failed, err)

		return fmt.Sprintf("%x", sha256.Sum256(content))
	})

	version := strings.NewReplacer("@VERSION@", r.version, "@NUMBER@", strings.TrimPrefix(r.version, "v"))

	return version.Replace(text), failed
}

// pluginArchive returns an archive with a program. The same program always results in the same archive.
func pluginArchive(program, license []byte) ([]byte, error) {
	var content bytes.Buffer

	compressed := gzip.NewWriter(&content)
	archive := tar.NewWriter(compressed)

	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{{"LICENSE", 0o644, license}, {"kubectl-olvm", 0o755, program}} {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: chartTime}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}

		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}

	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}

	return content.Bytes(), nil
}
