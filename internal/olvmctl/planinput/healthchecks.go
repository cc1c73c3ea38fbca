package planinput

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Remediations are the OLVMRemediations of the manifests, and their templates.
func (m *Input) Remediations() []ClassPart { return m.remediations }

// MachinePools are the MachinePools of the manifests. This provider makes no machines for them.
func (m *Input) MachinePools() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured

	for _, object := range m.passedOver {
		if object.GroupVersionKind().Group == clusterv1.GroupVersion.Group && object.GetKind() == "MachinePool" {
			out = append(out, object)
		}
	}

	return out
}

// addRemediations reads the live objects of the remediations in the manifests.
func (m *Input) addRemediations(ctx context.Context, c client.Reader) error {
	for i := range m.remediations {
		part := &m.remediations[i]

		var err error

		part.Live, part.Unread, err = readPart(ctx, c, part.Written)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}

	return nil
}

// HealthChecks are the MachineHealthChecks of the manifests for running Clusters of this provider.
func (m *Input) HealthChecks() []ClassPart { return m.healthChecks }

func isHealthCheck(kind schema.GroupVersionKind) bool {
	return kind.Group == clusterv1.GroupVersion.Group && kind.Kind == "MachineHealthCheck"
}

// addHealthChecks reads the live objects of MachineHealthChecks in the manifests.
func (m *Input) addHealthChecks(ctx context.Context, c client.Reader) error {
	for _, object := range m.passedOver {
		if !isHealthCheck(object.GroupVersionKind()) {
			continue
		}

		cluster := m.runningCluster(object)
		if cluster == "" {
			continue
		}

		live, unread, err := readPart(ctx, c, object)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}

		m.healthChecks = append(m.healthChecks, ClassPart{
			Written: object, Live: live, Unread: unread, Cluster: cluster,
		})
	}

	return nil
}

// runningCluster names the running Cluster of this provider that a MachineHealthCheck is for; "" for none.
func (m *Input) runningCluster(check *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(check.Object, "spec", "clusterName")

	for _, cluster := range m.Clusters {
		live := m.LiveOf(cluster)
		if live == nil || live.GetName() != name || live.GetNamespace() != check.GetNamespace() {
			continue
		}

		if ReferenceAt(live, "spec", "infrastructureRef").IsOf("OLVMCluster") {
			return name
		}
	}

	return ""
}
