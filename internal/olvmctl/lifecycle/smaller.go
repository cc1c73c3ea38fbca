package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// This file asks the user before olvmctl deletes machines, because the cluster file requests fewer.

// confirmFewerMachines asks for confirmation if the cluster file requests fewer machines than the cluster has.
func (c *creation) confirmFewerMachines(ctx context.Context) error {
	gone, err := c.listMachinesToDelete(ctx)
	if err != nil || len(gone) == 0 {
		return err
	}

	question := fmt.Sprintf("%s has fewer machines than %s in namespace %s of %s:\n  %s\nType the name of the "+
		"cluster to confirm: ", c.File.Path, c.File.Name, c.namespace(), c.management.DescribeLocation(),
		strings.Join(gone, "\n  "))

	return c.Confirm(question, c.File.Name)
}

// listMachinesToDelete describes the machines to delete, in a line for each of their owners.
func (c *creation) listMachinesToDelete(ctx context.Context) ([]string, error) {
	objects, err := c.Provider.BuildManifests(ctx, c)
	if err != nil {
		return nil, err
	}

	var gone []string

	for _, object := range objects {
		if !slices.Contains([]string{"KubeadmControlPlane", "MachineDeployment", "Cluster"}, object.GetKind()) {
			continue
		}

		live := object.DeepCopy()
		err := c.management.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		if one, ok := compareReplicas(live, object, c.ForceConflicts); ok {
			gone = append(gone, one.listAlarms()...)
		}

		for _, one := range shrunkTopology(live, object) {
			gone = append(gone, one.listAlarms()...)
		}
	}

	return gone, nil
}

// compareReplicas returns the old and the new number of an owner's machines, and reports whether the number decreases.
// A number written by another client, such as Scale, stays unless the user forces conflicts.
func compareReplicas(live, object *unstructured.Unstructured, force bool) (sizing, bool) {
	from, known, _ := unstructured.NestedInt64(live.Object, replicas...)
	to, wanted, _ := unstructured.NestedInt64(object.Object, replicas...)
	kept := !force && slices.ContainsFunc(live.GetManagedFields(), func(by metav1.ManagedFieldsEntry) bool {
		return by.Manager != string(manifest.FieldOwner) && by.Subresource != "status" && by.FieldsV1 != nil &&
			strings.Contains(by.FieldsV1.GetRawString(), `"f:replicas"`)
	})

	return sizing{name: object.GetKind() + " " + object.GetName(), from: int32(from), to: int32(to)},
		known && wanted && to < from && !kept
}

// shrunkTopology returns the parts of a Cluster's topology that lose machines or disappear. The API server rejects
// changes to numbers written by Scale. The user is asked anyway, because a needless question does no harm.
func shrunkTopology(live, object *unstructured.Unstructured) []sizing {
	before, after := topologyParts(live), topologyParts(object)
	if len(after) == 0 { // the Cluster has no ClusterClass
		return nil
	}

	var out []sizing

	for _, name := range slices.Sorted(maps.Keys(before)) {
		one := sizing{name: name, from: before[name].orOne()}
		if next, stays := after[name]; stays {
			one.to = next.orOne()
			if !next.known { // the manifest leaves the number unchanged
				continue
			}
		}

		if one.to < one.from {
			out = append(out, one)
		}
	}

	return out
}

// count is the number of machines in a part of a topology. known is false if the part sets no number.
type count struct {
	number int32
	known  bool
}

func (c count) orOne() int32 {
	if !c.known {
		return 1
	}

	return c.number
}

// topologyParts returns the control plane and the worker groups in the topology of a Cluster, by readable names.
// Without a ClusterClass, it returns none.
func topologyParts(cluster *unstructured.Unstructured) map[string]count {
	topology, found, _ := unstructured.NestedMap(cluster.Object, "spec", "topology")
	if !found {
		return nil
	}

	countOf := func(part map[string]any) count {
		number, known, _ := unstructured.NestedInt64(part, "replicas")
		return count{int32(number), known}
	}
	controlPlane, _, _ := unstructured.NestedMap(topology, "controlPlane")
	out := map[string]count{"the control plane": countOf(controlPlane)}

	for group, kind := range map[string]string{
		"machineDeployments": "MachineDeployment", "machinePools": "MachinePool",
	} {
		list, _, _ := unstructured.NestedSlice(topology, "workers", group)
		for _, entry := range list {
			if part, ok := entry.(map[string]any); ok {
				out[fmt.Sprintf("%s %v of the topology", kind, part["name"])] = countOf(part)
			}
		}
	}

	return out
}
