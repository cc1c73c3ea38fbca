package dashboard

import (
	"cmp"
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
)

// sameRun is the maximum time between the end of a run and the event about the run.
const sameRun = 5 * time.Second

// Wait is a wait of some objects for the same target.
type Wait struct {
	Who []Ref  `json:"who"`
	For Ref    `json:"for"`
	Why string `json:"why"`
}

// These are the kinds of targets that are not objects.
const (
	kindEngine    = "engine"
	kindGuest     = "guest"
	kindTerraform = "Terraform"
	kindIPAM      = "IPAM provider"
	kindBootstrap = "bootstrap provider"
	kindPerson    = "you"
)

// waiter finds the waits in a cluster.
type waiter struct {
	cluster *clusterv1.Cluster
	engine  string
	// machines are the OLVMMachines of the cluster, by the names of their Machines.
	machines map[string]*infrav1.OLVMMachine
	out      []Wait
}

// waitsOf returns the waits in a cluster. Parts wait for their machines, and machines wait for targets named in their
// conditions.
func waitsOf(
	ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster, tree *clustertree.Node,
) ([]Wait, error) {
	var list infrav1.OLVMMachineList
	err := reader.List(ctx, &list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	if err != nil {
		return nil, err
	}

	w := &waiter{cluster: cluster, machines: map[string]*infrav1.OLVMMachine{}}

	for i := range list.Items {
		for _, owner := range list.Items[i].OwnerReferences {
			if owner.Kind == "Machine" {
				w.machines[owner.Name] = &list.Items[i]
			}
		}
	}

	for i := range tree.Children {
		if tree.Children[i].Kind == "OLVMCluster" {
			w.engine = tree.Children[i].Summary
		}
	}

	for i := range tree.Children {
		w.addPart(tree, &tree.Children[i])
	}

	return w.out, nil
}

func (w *waiter) refTo(node *clustertree.Node) Ref {
	return Ref{Kind: node.Kind, Namespace: w.cluster.Namespace, Name: node.Name}
}

// addWait adds a wait. It merges waits with the same target and the same reason.
func (w *waiter) addWait(who, what Ref, why string) {
	why = strings.TrimSpace(why)

	for i := range w.out {
		same := &w.out[i]
		if same.For == what && same.Why == why && same.Who[0].Kind == who.Kind {
			same.Who = append(same.Who, who)
			return
		}
	}

	w.out = append(w.out, Wait{Who: []Ref{who}, For: what, Why: why})
}

// addPart adds the waits of a part of a cluster, and of the part's machines.
func (w *waiter) addPart(cluster, part *clustertree.Node) {
	if part.Machine != nil { // the Cluster is its only owner
		w.addMachine(part, part.Name)
		return
	}

	if part.Problem != "" && cluster.Problem != "" {
		w.addWait(w.refTo(cluster), w.refTo(part), part.Problem)
	}

	if part.Problem != "" && len(part.Children) == 0 && part.Waiting == "" {
		w.addWait(w.refTo(part), w.waitTarget(part.Problem, ""), part.Problem)
	}

	for i := range part.Children {
		machine := &part.Children[i]
		if machine.Problem == "" {
			continue
		}

		w.addWait(w.refTo(part), w.refTo(machine), cmp.Or(part.Waiting, part.Problem, part.Name+" is ready without it"))
		w.addMachine(machine, part.Name)
	}

	if len(part.Children) == 0 && part.Waiting != "" {
		w.addWait(w.refTo(part), w.waitTarget(part.Problem, ""), part.Waiting)
	}
}

// addMachine adds the wait of a machine's owner for the machine.
func (w *waiter) addMachine(machine *clustertree.Node, owner string) {
	if machine.Problem == "" {
		return
	}

	inventory := ""
	if machine.Machine != nil {
		inventory = machine.Machine.Inventory
	}

	switch infra := w.machines[machine.Name]; {
	case machine.Stuck:
		w.addWait(w.refTo(machine), Ref{Kind: kindPerson, Name: kindPerson}, machine.Problem)
	case infra != nil && conditions.IsTrue(infra, infrav1.ReadyCondition):
		w.addWait(w.refTo(machine), Ref{Kind: kindGuest, Name: infra.Name}, machine.Problem)
	default:
		target := w.waitTarget(machine.Problem, inventory)
		if target.Name == owner { // an object does not wait for itself
			target = Ref{Kind: kindBootstrap, Name: w.cluster.Name}
		}

		w.addWait(w.refTo(machine), target, machine.Problem)
	}
}

// waitTarget returns the target of a wait. problem begins with the reason of a condition.
func (w *waiter) waitTarget(problem, inventory string) Ref {
	reason, _, _ := strings.Cut(problem, ":")

	switch reason {
	case infrav1.WaitingForClusterInfrastructureReason, infrav1.WaitingForAffinityGroupReason:
		return w.infrastructureRef()
	case infrav1.WaitingForBootstrapDataReason:
		return w.bootstrapRef()
	case infrav1.WaitingForIPAddressesReason:
		return Ref{Kind: kindIPAM, Name: w.cluster.Name}
	case infrav1.WaitingForGuestAddressesReason:
		return Ref{Kind: kindGuest, Name: w.cluster.Name}
	case infrav1.WaitingForClaimReason:
		return Ref{Kind: "OLVMInventory", Namespace: w.cluster.Namespace, Name: inventory}
	case infrav1.ApplyingReason:
		return Ref{Kind: kindTerraform, Name: "a run"}
	}

	return Ref{Kind: kindEngine, Name: w.engine}
}

func (w *waiter) infrastructureRef() Ref {
	return Ref{Kind: "OLVMCluster", Namespace: w.cluster.Namespace, Name: w.cluster.Spec.InfrastructureRef.Name}
}

// bootstrapRef returns the target of a wait for bootstrap data. It is the first control plane node, or else the
// bootstrap provider.
func (w *waiter) bootstrapRef() Ref {
	ready := conditions.Get(w.cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	if w.cluster.Spec.ControlPlaneRef.IsDefined() && (ready == nil || ready.Status != metav1.ConditionTrue) {
		return Ref{
			Kind:      w.cluster.Spec.ControlPlaneRef.Kind,
			Namespace: w.cluster.Namespace,
			Name:      w.cluster.Spec.ControlPlaneRef.Name,
		}
	}

	return Ref{Kind: kindBootstrap, Name: w.cluster.Name}
}
