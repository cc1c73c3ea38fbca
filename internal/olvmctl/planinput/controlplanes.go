package planinput

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controlPlaneGroup is the API group of all control planes.
const controlPlaneGroup = "controlplane.cluster.x-k8s.io"

// ControlPlane is one of another provider with machines of this one, as its Cluster in the management cluster names it.
type ControlPlane struct {
	Kind, Namespace, Name string
	// Written is nil if the manifests lack it, and Live if there is none, or if it could not be read, for the reason in
	// Unread.
	Written, Live *unstructured.Unstructured
	Unread        string
	// MayBePruned reports that the manifests lack it, and that deletions were looked at.
	MayBePruned bool
}

// ControlPlanes returns the control planes of other providers contained in the manifests, or possibly deleted by them.
func (m *Input) ControlPlanes() []ControlPlane { return m.controlPlanes }

// addControlPlanes finds the control planes of other providers in running Clusters of this provider.
func (m *Input) addControlPlanes(ctx context.Context, c client.Reader) error {
	for _, cluster := range m.Clusters {
		live := m.LiveOf(cluster)
		if live == nil {
			continue
		}

		infra, ref := ReferenceAt(live, "spec", "infrastructureRef"), ReferenceAt(live, "spec", "controlPlaneRef")
		group := cmp.Or(ref.Group, controlPlaneGroup)

		if !infra.IsOf("OLVMCluster") || ref.Kind == "" ||
			ref.Kind == "KubeadmControlPlane" && group == controlPlaneGroup {
			continue
		}

		found := ControlPlane{Kind: ref.Kind, Namespace: live.GetNamespace(), Name: ref.Name}
		for _, object := range m.passedOver {
			if object.GroupVersionKind().Group == group && object.GetKind() == ref.Kind &&
				object.GetName() == ref.Name && object.GetNamespace() == found.Namespace {
				found.Written = object
			}
		}

		if found.Written == nil {
			found.MayBePruned = m.mayPruneWith(cluster, live)
		} else {
			var err error
			found.Live, found.Unread, err = readPart(ctx, c, found.Written)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}

		if found.Written != nil || found.MayBePruned {
			m.controlPlanes = append(m.controlPlanes, found)
		}
	}

	return nil
}

// mayPruneWith reports whether the parts of a Cluster may be deleted because the manifests lack them. If the Cluster
// itself is deleted, the plan already has its machines.
func (m *Input) mayPruneWith(cluster, live *unstructured.Unstructured) bool {
	if !m.pruning.looked || slices.ContainsFunc(m.pruning.objects, func(p Pruned) bool { return p.Object == live }) {
		return false
	}

	return cluster != live || len(m.pruning.tools) == 0 ||
		slices.Contains(m.pruning.tools, m.pruning.marks.gitOps(live))
}
