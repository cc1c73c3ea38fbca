package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestLabelsOfANode(t *testing.T) {
	full := provisioned("one", "10.0.0.10")
	full.Status.FailureDomain = "room 1"
	full.Spec.VirtualMachine.InstanceType = "Large"
	full.Status.OLVM = &infrav1.OLVMStatus{VirtualMachine: infrav1.VirtualMachineStatus{HostName: "host-1.example.com"}}
	check.Equal(t, "all of them", buildLabels(full, "Data Centre Süd"), map[string]string{
		corev1.LabelTopologyRegion:     "Data-Centre-S-d",
		corev1.LabelTopologyZone:       "room-1",
		corev1.LabelInstanceTypeStable: "Large",
		infrav1.HostLabel:              "host-1.example.com",
	})

	bare := provisioned("one", "10.0.0.10")
	bare.Status.OLVM = nil
	check.Equal(t, "those of a machine of which nothing is known", buildLabels(bare, "Default"), map[string]string{
		corev1.LabelTopologyRegion: "Default",
	})
}

// TestLabelsOfOthersStay verifies that only missing labels and the manager's own labels change.
func TestLabelsOfOthersStay(t *testing.T) {
	const zone, region, host = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, infrav1.HostLabel

	for name, test := range map[string]struct {
		labels    map[string]string
		ours      string
		wanted    map[string]string
		want      map[string]string
		marked    string
		unchanged bool
	}{
		"a new node": {
			wanted: map[string]string{zone: "a", region: "r"},
			want:   map[string]string{zone: "a", region: "r"},
			marked: zone + "," + region,
		},
		"nothing to do": {
			labels:    map[string]string{zone: "a", region: "r"},
			ours:      zone + "," + region,
			wanted:    map[string]string{zone: "a", region: "r"},
			want:      map[string]string{zone: "a", region: "r"},
			marked:    zone + "," + region,
			unchanged: true,
		},
		"the VM has moved": {
			labels: map[string]string{host: "h1"}, ours: host,
			wanted: map[string]string{host: "h2"}, want: map[string]string{host: "h2"}, marked: host,
		},
		"the VM runs nowhere": {
			labels: map[string]string{host: "h1", region: "r"}, ours: region + "," + host,
			wanted: map[string]string{region: "r"}, want: map[string]string{region: "r"}, marked: region,
		},
		"one that someone has removed": {
			ours: zone, wanted: map[string]string{zone: "a"}, want: map[string]string{zone: "a"}, marked: zone,
		},
		"one that the kubelet has set": {
			labels: map[string]string{zone: "theirs"},
			wanted: map[string]string{zone: "a", region: "r"},
			want:   map[string]string{zone: "theirs", region: "r"},
			marked: region,
		},
		"the same that the kubelet has set": {
			labels: map[string]string{zone: "a"}, wanted: map[string]string{zone: "a"},
			want: map[string]string{zone: "a"}, marked: zone,
		},
		"only theirs": {
			labels: map[string]string{zone: "theirs"}, want: map[string]string{zone: "theirs"}, unchanged: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Labels = test.labels
			if test.ours != "" {
				node.Annotations = map[string]string{infrav1.NodeLabelsAnnotation: test.ours}
			}

			check.Equal(t, "changed", setLabels(node, test.wanted), !test.unchanged)
			check.Equal(t, "labels", node.Labels, test.want)
			check.Equal(t, "mark", node.Annotations[infrav1.NodeLabelsAnnotation], test.marked)
			check.Equal(t, "changed again", setLabels(node, test.wanted), false)
		})
	}
}

// TestANodeIsLabelledByNameAndID verifies that a Node gets no labels if its name and its ID do not belong to the same
// machine.
func TestANodeIsLabelledByNameAndID(t *testing.T) {
	machines := []*infrav1.OLVMMachine{provisioned("one", "10.0.0.10"), provisioned("two", "10.0.0.11")}

	for name, test := range map[string]struct {
		node, providerID string
		found            bool
	}{
		"its own":              {"one", machines[0].Spec.ProviderID, true},
		"the ID of another":    {"one", machines[1].Spec.ProviderID, false},
		"a node of no machine": {"three", machines[0].Spec.ProviderID, false},
		"no ID":                {"one", "", false},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: test.providerID}}
		node.Name = test.node
		check.Equal(t, name, findMachineWithID(node, machines) != nil, test.found)
	}
}
