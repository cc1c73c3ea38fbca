package preview

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// TestAFolderGoesOnWithTheStateOfTheManagementCluster checks what is written. Terraform's own backend does not read it
// here.
func TestAFolderGoesOnWithTheStateOfTheManagementCluster(t *testing.T) {
	for name, test := range map[string]struct {
		state      []byte
		kubeconfig string
		want       string
	}{
		"a state of the management cluster": {[]byte("{}"), "/etc/a \"b\"/kubeconfig", "terraform {\n  backend \"kubernetes\" {\n" +
			"    secret_suffix = \"prod-md-0-x\"\n    namespace     = \"team-a\"\n" +
			"    config_path   = \"/etc/a \\\"b\\\"/kubeconfig\"\n  }\n}\n"},
		"no state":                           {nil, "/etc/kubeconfig", ""},
		"a state, and no management cluster": {[]byte("{}"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			machine := Rendered{
				Machine:       Machine{Namespace: "team-a", Name: "prod-md-0-m", infraName: "prod-md-0-x"},
				Configuration: render.Configuration{Files: map[string][]byte{"main.tf": []byte("# x\n")}},
				State:         test.state,
				Kubeconfig:    test.kubeconfig,
			}

			folder, err := machine.WriteFolder(dir)
			check.Error(t, err, "")

			content, err := os.ReadFile(filepath.Join(folder, "backend.tf"))
			check.Equal(t, "backend", string(content), test.want)
			check.Equal(t, "there is none", os.IsNotExist(err), test.want == "")
		})
	}
}
