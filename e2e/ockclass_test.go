package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// TestAClusterOfTheClassComesUpOnAnImageOfOCK uses the variable ock instead of the flavor. The image is the stricter
// one: without other instructions, it creates its own cluster.
func TestAClusterOfTheClassComesUpOnAnImageOfOCK(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster")
	t.Parallel()

	const subnet = 80
	w := prepare(t, "ockclass")
	variables := map[string]string{"OLVM_VM_TEMPLATE": "ock-1.36"}
	w.applyTemplates(subnet, variables, func(object *unstructured.Unstructured) {
		if object.GetKind() == "Cluster" {
			setVariable(t, object, "ock", "{}")
			setVariable(t, object, "controlPlaneServices", "null")
		}
	}, "clusterclass-olvm.yaml", "cluster-template-topology.yaml")
	w.expectMachines(1, 1)
	w.expectWhatTheFlavorAsksFor(w.readTemplate(subnet, variables, "cluster-template-ock.yaml"))
	w.delete()
}

// expectWhatTheFlavorAsksFor compares the objects of the cluster with those of the flavor, after the API server has
// added its defaults.
func (w *workload) expectWhatTheFlavorAsksFor(flavor []*unstructured.Unstructured) {
	w.t.Helper()

	compared := 0

	for _, object := range flavor {
		object.SetNamespace(w.namespace)
		object.SetName("flavor")

		switch object.GetKind() {
		case "OLVMCluster":
			want, got := complete(w, object, &infrav1.OLVMCluster{}), only(w, &infrav1.OLVMClusterList{})
			check.Equal(w.t, "services of the control plane", got.Items[0].Spec.ControlPlaneServices,
				want.Spec.ControlPlaneServices)
			check.Equal(w.t, "user data", got.Items[0].Spec.UserData, want.Spec.UserData)
		case "KubeadmControlPlane":
			want, got := complete(w, object, &controlplanev1.KubeadmControlPlane{}),
				only(w, &controlplanev1.KubeadmControlPlaneList{})
			check.Equal(w.t, "configuration of the control plane", got.Items[0].Spec.KubeadmConfigSpec,
				want.Spec.KubeadmConfigSpec)
		case "KubeadmConfigTemplate":
			want := complete(w, object, &bootstrapv1.KubeadmConfigTemplate{}).Spec.Template.Spec
			// Labels distinguish the pools of the flavor, and likewise the classes of machines.
			want.JoinConfiguration.NodeRegistration.KubeletExtraArgs[0].Value = new("node.cluster.x-k8s.io/class=default-worker")
			got := w.workersTemplate()
			check.Equal(w.t, "configuration of workers", got.Spec.Template.Spec, want)
		default:
			continue
		}

		compared++
	}

	check.Equal(w.t, "objects of the flavor", compared, 3)
}

// workersTemplate returns the KubeadmConfigTemplate of the workers, as copied by the topology controller.
func (w *workload) workersTemplate() bootstrapv1.KubeadmConfigTemplate {
	w.t.Helper()

	var list bootstrapv1.KubeadmConfigTemplateList
	check.Error(w.t, w.plane.Client.List(w.t.Context(), &list, client.InNamespace(w.namespace),
		client.HasLabels{"topology.cluster.x-k8s.io/owned"}), "")
	check.Length(w.t, "templates of workers", list.Items, 1)

	return list.Items[0]
}

// complete returns an object with the defaults of the API server and of its webhooks.
func complete[T client.Object](w *workload, object *unstructured.Unstructured, into T) T {
	w.t.Helper()
	check.Error(w.t, w.plane.Client.Create(w.t.Context(), object, client.DryRunAll), "")
	convert(w.t, object, into)

	return into
}

// only returns the objects in the cluster's namespace.
func only[T client.ObjectList](w *workload, into T) T {
	w.t.Helper()
	check.Error(w.t, w.plane.Client.List(w.t.Context(), into, client.InNamespace(w.namespace)), "")

	return into
}

// convert converts an object to the type of into.
func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	check.Error(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into), "")
}
