package preview

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// gitignore keeps secrets and Terraform's own files out of git.
const gitignore = "terraform.tfvars.json\n.terraform/\n*.tfstate*\n*.tfplan\n"

// WriteFolder writes the configuration of a machine to dir/NAMESPACE/NAME, and returns that folder. One in which
// Terraform has run is an error: its state would be that of another configuration.
func (r Rendered) WriteFolder(dir string) (string, error) {
	folder := filepath.Join(dir, r.Namespace, r.Name)
	if _, err := os.Stat(filepath.Join(folder, "terraform.tfstate")); err == nil {
		return "", fmt.Errorf("%s holds a terraform.tfstate; move it away or choose another folder with -o", folder)
	}

	files := map[string][]byte{".gitignore": []byte(gitignore)}
	maps.Copy(files, r.Files)

	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("failed to make the folder: %w", err)
		}

		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", fmt.Errorf("failed to write the configuration: %w", err)
		}
	}

	return folder, nil
}
