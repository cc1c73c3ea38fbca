package node

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestANodeIsFencedWhileItsVMHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		now  situation
		want bool
	}{
		"a VM that runs":              {situation{enabled: true}, false},
		"a VM that runs again":        {situation{enabled: true, fenced: true}, false},
		"a VM that runs with volumes": {situation{enabled: true, fenced: true, attached: true}, false},
		"a VM that has failed":        {situation{enabled: true, failed: true}, true},
		"a VM that stays down":        {situation{enabled: true, failed: true, fenced: true}, true},
		"a VM that is about to start": {situation{enabled: true, failed: true, starting: true}, false},
		"a VM that waits for its volumes": {
			situation{failed: true, starting: true, fenced: true, attached: true}, true,
		},
		"a VM whose volumes are detached": {situation{failed: true, starting: true, fenced: true}, false},
		"a VM that starts before it was fenced": {
			situation{enabled: true, failed: true, starting: true, attached: true}, false,
		},
		"a remediation of a VM that runs begins": {situation{enabled: true, starting: true}, false},

		"a Node that is alive": {situation{enabled: true, failed: true, alive: true}, false},
		"a Node that is alive again": {
			situation{enabled: true, failed: true, fenced: true, alive: true}, false,
		},
		"a Node that is alive with volumes": {
			situation{failed: true, starting: true, fenced: true, attached: true, alive: true}, false,
		},
		"a Node that is alive and deleted":       {situation{fenced: true, disappearing: true, alive: true}, false},
		"a fenced machine that is deleted":       {situation{enabled: true, fenced: true, disappearing: true}, true},
		"a machine that is deleted":              {situation{enabled: true, disappearing: true}, false},
		"a failed machine that is deleted":       {situation{enabled: true, failed: true, disappearing: true}, false},
		"a VM that has failed without fencing":   {situation{failed: true}, false},
		"a fenced VM that stays down without it": {situation{failed: true, fenced: true}, true},
		"a fenced VM that runs without it":       {situation{fenced: true}, false},
	} {
		check.Equal(t, name, c.now.shouldHaveTaint(), c.want)
	}
}

func TestTheFenceLeavesOtherTaintsAlone(t *testing.T) {
	other := corev1.Taint{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{other}}}

	check.Equal(t, "the first time", setTaint(node, true, "olvm://1"), infrav1.NodeFencedReason)
	check.Equal(t, "the mark", node.Annotations[infrav1.NodeFencedAnnotation], "olvm://1")
	check.Equal(t, "taints", len(node.Spec.Taints), 2)
	check.Equal(t, "again", setTaint(node, true, "olvm://1"), "")
	check.Equal(t, "the VM is back", setTaint(node, false, "olvm://1"), infrav1.NodeReleasedReason)
	check.Equal(t, "the other taint stays", len(node.Spec.Taints) == 1 && node.Spec.Taints[0] == other, true)
	check.Equal(t, "marks", len(node.Annotations), 0)
	check.Equal(t, "again", setTaint(node, false, "olvm://1"), "")

	byHand := corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "by-hand", Effect: corev1.TaintEffectNoSchedule,
	}
	node.Spec.Taints = []corev1.Taint{byHand}
	check.Equal(t, "a person's taint is not set again", setTaint(node, true, "olvm://1"), "")
	check.Equal(t, "a person's taint stays", setTaint(node, false, "olvm://1"), "")
	check.Equal(t, "the taint", node.Spec.Taints[0], byHand)
}

func TestAPersonsTaintStaysEvenWithTheManagersMark(t *testing.T) {
	for _, theirs := range []corev1.Taint{
		{Key: outOfService.Key, Value: "maintenance", Effect: outOfService.Effect},
		{Key: outOfService.Key, Value: outOfService.Value, Effect: corev1.TaintEffectNoSchedule},
		{Key: outOfService.Key, Effect: outOfService.Effect},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirs}}}
		setKey(&node.Annotations, infrav1.NodeFencedAnnotation, "olvm://1")
		check.Equal(t, "released", setTaint(node, false, "olvm://1"), infrav1.NodeReleasedReason)
		check.Equal(t, "taints", node.Spec.Taints, []corev1.Taint{theirs})
		check.Equal(t, "marks", len(node.Annotations), 0)
	}
}

func TestAVMThatARemediationHasJustStartedIsNotFenced(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	m := failedAt(at)

	for name, c := range map[string]struct {
		step  infrav1alpha1.RemediationStep
		since time.Duration
		want  bool
	}{
		"a VM that goes down":                     {infrav1alpha1.PoweringOffStep, -time.Hour, true},
		"a VM that starts":                        {infrav1alpha1.StartingStep, -time.Hour, true},
		"a VM that failed before its start":       {infrav1alpha1.WaitingStep, time.Minute, true},
		"a VM that failed in the second of it":    {infrav1alpha1.WaitingStep, 0, true},
		"a VM that has failed again":              {infrav1alpha1.WaitingStep, -time.Second, false},
		"a VM that is the owner's":                {infrav1alpha1.GivenUpStep, time.Minute, false},
		"a remediation that has not begun to act": {"", time.Minute, false},
	} {
		r := &infrav1alpha1.OLVMRemediation{}
		r.Status.Step, r.Status.StepTime = c.step, metav1.NewTime(at.Add(c.since))
		check.Equal(t, name, isStartingVM(r, m), c.want)
	}
}

