package dashboard

import (
	"context"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// Command is a command suggested to the user.
type Command struct {
	// What describes the effect of the command.
	What string `json:"what"`
	// Line is the command line for a shell. All names are quoted.
	Line string `json:"line"`
}

// quorum is the number of other control plane machines needed before one machine may be deleted. With three machines,
// etcd works without one of them.
const quorum = 2

// commandsOf returns the suggested commands for an object, and for the OLVMMachine of a Machine.
func (w *watcher) commandsOf(ctx context.Context, objects []client.Object) []Command {
	var out []Command

	add := func(what string, words ...string) {
		out = append(out, Command{what, w.commandLine(objects[0], words...)})
	}
	name := objects[0].GetName()
	cluster := objects[0].GetLabels()[clusterv1.ClusterNameLabel]

	switch o := objects[0].(type) {
	case *clusterv1.Cluster:
		w.addClusterCommands(o, add)
	case *controlplanev1.KubeadmControlPlane:
		more := strconv.Itoa(int(ptr.Deref(o.Spec.Replicas, 1)) + 2) // etcd needs an odd number
		add("Grow the control plane", "olvmctl", "scale", cluster, "--control-plane", more)
	case *clusterv1.MachineDeployment:
		more := strconv.Itoa(int(ptr.Deref(o.Spec.Replicas, 1)) + 1)
		add("Add a worker", "olvmctl", "scale", cluster, "--machine-deployment", name, "--workers", more)
	case *clusterv1.Machine:
		add("Follow its logs", "olvmctl", "logs", name, "--follow")

		if w.mayBeReplaced(ctx, o, objects[1:]) {
			add("Replace it; deletes its VM and disks", "kubectl", "delete", kubectlName(o), name)
		}
	case *infrav1.OLVMCluster:
		if conditions.IsFalse(o, infrav1.ReadyCondition) {
			add("Correct the fields in its conditions", "kubectl", "edit", kubectlName(o), name)
		}
	}

	for _, object := range objects {
		out = append(out, Command{"All of " + kindOf(object) + " " + object.GetName(),
			w.commandLine(object, "kubectl", "get", kubectlName(object), object.GetName(), "-o", "yaml")})
	}

	return out
}

// addClusterCommands adds the commands of a Cluster.
func (w *watcher) addClusterCommands(c *clusterv1.Cluster, add func(what string, words ...string)) {
	if c.Spec.Paused != nil && *c.Spec.Paused {
		add("Resume it", "kubectl", "patch", kubectlName(c), c.Name, "--type", "merge", "-p",
			`{"spec":{"paused":false}}`)
	}

	add("Show it in a terminal", "olvmctl", "describe", c.Name)

	if conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition) {
		add("Get its kubeconfig", "olvmctl", "get", "kubeconfig", c.Name)
	}

	if !conditions.IsTrue(c, clusterv1.ClusterAvailableCondition) {
		add("Collect diagnostic data", "olvmctl", "support-bundle", c.Name)
	}
}

// mayBeReplaced reports whether to suggest the deletion of a machine. Its VM must be gone or down, its owner must
// replace it, and the control plane must work without it. If a control plane has only one machine, this machine has the
// only etcd.
func (w *watcher) mayBeReplaced(ctx context.Context, machine *clusterv1.Machine, rest []client.Object) bool {
	if len(rest) == 0 || !machine.DeletionTimestamp.IsZero() || metav1.GetControllerOf(machine) == nil {
		return false
	}

	infra, ok := rest[0].(*infrav1.OLVMMachine)
	if !ok {
		return false
	}

	reason := conditions.GetReason(infra, infrav1.VirtualMachineRunningCondition)
	if reason != infrav1.VirtualMachineNotFoundReason && reason != infrav1.VirtualMachineNotRunningReason {
		return false
	}

	return !util.IsControlPlaneMachine(machine) || w.othersReady(ctx, machine) >= quorum
}

// othersReady returns the number of other ready machines in a control plane.
func (w *watcher) othersReady(ctx context.Context, machine *clusterv1.Machine) (count int) {
	var list clusterv1.MachineList
	err := w.reader.List(ctx, &list, client.InNamespace(machine.Namespace), client.HasLabels{
		clusterv1.MachineControlPlaneLabel,
	}, client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName})
	if err != nil {
		return 0
	}

	for i := range list.Items {
		other := &list.Items[i]
		if other.Name != machine.Name && other.DeletionTimestamp.IsZero() &&
			conditions.IsTrue(other, clusterv1.MachineReadyCondition) {
			count++
		}
	}

	return count
}

// kubectlName returns the kind of an object for kubectl. It includes the API group, because other groups have a kind
// Cluster, too.
func kubectlName(object client.Object) string {
	for _, kind := range watchedKinds {
		if kindOf(kind.object) == kindOf(object) {
			return strings.ToLower(kindOf(object)) + "." + kind.group.Group
		}
	}

	return strings.ToLower(kindOf(object))
}

// commandLine returns the line of a command about an object. It has the flags for the namespace and the management
// cluster.
func (w *watcher) commandLine(object client.Object, words ...string) string {
	return w.Access.CommandLine(append(words, "-n", object.GetNamespace())...)
}
