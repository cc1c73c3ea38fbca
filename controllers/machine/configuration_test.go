package machine

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestConfiguringWaits verifies that nothing is resolved while an input is missing.
func TestConfiguringWaits(t *testing.T) {
	for name, missing := range map[string]func(*machineScope){
		"the engine":         func(s *machineScope) { s.engine.session = nil },
		"the addresses":      func(s *machineScope) { s.network.err = errors.New("none is left") },
		"the bootstrap data": func(s *machineScope) { s.userDataBlocker = newWaitingForDataError("no Secret") },
		"a state":            func(s *machineScope) { s.observed.StateErr = errors.New("not gzip") },
		"a claim":            func(s *machineScope) { s.claim.err = &blocker.Error{} },
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, nil)
			scope := b.configured()
			scope.desired = desiredFacts{}
			missing(scope)
			before := len(b.sim.ListRequests())
			after, err := b.r.reconcileConfiguration(t.Context(), scope)
			check.Error(t, errors.Join(err, scope.desired.err), "")
			check.Equal(t, "when to look again", after, 0)
			check.Equal(t, "it was resolved", scope.desired.built != nil, false)
			check.Length(t, "requests", b.sim.ListRequests()[before:], 0)
		})
	}
}

// TestAConfigurationIsKnownByItsDigest covers changes of the digest. A new digest requires a run.
func TestAConfigurationIsKnownByItsDigest(t *testing.T) {
	b := withEngine(t, nil)
	scope := b.configured()
	first := scope.desired.digest
	check.Set(t, "digest", first)
	check.Equal(t, "the name of the VM", scope.desired.built.Machine.Name, "m")
	check.Equal(t, "its mark", scope.desired.built.Machine.Comment, ownComment)
	check.Equal(t, "the template", scope.desired.built.Names.VMTemplateName, "ol9-k8s")
	check.Contains(t, "user data", scope.desired.built.Machine.UserData, "#cloud-config")
	check.Equal(t, "of another look", b.configured().desired.digest, first)

	change(b, &corev1.Secret{ObjectMeta: named("m-bootstrap")}, func(s *corev1.Secret) {
		s.Data["value"] = []byte("#cloud-config\nruncmd: [reboot]\n")
	})
	check.Equal(t, "with other user data", b.configured().desired.digest, first)
	change(b, &infrav1.OLVMMachine{ObjectMeta: named("m")}, func(m *infrav1.OLVMMachine) {
		m.Spec.VirtualMachine.Memory = "8GB"
	})
	check.Equal(t, "with more memory it is the same", b.configured().desired.digest == first, false)
}

// TestWhatCannotBeConfigured covers mistakes for users to correct, and an unreachable engine.
func TestWhatCannotBeConfigured(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*objects)
		fault  string
		reason string // of the error
		waits  string // the reason of BootstrapDataAvailable
		err    string
		after  time.Duration
	}{
		"a name that the engine does not know": {
			change: func(o *objects) { o.olvmMachine.Spec.VMTemplateName = "ol9-k9s" },
			reason: infrav1.VMTemplateNotFoundReason, err: "spec.vmTemplateName", after: engineRetry,
		},
		"bootstrap data that is none": {
			change: func(o *objects) { o.bootstrap.Data["value"] = []byte("#!/bin/sh\n") },
			reason: infrav1.BootstrapDataInvalidReason, waits: infrav1.BootstrapDataInvalidReason,
			err: "bootstrap Secret m-bootstrap", after: engineRetry,
		},
		"IDs of virtual routers that nobody can read": {
			change: func(o *objects) {
				o.olvmCluster.Annotations = map[string]string{infrav1.RouterIDsAnnotation: "{"}
			},
			reason: infrav1.ControlPlaneServicesInvalidReason, err: infrav1.RouterIDsAnnotation, after: steadyInterval,
		},
		"an engine that does not answer": {fault: "/api/clusters", err: "engine", after: engineRetry},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, tt.change)
			scope := b.connected()
			_, err := runPhases(t.Context(), scope, b.r.reconcileBootstrapData, b.r.reconcileAddresses)
			check.Error(t, err, "")
			if tt.fault != "" {
				check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: tt.fault, Status: 503}), "")
			}

			after, err := b.r.reconcileConfiguration(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)
			check.Equal(t, "it was resolved", scope.desired.built != nil, false)
			check.Equal(t, "digest", scope.desired.digest, "")
			check.Error(t, scope.desired.err, tt.err)
			check.Equal(t, "what it waits for", reasonOf(scope.userDataBlocker), tt.waits)

			var got *blocker.Error
			errors.As(scope.desired.err, &got)
			check.Equal(t, "the reason", reasonOf(got), tt.reason)

			if tt.waits != "" {
				check.Contains(t, "what is wrong", scope.userDataBlocker.Message, tt.err)
			}
		})
	}
}

// TestAClaimedVMThatCannotBeReadIsAskedForAgain covers a machine with a VM from an inventory.
func TestAClaimedVMThatCannotBeReadIsAskedForAgain(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.pooled()
		o.more = append(o.more, claimOf("vm-a", "m", "c1/m"))
	}, ownVM(false))
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms", Status: 503}), "")
	scope := b.connected()
	_, err := runPhases(t.Context(), scope, b.r.reconcileBootstrapData, b.r.reconcileClaim, b.r.reconcileAddresses)
	check.Error(t, err, "")
	after, err := b.r.reconcileVM(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "when to look again", after, engineRetry)
	check.Equal(t, "the engine does not answer", scope.vm.err != nil, true)
	check.Equal(t, "the VM is another's", scope.vm.foreign, nil)

	b.sim.ClearFaults()
	b.r.Engines = &enginepool.Registry{Reader: b.api, Sessions: b.r.Engines.Sessions} // without the cached answer
	scope = b.configured()
	check.Equal(t, "the VM that is taken over", scope.desired.built.Machine.ClaimedVMID, vmID)
}

