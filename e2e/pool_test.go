package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// poolVMs creates VMs with a tag, and returns their IDs.
func poolVMs(t *testing.T, tag string, names ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}

	for _, name := range names {
		out[poolvm.CreateVM(t, suite.engine, tag, name, "").String()] = true
	}

	return out
}

// takeFrom makes the machines of a template use VMs from an inventory, and keep the addresses of these VMs.
func takeFrom(template *unstructured.Unstructured, inventory string) error {
	path := []string{"spec", "template", "spec"}
	network, _, err := unstructured.NestedMap(template.Object, append(path, "virtualMachine", "network")...)
	if err != nil {
		return err
	}

	return unstructured.SetNestedMap(template.Object, map[string]any{
		"fromInventory":  map[string]any{"inventoryName": inventory},
		"virtualMachine": map[string]any{"network": network},
	}, path...)
}

// inventoryOf returns an inventory of the VMs with a tag, for the engine of a cluster.
func inventoryOf(cluster *unstructured.Unstructured, name, tag string) (*unstructured.Unstructured, error) {
	server, _, err := unstructured.NestedMap(cluster.Object, "spec", "olvmOvirtAPIServer")
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": infrav1alpha1.GroupVersion.String(),
		"kind":       "OLVMInventory",
		"metadata":   map[string]any{"namespace": cluster.GetNamespace(), "name": name},
		"spec": map[string]any{
			"olvmDatacenterName": "Default",
			"olvmOvirtAPIServer": server,
			"virtualMachines":    map[string]any{"tag": tag},
		},
	}}

	return out, err
}

// newPoolWorkload creates a cluster whose VMs come from two pools, one for each role.
func newPoolWorkload(t *testing.T, name string, subnet int) *workload {
	t.Helper()
	pools := map[string]string{name + "-control-plane": "masters", name + "-md-0": "workers"}
	var inventories []*unstructured.Unstructured
	w := newChangedWorkload(t, name, subnet, func(objects []*unstructured.Unstructured) error {
		for _, object := range objects {
			switch object.GetKind() {
			case "OLVMMachineTemplate":
				if err := takeFrom(object, pools[object.GetName()]); err != nil {
					return err
				}
			case "OLVMCluster":
				err := unstructured.SetNestedSlice(object.Object, []any{map[string]any{
					"name": "spare", "role": "Worker", "inventoryName": "workers", "count": int64(1),
				}}, "spec", "standby")
				if err != nil {
					return err
				}

				for _, pool := range []string{"masters", "workers"} {
					inventory, err := inventoryOf(object, pool, name+"-"+pool)
					if err != nil {
						return err
					}

					inventories = append(inventories, inventory)
				}
			}
		}

		return nil
	})

	for _, inventory := range inventories {
		w.create(inventory)
	}

	return w
}

// expectPool waits until each phase has the wanted number of VMs from an inventory. VMs without a machine are reserved.
func (w *workload) expectPool(inventory string, want map[string]int) {
	w.t.Helper()
	w.eventually("the VMs of "+inventory, func() error {
		var list infrav1alpha1.OLVMInventoryVMList
		if err := w.plane.Client.List(context.Background(), &list, client.InNamespace(w.namespace)); err != nil {
			return err
		}

		got := map[string]int{}

		for _, vm := range list.Items {
			if vm.Spec.InventoryName != inventory {
				continue
			}

			phase := vm.Status.Phase
			if claim := vm.Spec.ClaimRef; claim != nil && claim.MachineName == "" {
				phase = "Kept"
			}

			got[phase]++
		}

		if !maps.Equal(got, want) {
			return fmt.Errorf("they are %v, want %v", got, want)
		}

		return nil
	})
}

