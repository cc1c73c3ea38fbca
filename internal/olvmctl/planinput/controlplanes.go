package planinput

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlPlane is a control plane of another provider whose machines belong to this provider. A Cluster in the
// management cluster refers to it.
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

		infra, _, _ := unstructured.NestedString(live.Object, "spec", "infrastructureRef", "kind")
		kind, _, _ := unstructured.NestedString(live.Object, "spec", "controlPlaneRef", "kind")
		name, _, _ := unstructured.NestedString(live.Object, "spec", "controlPlaneRef", "name")

		if infra != "OLVMCluster" || kind == "" || kind == "KubeadmControlPlane" {
			continue
		}

		found := ControlPlane{Kind: kind, Namespace: live.GetNamespace(), Name: name}
		for _, object := range m.passedOver {
			if object.GetKind() == kind && object.GetName() == name && object.GetNamespace() == found.Namespace {
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
