// Package tfmodules embeds the Terraform modules that the rendered
// configurations call. They are plain HCL for the ovirt/ovirt provider.
package tfmodules

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed cluster/*.tf image/*.tf
var modules embed.FS

// ReadFiles returns the files of a module by their names. The module must exist: its name is a constant of this
// project.
func ReadFiles(module string) map[string][]byte {
	entries, err := fs.ReadDir(modules, module)
	if err != nil {
		panic(fmt.Sprintf("no module %q: %v", module, err))
	}

	files := make(map[string][]byte, len(entries))
	for _, entry := range entries {
		content, err := modules.ReadFile(module + "/" + entry.Name())
		if err != nil {
			panic(fmt.Sprintf("module %q: %v", module, err))
		}

		files[entry.Name()] = content
	}

	return files
}
