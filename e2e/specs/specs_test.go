package specs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

var ctx = context.Background()

// The specs are in one container, so that free processes start them in this order. The long specs come first. Each spec
// has its own subnet.
var _ = ginkgo.Describe("Cluster API", func() {
	ginkgo.Describe("Owners and finalizers of a cluster of a ClusterClass are restored", func() {
		e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
			return e2e.QuickStartSpecInput{
				E2EConfig:               e2eConfig,
				ClusterctlConfigPath:    clusterctlConfig(42),
				BootstrapClusterProxy:   management,
				ArtifactFolder:          suite.Artifacts,
				PostNamespaceCreated:    credentials,
				Flavor:                  ptr.To(flavorTopology),
				PostMachinesProvisioned: resilient(ctx, true),
			}
		})
	})

	ginkgo.Describe("Owners and finalizers of a cluster are restored", func() {
		e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
			return e2e.QuickStartSpecInput{
				E2EConfig:             e2eConfig,
				ClusterctlConfigPath:  clusterctlConfig(43),
				BootstrapClusterProxy: management,
				ArtifactFolder:        suite.Artifacts,
				PostNamespaceCreated:  credentials, PostMachinesProvisioned: resilient(ctx, false),
			}
		})
	})

	ginkgo.Describe("A cluster of a ClusterClass is upgraded", func() {
		e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
			return e2e.ClusterUpgradeConformanceSpecInput{
				E2EConfig:             e2eConfig,
				ClusterctlConfigPath:  clusterctlConfig(41),
				BootstrapClusterProxy: management,
				ArtifactFolder:        suite.Artifacts,
				PostNamespaceCreated:  credentials, Flavor: ptr.To(flavorTopology),
				// nothing runs in the workload cluster
				ControlPlaneMachineCount: ptr.To[int64](3),
				WorkerMachineCount:       ptr.To[int64](1),
				SkipConformanceTests:     true,
			}
		})
	})

	ginkgo.Describe("Machines whose objects were lost are adopted", func() {
		e2e.KCPInfraAdoptionSpec(ctx, func() e2e.KCPInfraAdoptionSpecInput {
			return e2e.KCPInfraAdoptionSpecInput{
				E2EConfig:                e2eConfig,
				ClusterctlConfigPath:     clusterctlConfig(49),
				BootstrapClusterProxy:    management,
				ArtifactFolder:           suite.Artifacts,
				PostNamespaceCreated:     credentials,
				Flavor:                   ptr.To(flavorAdoption),
				ControlPlaneMachineCount: ptr.To[int64](3),
				BeforeForceDelete:        keepStates,
			}
		})
	})

	ginkgo.Describe("A cluster is rebased to another ClusterClass", func() {
		e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
			return e2e.ClusterClassChangesSpecInput{
				E2EConfig:             e2eConfig,
				ClusterctlConfigPath:  clusterctlConfig(44),
				BootstrapClusterProxy: management,
				ArtifactFolder:        suite.Artifacts,
				PostNamespaceCreated:  credentials, Flavor: flavorTopology,
				ModifyControlPlaneFields: map[string]any{
					"spec.kubeadmConfigSpec.verbosity": int64(4),
				},
				ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{
					"spec.template.spec.verbosity": int64(4),
				},
				ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
					"spec.template.spec.virtualMachine.description": "changed",
				},
			}
		})
	})

	ginkgo.Describe("A change of a ClusterClass is rolled out", func() {
		e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
			return e2e.ClusterClassRolloutSpecInput{
				E2EConfig:                      e2eConfig,
				ClusterctlConfigPath:           clusterctlConfig(40),
				BootstrapClusterProxy:          management,
				ArtifactFolder:                 suite.Artifacts,
				PostNamespaceCreated:           credentials,
				Flavor:                         flavorRollout,
				FilterMetadataBeforeValidation: withoutRecords,
			}
		})
	})

	ginkgo.Describe("A cluster is deleted in order", func() {
		kind := func(kinds ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
			return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
				return slices.Contains(kinds, object.Kind)
			}
		}

		// ofKindOrMachineOf returns a filter for objects of some kinds, and for the Machines that they own.
		ofKindOrMachineOf := func(kinds ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
			return func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
				owned := slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
					return slices.Contains(kinds, owner.Kind)
				})

				return object.Kind == "Machine" && owned || slices.Contains(kinds, object.Kind)
			}
		}
		e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
			return e2e.ClusterDeletionSpecInput{
				E2EConfig:                e2eConfig,
				ClusterctlConfigPath:     clusterctlConfig(48),
				BootstrapClusterProxy:    management,
				ArtifactFolder:           suite.Artifacts,
				PostNamespaceCreated:     credentials,
				Flavor:                   ptr.To(flavorTopology),
				ControlPlaneMachineCount: ptr.To[int64](3),
				ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
					{
						ObjectFilter:         ofKindOrMachineOf("MachineDeployment", "MachineSet"),
						BlockingObjectFilter: kind("Machine"),
					},
					{ObjectFilter: ofKindOrMachineOf("KubeadmControlPlane"), BlockingObjectFilter: kind("Machine")},
					{ObjectFilter: kind("OLVMCluster"), BlockingObjectFilter: kind("OLVMCluster")},
				},
			}
		})
	})

	ginkgo.Describe("Many clusters are made, upgraded and deleted at once", func() {
		e2e.ScaleSpec(ctx, func() e2e.ScaleSpecInput {
			return e2e.ScaleSpecInput{
				E2EConfig:                        e2eConfig,
				ClusterctlConfigPath:             clusterctlConfig(50),
				BootstrapClusterProxy:            management,
				ArtifactFolder:                   suite.Artifacts,
				PostNamespaceCreated:             credentials,
				Flavor:                           ptr.To(flavorTopology),
				PostScaleClusterNamespaceCreated: ownSubnet,
				ClusterCount:                     ptr.To[int64](3),
				Concurrency:                      ptr.To[int64](3),
				WorkerPerMachineDeploymentCount:  ptr.To[int64](1),
			}
		})
	})

	ginkgo.Describe("Control plane and MachineDeployment are rolled out", func() {
		e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
			return e2e.KCPAndMachineDeploymentRolloutSpecInput{
				E2EConfig:             e2eConfig,
				ClusterctlConfigPath:  clusterctlConfig(45),
				BootstrapClusterProxy: management,
				ArtifactFolder:        suite.Artifacts,
				PostNamespaceCreated:  credentials, Flavor: flavorTaints,
			}
		})
	})

	ginkgo.Describe("A machine whose Node is unhealthy is replaced", func() {
		e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
			return e2e.MachineDeploymentRemediationSpecInput{
				E2EConfig:             e2eConfig,
				ClusterctlConfigPath:  clusterctlConfig(47),
				BootstrapClusterProxy: management,
				ArtifactFolder:        suite.Artifacts,
				PostNamespaceCreated:  credentials, Flavor: ptr.To(flavorMDRemediation),
			}
		})
	})

	ginkgo.Describe("A MachineDeployment is scaled", func() {
		e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
			return e2e.MachineDeploymentScaleSpecInput{
				E2EConfig:             e2eConfig,
				ClusterctlConfigPath:  clusterctlConfig(46),
				BootstrapClusterProxy: management,
				ArtifactFolder:        suite.Artifacts,
				PostNamespaceCreated:  credentials,
			}
		})
	})
})

