package preview

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// backendFile is the file with the location of a folder's state.
const backendFile = "backend.tf"

// gitignore keeps secrets and Terraform's own files out of git.
const gitignore = "terraform.tfvars.json\n.terraform/\n*.tfstate*\n*.tfplan\n"

// WriteFolder writes the configuration of a machine to dir/NAMESPACE/NAME, and returns this folder. It never writes
// outside dir, even if a name or a link in dir leads outside. It returns an error if Terraform has already run in the
// folder, because the existing state would belong to another configuration.
func (r Rendered) WriteFolder(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("failed to create the folder: %w", err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("failed to open the folder: %w", err)
	}
	defer root.Close()

	inside := path.Join(r.Namespace, r.Name)
	folder := filepath.Join(dir, filepath.FromSlash(inside))

	if _, err := root.Stat(path.Join(inside, "terraform.tfstate")); err == nil {
		return "", fmt.Errorf("%s contains a terraform.tfstate; move it to another folder, or use another folder "+
			"with --out",
			folder)
	}

	files := map[string][]byte{".gitignore": []byte(gitignore)}
	maps.Copy(files, r.Files)

	if backend := r.renderBackend(); backend != nil {
		files[backendFile] = backend
	}

	for name, content := range files {
		file := path.Join(inside, name)
		if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
			return "", fmt.Errorf("failed to create the folder: %w", err)
		}

		if err := root.WriteFile(file, content, 0o600); err != nil {
			return "", fmt.Errorf("failed to write the configuration: %w", err)
		}
	}

	// Files left by an earlier preview would change the location of this state.
	for _, name := range []string{backendFile, render.ImportsFile} {
		if files[name] != nil {
			continue
		}

		if err := root.Remove(path.Join(inside, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("failed to remove an old file: %w", err)
		}
	}

	return folder, nil
}

// renderBackend returns the configuration to continue the state of the machine in the management cluster: Terraform's
// kubernetes backend reads the same Secret. It returns nil if there is no such state. Terraform then imports the
// existing objects.
func (r Rendered) renderBackend() []byte {
	if r.State == nil || r.Kubeconfig == "" {
		return nil
	}

	suffix, _ := tfstate.BackendSuffix(r.infraName) // DropUnreadableStates has removed the others
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{"kubernetes"}).Body()
	body.SetAttributeValue("secret_suffix", cty.StringVal(suffix))
	body.SetAttributeValue("namespace", cty.StringVal(r.Namespace))
	body.SetAttributeValue("config_path", cty.StringVal(r.Kubeconfig))
	if r.Context != "" {
		body.SetAttributeValue("config_context", cty.StringVal(r.Context))
	}

	return hclwrite.Format(file.Bytes())
}
