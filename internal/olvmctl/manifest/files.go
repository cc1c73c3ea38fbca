package manifest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ListFiles returns the paths of the manifests in a file or a folder. They are all .yaml, .yml and .json files at any
// depth, sorted by name. It omits hidden folders, and kustomizations, because these are not objects. If a folder has no
// manifests, it returns an error.
func ListFiles(path string) ([]string, error) {
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
		return nil, noKind{fmt.Errorf("no manifests found in %s: it has no .yaml, .yml or .json file", path)}
	}

	return files, nil
}

// maxSize is the maximum size of a file. The author of a file must not exhaust the reader's memory.
const maxSize = 64 << 20

// ReadAll reads a stream to its end. It returns an error if the stream exceeds the limit.
func ReadAll(from io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, maxSize+1))
	if err == nil && len(content) > maxSize {
		err = fmt.Errorf("larger than %d MiB; split it", maxSize>>20)
	}

	return content, err
}

// ReadFile reads a file. It returns an error for a very large file, or for a device without an end.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	content, err := ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return content, nil
}

// ReadNamed reads a file that another file names. It must be a regular file, because a pipe may have no end.
func ReadNamed(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}

	return ReadFile(path)
}

// ReadFiles reads all objects in a file or a folder.
func ReadFiles(path string) ([]*unstructured.Unstructured, error) {
	files, err := ListFiles(path)
	if err != nil {
		return nil, err
	}

	var objects []*unstructured.Unstructured

	for _, file := range files {
		content, err := ReadFile(file)
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
