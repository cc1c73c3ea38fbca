package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

func removed(m *infrav1.OLVMMachine) {
	conditions.Set(m, metav1.Condition{
		Type: infrav1.UserDataRemovedCondition, Status: "True", Reason: infrav1.UserDataRemovedReason,
	})
}

// ofService assigns a machine to a support service.
func ofService(m *infrav1.OLVMMachine) *infrav1.OLVMMachine {
	m.Labels[infrav1alpha1.SupportServiceLabel] = "lb-api"
	m.OwnerReferences = []metav1.OwnerReference{{
		Kind: "OLVMSupportServices", Name: "demo", Controller: ptr.To(true),
	}}

	return m
}

func TestSetUserDataCondition(t *testing.T) {
	refusal := errors.New("not now")
	done := newMachine(vmID)
	removed(done)
	kept := newMachine(vmID)
	removed(kept)

	for name, tt := range map[string]struct {
		machine  *infrav1.OLVMMachine
		node     string
		userData userDataFacts
		want     string
		message  string
	}{
		"before it is a node": {
			newMachine(vmID), "", userDataFacts{}, "False/" + infrav1.WaitingForNodeReason, "",
		},
		"a node, and not done": {newMachine(vmID), "m", userDataFacts{}, "", ""},
		"it is taken away now": {
			newMachine(vmID), "m", userDataFacts{removed: true}, "True/" + infrav1.UserDataRemovedReason, "",
		},
		"it could not be": {
			newMachine(vmID), "m", userDataFacts{err: refusal}, "False/" + infrav1.UserDataNotRemovedReason, "not now",
		},
		"it was taken away once": {
			done, "m", userDataFacts{err: refusal}, "True/" + infrav1.UserDataRemovedReason, "",
		},
		"the manager keeps it":                         {kept, "m", userDataFacts{kept: true}, "", ""},
		"a support service has no keys of the cluster": {ofService(newMachine(vmID)), "", userDataFacts{}, "", ""},
		"a VM of an inventory is cleaned later":        {fromInventory(newMachine(vmID)), "", userDataFacts{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{olvmMachine: tt.machine, machine: newObjects().machine, userData: tt.userData}
			scope.machine.Status.NodeRef.Name = tt.node
			setUserDataCondition(scope)
			check.Equal(t, "the condition", condition(tt.machine, infrav1.UserDataRemovedCondition), tt.want)
			check.Equal(t, "the message", message(tt.machine, infrav1.UserDataRemovedCondition), tt.message)
		})
	}
}

// secretScript is user data needed for the first boot only.
const secretScript = "#cloud-config\nkey: secret\n"

// withUserData returns a bench with a node. Its VM still has user data in the engine.
func withUserData(t *testing.T) *bench {
	t.Helper()
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m"}
	}, ovirtsim.VM{Name: "m", ID: vmID, Comment: ownComment})
	_, err := b.session.UpdateVM(t.Context(), vmID, &engine.VM{
		Initialization: &engine.Initialization{CustomScript: secretScript, HostName: "m"},
	})
	check.Error(t, err, "")

	return b
}

