package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestDriftIsToldAndNotUndone lets an administrator change two fields of a machine's VM, and then restore both. Only
// one of these fields is configured.
func TestDriftIsToldAndNotUndone(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster to change it behind its back")
	t.Parallel()
	j := newJourney(t, suite.plane)
	j.clusterFile("drift", 83, 1, "")
	j.does("start", "-f", j.file, "--kubeconfig", suite.plane.Kubeconfig, "--timeout", patience)
	t.Cleanup(func() {
		j.does("delete", j.name, "-n", j.namespace, "--kubeconfig", suite.plane.Kubeconfig, "--timeout", patience, "--yes")
	})

	var worker engine.VM

	for _, vm := range j.vms() {
		if strings.Contains(vm.Name, "-md-") {
			worker = vm
		}
	}

	j.expectDrift(worker.Name, infrav1.NoDriftReason)

	// The configuration sets the memory, but not the sound card.
	full, err := j.engine.FetchFullVM(t.Context(), worker.ID)
	check.Error(t, err, "")

	memory, guaranteed, sound := *full.Memory+(1<<30), *full.MemoryPolicy.Guaranteed, !*full.Soundcard
	_, err = j.engine.UpdateVM(t.Context(), worker.ID, &engine.VM{
		Memory: &memory, Soundcard: &sound, MemoryPolicy: &engine.MemoryPolicy{Guaranteed: &guaranteed},
	})
	check.Error(t, err, "")

	message := j.expectDrift(worker.Name, infrav1.DriftDetectedReason)
	check.Equal(t, "what differs", message,
		"The settings in the engine differ from the applied configuration: ovirt_vm.this (memory, soundcard_enabled)")
	check.Equal(t, "warnings of drift", j.driftEvents(worker.Name), 1)

	code, out, problems := j.olvmctl("plan", "--kubeconfig", suite.plane.Kubeconfig, "-n", j.namespace)
	check.Equal(t, "exit code, which says that something would change ("+problems+")", code, 2)
	check.Contains(t, "olvmctl plan", out, "~ memory")
	check.Contains(t, "olvmctl plan", out,
		"Changed in the engine since the last apply: ovirt_vm.this (memory, soundcard_enabled)")

	now, err := j.engine.FetchFullVM(t.Context(), worker.ID)
	check.Error(t, err, "")
	check.Equal(t, "the memory after the check", *now.Memory, memory)

	// A running VM does not give memory back at once, but its configuration for the next start is the requested one.
	_, err = j.engine.UpdateVM(t.Context(), worker.ID, &engine.VM{Soundcard: full.Soundcard})
	check.Error(t, err, "")
	_, err = j.engine.UpdateVMAtNextStart(t.Context(), worker.ID, &engine.VM{
		Memory: full.Memory, MemoryPolicy: &engine.MemoryPolicy{Guaranteed: &guaranteed},
	})
	check.Error(t, err, "")
	j.expectDrift(worker.Name, infrav1.NoDriftReason)
}

// expectDrift waits until the DriftDetected condition of a machine has a given reason, and returns the message of the
// condition.
func (j *journey) expectDrift(machine, reason string) (message string) {
	j.t.Helper()

	wait.For(j.t, fmt.Sprintf("DriftDetected of %s has the reason %s", machine, reason), func() error {
		var m infrav1.OLVMMachine
		key := client.ObjectKey{Namespace: j.namespace, Name: machine}
		if err := suite.plane.Client.Get(j.t.Context(), key, &m); err != nil {
			return err
		}

		condition := conditions.Get(&m, infrav1.DriftDetectedCondition)
		if condition == nil || condition.Reason != reason {
			return fmt.Errorf("it is %v", condition)
		}

		message = condition.Message

		return nil
	})

	return message
}

// driftEvents returns the number of warnings about drift of a machine.
func (j *journey) driftEvents(machine string) int {
	j.t.Helper()
	var list corev1.EventList
	check.Error(j.t, suite.plane.Client.List(context.WithoutCancel(j.t.Context()), &list,
		client.InNamespace(j.namespace)), "")

	return len(slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Name != machine || e.Reason != infrav1.DriftDetectedReason ||
			e.Type != corev1.EventTypeWarning
	}))
}
