package e2e

import (
	"context"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// secondPlane starts another management plane with the same engine.
func secondPlane(t *testing.T, name string, change ...func(*simplane.Options)) *simplane.Plane {
	t.Helper()

	options := simplane.Options{
		Options: localplane.Options{
			Tools:        suite.tools,
			Dir:          filepath.Join(filepath.Dir(suite.binDir), name),
			BinDir:       suite.binDir,
			FeatureGates: featureGates,
		},
		Simulator: suite.plane,
	}
	for _, c := range change {
		c(&options)
	}

	plane, err := simplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(plane.Stop)
	testenv.OnInterrupt(plane.Stop)

	return plane
}

// move moves the cluster to another plane with clusterctl. The test continues in that plane.
func (w *workload) move(to *simplane.Plane) {
	w.t.Helper()
	from := w.plane
	command, err := localplane.MoveCommand(w.t.Context(), suite.tools, from.Kubeconfig, to.Kubeconfig, w.namespace,
		w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}

	if output, err := command.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, output)
	}

	w.plane = to
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &clusterv1.MachineList{},
		&infrav1.OLVMClusterList{}, &infrav1.OLVMMachineList{}, &infrav1.OLVMMachineTemplateList{},
		&corev1.SecretList{}} {
		if err := from.Client.List(context.Background(), list, client.InNamespace(w.namespace)); err != nil {
			w.t.Fatal(err)
		}

		if left := meta.LenList(list); left != 0 {
			w.t.Errorf("%d objects of %T are left", left, list)
		}
	}
}

// expectSame verifies that the engine's VMs are the same as before, and that none has restarted.
func (w *workload) expectSame(before map[string]engine.VM) {
	w.t.Helper()
	now := w.vms()
	if len(now) != len(before) {
		w.t.Errorf("%d VMs, before there were %d", len(now), len(before))
	}

	for id, vm := range before {
		if now[id].Name != vm.Name || now[id].StartTime != vm.StartTime || now[id].Status != vm.Status {
			w.t.Errorf("VM %s was %+v and is %+v", id, vm, now[id])
		}
	}
}