// failedAt returns a machine whose VM has failed at this time.
func failedAt(at time.Time) *infrav1.OLVMMachine {
	m := provisioned("one", "10.0.0.10")
	conditions.Set(m, metav1.Condition{
		Type: infrav1.VirtualMachineRunningCondition, Status: metav1.ConditionFalse,
		Reason: infrav1.VirtualMachineFailedReason, LastTransitionTime: metav1.NewTime(at),
	})

	return m
}

// TestANodeThatIsAliveIsNeverFenced covers ready Nodes, and kubelets that renew their Leases.
func TestANodeThatIsAliveIsNeverFenced(t *testing.T) {
	at := time.Now().Add(-time.Minute).Truncate(time.Second)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "demo"}}

	for name, c := range map[string]struct {
		ready            corev1.ConditionStatus
		renewed          time.Duration // since the failure; 0 for no Lease
		paused, gone     bool
		disabled, ours   bool
		fencedAfterwards bool
	}{
		"a Node that is silent":    {ready: "Unknown", renewed: -time.Minute, fencedAfterwards: true},
		"a Node that has no Lease": {ready: "Unknown", fencedAfterwards: true},
		"a Node that stays silent": {
			ready: "Unknown", renewed: -time.Minute, ours: true, fencedAfterwards: true,
		},
		"a Node that is ready":                   {ready: "True", renewed: -time.Minute},
		"a fenced Node that is ready":            {ready: "True", ours: true},
		"a Node whose Lease is renewed":          {ready: "Unknown", renewed: 10 * time.Second},
		"a fenced Node whose Lease is renewed":   {ready: "False", renewed: 10 * time.Second, ours: true},
		"a paused Node that is silent":           {ready: "Unknown", paused: true},
		"a fenced Node that is paused":           {ready: "Unknown", paused: true, ours: true, fencedAfterwards: true},
		"a fenced Node that is paused and ready": {ready: "True", paused: true, ours: true},
		"a Node without fencing":                 {ready: "Unknown", disabled: true},
		"a fenced Node without fencing": {
			ready: "Unknown", disabled: true, ours: true, fencedAfterwards: true,
		},
		"a fenced Node without fencing and ready": {ready: "True", disabled: true, ours: true},
		"a fenced Node without a machine":         {ready: "Unknown", gone: true, ours: true, fencedAfterwards: true},
		"a ready Node without a machine":          {ready: "True", gone: true, ours: true},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.ready}}
		if c.ours {
			setTaint(node, true, "olvm://1")
		}

		shrunk, err := shrinkNode(node)
		check.Error(t, err, "")
		node = shrunk.(*corev1.Node) //nolint:forcetypeassert,errcheck // it stays a Node

		workload := fake.NewClientBuilder()
		if c.renewed != 0 {
			renewed := metav1.NewMicroTime(at.Add(c.renewed))
			workload.WithObjects(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "one"},
				Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
			})
		}

		machine := failedAt(at)
		r := &Reconciler{FenceNodes: !c.disabled}
		scope := &nodeScope{cluster: cluster, live: workload.Build(), all: []*infrav1.OLVMMachine{machine}}
		if !c.paused {
			scope.machines = scope.all
		}

		if c.gone {
			machine = nil
		}

		_, err = r.reconcileTaint(t.Context(), scope, node, machine)
		check.Error(t, err, "")
		check.Equal(t, name, hasOutOfService(node), c.fencedAfterwards)
	}
}

func TestAFenceStaysWhileItsMachineOrVMGoes(t *testing.T) {
	deleted, missing := failedAt(time.Now()), failedAt(time.Now())
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	conditions.Set(missing, metav1.Condition{
		Type: infrav1.VirtualMachineRunningCondition, Status: metav1.ConditionFalse,
		Reason: infrav1.VirtualMachineNotFoundReason,
	})
	check.Equal(t, "a machine that has failed", isDisappearing(failedAt(time.Now())), false)
	check.Equal(t, "a machine that is deleted", isDisappearing(deleted), true)
	check.Equal(t, "a VM that the engine does not have", isDisappearing(missing), true)
}

func TestVolumesAreListedOnceInAPass(t *testing.T) {
	lists := 0
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "one"},
	}
	scope := &nodeScope{live: fake.NewClientBuilder().WithObjects(attachment).WithInterceptorFuncs(interceptor.Funcs{
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			lists++
			return c.List(ctx, list, options...)
		},
	}).Build()}

	for name, want := range map[string]bool{"one": true, "two": false} {
		got, err := (&Reconciler{}).checkAttachedVolumes(t.Context(), scope, name)
		check.Error(t, err, "")
		check.Equal(t, name, got, want)
	}

	check.Equal(t, "lists", lists, 1)
}