// expectNodes waits until the given number of machines run. Each of them must be on a VM of a pool, and have its node.
func (w *workload) expectNodes(count int, pool map[string]bool) {
	w.t.Helper()
	var machines clusterv1.MachineList
	w.eventually(fmt.Sprintf("%d machines run", count), func() error {
		if err := w.plane.Client.List(context.Background(), &machines, client.InNamespace(w.namespace)); err != nil {
			return err
		}

		if len(machines.Items) != count {
			return fmt.Errorf("there are %d", len(machines.Items))
		}

		for i := range machines.Items {
			if err := runs(&machines.Items[i]); err != nil {
				return err
			}
		}

		return nil
	})

	nodes := w.nodes()

	for _, m := range machines.Items {
		if !pool[strings.TrimPrefix(m.Spec.ProviderID, "olvm://")] {
			w.t.Errorf("Machine %s runs on %s, which is not of the pool", m.Name, m.Spec.ProviderID)
		}

		if node := nodes[m.Status.NodeRef.Name]; node.Spec.ProviderID != m.Spec.ProviderID {
			w.t.Errorf("Machine %s has provider ID %s, and its node %q", m.Name, m.Spec.ProviderID, node.Spec.ProviderID)
		}
	}
}

// TestARolloutTakesTheStandby (row 49) runs a cluster on VMs from pools, with Cluster API's managers. A rollout of the
// workers uses the reserved VM. Afterwards, another VM is reserved. Scaling down and deletion return VMs.
func TestARolloutTakesTheStandby(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster of a pool")
	t.Parallel()
	const name = "pooled"
	all := poolVMs(t, name+"-masters", name+"-m-0")
	maps.Copy(all, poolVMs(t, name+"-workers", name+"-w-0", name+"-w-1", name+"-w-2"))
	w := newPoolWorkload(t, name, 77)

	w.expectNodes(3, all)
	w.expectPool("masters", map[string]int{"Claimed": 1})
	w.expectPool("workers", map[string]int{"Claimed": 2, "Kept": 1})
	check.Contains(t, "describe", w.olvmctl("describe", w.name, "-n", w.namespace), "of inventory workers")
	list := w.olvmctl("inventory", "workers", "-n", w.namespace)
	check.Contains(t, "inventory", list, name+"-w-2")

	before := w.workerNames()
	next := &infrav1.OLVMMachineTemplate{}
	key := client.ObjectKey{Namespace: w.namespace, Name: name + "-md-0"}
	check.Error(t, w.plane.Client.Get(t.Context(), key, next), "")
	next.ObjectMeta = metav1.ObjectMeta{Namespace: w.namespace, Name: name + "-md-1"}
	next.Spec.Template.Spec.VirtualMachine.Shutdown = infrav1.Shutdown{Mode: "Stop"}
	w.create(next)
	w.write(func(_ *controlplanev1.KubeadmControlPlane, md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.InfrastructureRef.Name = next.Name
	})
	w.eventually("all workers are others", func() error {
		for worker := range w.workerNames() {
			if before[worker] {
				return errors.New(worker + " is there")
			}
		}

		return nil
	})
	w.expectNodes(3, all)
	w.expectPool("workers", map[string]int{"Claimed": 2, "Kept": 1})

	w.write(func(_ *controlplanev1.KubeadmControlPlane, md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = ptr.To[int32](1)
	})
	w.expectNodes(2, all)
	w.expectPool("workers", map[string]int{"Claimed": 1, "Kept": 1, "Available": 1})

	w.delete()
	w.expectPool("workers", map[string]int{"Available": 3})
	w.expectPool("masters", map[string]int{"Available": 1})
	w.expectAllDown(all)
}

// workerNames returns the names of the MachineDeployment's Machines.
func (w *workload) workerNames() map[string]bool {
	w.t.Helper()
	var machines clusterv1.MachineList
	err := w.plane.Client.List(context.Background(), &machines, client.InNamespace(w.namespace),
		client.HasLabels{clusterv1.MachineDeploymentNameLabel})
	check.Error(w.t, err, "")

	out := map[string]bool{}
	for _, m := range machines.Items {
		out[m.Name] = true
	}

	return out
}

