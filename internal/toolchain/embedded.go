package toolchain

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/config"
)

// modulesFiles are copies of files in the tools modules, because a Go module cannot embed files of other modules. The
// command make generate creates the copies.
//
//go:embed modules
var modulesFiles embed.FS

// NewEmbedded returns the toolchain of a program without a checkout. It contains the tools of a management plane,
// Cluster API Provider OCI and OpenTofu, in the versions of the program. It writes the necessary files of a checkout to
// the cache.
func NewEmbedded() (*Toolchain, error) {
	files, err := embeddedModules()
	if err != nil {
		return nil, err
	}

	err = fs.WalkDir(config.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := config.Files.ReadFile(path)
		files[filepath.Join("config", filepath.FromSlash(path))] = content

		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests of the provider: %w", err)
	}

	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}

	t := &Toolchain{
		root:      filepath.Join(CacheDir(), fmt.Sprintf("sources-%x", sum.Sum(nil))[:20]),
		publisher: defaultPublisher(),
	}
	if _, err := os.Stat(t.root); err == nil {
		return t, nil
	}

	temporary := fmt.Sprintf("%s.%d", t.root, os.Getpid())
	defer os.RemoveAll(temporary)

	for name, content := range files {
		path := filepath.Join(temporary, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			return nil, fmt.Errorf("failed to write what the tools are built of: %w", err)
		}
	}

	if err := os.Rename(temporary, t.root); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("failed to write what the tools are built of: %w", err)
	}

	return t, nil
}

// embeddedModules returns the files of the tools modules by their paths in a checkout.
func embeddedModules() (map[string][]byte, error) {
	tools := filepath.Join("hack", "tools")
	copies := map[string]string{
		"plane.kube-controller-manager.txt": filepath.Join(tools, "plane", "kube-controller-manager", "main.go"),
	}

	for _, module := range []string{"plane", "oci", "tofu"} {
		for _, kind := range []string{"mod", "sum"} {
			copies[module+"."+kind] = filepath.Join(tools, module, "go."+kind)
		}
	}

	files := map[string][]byte{}

	for name, path := range copies {
		content, err := modulesFiles.ReadFile("modules/" + name)
		if err != nil {
			return nil, fmt.Errorf("failed to read the versions of tools: %w", err)
		}

		files[path] = content
	}

	return files, nil
}
