// Package kustomization builds folders with a kustomization like kubectl kustomize. Their authors are not trusted: it
// fetches nothing, runs no program, and reads only files of the folders.
package kustomization

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build returns the objects of a folder as YAML documents.
func Build(dir string) ([]byte, error) {
	folders, err := Check(dir)
	if err != nil {
		return nil, err
	}

	// Its defaults are suitable: only files of the folders, and no plugins.
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folders[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Find(folders[0]), err)
	}

	content, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Find(folders[0]), err)
	}

	return content, nil
}

// IsComponent reports whether a folder has a component, a part of kustomizations.
func IsComponent(dir string) bool {
	content, err := os.ReadFile(Find(dir))
	if err != nil {
		return false
	}

	var k types.Kustomization

	return k.Unmarshal(content) == nil && k.Kind == types.ComponentKind
}
