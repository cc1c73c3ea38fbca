package node

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
)

// managedLabels are the labels of a Node that describe its machine and the location of its machine.
var managedLabels = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable, infrav1.HostLabel,
}

// buildLabels returns the labels for the Node of a machine. The data center is the region, and the failure domain the
// zone. The labels of a missing domain, instance type or host are omitted.
func buildLabels(m *infrav1.OLVMMachine, dataCenter string) map[string]string {
	host := ""
	if m.Status.OLVM != nil {
		host = m.Status.OLVM.VirtualMachine.HostName
	}

	out := map[string]string{
		corev1.LabelTopologyRegion:     dataCenter,
		corev1.LabelTopologyZone:       m.Status.FailureDomain,
		corev1.LabelInstanceTypeStable: m.Spec.VirtualMachine.InstanceType,
		infrav1.HostLabel:              host,
	}
	for key, value := range out {
		out[key] = inventory.ToLabelValue(value)
	}

	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })

	return out
}

// setLabels sets the wanted labels on a Node, and removes unwanted earlier labels of the manager. An annotation lists
// the manager's labels; all others stay. setLabels reports whether the Node has changed.
func setLabels(node *corev1.Node, wanted map[string]string) (changed bool) {
	ours := strings.FieldsFunc(node.Annotations[infrav1.NodeLabelsAnnotation], func(r rune) bool { return r == ',' })

	var kept []string

	for _, key := range managedLabels {
		has, exists := node.Labels[key]
		value, want := wanted[key]
		own := slices.Contains(ours, key)

		switch {
		case exists && !own && !want, exists && !own && has != value:
			continue // the label belongs to someone else
		case want:
			kept = append(kept, key)
			changed = changed || has != value || !own
			setKey(&node.Labels, key, value)
		case exists:
			delete(node.Labels, key)
			changed = true
		}
	}

	mark := strings.Join(kept, ",")
	if mark == node.Annotations[infrav1.NodeLabelsAnnotation] {
		return changed
	}

	if mark == "" {
		delete(node.Annotations, infrav1.NodeLabelsAnnotation)
	} else {
		setKey(&node.Annotations, infrav1.NodeLabelsAnnotation, mark)
	}

	return true
}

func setKey(of *map[string]string, key, value string) {
	if *of == nil {
		*of = map[string]string{}
	}

	(*of)[key] = value
}

// keepLabels returns the labels and annotations of a Node needed by this package.
func keepLabels(node *corev1.Node) (labels, annotations map[string]string) {
	for _, key := range managedLabels {
		if value, ok := node.Labels[key]; ok {
			setKey(&labels, key, value)
		}
	}

	for _, key := range []string{infrav1.NodeLabelsAnnotation, infrav1.NodeFencedAnnotation} {
		if value, ok := node.Annotations[key]; ok {
			setKey(&annotations, key, value)
		}
	}

	return labels, annotations
}