// TestWhenUserDataIsTakenAway verifies that only nodes lose their user data, and not while something needs it.
func TestWhenUserDataIsTakenAway(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testing.T, *bench, *machineScope)
		taken  bool
		after  time.Duration
	}{
		"a node": {func(*testing.T, *bench, *machineScope) {}, true, 0},
		"it is no node yet": {func(_ *testing.T, _ *bench, s *machineScope) {
			s.machine.Status.NodeRef = clusterv1.MachineNodeReference{}
		}, false, 0},
		"the manager keeps it": {func(_ *testing.T, _ *bench, s *machineScope) { s.userData.kept = true }, false, 0},
		"it was taken away":    {func(_ *testing.T, _ *bench, s *machineScope) { removed(s.olvmMachine) }, false, 0},
		"the engine is away":   {func(_ *testing.T, _ *bench, s *machineScope) { s.engine.session = nil }, false, 0},
		"the engine has no VM": {func(_ *testing.T, _ *bench, s *machineScope) { s.vm.current = nil }, false, 0},
		"the state cannot be used": {func(_ *testing.T, _ *bench, s *machineScope) {
			s.observed.StateErr = errors.New("not gzip")
		}, false, 0},
		"settings wait for a restart, and would be lost": {func(_ *testing.T, _ *bench, s *machineScope) {
			s.vm.current.ChangesWait = true
		}, false, steadyInterval},
		"a run may need it": {func(t *testing.T, b *bench, s *machineScope) {
			t.Helper()
			end := make(chan struct{})
			b.executor.run = func(context.Context, terraform.Request) error { <-end; return nil }
			t.Cleanup(func() { close(end) })
			_, err := b.r.reconcileAddresses(t.Context(), s)
			check.Error(t, err, "")
			_, err = b.r.reconcileConfiguration(t.Context(), s)
			check.Error(t, err, "")
			_, err = b.r.reconcileRun(t.Context(), s)
			check.Error(t, err, "")
			check.Equal(t, "a run is in flight", s.workspace.IsInFlight(), true)
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := withUserData(t)
			scope := b.connected()
			scope.vm.current = b.vm(vmID)
			tt.change(t, b, scope)
			before := len(b.changes())
			after, err := b.r.reconcileUserData(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)
			check.Equal(t, "taken away", scope.userData.removed, tt.taken)
			check.Equal(t, "the engine was changed", len(b.changes()) > before, tt.taken)
			check.Equal(t, "the engine has it", b.vm(vmID).Initialization.CustomScript == secretScript, !tt.taken)
			check.Equal(t, "host name", b.vm(vmID).Initialization.HostName, "m")
		})
	}
}

// TestUserDataIsTakenOutOfTheState covers a state in Terraform's format.
func TestUserDataIsTakenOutOfTheState(t *testing.T) {
	const state = `{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"managed","type":"ovirt_vm","name":"this",` +
		`"instances":[{"attributes":{"id":"` + vmID + `","initialization_custom_script":"secret"}}]}]}`

	for name, refused := range map[string]bool{"the API server takes it": false, "the API server refuses it": true} {
		t.Run(name, func(t *testing.T) {
			b := withUserData(t)
			b.store([]byte(state), "digest")
			scope := b.connected()
			scope.vm.current = b.vm(vmID)
			_, err := b.r.reconcileState(t.Context(), scope)
			check.Error(t, err, "")

			if refused {
				b.refuse("update", &corev1.Secret{})
			}

			after, err := b.r.reconcileUserData(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "taken away", scope.userData.removed, !refused)
			stored, err := (&tfstate.Store{Client: b.api, Reader: b.api}).Load(t.Context(), b.stored())
			check.Error(t, err, "")
			check.Equal(t, "the state has it", strings.Contains(string(stored.Bytes()), "secret"), refused)

			if !refused {
				check.Equal(t, "when to look again", after, 0)
				return
			}

			within(t, "when to look again", after, userDataRetry)
			check.Error(t, scope.userData.err, "failed to remove the user data: ")
		})
	}
}

// TestUserDataThatTheEngineKeeps covers an engine that refuses to remove the user data at first.
func TestUserDataThatTheEngineKeeps(t *testing.T) {
	b := withUserData(t)
	check.Error(t, b.sim.Inject(ovirtsim.Fault{
		Method: "PUT", Path: "/api/vms/[^/]+$", Status: 409, Count: 1, Reason: "Operation Failed", Detail: "not now",
	}), "")
	scope := b.connected()
	scope.vm.current = b.vm(vmID)
	after, err := b.r.reconcileUserData(t.Context(), scope)
	check.Error(t, err, "")
	within(t, "when to look again", after, userDataRetry)
	check.Equal(t, "taken away", scope.userData.removed, false)
	check.Error(t, scope.userData.err, "not now")

	// The removal also deletes the host name. The manager must write it again, even if the engine fails once.
	check.Error(
		t, b.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "/api/vms/[^/]+$", Status: 503, Nth: 2, Count: 1}), "",
	)
	scope = b.connected()
	scope.vm.current = b.vm(vmID)
	_, err = b.r.reconcileUserData(t.Context(), scope)
	check.Error(t, errors.Join(err, scope.userData.err), "")
	check.Equal(t, "taken away", scope.userData.removed, true)
	check.Equal(t, "user data", b.vm(vmID).Initialization.CustomScript, "")
	check.Equal(t, "host name", b.vm(vmID).Initialization.HostName, "m")
}
