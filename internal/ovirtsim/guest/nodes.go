package guest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
)

// addNode registers the node, or marks it as ready again. The caller must hold guests.mu.
func (c *workloadCluster) addNode(ctx context.Context, n *node) error {
	labels := map[string]string{
		"kubernetes.io/hostname": n.name,
		"kubernetes.io/os":       "linux",
		"kubernetes.io/arch":     "amd64",
	}
	for key, value := range n.labels {
		labels[key] = value
	}

	if n.controlPlane {
		labels["node-role.kubernetes.io/control-plane"] = ""
	}

	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: n.providerID},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:  n.version,
				OperatingSystem: "linux",
				Architecture:    "amd64",
			},
			Addresses: nodeAddresses(n),
			Conditions: []corev1.NodeCondition{
				nodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				nodeCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				nodeCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				nodeCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
		},
	}
	for _, t := range n.taints {
		object.Spec.Taints = append(object.Spec.Taints, corev1.Taint{
			Key:    t.Key,
			Value:  t.Value,
			Effect: t.Effect,
		})
	}

	if err := c.ensureObject(ctx, object); err != nil {
		return err
	}

	return c.updateNodeStatus(ctx, n.name, func(status *corev1.NodeStatus) {
		status.Addresses = nodeAddresses(n)
		setCondition(status, corev1.ConditionTrue, "KubeletReady")
	})
}

func nodeAddresses(n *node) []corev1.NodeAddress {
	var out []corev1.NodeAddress
	for _, address := range n.addresses {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}

	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.name})
}

func nodeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		LastTransitionTime: metav1.Now(),
		LastHeartbeatTime:  metav1.Now(),
	}
}

func (c *workloadCluster) setReady(
	ctx context.Context, name string, status corev1.ConditionStatus, reason string,
) error {
	return c.updateNodeStatus(ctx, name, func(current *corev1.NodeStatus) { setCondition(current, status, reason) })
}

// setCondition sets the Ready condition. The transition time changes only with the condition's status, because a
// MachineHealthCheck counts from this time.
func setCondition(current *corev1.NodeStatus, status corev1.ConditionStatus, reason string) {
	ready := nodeCondition(corev1.NodeReady, status, reason)
	for i, condition := range current.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}

		if condition.Status == status {
			ready.LastTransitionTime = condition.LastTransitionTime
		}

		current.Conditions[i] = ready

		return
	}

	current.Conditions = append(current.Conditions, ready)
}

// updateNodeStatus changes the status of a Node despite concurrent writers. It retries, because the in-memory API
// server rejects a patch of an object that has changed since the read.
func (c *workloadCluster) updateNodeStatus(ctx context.Context, name string, change func(*corev1.NodeStatus)) error {
	return attempt.OnConflict(func() error {
		var current corev1.Node
		if err := c.client().Get(ctx, client.ObjectKey{Name: name}, &current); err != nil {
			return fmt.Errorf("failed to get node %s: %w", name, err)
		}

		updated := current.DeepCopy()
		change(&updated.Status)
		if err := c.client().Patch(ctx, updated, client.MergeFrom(&current)); err != nil {
			return fmt.Errorf("failed to update node %s: %w", name, err)
		}

		return nil
	})
}
