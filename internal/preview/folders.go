package preview

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
)

// gitignore keeps secrets and Terraform's own files out of git.
const gitignore = "terraform.tfvars.json\n.terraform/\n*.tfstate*\n*.tfplan\n"

// WriteFolder writes the configuration of a machine to dir/NAMESPACE/NAME, and returns that folder. Nothing is written
// outside dir, whatever the names are, or the links in it. A folder in which Terraform has run is an error: its state
// would be that of another configuration.
func (r Rendered) WriteFolder(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("failed to make the folder: %w", err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("failed to open the folder: %w", err)
	}
	defer root.Close()

	inside := path.Join(r.Namespace, r.Name)
	folder := filepath.Join(dir, filepath.FromSlash(inside))

	if _, err := root.Stat(path.Join(inside, "terraform.tfstate")); err == nil {
		return "", fmt.Errorf("%s holds a terraform.tfstate; move it to another folder, or choose another one with -o",
			folder)
	}

	files := map[string][]byte{".gitignore": []byte(gitignore)}
	maps.Copy(files, r.Files)

	for name, content := range files {
		file := path.Join(inside, name)
		if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
			return "", fmt.Errorf("failed to make the folder: %w", err)
		}

		if err := root.WriteFile(file, content, 0o600); err != nil {
			return "", fmt.Errorf("failed to write the configuration: %w", err)
		}
	}

	return folder, nil
}
