package machine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

var provisionedSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
	Name:    "capolvm_machine_provisioned_seconds",
	Help:    "Seconds from the creation of an OLVMMachine until its VM is up and its addresses are known.",
	Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 1200, 3600},
})

// Collectors returns the metrics of this package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{provisionedSeconds} }

// countMachine updates the metrics from the result of a pass. It does not measure the provisioning of a machine that
// already has a node, because clusterctl moved such a machine here with its VM.
func countMachine(scope *machineScope) {
	m := scope.olvmMachine
	before := scope.pass.ObjectBefore().(*infrav1.OLVMMachine).Status //nolint:forcetypeassert,errcheck // a machine
	if !m.DeletionTimestamp.IsZero() {
		return
	}

	provisioned := func(s infrav1.OLVMMachineStatus) bool { return ptr.Deref(s.Initialization.Provisioned, false) }
	if provisioned(m.Status) && !provisioned(before) && !scope.machine.Status.NodeRef.IsDefined() {
		provisionedSeconds.Observe(time.Since(m.CreationTimestamp.Time).Seconds())
	}

	lost := func(list []metav1.Condition) bool {
		c := meta.FindStatusCondition(list, infrav1.VirtualMachineRunningCondition)
		return c != nil && c.Reason == infrav1.VirtualMachineNotFoundReason
	}
	if lost(m.Status.Conditions) && !lost(before.Conditions) {
		workspace.CountDrift(workspace.DriftedVM)
	}
}
