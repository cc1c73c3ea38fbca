package preview

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// TestAFolderGoesOnWithTheStateOfTheManagementCluster checks the written files.
// TestARunningClusterIsTakenOverAndGivenBack in e2e reads them with Terraform's own backend.
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
			stale := filepath.Join(dir, "team-a", "prod-md-0-m", "backend.tf")
			check.Error(t, os.MkdirAll(filepath.Dir(stale), 0o700), "")
			check.Error(t, os.WriteFile(stale, []byte("# of an earlier folder"), 0o600), "")

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

func TestStatesThatTerraformCannotReadAreLeftOutAndNamed(t *testing.T) {
	t.Parallel()

	m := &planinput.Input{Running: planinput.NewAccess(), OLVMMachines: map[types.NamespacedName]*infrav1.OLVMMachine{}}

	for name, readable := range map[string]bool{
		"prod-md-0-x7k2p": true, "prod-1a": true, "prod-a1": true, "prod-1.a": true,
		"prod-1": false, "prod-md-0-22457": false, "prod-01": false,
	} {
		machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
		m.OLVMMachines[client.ObjectKeyFromObject(machine)] = machine
		m.Running.Secrets[planinput.StateKey(machine)] = &corev1.Secret{}

		_, ok := tfstate.BackendSuffix(name)
		check.Equal(t, name, ok, readable)
	}

	check.Equal(t, "left out", strings.Join(m.DropUnreadableStates(), " "),
		"team-a/prod-01 team-a/prod-1 team-a/prod-md-0-22457")
	check.Equal(t, "kept", len(m.Running.Secrets), 4)
	check.Equal(t, "left out again", len(m.DropUnreadableStates()), 0)
}

func TestClustersThatAreNotPausedAreNamed(t *testing.T) {
	t.Parallel()

	m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)))
	check.Error(t, err, "")
	check.Equal(t, "not paused", strings.Join(m.UnpausedClusters(), " "), "default/demo")

	m, err = load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t, "spec:\n  clusterNetwork:",
		"spec:\n  paused: true\n  clusterNetwork:")))
	check.Error(t, err, "")
	check.Equal(t, "not paused", strings.Join(m.UnpausedClusters(), " "), "")
}
