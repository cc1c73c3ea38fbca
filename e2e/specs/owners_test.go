package specs

import (
	"context"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

type (
	ownerAssertions     = map[string]func(types.NamespacedName, []metav1.OwnerReference) error
	finalizerAssertions = map[string]func(types.NamespacedName) []string
)

const (
	statePrefix        = "tfstate-default-"
	clusterStatePrefix = statePrefix + "olvmcluster."
)

// owners returns the owners of our kinds. With a topology, the Cluster is the controller of its OLVMCluster. Without
// one, it is only an owner.
func owners(topology bool) ownerAssertions {
	reference := func(group, kind string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: group, Kind: kind, Controller: ptr.To(controller)}
	}
	core, ours := clusterv1.GroupVersion.String(), infrav1.GroupVersion.String()
	exactly := func(want ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
		return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasExactOwners(got, want...)
		}
	}

	return ownerAssertions{
		"OLVMCluster":         exactly(reference(core, "Cluster", topology)),
		"OLVMClusterTemplate": exactly(reference(core, "ClusterClass", false)),
		"OLVMMachine":         exactly(reference(core, "Machine", true)),
		"OLVMMachineTemplate": func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(
				got,
				[]metav1.OwnerReference{reference(core, "Cluster", false)},
				[]metav1.OwnerReference{reference(core, "ClusterClass", false)},
			)
		},
		"ConfigMap": exactly(), // created by the user
		"Secret": func(name types.NamespacedName, got []metav1.OwnerReference) error {
			switch {
			case name.Name == credentialsSecret: // created by the user
				return framework.HasExactOwners(got)
			case strings.HasPrefix(name.Name, clusterStatePrefix):
				return framework.HasExactOwners(got, reference(ours, "OLVMCluster", true))
			case strings.HasPrefix(name.Name, statePrefix):
				return framework.HasExactOwners(got, reference(ours, "OLVMMachine", true))
			}

			return framework.KubernetesReferenceAssertions["Secret"](name, got)
		},
	}
}

// finalizers are the finalizers of our kinds.
var finalizers = finalizerAssertions{
	"OLVMCluster": func(types.NamespacedName) []string { return []string{infrav1.ClusterFinalizer} },
	"OLVMMachine": func(types.NamespacedName) []string { return []string{infrav1.MachineFinalizer} },
	"Secret": func(name types.NamespacedName) []string {
		if strings.HasPrefix(name.Name, statePrefix) {
			return []string{tfstate.Finalizer}
		}

		return access(name)
	},
	"ConfigMap": access,
}

// access returns the finalizers of those objects that OLVMClusters need to connect to their engine.
func access(name types.NamespacedName) []string {
	if name.Name == "ovirt-credentials" || name.Name == "ovirt-ca" {
		return []string{infrav1.AccessFinalizer}
	}

	return nil
}

// resilient removes owners and finalizers from all objects of a cluster, as a restored backup would. It expects that
// they come back. Then it expects no more writes.
func resilient(ctx context.Context, topology bool) func(framework.ClusterProxy, string, string) {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		filter := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
		all := []ownerAssertions{
			framework.CoreOwnerReferenceAssertion,
			framework.ExpOwnerReferenceAssertions,
			framework.KubeadmBootstrapOwnerReferenceAssertions,
			framework.KubeadmControlPlaneOwnerReferenceAssertions(topology),
			owners(topology),
		}
		core := framework.CoreFinalizersAssertionWithLegacyClusters
		if topology {
			core = framework.CoreFinalizersAssertionWithClassyClusters
		}

		expectStates(ctx, proxy, namespace)
		ginkgo.By("Checking that owner references are resilient")
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, cluster, filter, all...)
		ginkgo.By("Checking that owner references are updated to the correct API version")
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, cluster, filter, all...)
		ginkgo.By("Checking that finalizers are resilient")
		framework.ValidateFinalizersResilience(ctx, proxy, namespace, cluster, filter, core,
			framework.KubeadmControlPlaneFinalizersAssertion, framework.ExpFinalizersAssertion, finalizers)
		ginkgo.By("Checking that resource versions are stable")
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy: proxy, Namespace: namespace, OwnerGraphFilterFunction: filter,
			WaitToBecomeStable: e2eConfig.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
			WaitToRemainStable: e2eConfig.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
		})
	}
}

// expectStates verifies that the Terraform states in owners exist, because otherwise owners would check nothing.
func expectStates(ctx context.Context, proxy framework.ClusterProxy, namespace string) {
	var states corev1.SecretList
	gomega.Expect(proxy.GetClient().List(ctx, &states, client.InNamespace(namespace), client.MatchingLabels{
		"tfstate": "true",
	})).To(gomega.Succeed())

	var names []string
	for _, state := range states.Items {
		names = append(names, state.Name)
	}

	gomega.Expect(names).To(gomega.ContainElement(gomega.HavePrefix(clusterStatePrefix)))
	gomega.Expect(len(names)).To(gomega.BeNumerically(">=", 3), "the states of a cluster and two machines are %v",
		names)
}