// withoutRecords returns the metadata of an object without the records of our controllers, because templates do not
// contain these.
func withoutRecords(object client.Object) clusterv1.ObjectMeta {
	out := clusterv1.ObjectMeta{Labels: object.GetLabels(), Annotations: maps.Clone(object.GetAnnotations())}
	records := []string{clusterctlv1.BlockMoveAnnotation}

	switch object.GetObjectKind().GroupVersionKind().Kind {
	case "OLVMCluster":
		records = append(records, infrav1.AffinityGroupsRequestedAnnotation, infrav1.RouterIDsAnnotation)
	case "OLVMMachine":
		records = append(records, infrav1.AddressesAnnotation, infrav1.CreateRequestedAnnotation)
	}

	for _, record := range records {
		delete(out.Annotations, record)
	}

	return out
}

// ownSubnet gives a cluster of the scale spec, such as scale-00001, other addresses than those of its template.
func ownSubnet(_ framework.ClusterProxy, _, cluster string, class, template []byte) ([]byte, []byte) {
	n, err := strconv.Atoi(strings.TrimPrefix(cluster, "scale-"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return class, bytes.ReplaceAll(template, []byte("127.20.50."), fmt.Appendf(nil, "127.20.%d.", 50+n))
}

// keepStates removes the owners from Terraform states, as the spec does with certificates. Therefore, the garbage
// collector keeps the states for those who adopt the machines.
func keepStates(
	ctx context.Context, proxy framework.ClusterProxy, cluster *clusterv1.Cluster, _ e2e.ClusterObjects,
) error {
	var states corev1.SecretList
	err := proxy.GetClient().List(ctx, &states, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		"tfstate": "true",
	})
	if err != nil {
		return err
	}

	for i := range states.Items {
		before := states.Items[i].DeepCopy()
		states.Items[i].OwnerReferences = nil
		if err := proxy.GetClient().Patch(ctx, &states.Items[i], client.MergeFrom(before)); err != nil {
			return err
		}
	}

	return nil
}
