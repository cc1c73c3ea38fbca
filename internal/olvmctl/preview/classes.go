package preview

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

// checkTopologies returns an error if an input of the topology controller changes. A plan of manifests cannot tell the
// effect on the machines.
func (m *Manifests) checkTopologies() error {
	for _, cluster := range m.Clusters {
		topology, found, _ := unstructured.NestedMap(cluster.Object, "spec", "topology")
		if found && len(topology) > 0 && m.LiveOf(cluster) != cluster {
			return fmt.Errorf(
				"topology of Cluster %s/%s: its machines are made by the topology controller and cannot be seen in "+
					"the manifests; render them first (clusterctl alpha topology plan)",
				cluster.GetNamespace(),
				cluster.GetName(),
			)
		}
	}

	for _, part := range m.ClassParts() {
		if found := changeOfPart(part); found != "" {
			return fmt.Errorf("%s: %s, and Cluster %s is made of it: what becomes of its machines cannot be seen in "+
				"the manifests; see it with clusterctl alpha topology plan", ownerName(part.Written), found,
				part.Cluster)
		}
	}

	return nil
}

// changeOfPart describes the change of a ClusterClass, or of one of its templates; "" means no change.
func changeOfPart(part planinput.ClassPart) string {
	if part.Live == nil {
		return "you may not read it in the management cluster, so that it may change"
	}

	const path = "spec"

	applied := slices.DeleteFunc(allAppliedTo(part.Live), func(a appliedFields) bool {
		_, owned := a.at(path)
		return !owned
	})
	wants, has := part.Written.Object[path], part.Live.Object[path]
	wants, has = keyedListsOf(part.Live, applied, path).split(wants, has)
	removable, _ := removableFields(applied, wants, has, path)

	found := cmp.Or(planinput.FirstDifference(wants, has, path), planinput.FirstDifference(removable, wants, path))
	if found == "" {
		return ""
	}

	return shownPath(found) + " changes"
}
