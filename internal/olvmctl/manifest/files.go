package manifest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Files are the manifests of a file or a folder: all .yaml, .yml and .json files below it, by name, but those in hidden
// folders and kustomizations, which are no objects. A folder without any is an error.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read manifests: %w", err)
	}

	if !info.IsDir() {
		return []string{path}, nil
	}

	var files []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && file != path && strings.HasPrefix(name, "."):
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) &&
			!strings.HasPrefix(name, "kustomization."):
			files = append(files, file)
		}

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read manifests: %w", err)
	}

	if len(files) == 0 {
		return nil, noKind{fmt.Errorf("no manifests in %s: it has no .yaml, .yml or .json file", path)}
	}

	return files, nil
}

// ReadFiles reads all objects of a file or a folder.
func ReadFiles(path string) ([]*unstructured.Unstructured, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}

	var objects []*unstructured.Unstructured

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("failed to read a manifest: %w", err)
		}

		read, err := Read(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}

		objects = append(objects, read...)
	}

	return objects, nil
}
