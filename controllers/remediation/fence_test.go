package remediation

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// machineWith returns an OLVMMachine with this reason in its condition VirtualMachineRunning.
func machineWith(reason string) *infrav1.OLVMMachine {
	m := &infrav1.OLVMMachine{}
	conditions.Set(m, metav1.Condition{
		Type: infrav1.VirtualMachineRunningCondition, Status: metav1.ConditionFalse, Reason: reason,
	})

	return m
}

func TestARemediationStaysWhileTheMachineOfAStartedVMSaysThatItHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		status    engine.VMStatus
		reason    string
		mayGoDown bool
		want      bool
	}{
		"a VM that runs": {engine.VMUp, infrav1.VirtualMachineRunningReason, false, true},
		"a VM that runs, and is said to be failed": {engine.VMUp, infrav1.VirtualMachineFailedReason, false, false},
		"a VM that starts, and is said to be so": {
			engine.VMPoweringUp, infrav1.VirtualMachineStartingReason, false, true,
		},
		"a VM that may go down": {engine.VMUp, infrav1.VirtualMachineRunningReason, true, false},
		"a VM that is down": {
			engine.VMDown, infrav1.VirtualMachineNotRunningReason, false, false,
		},
	} {
		s := &scope{vm: &engine.VM{Status: c.status}, olvmMachine: machineWith(c.reason)}
		check.Equal(t, name, canRelease(s, c.mayGoDown), c.want)
	}
}

// liveOnly is a workload cluster with a stale cache: cached and live have different Nodes.
type liveOnly struct {
	clustercache.ClusterCache

	cached, live client.Client
	err          error
}

func (c *liveOnly) GetClient(context.Context, client.ObjectKey) (client.Client, error) {
	return c.cached, c.err
}

func (c *liveOnly) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return c.live, c.err
}

// TestAVMIsStartedOnlyIfTheAPIServerShowsNoFence uses caches that do not have the taint yet, or that still have it.
func TestAVMIsStartedOnlyIfTheAPIServerShowsNoFence(t *testing.T) {
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	fenced := bare.DeepCopy()
	fenced.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	serving := func(nodes ...client.Object) client.Client {
		return fake.NewClientBuilder().WithObjects(nodes...).Build()
	}

	for name, c := range map[string]struct {
		workloads *liveOnly
		blocked   bool
	}{
		"a fence that the cache does not have": {&liveOnly{cached: serving(bare), live: serving(fenced)}, true},
		"a fence that only the cache has":      {&liveOnly{cached: serving(fenced), live: serving(bare)}, false},
		"a Node that does not exist":           {&liveOnly{cached: serving(fenced), live: serving()}, false},
		"a cluster that does not answer":       {&liveOnly{err: errors.New("no route")}, true},
	} {
		s := &scope{
			machine: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{},
			olvmMachine: machineWith(infrav1.VirtualMachineFailedReason),
		}
		s.machine.Status.NodeRef.Name = "one"

		got := (&Reconciler{Workloads: c.workloads}).fetchStartBlocker(t.Context(), s)
		check.Equal(t, name, got != nil, c.blocked)
	}
}
