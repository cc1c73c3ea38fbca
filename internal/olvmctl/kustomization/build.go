// Package kustomization builds kustomizations as kubectl kustomize does. It does not trust their authors: it fetches
// nothing, runs no program, and reads only files in their folders.
package kustomization

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build returns the objects of the kustomization in a folder as YAML documents.
func Build(dir string) ([]byte, error) {
	folders, err := Check(dir)
	if err != nil {
		return nil, err
	}

	// Its defaults are suitable: they allow only files in the folders, and no plugins.
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

// IsComponent reports whether a folder has a component. Components are parts of kustomizations.
func IsComponent(dir string) bool {
	content, err := os.ReadFile(Find(dir))
	if err != nil {
		return false
	}

	var k types.Kustomization

	return k.Unmarshal(content) == nil && k.Kind == types.ComponentKind
}