// expectAllDown verifies that all VMs of the pools exist, are powered off, and have no owner.
func (w *workload) expectAllDown(ids map[string]bool) {
	w.t.Helper()
	vms, err := suite.engine.ListVMs(context.Background())
	check.Error(w.t, err, "")
	found := 0

	for _, vm := range vms {
		if !ids[vm.ID.String()] {
			continue
		}

		found++
		check.Equal(w.t, "status of "+vm.Name, vm.Status, engine.VMDown)
		check.Equal(w.t, "comment of "+vm.Name, vm.CommentText(), "")
	}

	check.Equal(w.t, "VMs that are there", found, len(ids))
}

// TestAClusterClassTakesVMsFromInventories (row 42) creates a cluster from the shipped ClusterClass. Its machines use
// VMs from inventories, and one VM stays reserved.
func TestAClusterClassTakesVMsFromInventories(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster of a pool")
	t.Parallel()
	const name = "pooled-class"
	w := prepare(t, name)
	w.applyTemplates(78, nil, func(object *unstructured.Unstructured) {
		if object.GetKind() == "Cluster" {
			check.Error(t, takeFromPools(object), "")
		}
	}, "clusterclass-olvm.yaml", "cluster-template-topology.yaml")

	w.eventually("the templates", func() error {
		var templates infrav1.OLVMMachineTemplateList
		owned := client.MatchingLabels{clusterv1.ClusterNameLabel: name}
		err := w.plane.Client.List(context.Background(), &templates, client.InNamespace(w.namespace), owned)
		if err != nil {
			return err
		}

		want := map[string]string{"masters": "", "workers": "10.0.0.0/24"}

		for i := range templates.Items {
			spec := templates.Items[i].Spec.Template.Spec
			if spec.FromInventory == nil || spec.VMTemplateName != "" || spec.VirtualMachine.Memory != "" {
				return fmt.Errorf("template %s is %+v", templates.Items[i].Name, spec)
			}

			subnet := ""
			if ipv4 := spec.VirtualMachine.Network.IPv4; ipv4 != nil {
				subnet = ipv4.Subnet
			}

			if got, ok := want[spec.FromInventory.InventoryName]; !ok || got != subnet {
				return fmt.Errorf("template %s is of %s with %q", templates.Items[i].Name,
					spec.FromInventory.InventoryName, subnet)
			}

			delete(want, spec.FromInventory.InventoryName)
		}

		if len(want) > 0 {
			return fmt.Errorf("there is none of %v", want)
		}

		return nil
	})

	var clusters infrav1.OLVMClusterList
	check.Error(t, w.plane.Client.List(t.Context(), &clusters, client.InNamespace(w.namespace)), "")
	check.Length(t, "OLVMClusters", clusters.Items, 1)
	check.Equal(t, "what is kept", clusters.Items[0].Spec.Standby[0].InventoryName, "workers")
	w.delete()
}

// takeFromPools makes the machines of a Cluster with a topology use VMs from inventories.
func takeFromPools(cluster *unstructured.Unstructured) error {
	path := []string{"spec", "topology", "variables"}
	variables, _, err := unstructured.NestedSlice(cluster.Object, path...)
	if err != nil {
		return err
	}

	pools := map[string]any{
		"controlPlaneMachines": map[string]any{"fromInventory": map[string]any{"inventoryName": "masters"}},
		"workerMachines": map[string]any{
			"fromInventory": map[string]any{"inventoryName": "workers", "topologyKey": "example.com/rack"},
			"network": map[string]any{"ipv4": map[string]any{
				"subnet": "10.0.0.0/24", "ipAddresses": []any{"10.0.0.10-10.0.0.19"},
			}},
		},
	}
	out := []any{map[string]any{"name": "standby", "value": []any{map[string]any{
		"name": "spare", "role": "Worker", "inventoryName": "workers", "count": int64(1),
	}}}}

	for _, variable := range variables {
		one, ok := variable.(map[string]any)
		if !ok {
			return fmt.Errorf("a variable is %T", variable)
		}

		if value, ok := pools[fmt.Sprint(one["name"])]; ok {
			one["value"] = value
		}

		out = append(out, one)
	}

	return unstructured.SetNestedSlice(cluster.Object, out, path...)
}