// TestControlPlaneNodes covers which machines get the addresses of the control plane, and which addresses these are.
func TestControlPlaneNodes(t *testing.T) {
	nodes := func(o *objects) {
		for name, addresses := range map[string]string{
			"cp-1": `{"nic1":["10.0.0.12"]}`, "cp-2": `{"nic1":["10.0.0.11","fd00::11"],"nic2":["10.9.0.11"]}`,
			"cp-3": `{`, "w-1": `{"nic1":["10.0.0.13"]}`,
		} {
			owner, node := o.machine.DeepCopy(), o.olvmMachine.DeepCopy()
			owner.Name, node.Name, owner.Spec.InfrastructureRef.Name = name, name, name
			node.Annotations = map[string]string{infrav1.AddressesAnnotation: addresses}
			if name != "w-1" {
				owner.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo",
					clusterv1.MachineControlPlaneLabel: ""}
			}

			o.more = append(o.more, owner, node)
		}

		gone := o.machine.DeepCopy()
		gone.Name, gone.Spec.InfrastructureRef.Name = "cp-4", "cp-4"
		gone.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: ""}
		other := gone.DeepCopy()
		other.Name, other.Spec.InfrastructureRef.Name = "other", "cp-1"
		other.Labels[clusterv1.ClusterNameLabel] = "other"
		o.more = append(o.more, gone, other)
	}
	services := func(o *objects) {
		nodes(o)
		o.olvmCluster.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived"}
	}
	controlPlane := func(o *objects) { o.machine.Labels[clusterv1.MachineControlPlaneLabel] = "" }
	const all = "10.0.0.11 10.0.0.12 fd00::11"

	for name, tt := range map[string]struct {
		change func(*objects)
		booted bool
		want   string
	}{
		"one of the control plane knows the others": {func(o *objects) { services(o); controlPlane(o) }, false, all},
		"it does not need them when it has booted":  {func(o *objects) { services(o); controlPlane(o) }, true, ""},
		"nor without services of the control plane": {func(o *objects) { nodes(o); controlPlane(o) }, false, ""},
		"a worker does not know them":               {services, false, ""},
		"a worker that answers for names does": {func(o *objects) {
			services(o)
			o.olvmCluster.Spec.ControlPlaneServices.DNS = &infrav1.ClusterDNS{Domain: "example.com"}
		}, false, all},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			scope := b.scope()
			if !tt.booted {
				_, err := b.r.reconcileBootstrapData(t.Context(), scope)
				check.Error(t, err, "")
			}

			got, err := b.r.listControlPlaneNodes(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "addresses", joined(got), tt.want)
		})
	}

	for object, want := range map[client.Object]string{
		&infrav1.OLVMMachine{}: "failed to get OLVMMachine cp-",
		nil:                    "failed to list the Machines of Cluster demo",
	} {
		b := newBench(t, func(o *objects) { services(o); controlPlane(o) })
		scope := b.scope()
		_, err := b.r.reconcileBootstrapData(t.Context(), scope)
		check.Error(t, err, "")

		if object != nil {
			b.refuse("get", object)
		} else {
			b.refuse("list", &clusterv1.MachineList{})
		}

		_, err = b.r.listControlPlaneNodes(t.Context(), scope)
		check.Error(t, err, want)
	}
}

// TestNodesThatCannotBeListedStopThePass verifies that nothing is resolved if the nodes are unknown.
func TestNodesThatCannotBeListedStopThePass(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.olvmCluster.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived"}
		o.machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
	})
	scope := b.connected()
	_, err := runPhases(t.Context(), scope, b.r.reconcileBootstrapData, b.r.reconcileAddresses)
	check.Error(t, err, "")
	b.refuse("list", &clusterv1.MachineList{})
	_, err = b.r.reconcileConfiguration(t.Context(), scope)
	check.Error(t, err, "failed to list the Machines")
	check.Equal(t, "it was resolved", scope.desired.built != nil, false)
}

// TestAMembershipThatCannotBeAskedForIsNotForgotten verifies that the pass reports an unreachable engine.
func TestAMembershipThatCannotBeAskedForIsNotForgotten(t *testing.T) {
	b := inGroups(t, "m")
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/affinitygroups", Status: 503}), "")
	scope := b.connected()
	_, err := runPhases(t.Context(), scope, b.r.reconcileState, b.r.reconcileAddresses, b.r.reconcileVM)
	check.Error(t, err, "")
	after, err := b.r.reconcileConfiguration(t.Context(), scope)
	check.Error(t, errors.Join(err, scope.desired.err), "")
	check.Equal(t, "when to look again", after, engineRetry)
	check.Equal(t, "it was resolved", scope.desired.built != nil, true)
	check.Equal(t, "it left a group", scope.desired.leftGroup, false)

	var unreachable *engine.UnreachableError
	check.Equal(t, "the engine did not answer", errors.As(scope.vm.err, &unreachable), true)
}
