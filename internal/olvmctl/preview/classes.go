package preview

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/schema"
)

// checkTopologies returns an error if the manifests change an object that the topology controller reads. The manifests
// do not show the effect on the machines.
func (m *Manifests) checkTopologies() error {
	for _, cluster := range m.Clusters {
		topology, found, _ := unstructured.NestedMap(cluster.Object, "spec", "topology")
		if found && len(topology) > 0 && m.LiveOf(cluster) != cluster {
			return fmt.Errorf(
				"%s: spec.topology: cannot plan the machines, because the topology controller creates "+
					"them; render them first with clusterctl alpha topology plan",
				"Cluster "+cluster.GetNamespace()+"/"+cluster.GetName(),
			)
		}
	}

	for _, part := range m.ClassParts() {
		if found := changeOfPart(part); found != "" {
			made := "Cluster " + part.Cluster + " uses it"
			if part.Cluster == "" {
				made = "a Cluster may use it, because you may not list Clusters in all namespaces"
			}

			return fmt.Errorf("%s: %s, and %s: cannot plan the effect on its machines; use clusterctl alpha "+
				"topology plan", ownerName(part.Written), found, made)
		}
	}

	return m.checkControlPlanes()
}

// checkControlPlanes rejects a change or a deletion of another provider's control plane, because only this provider
// knows the effect on the machines.
func (m *Manifests) checkControlPlanes() error {
	for _, one := range m.ControlPlanes() {
		name := fmt.Sprintf("%s %s/%s", one.Kind, one.Namespace, one.Name)
		if one.MayBePruned {
			return fmt.Errorf("%s: missing in the manifests, so it may be deleted with its machines, but it "+
				"belongs to another provider; add it, or plan without deletions (--prune=false)", name)
		}

		part := planinput.ClassPart{Written: one.Written, Live: one.Live, Unread: one.Unread}
		if found := changeOfPart(part); found != "" {
			return fmt.Errorf("%s: %s, but it belongs to another provider: cannot plan the effect on its machines; "+
				"plan without it, and see the documentation of its provider", name, found)
		}
	}

	return nil
}

// changeOfPart returns the change of a ClusterClass or of one of its templates, or "" if nothing changes. It ignores
// who owns a field. Policies and tools may own parts of an object, and their partial manifests look like whole ones.
func changeOfPart(part planinput.ClassPart) string {
	switch {
	case part.Unread != "":
		return part.Unread + ", so it may change"
	case part.Live == nil:
		return "missing in the management cluster, so it is created"
	}

	wants, err := filledIn(part.Written)
	if err != nil {
		return err.Error()
	}

	has, err := filledIn(part.Live)
	if err != nil {
		return err.Error()
	}

	return describeSpecChange(wants, has)
}

// describeSpecChange names the first change of a spec, or returns "" if nothing changes.
func describeSpecChange(wants, has any) string {
	found := planinput.FirstDifferenceOfSpecs(wants, has)
	if found == "" {
		return ""
	}

	return found + " changes"
}

// filledIn returns the specification of a part. It adds the defaults of this release's CRDs, and removes the defaults
// of Cluster API.
func filledIn(part *unstructured.Unstructured) (any, error) {
	out, err := schema.WithDefaults(part)
	if err != nil {
		return nil, fmt.Errorf("failed to apply its defaults: %w", err)
	}

	for _, config := range [][]string{
		{"spec", "template", "spec", "kubeadmConfigSpec"}, {"spec", "template", "spec"},
	} {
		removeDefault(out, "cloud-config", append(slices.Clone(config), "format")...)

		for _, when := range []string{"initConfiguration", "joinConfiguration"} {
			path := append(slices.Clone(config), when, "nodeRegistration", "imagePullPolicy")
			removeDefault(out, "IfNotPresent", path...)
		}
	}

	for _, field := range []string{"rollout.strategy", "rolloutStrategy"} { // the latter in v1beta1
		path := append([]string{"spec", "template", "spec"}, strings.Split(field, ".")...)
		removeDefault(out, "RollingUpdate", append(slices.Clone(path), "type")...)

		surge := append(slices.Clone(path), "rollingUpdate", "maxSurge")
		if has, _, _ := unstructured.NestedFieldNoCopy(out.Object, surge...); fmt.Sprint(has) == "1" {
			unstructured.RemoveNestedField(out.Object, surge...)
		}
	}

	return out.Object["spec"], nil
}
