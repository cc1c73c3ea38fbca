package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// changesPlanned is the exit code of olvmctl plan for a plan with changes.
const changesPlanned = 2

// preview is the cost of olvmctl plan for a number of new machines.
type preview struct {
	Machines int     `json:"machines"`
	Seconds  float64 `json:"seconds"`
	// CPU is the CPU time in seconds. Unlike Seconds, it does not depend on other load of the host.
	CPU float64 `json:"cpuSeconds"`
}

// plan lets olvmctl plan a MachineDeployment from a file with everything that it requires.
func plan(t *testing.T, n int) *preview {
	t.Helper()
	bin := filepath.Join(suite.Dir, "bin")
	if err := suite.Tools.BuildProject(t.Context(), bin, "olvmctl"); err != nil {
		t.Fatal(err)
	}

	var parts []client.Object
	s := testsite.New(t, suite.API.Client, testsite.Options{
		Inventory: spacious(),
		Change: func(secret *corev1.Secret, ca *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			c.Spec.AffinityGroups = []infrav1.AffinityGroup{}
			parts = []client.Object{secret.DeepCopy(), ca.DeepCopy(), c.DeepCopy()}
		},
	})
	parts = append(parts, &clusterv1.Cluster{ObjectMeta: s.NewMeta("demo"), Spec: s.Cluster.Spec})
	parts = append(parts, deployment(s, n)...)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, manifest(t, parts), 0o600); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	begin := time.Now()
	command := exec.CommandContext(ctx, filepath.Join(bin, "olvmctl"), "plan", "-f", file)
	command.Env = append(os.Environ(), "CAPOLVM_TERRAFORM="+suite.Program.Executor.Path)
	out, err := command.CombinedOutput()
	took := time.Since(begin)
	planned := fmt.Sprintf("and %d others", n-1)
	if code := command.ProcessState.ExitCode(); code != changesPlanned || !strings.Contains(string(out), planned) {
		t.Fatalf("olvmctl plan: %v: %.2000s", err, out)
	}

	used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()

	return &preview{Machines: n, Seconds: took.Seconds(), CPU: used.Seconds()}
}

// deployment returns a MachineDeployment with its templates and the given number of machines.
func deployment(s *testsite.Site, n int) []client.Object {
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: s.NewMeta("workers")}
	template.Spec.Template.Spec = s.MachineSpec()
	bySubnet(&template.Spec.Template.Spec)
	workers := &clusterv1.MachineDeployment{ObjectMeta: s.NewMeta("workers"), Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: "demo", Replicas: ptr.To(int32(n)), //nolint:gosec // a thousand
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Version: "v1.36.1",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfigTemplate", Name: "workers",
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMMachineTemplate", Name: "workers",
			},
		}},
	}}

	config := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: s.NewMeta("workers")}
	config.SetGroupVersionKind(bootstrapv1.GroupVersion.WithKind("KubeadmConfigTemplate")) // unknown to the suite

	return []client.Object{template, workers, config}
}

// manifest returns the content of a file with objects.
func manifest(t *testing.T, objects []client.Object) []byte {
	t.Helper()
	var out bytes.Buffer

	for _, object := range objects {
		if object.GetObjectKind().GroupVersionKind().Empty() {
			kind, err := apiutil.GVKForObject(object, suite.API.Scheme)
			if err != nil {
				t.Fatal(err)
			}

			object.GetObjectKind().SetGroupVersionKind(kind)
		}

		object.SetResourceVersion("")
		object.SetUID("")
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}

		out.WriteString("---\n")
		out.Write(content)
	}

	return out.Bytes()
}
