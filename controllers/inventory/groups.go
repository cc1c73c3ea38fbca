package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
)

// member is an OLVMMachine of the inventory, with its owners.
type member struct {
	olvmMachine *infrav1.OLVMMachine
	machine     *clusterv1.Machine
	// controllerRef is the controller of the Machine; nil for a Machine created by hand.
	controllerRef *metav1.OwnerReference
}

// findGroups returns the groups of machines waiting for VMs, oldest first. It also sets the machines of the scope.
func (r *Reconciler) findGroups(ctx context.Context, s *scope) ([]inventory.Group, error) {
	olvmClusters, err := r.listOLVMClusters(ctx, s)
	if err != nil {
		return nil, err
	}

	members, err := r.listMembers(ctx, s, olvmClusters)
	if err != nil {
		return nil, err
	}

	var out []inventory.Group

	for _, group := range groupByController(members) {
		made, err := r.splitGroups(ctx, group)
		if err != nil {
			return nil, err
		}

		out = append(out, made...)
	}

	return append(out, s.buildStandbyGroups(olvmClusters)...), nil
}

// usesSameEngine reports whether a cluster uses the engine of the inventory.
func (s *scope) usesSameEngine(c *infrav1.OLVMCluster) bool {
	return connection.GetEngineID(c).IsSame(connection.InventoryEngine(s.inventory).ID())
}

// listOLVMClusters returns the OLVMClusters of unpaused Clusters in the namespace, by the name of the Cluster.
func (r *Reconciler) listOLVMClusters(ctx context.Context, s *scope) (map[string]*infrav1.OLVMCluster, error) {
	var list infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.inventory.Namespace)); err != nil {
		return nil, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	out := map[string]*infrav1.OLVMCluster{}

	for i := range list.Items {
		name := list.Items[i].Labels[clusterv1.ClusterNameLabel]
		if s.clusters.active[name] {
			out[name] = &list.Items[i]
		}
	}

	return out, nil
}

// buildStandbyGroups returns groups for the standby VMs of clusters.
func (s *scope) buildStandbyGroups(olvmClusters map[string]*infrav1.OLVMCluster) []inventory.Group {
	var out []inventory.Group

	for _, name := range slices.Sorted(maps.Keys(olvmClusters)) {
		c := olvmClusters[name]
		if !c.DeletionTimestamp.IsZero() || !s.usesSameEngine(c) {
			continue
		}

		for _, kept := range c.Spec.Standby {
			selector, err := metav1.LabelSelectorAsSelector(kept.Selector.ToKubernetes())
			if kept.InventoryName != s.inventory.Name || err != nil { // ignore an invalid selector
				continue
			}

			out = append(out, inventory.Group{
				Cluster:     name,
				Role:        kept.Role,
				Name:        "Standby/" + kept.Name,
				Replicas:    int(ptr.Deref(kept.Count, 0)),
				Selector:    selector,
				TopologyKey: kept.TopologyKey,
				Network:     kept.NetworkName,
				Standby:     true,
			})
		}
	}

	return out
}

// reconcileClusters lists the Clusters of the namespace. It determines which are unpaused, and whether one is being
// moved.
func (r *Reconciler) reconcileClusters(ctx context.Context, s *scope) (clusterFacts, error) {
	facts := clusterFacts{all: map[string]bool{}, active: map[string]bool{}}

	var list clusterv1.ClusterList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.inventory.Namespace)); err != nil {
		return facts, fmt.Errorf("failed to list Clusters: %w", err)
	}

	for i := range list.Items {
		c := &list.Items[i]
		facts.all[c.Name] = true

		switch {
		case ptr.Deref(c.Spec.Paused, false):
			facts.moving = c.Name
		case !annotations.HasPaused(c):
			facts.active[c.Name] = true
		}
	}

	facts.moving = r.moves.recordMove(client.ObjectKeyFromObject(s.inventory), facts.moving, facts.all, time.Now())

	return facts, nil
}

