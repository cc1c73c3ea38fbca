package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// drill runs a block of commands from docs/operate/emergencies.md in a folder, for the plane of a cluster.
func (w *workload) drill(dir, commands string) {
	w.t.Helper()
	kubectl, err := suite.tools.Path("plane", "kubectl")
	check.Error(w.t, err, "")

	text := strings.NewReplacer("NAMESPACE", w.namespace, "NAME", w.name).Replace(commands)
	command := exec.CommandContext(w.t.Context(), "sh", "-eu", "-c", text)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+w.plane.Kubeconfig, "HOME="+dir,
		"PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))

	if out, err := command.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
}

// machineUIDs returns the UIDs of the OLVMMachines by name.
func (w *workload) machineUIDs() map[string]types.UID {
	w.t.Helper()

	var machines infrav1.OLVMMachineList
	check.Error(w.t, w.plane.Client.List(context.Background(), &machines, client.InNamespace(w.namespace)), "")
	out := map[string]types.UID{}

	for i := range machines.Items {
		out[machines.Items[i].Name] = machines.Items[i].UID
	}

	return out
}

// staleOwners returns the number of owner UIDs in a dump.
func staleOwners(t *testing.T, dump string) (count int) {
	t.Helper()

	var list struct {
		Items []metav1.PartialObjectMetadata `json:"items"`
	}
	content, err := os.ReadFile(dump)
	check.Error(t, err, "")
	check.Error(t, json.Unmarshal(content, &list), "")

	for i := range list.Items {
		count += len(list.Items[i].OwnerReferences)
	}

	return count
}

// TestDrillOfARestore loses a management cluster, and restores the dump of this cluster into another one as documented.
// In the new cluster, the objects have new UIDs, and at first no owners. The VMs stay the same and keep running.
func TestDrillOfARestore(t *testing.T) {
	testenv.SkipInShort(t, "starts two management planes")
	t.Parallel()

	lost := secondPlane(t, "lost")
	w := prepareIn(t, lost, "restored")
	sample, err := os.ReadFile(filepath.Join(suite.tools.Root(), "config", "samples", "demo.yaml"))
	check.Error(t, err, "")

	objects, err := manifest.Read([]byte(strings.NewReplacer(
		"ENGINE_URL", suite.plane.Engine.URL, "demo", w.name, "namespace: default", "namespace: "+w.namespace,
		"127.20.30.", "127.20.92.").Replace(string(sample))))
	check.Error(t, err, "")
	w.eventually("the cluster is written", func() error {
		return localplane.Apply(t.Context(), lost.Client, objects...)
	})
	w.expectMachines(1, 2)
	before, uids, dir := w.vms(), w.machineUIDs(), t.TempDir()

	w.drill(dir, strings.Join(testenv.ReadSection(t, "docs/operate/emergencies.md", "Back up with kubectl"), ""))
	lost.Stop()

	restore := testenv.ReadSection(t, "docs/operate/emergencies.md", "Restore with kubectl")
	check.Length(t, "blocks of commands of the restore", restore, 2)
	check.Equal(t, "the dump names owners", staleOwners(t, filepath.Join(dir, "backup.json")) > 5, true)

	w.plane = secondPlane(t, "spare")
	w.drill(dir, restore[0])
	check.Equal(t, "what is restored names owners", staleOwners(t, filepath.Join(dir, "restore.json")), 0)
	w.drill(dir, restore[1])
	w.eventually("the marks have the new UIDs", func() error {
		for name, uid := range w.machineUIDs() {
			if uid == uids[name] {
				return fmt.Errorf("%s has its old UID", name)
			}

			for _, vm := range w.vms() {
				if vm.Name == name && !strings.Contains(vm.CommentText(), "uid="+string(uid)) {
					return fmt.Errorf("%s is marked %q", name, vm.CommentText())
				}
			}
		}

		return nil
	})
	w.expectMachines(1, 2)
	w.expectSame(before)
	w.delete()
}
