package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestANodeIsFencedWhileItsVMHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		now  situation
		want bool
	}{
		"a VM that runs":                         {situation{}, false},
		"a VM that runs again":                   {situation{fenced: true}, false},
		"a VM that runs with volumes":            {situation{fenced: true, attached: true}, false},
		"a VM that has failed":                   {situation{failed: true}, true},
		"a VM that stays down":                   {situation{failed: true, fenced: true}, true},
		"a VM that is about to start":            {situation{failed: true, starting: true}, false},
		"a VM that waits for its volumes":        {situation{failed: true, starting: true, fenced: true, attached: true}, true},
		"a VM whose volumes are detached":        {situation{failed: true, starting: true, fenced: true}, false},
		"a VM that starts before it was fenced":  {situation{failed: true, starting: true, attached: true}, false},
		"a remediation of a VM that runs begins": {situation{starting: true}, false},
	} {
		check.Equal(t, name, c.now.wantsFence(), c.want)
	}
}

func TestTheFenceLeavesOtherTaintsAlone(t *testing.T) {
	other := corev1.Taint{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{other}}}

	check.Equal(t, "the first time", setFence(node, true, "olvm://1"), infrav1.NodeFencedReason)
	check.Equal(t, "the mark", node.Annotations[infrav1.NodeFencedAnnotation], "olvm://1")
	check.Equal(t, "taints", len(node.Spec.Taints), 2)
	check.Equal(t, "again", setFence(node, true, "olvm://1"), "")
	check.Equal(t, "the VM is back", setFence(node, false, "olvm://1"), infrav1.NodeReleasedReason)
	check.Equal(t, "the other taint stays", len(node.Spec.Taints) == 1 && node.Spec.Taints[0] == other, true)
	check.Equal(t, "marks", len(node.Annotations), 0)
	check.Equal(t, "again", setFence(node, false, "olvm://1"), "")

	byHand := corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "by-hand", Effect: corev1.TaintEffectNoSchedule,
	}
	node.Spec.Taints = []corev1.Taint{byHand}
	check.Equal(t, "a person's taint is not set again", setFence(node, true, "olvm://1"), "")
	check.Equal(t, "a person's taint stays", setFence(node, false, "olvm://1"), "")
	check.Equal(t, "the taint", node.Spec.Taints[0], byHand)
}