// listMembers returns the owned OLVMMachines of the inventory without a deletion timestamp, oldest first. The scope
// gets all of them, by name.
func (r *Reconciler) listMembers(
	ctx context.Context, s *scope, olvmClusters map[string]*infrav1.OLVMCluster,
) ([]member, error) {
	var list infrav1.OLVMMachineList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.inventory.Namespace)); err != nil {
		return nil, fmt.Errorf("failed to list OLVMMachines: %w", err)
	}

	s.machines = map[string]*infrav1.OLVMMachine{}
	var out []member

	for i := range list.Items {
		m := &list.Items[i]
		if m.Spec.FromInventory == nil || m.Spec.FromInventory.InventoryName != s.inventory.Name {
			continue
		}

		s.machines[m.Name] = m
		// Machines on another engine cannot use this engine's VMs. The conditions of the machines report this.
		cluster := m.Labels[clusterv1.ClusterNameLabel]
		at, known := olvmClusters[cluster]
		if !m.DeletionTimestamp.IsZero() || !s.clusters.active[cluster] || known && !s.usesSameEngine(at) {
			continue
		}

		machine, err := util.GetOwnerMachine(ctx, r.Client, m.ObjectMeta)
		if apierrors.IsNotFound(err) || err == nil && (machine == nil || !machine.DeletionTimestamp.IsZero()) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("failed to get the owner of OLVMMachine %s: %w", m.Name, err)
		}

		out = append(out, member{olvmMachine: m, machine: machine, controllerRef: metav1.GetControllerOf(machine)})
	}

	slices.SortFunc(out, func(a, b member) int {
		return cmp.Or(
			a.olvmMachine.CreationTimestamp.Compare(b.olvmMachine.CreationTimestamp.Time),
			cmp.Compare(a.olvmMachine.Name, b.olvmMachine.Name),
		)
	})

	return out, nil
}

// groupByController groups machines by the object that has created them, such as a MachineSet.
func groupByController(members []member) [][]member {
	var out [][]member

	for _, m := range members {
		at := slices.IndexFunc(out, func(group []member) bool {
			return inventory.GetGroupName(group[0].machine) == inventory.GetGroupName(m.machine)
		})
		if at < 0 {
			out = append(out, nil)
			at = len(out) - 1
		}

		out[at] = append(out[at], m)
	}

	return out
}

// splitGroups divides machines of one maker by their requirements: during a rollout, a control plane has machines of
// two templates. Replicas without a machine yet get the requirements of the newest machine.
func (r *Reconciler) splitGroups(ctx context.Context, members []member) ([]inventory.Group, error) {
	replicas, err := r.fetchReplicas(ctx, members[0])
	if err != nil {
		return nil, err
	}

	newest := members[len(members)-1].olvmMachine.Spec.FromInventory

	var current, older []member

	for _, m := range members {
		if equality.Semantic.DeepEqual(m.olvmMachine.Spec.FromInventory, newest) {
			current = append(current, m)
		} else {
			older = append(older, m)
		}
	}

	var out []inventory.Group

	for _, m := range older {
		group, err := newGroup([]member{m}, 0)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("An OLVMMachine has an invalid selector", "OLVMMachine",
				m.olvmMachine.Name, "error", err.Error())
			continue
		}

		group.Name += "/" + m.olvmMachine.Name
		out = append(out, group)
	}

	group, err := newGroup(current, replicas-len(older))
	if err != nil { // the machines' condition reports the error
		return out, nil //nolint:nilerr // see above
	}

	return append(out, group), nil
}

// newGroup returns a group of machines with equal requirements.
func newGroup(members []member, replicas int) (inventory.Group, error) {
	want := members[0].olvmMachine.Spec.FromInventory
	selector, err := metav1.LabelSelectorAsSelector(want.Selector.ToKubernetes())
	if err != nil {
		return inventory.Group{}, err
	}

	out := inventory.Group{
		Cluster:     members[0].machine.Spec.ClusterName,
		Role:        infrav1.RoleWorker,
		Name:        inventory.GetGroupName(members[0].machine),
		Replicas:    replicas,
		Selector:    selector,
		TopologyKey: want.TopologyKey,
		Network:     want.NetworkName,
	}
	if util.IsControlPlaneMachine(members[0].machine) {
		out.Role = infrav1.RoleControlPlane
	}

	for _, m := range members {
		out.Machines = append(out.Machines, m.olvmMachine.Name)
	}

	return out, nil
}

// fetchReplicas returns the number of machines requested by the maker. It returns 0 for an unknown number, and for a
// maker in deletion.
func (r *Reconciler) fetchReplicas(ctx context.Context, m member) (int, error) {
	if m.controllerRef == nil {
		return 0, nil
	}

	maker := &unstructured.Unstructured{}
	maker.SetAPIVersion(m.controllerRef.APIVersion)
	maker.SetKind(m.controllerRef.Kind)
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: m.machine.Namespace, Name: m.controllerRef.Name}, maker)

	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err): // deleted, or a kind of another provider
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("failed to get %s: %w", inventory.GetGroupName(m.machine), err)
	case maker.GetDeletionTimestamp() != nil:
		return 0, nil
	}

	replicas, _, err := unstructured.NestedInt64(maker.Object, "spec", "replicas")
	if err != nil {
		return 0, nil //nolint:nilerr // the kind belongs to another provider
	}

	return int(replicas), nil
}
