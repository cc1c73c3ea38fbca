package controllers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

var (
	provisionedSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "capolvm_machine_provisioned_seconds",
		Help:    "Seconds from the creation of an OLVMMachine until its VM is up and its addresses are known.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 1200, 3600},
	})
	driftTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_drift_total",
		Help: "Changes made in the engine behind the manager's back: vm (it was deleted, and is not made again), " +
			"affinity_group (deleted or changed), affinity_group_member (a VM was taken out).",
	}, []string{"kind"})
)

// The kinds of drift.
const (
	driftVM     = "vm"
	driftGroup  = "affinity_group"
	driftMember = "affinity_group_member"
)

func init() {
	metrics.Registry.MustRegister(provisionedSeconds, driftTotal)
	metrics.Registry.MustRegister(terraform.Collectors()...)
	metrics.Registry.MustRegister(workspace.Collectors()...)
	metrics.Registry.MustRegister(engine.Collectors()...)
	metrics.Registry.MustRegister(userdataserver.Collectors()...)

	for _, kind := range []string{driftVM, driftGroup, driftMember} {
		driftTotal.WithLabelValues(kind) // a counter that is not there cannot increase
	}
}

// observeMachine counts what became of a machine in a pass; provisioned and before are from before it. A machine that
// has a node already came from another management cluster, and did not just get its VM.
func observeMachine(scope *machineScope, provisioned bool, before []metav1.Condition) {
	m := scope.olvmMachine
	if !m.DeletionTimestamp.IsZero() {
		return
	}

	if !provisioned && ptr.Deref(m.Status.Initialization.Provisioned,
		false) && !scope.machine.Status.NodeRef.IsDefined() {
		provisionedSeconds.Observe(time.Since(m.CreationTimestamp.Time).Seconds())
	}

	lost := func(list []metav1.Condition) bool {
		c := meta.FindStatusCondition(list, infrav1.VirtualMachineRunningCondition)
		return c != nil && c.Reason == infrav1.VirtualMachineNotFoundReason
	}
	if lost(m.Status.Conditions) && !lost(before) {
		driftTotal.WithLabelValues(driftVM).Inc()
	}
}
