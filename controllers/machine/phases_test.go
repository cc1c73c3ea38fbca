package machine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// TestRunPhases covers how the results of phases are combined.
func TestRunPhases(t *testing.T) {
	broken := errors.New("broken")

	type end struct {
		after time.Duration
		err   error
		// unread reports that the phase could not read the state.
		unread bool
	}

	for name, tt := range map[string]struct {
		phases []end
		ran    int
		after  time.Duration
		err    bool
	}{
		"there is nothing to look at again":             {[]end{{}, {}}, 2, 0, false},
		"the soonest time wins, if it is the first":     {[]end{{after: 1}, {after: 3}, {after: 2}}, 3, 1, false},
		"the soonest time wins, if it is in the middle": {[]end{{after: 3}, {after: 1}, {after: 2}}, 3, 1, false},
		"no time is not the soonest":                    {[]end{{after: 3}, {}, {after: 2}, {}}, 4, 2, false},
		"an error hides nothing that comes later":       {[]end{{err: broken}, {after: 1}}, 2, 0, true},
		"without the state nothing is decided": {
			[]end{{after: 1}, {unread: true, err: broken}, {after: 1}}, 2, 0, true,
		},
		"nor is a time asked for that comes from it": {[]end{{unread: true, after: 1}, {}}, 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{workspace: &workspace.Workspace{}}
			ran := 0
			var phases []phase

			for _, each := range tt.phases {
				phases = append(phases, func(context.Context, *machineScope) (time.Duration, error) {
					ran++
					scope.observed.StateUnread = each.unread

					return each.after, each.err
				})
			}

			result, err := runPhases(t.Context(), scope, phases...)
			check.Equal(t, "phases that ran", ran, tt.ran)
			check.Equal(t, "the result", result, ctrl.Result{RequeueAfter: tt.after})
			check.Equal(t, "the error is kept", errors.Is(err, broken), tt.err)
		})
	}
}

// another returns a second Cluster with the same OLVMCluster.
func another(of *clusterv1.Cluster) *clusterv1.Cluster {
	out := of.DeepCopy()
	out.Name, out.UID, out.ResourceVersion = "another", "another", ""

	return out
}

func TestReconcileBootstrapData(t *testing.T) {
	const missing = "Bootstrap Secret m-bootstrap does not exist"

	for name, tt := range map[string]struct {
		change          func(*objects)
		reason, message string
		after           time.Duration
		read            bool
	}{
		"it is there": {change: func(*objects) {}, read: true},
		"the infrastructure of the cluster is not": {
			change:  func(o *objects) { o.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(false) },
			reason:  infrav1.WaitingForClusterInfrastructureReason,
			message: "Waiting for Cluster status.initialization.infrastructureProvisioned",
		},
		"the infrastructure of the cluster is not known": {
			change: func(o *objects) { o.cluster.Status.Initialization.InfrastructureProvisioned = nil },
			reason: infrav1.WaitingForClusterInfrastructureReason,
		},
		"that of the OLVMCluster is not, which the Cluster names since it was provisioned": {
			change:  func(o *objects) { o.olvmCluster.Status.Initialization.Provisioned = nil },
			reason:  infrav1.WaitingForClusterInfrastructureReason,
			message: "Waiting for status.initialization.provisioned of OLVMCluster demo",
		},
		"another Cluster has the OLVMCluster": {
			change: func(o *objects) {
				o.more = append(o.more, another(o.cluster))
				o.olvmCluster.OwnerReferences = []metav1.OwnerReference{
					{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "another", UID: "another"},
				}
			},
			reason:  infrav1.WaitingForClusterInfrastructureReason,
			message: "another Cluster owns the OLVMCluster",
			after:   steadyInterval,
		},
		"the Machine names no Secret": {
			change: func(o *objects) { o.machine.Spec.Bootstrap.DataSecretName = nil },
			reason: infrav1.WaitingForBootstrapDataReason, message: "Waiting for Machine spec.bootstrap.dataSecretName",
		},
		"the Secret does not exist": {
			change: func(o *objects) { o.bootstrap.Name = "other" },
			reason: infrav1.WaitingForBootstrapDataReason, message: missing, after: engineRetry,
		},
		"the Secret is gone, and the VM has booted": {
			change: func(o *objects) { o.hasVM(); o.bootstrap.Name = "other" },
		},
		"what it is added to is missing": {
			change: func(o *objects) {
				o.olvmMachine.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{
					{SecretKeyRef: &infrav1.KeyReference{Name: "extra", Key: "a"}},
				}}
			},
			reason: infrav1.WaitingForBootstrapDataReason, message: "Secret extra (userData.extra) does not exist",
			after: engineRetry,
		},
		"the infrastructure may need a support service": {
			change: func(o *objects) {
				o.cluster.Status.Initialization.InfrastructureProvisioned = nil
				ofService(o.olvmMachine)
				o.bootstrap.Name = "m-support"
				o.bootstrap.OwnerReferences = []metav1.OwnerReference{{UID: ownUID, Controller: ptr.To(true)}}
			},
			read: true,
		},
		"a support service does not take what an earlier machine was told": {
			change: func(o *objects) {
				ofService(o.olvmMachine)
				o.bootstrap.Name = "m-support"
				o.bootstrap.OwnerReferences = []metav1.OwnerReference{{UID: machineUID, Controller: ptr.To(true)}}
			},
			reason:  infrav1.WaitingForBootstrapDataReason,
			message: "Secret m-support belongs to an earlier machine of this name",
			after:   engineRetry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			scope := b.scope()
			after, err := b.r.reconcileBootstrapData(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)
			check.Equal(t, "the reason", reasonOf(scope.userDataBlocker), tt.reason)
			check.Equal(t, "it was read", scope.bootstrap != nil, tt.read)

			if tt.message != "" {
				check.Equal(t, "the message", strings.HasPrefix(scope.userDataBlocker.Message, tt.message), true)
			}
		})
	}
}

// TestWhatUserDataIsMadeOf covers the bootstrap Secret, and all sources of additions.
func TestWhatUserDataIsMadeOf(t *testing.T) {
	network := clusterv1.ClusterNetwork{Pods: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}}}
	b := newBench(t, func(o *objects) {
		o.cluster.Spec.ClusterNetwork = network
		o.olvmCluster.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{Inline: "a: 1\n"}}}
		o.olvmMachine.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{
			{SecretKeyRef: &infrav1.KeyReference{Name: "extra", Key: "key"}},
			{ConfigMapKeyRef: &infrav1.KeyReference{Name: "extra", Key: "text"}},
			{ConfigMapKeyRef: &infrav1.KeyReference{Name: "extra", Key: "binary"}},
		}}
		o.more = append(o.more,
			&corev1.Secret{ObjectMeta: named("extra"), Data: map[string][]byte{"key": []byte("secret")}},
			&corev1.ConfigMap{
				ObjectMeta: named("extra"), Data: map[string]string{"text": "text"},
				BinaryData: map[string][]byte{"binary": []byte("binary")},
			},
		)
	})
	scope := b.scope()
	_, err := b.r.reconcileBootstrapData(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "the bootstrap data", *scope.bootstrap, desired.Bootstrap{
		Source: "bootstrap Secret m-bootstrap", Data: []byte("#cloud-config\nwrite_files: []\n"),
		Format: bootstrap.CloudConfig, Network: network,
		Extra: []bootstrap.Extra{
			{Source: "userData.extra[0].inline", Data: []byte("a: 1\n")},
			{Source: "Secret extra (userData.extra)", Data: []byte("secret")},
			{Source: "ConfigMap extra (userData.extra)", Data: []byte("text")},
			{Source: "ConfigMap extra (userData.extra)", Data: []byte("binary")},
		},
	})

	for what, key := range map[string]string{
		`Secret extra (userData.extra) has no key "gone"; add it, or correct the key`:    "Secret",
		`ConfigMap extra (userData.extra) has no key "gone"; add it, or correct the key`: "ConfigMap",
	} {
		extra := infrav1.ExtraUserData{SecretKeyRef: &infrav1.KeyReference{Name: "extra", Key: "gone"}}
		if key == "ConfigMap" {
			extra = infrav1.ExtraUserData{ConfigMapKeyRef: extra.SecretKeyRef}
		}

		scope.olvmMachine.Spec.UserData.Extra = []infrav1.ExtraUserData{extra}
		_, waiting, err := b.r.readExtraUserData(t.Context(), scope)
		check.Error(t, err, "")
		check.Equal(t, "what it waits for", waiting.Message, what)
		check.Equal(t, "when to look again", waiting.RetryAfter, engineRetry)
	}

	scope.olvmCluster = nil
	extra, waiting, err := b.r.readExtraUserData(t.Context(), scope)
	check.Error(t, err, "")
	check.Length(t, "without a cluster", extra, 0)
	check.Equal(t, "without a cluster it waits for", reasonOf(waiting), "")
}

func TestUserDataThatCannotBeRead(t *testing.T) {
	extra := func(o *objects) {
		o.olvmMachine.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{
			{ConfigMapKeyRef: &infrav1.KeyReference{Name: "extra", Key: "a"}},
		}}
	}

	for name, tt := range map[string]struct {
		object runtime.Object
		want   string
	}{
		"the bootstrap Secret": {&corev1.Secret{}, "failed to get the bootstrap Secret ns/m-bootstrap"},
		"what is added":        {&corev1.ConfigMap{}, "failed to get ConfigMap extra (userData.extra)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, extra)
			b.refuse("get", tt.object)
			scope := b.scope()
			_, err := b.r.reconcileBootstrapData(t.Context(), scope)
			check.Error(t, err, tt.want)
			check.Equal(t, "what it waits for", reasonOf(scope.userDataBlocker), "")
		})
	}
}

// TestUserDataIsOfferedIfTheManagerHandsItOut covers VMs that fetch their user data from the manager.
func TestUserDataIsOfferedIfTheManagerHandsItOut(t *testing.T) {
	b := newBench(t, nil)
	scope := b.scope()
	_, err := b.r.reconcileBootstrapData(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "it is offered without a server", scope.bootstrap.Offer != nil, false)

	b.r.Delivery, err = userdataserver.New(t.Context(), userdataserver.Options{
		Client: b.api, Metadata: b.api, Recorder: b.recorder, URL: "https://manager.example.com",
		Authority: client.ObjectKey{Namespace: "ns", Name: "authority"}, Lifetime: time.Hour,
	})
	check.Error(t, err, "")
	_, err = b.r.reconcileBootstrapData(t.Context(), scope)
	check.Error(t, err, "")
	pointer, err := scope.bootstrap.Offer([]byte("user data"))
	check.Error(t, err, "")
	check.Contains(t, "where the VM finds it", pointer.URL, "https://manager.example.com/")
	check.Contains(t, "whose it is", pointer.URL, "/ns/m")
}

// TestARunHasTheUserData verifies that a pass does not read the bootstrap data again during a run.
func TestARunHasTheUserData(t *testing.T) {
	b := withEngine(t, nil)
	end := make(chan struct{})
	b.executor.run = func(context.Context, terraform.Request) error { <-end; return nil }
	t.Cleanup(func() { close(end) })
	b.pass()

	scope := b.scope()
	_, err := b.r.reconcileBootstrapData(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "it was read", scope.bootstrap != nil, false)
	check.Equal(t, "what it waits for", reasonOf(scope.userDataBlocker), "")
}

func TestReconcileAddresses(t *testing.T) {
	used := func(o *objects) {
		other := newMachine(otherVMID)
		other.Name, other.UID = "other", "44444444-4444-4444-8444-444444444444"
		other.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.0.0.10"]}`}
		o.more = append(o.more, other)
	}

	for name, tt := range map[string]struct {
		change func(*objects)
		want   string
		reason string
		after  time.Duration
	}{
		"the first of its range":        {func(*objects) {}, "10.0.0.10", "", 0},
		"another machine has the first": {used, "10.0.0.11", "", 0},
		"others have all of them": {func(o *objects) {
			used(o)
			o.olvmMachine.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10"}
		}, "", infrav1.AddressRangeExhaustedReason, steadyInterval},
		"its ranges contradict its subnet": {func(o *objects) {
			o.olvmMachine.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.1.9"}
		}, "", infrav1.AddressRangeInvalidReason, steadyInterval},
		"its cluster is not there yet": {
			func(o *objects) { o.olvmCluster = nil }, "", infrav1.WaitingForClusterInfrastructureReason, engineRetry,
		},
		"the record of its VM is lost, and the engine cannot be asked": {func(o *objects) {
			o.hasVM()
			delete(o.olvmMachine.Annotations, infrav1.AddressesAnnotation)
		}, "", infrav1.WaitingForEngineReason, steadyInterval},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			scope := b.scope()
			after, err := b.r.reconcileAddresses(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)

			var got *blocker.Error
			errors.As(scope.network.err, &got)
			check.Equal(t, "the reason", reasonOf(got), tt.reason)

			if tt.want != "" {
				check.Length(t, "addresses", scope.network.addresses["nic1"], 1)
				check.Equal(t, "the address", scope.network.addresses["nic1"][0].Addr().String(), tt.want)
			}
		})
	}

	b := newBench(t, nil)
	b.refuse("list", &infrav1.OLVMMachineList{})
	scope := b.scope()
	_, err := b.r.reconcileAddresses(t.Context(), scope)
	check.Error(t, err, "failed to list OLVMMachines")
	check.Error(t, scope.network.err, "failed to list OLVMMachines")
}

// TestAddressesInAnInitialization covers a VM's network configuration, in the engine's form.
func TestAddressesInAnInitialization(t *testing.T) {
	nics := []addressing.NIC{
		{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "nic1"}, Guest: &addressing.GuestNIC{Interface: "enp1s0"}},
		{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "nic2"}},
		{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "nic3"}, Guest: &addressing.GuestNIC{Interface: "enp3s0"}},
	}
	told := func(configured ...engine.NICConfiguration) *engine.Initialization {
		return &engine.Initialization{NICs: &engine.NICConfigurations{Items: configured}}
	}
	ip := func(address string) *engine.IP { return &engine.IP{Address: address} }

	for name, tt := range map[string]struct {
		told *engine.Initialization
		want addressing.Addresses
	}{
		"nothing":                  {nil, nil},
		"no network configuration": {&engine.Initialization{HostName: "m"}, nil},
		"an empty one":             {told(), addressing.Addresses{}},
		"both families": {
			told(engine.NICConfiguration{Name: "enp1s0", IP: ip("10.0.0.10"), IPv6: ip("fd00::10")}),
			addressing.Addresses{"nic1": {netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("fd00::10")}},
		},
		"several interfaces": {
			told(engine.NICConfiguration{Name: "enp3s0", IPv6: ip("fd00::30")},
				engine.NICConfiguration{Name: "enp1s0", IP: ip("10.0.0.10")}),
			addressing.Addresses{"nic1": {netip.MustParseAddr("10.0.0.10")}, "nic3": {netip.MustParseAddr("fd00::30")}},
		},
		"an interface that the machine lacks": {
			told(engine.NICConfiguration{Name: "eth0", IP: ip("10.0.0.10")}), addressing.Addresses{},
		},
		"what is no address": {
			told(engine.NICConfiguration{Name: "enp1s0", IP: ip("dhcp"),
				IPv6: ip("fe80::1%eth0")}), addressing.Addresses{},
		},
	} {
		check.Equal(t, name, fmt.Sprint(parseAddresses(tt.told, nics)), fmt.Sprint(tt.want))
		check.Equal(t, name+" is nothing", parseAddresses(tt.told, nics) == nil, tt.want == nil)
	}
}

// TestAddressesThatTheEngineRemembers verifies that a machine without a record keeps the addresses of its VM.
func TestAddressesThatTheEngineRemembers(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		delete(o.olvmMachine.Annotations, infrav1.AddressesAnnotation)
	}, ownVM(false))
	_, err := b.session.UpdateVM(t.Context(), vmID, &engine.VM{Initialization: &engine.Initialization{
		NICs: &engine.NICConfigurations{Items: []engine.NICConfiguration{
			{
				Name: "enp1s0", OnBoot: true, BootProtocol: "static",
				IP: &engine.IP{Address: "10.0.0.17", Netmask: "255.255.255.0"},
			},
		}},
	}})
	check.Error(t, err, "")
	scope := b.connected()
	_, err = b.r.reconcileAddresses(t.Context(), scope)
	check.Error(t, errors.Join(err, scope.network.err), "")
	check.Equal(t, "the record", scope.olvmMachine.Annotations[infrav1.AddressesAnnotation], `{"nic1":["10.0.0.17"]}`)

	scope.olvmMachine.Spec.ProviderID = "olvm://" + noVMID
	got, err := scope.fetchInitialAddresses(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "of a VM that is gone", got == nil, true)

	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms/", Status: 503}), "")
	_, err = scope.fetchInitialAddresses(t.Context())
	check.Error(t, err, "failed to get VM "+noVMID)
}

func TestReconcileEngine(t *testing.T) {
	unavailable := func(status metav1.ConditionStatus) func(*objects) {
		return func(o *objects) {
			conditions.Set(o.olvmCluster, metav1.Condition{
				Type: infrav1.EngineAvailableCondition, Status: status, Reason: "Some", Message: "it is away",
			})
		}
	}

	for name, tt := range map[string]struct {
		change  func(*objects)
		session bool
		reason  string
		err     string
		after   time.Duration
	}{
		"an engine of which nothing is known": {func(*objects) {}, true, "", "", 0},
		"one that answers":                    {unavailable("True"), true, "", "", 0},
		"one that may answer":                 {unavailable("Unknown"), true, "", "", 0},
		"one that only its OLVMCluster polls": {
			unavailable("False"), false, infrav1.WaitingForEngineReason, "OLVMCluster demo: it is away", steadyInterval,
		},
		"one whose credentials are gone": {
			func(o *objects) { o.credentials.Name = "other" }, false, infrav1.CredentialsNotFoundReason,
			`Secret "creds" does not exist`, engineRetry,
		},
		"none is named": {func(o *objects) { o.olvmCluster = nil }, false, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, tt.change)
			scope := b.scope()
			after, err := b.r.reconcileEngine(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)
			check.Equal(t, "there is a session", scope.engine.session != nil, tt.session)
			// Identifying the engine takes 3 requests.
			check.Equal(t, "requests to the engine", len(b.sim.ListRequests()), map[bool]int{true: 3}[tt.session])

			var got *blocker.Error
			errors.As(scope.engine.err, &got)
			check.Equal(t, "the reason", reasonOf(got), tt.reason)

			if tt.err != "" {
				check.Contains(t, "the error", scope.engine.err.Error(), tt.err)
			}
		})
	}
}

// TestReconcileState covers when the VM in the state becomes the provider ID.
func TestReconcileState(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*objects)
		state  []byte
		want   string
		after  time.Duration
	}{
		"there is no state":           {func(*objects) {}, nil, "", 0},
		"a state with a VM":           {func(*objects) {}, stateOf(1, "ovirt_vm="+vmID), providerID, 0},
		"a state with a claimed VM":   {func(*objects) {}, stateOf(1, "ovirt_adopted_vm="+vmID), providerID, 0},
		"a state without a VM":        {func(*objects) {}, stateOf(1, "ovirt_disk="+vmID), "", 0},
		"a VM that is recorded stays": {(*objects).hasVM, stateOf(1, "ovirt_vm="+otherVMID), providerID, 0},
		"a state that cannot be used": {func(o *objects) {
			o.olvmMachine.Status.Terraform = &infrav1.TerraformStatus{StateLineage: "l", StateSerial: 7}
		}, stateOf(1, "ovirt_vm="+vmID), "", steadyInterval},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			if tt.state != nil {
				b.store(tt.state, "digest")
			}

			scope := b.scope()
			after, err := b.r.reconcileState(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)
			check.Equal(t, "provider ID", scope.olvmMachine.Spec.ProviderID, tt.want)
			check.Equal(t, "it cannot be used", scope.observed.StateErr != nil, tt.after > 0)
		})
	}
}

// TestAStateThatCannotBeReadStopsThePass verifies that nothing is decided without the state.
func TestAStateThatCannotBeReadStopsThePass(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	b.store(stateOf(1, "ovirt_vm="+vmID), "digest")
	b.refuse("get", &corev1.Secret{})
	_, err := b.reconcile()
	check.Error(t, err, "failed to get the state Secret")
	check.Equal(t, "applied", condition(b.stored(), infrav1.InfrastructureAppliedCondition), "")
	check.Length(t, "requests to the engine", b.sim.ListRequests(), 0)
}

// emptyLists makes an engine return empty lists of VMs, like a cached list from before the VM's creation.
func emptyLists(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/vms") {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = w.Write([]byte("<vms/>"))

			return
		}

		next.ServeHTTP(w, r)
	})
}

// TestReconcileVM covers the facts about a VM, and its watch.
func TestReconcileVM(t *testing.T) {
	booting := func(o *objects) { o.hasVM(); o.olvmMachine.Status.Initialization.Provisioned = nil }

	for name, tt := range map[string]struct {
		change           func(*objects)
		vm               ovirtsim.VM
		missing, booting bool
		// again reports whether the engine may still restart the VM on its own.
		again bool
	}{
		"a VM that runs":                     {change: (*objects).hasVM, vm: ownVM(true)},
		"a VM that is up for the first time": {change: booting, vm: ownVM(true)},
		"a VM that is not up yet":            {change: booting, vm: ownVM(false), booting: true},
		"a VM that somebody has powered off": {change: (*objects).hasVM, vm: ownVM(false), again: true},
		"a VM that is gone": {
			change: (*objects).hasVM, vm: ovirtsim.VM{Name: "other", ID: otherVMID}, missing: true,
		},
		"a VM that is gone before it was up": {
			change: booting, vm: ovirtsim.VM{Name: "other", ID: otherVMID}, missing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, tt.change, tt.vm)
			scope := b.connected()
			after, err := b.r.reconcileVM(t.Context(), scope)
			check.Error(t, errors.Join(err, scope.vm.err), "")
			check.Equal(t, "the VM's end is looked at again", after > 0 && after <= failureDelay, tt.again)
			check.Equal(t, "missing", scope.vm.missing, tt.missing)
			check.Equal(t, "seen", scope.vm.current == nil, tt.missing)
			check.Equal(t, "the VM that is watched", b.watcher.watched.ID, vmID)
			check.Equal(t, "what it is compared with", b.watcher.watched.Seen == scope.vm.current, true)
			check.Equal(t, "it is watched as one that boots", b.watcher.watched.Booting, tt.booting)
			check.Equal(t, "the session", b.watcher.watched.Session == scope.engine.session, true)

			if tt.vm.Up {
				check.Set(t, "host", scope.vm.host)
			}
		})
	}
}

func TestAVMThatIsNotAskedFor(t *testing.T) {
	b := withEngine(t, nil, ownVM(true))
	after, err := b.r.reconcileVM(t.Context(), b.connected())
	check.Error(t, err, "")
	check.Equal(t, "when to look again", after, 0)
	check.Equal(t, "a machine without a VM is watched", b.watcher.watched != nil, false)
	check.Equal(t, "times that a VM was let go", b.watcher.unwatched, 0)

	b = withEngine(t, (*objects).hasVM, ownVM(true))
	after, err = b.r.reconcileVM(t.Context(), b.scope())
	check.Error(t, err, "")
	check.Equal(t, "when to look again without a session", after, 0)
	check.Equal(t, "times that the VM of an engine was let go whose credentials were withdrawn", b.watcher.unwatched, 1)
	check.Length(t, "requests to the engine", b.sim.ListRequests(), 0)
}

// TestAVMIsNotLostBecauseAListLacksIt verifies that a pass requests the VM itself before declaring it lost.
func TestAVMIsNotLostBecauseAListLacksIt(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	vm := ownVM(true)
	vm.Cluster, vm.Template = "Default", "ol9-k8s"
	inventory.DataCenters[0].VMs = []ovirtsim.VM{vm}
	b := withOptions(t, ovirtsim.Options{Inventory: inventory, Gate: emptyLists}, (*objects).hasVM)

	scope := b.connected()
	_, err := b.r.reconcileVM(t.Context(), scope)
	check.Error(t, errors.Join(err, scope.vm.err), "")
	check.Equal(t, "missing", scope.vm.missing, false)
	check.Equal(t, "seen", scope.vm.current.ID, vmID)

	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms/" + vmID, Status: 503}), "")
	scope = b.connected()
	after, err := b.r.reconcileVM(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "when to look again", after, engineRetry)
	check.Error(t, scope.vm.err, "failed to get VM "+vmID)
	check.Equal(t, "missing if the engine did not answer", scope.vm.missing, false)
}

func TestAnEngineThatDoesNotAnswerForAVM(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms", Status: 503}), "")
	scope := b.connected()
	after, err := b.r.reconcileVM(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "when to look again", after, engineRetry)
	check.Error(t, scope.vm.err, "failed to list VMs")
	check.Equal(t, "missing", scope.vm.missing, false)
	check.Equal(t, "watched", b.watcher.watched != nil, false)
}

// TestASteadyVMIsNotAskedForAgain verifies that the second of two passes uses the answer of the first.
func TestASteadyVMIsNotAskedForAgain(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	_, err := b.r.reconcileVM(t.Context(), b.connected())
	check.Error(t, err, "")
	before := len(b.sim.ListRequests())
	scope := b.connected()
	_, err = b.r.reconcileVM(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "requests", len(b.sim.ListRequests()), before)
	check.Equal(t, "seen", scope.vm.current.ID, vmID)
}

// TestABootingVMIsAskedForAgainSoon verifies that a machine without a running VM does not use an old answer.
func TestABootingVMIsAskedForAgainSoon(t *testing.T) {
	t.Parallel() // it waits
	b := withEngine(t, func(o *objects) { o.hasVM(); o.olvmMachine.Status.Initialization.Provisioned = nil },
		ownVM(false))
	look := func() *machineScope {
		scope := b.connected()
		_, err := b.r.reconcileVM(t.Context(), scope)
		check.Error(t, errors.Join(err, scope.vm.err), "")

		return scope
	}
	check.Equal(t, "status", look().vm.current.Status, engine.VMDown)
	check.Error(t, b.session.StartVM(t.Context(), vmID, false), "")
	b.eventually("the machine sees that its VM is up", func() bool { return look().vm.current.Status == engine.VMUp })
}

// TestWhatWaitsForARestart covers settings pending until the next start of a VM.
func TestWhatWaitsForARestart(t *testing.T) {
	b := withEngine(t, (*objects).hasVM, ownVM(true))
	_, err := b.session.UpdateVM(t.Context(), vmID, &engine.VM{
		Console: &engine.Console{Enabled: true}, MemoryPolicy: &engine.MemoryPolicy{Ballooning: ptr.To(false)},
	})
	check.Error(t, err, "")
	scope := b.connected()
	_, err = b.r.reconcileVM(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "what waits", scope.vm.pendingSettings, []string{"memory ballooning", "serial console"})

	// An unreachable engine is no error: the next pass asks again.
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms/" + vmID, Status: 503}), "")
	scope = b.connected()
	_, err = b.r.reconcileVM(t.Context(), scope)
	check.Error(t, errors.Join(err, scope.vm.err), "")
	check.Length(t, "what waits if the engine does not say", scope.vm.pendingSettings, 0)
}

// TestTheHostOfAVM verifies that the last known name stays while the name of the host is unknown.
func TestTheHostOfAVM(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.hasVM()
		o.olvmMachine.Status.OLVM = &infrav1.OLVMStatus{
			VirtualMachine: infrav1.VirtualMachineStatus{HostName: "host-9"},
		}
	}, ownVM(true))
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/hosts", Status: 503, Count: 1}), "")

	scope := b.connected()
	_, err := b.r.reconcileVM(t.Context(), scope)
	check.Error(t, errors.Join(err, scope.vm.err), "")
	check.Equal(t, "a host whose name is not known", scope.vm.host, "host-9")

	b.sim.ClearFaults()
	b.eventually("the engine says how the host is called", func() bool {
		scope = b.connected()
		_, err = b.r.reconcileVM(t.Context(), scope)
		check.Error(t, errors.Join(err, scope.vm.err), "")

		return slices.Contains([]string{"host-1", "host-2", "host-3"}, scope.vm.host)
	})
}

func TestReconcileRun(t *testing.T) {
	built := func(s *machineScope) {
		s.desired.built, s.desired.digest = &desired.Built{Machine: render.Machine{Name: "m"}}, "new"
	}

	for name, tt := range map[string]struct {
		change  func(*objects)
		state   []byte // applied with the digest "old"
		facts   func(*machineScope)
		want    workspace.ActionKind
		members float64
	}{
		"something is missing": {facts: func(*machineScope) {}, want: workspace.Wait},
		"all is there":         {facts: built, want: workspace.Apply},
		"the engine did not answer": {
			facts: func(s *machineScope) { built(s); s.vm.err = errors.New("HTTP 500") }, want: workspace.Wait,
		},
		"it is applied": {
			change: (*objects).hasVM, state: stateOf(1, "ovirt_vm="+vmID),
			facts: func(s *machineScope) { built(s); s.desired.digest = "old" }, want: workspace.None,
		},
		"it is to be changed": {
			change: (*objects).hasVM, state: stateOf(1, "ovirt_vm="+vmID), facts: built, want: workspace.Apply,
		},
		"its VM is lost, and is not made again": {
			change: (*objects).hasVM, state: stateOf(1, "ovirt_vm="+vmID),
			facts: func(s *machineScope) { built(s); s.vm.missing = true }, want: workspace.Block,
		},
		"its VM, of which there is no state, is lost": {
			change: (*objects).hasVM, facts: func(s *machineScope) { built(s); s.vm.missing = true },
			want: workspace.Block,
		},
		"a VM that was never recorded cannot be lost": {
			facts: func(s *machineScope) { built(s); s.vm.missing = true }, want: workspace.Apply,
		},
		"somebody took its VM out of a group": {
			change: (*objects).hasVM, state: stateOf(1, "ovirt_vm="+vmID),
			facts: func(s *machineScope) { built(s); s.desired.digest, s.desired.leftGroup = "old", true },
			want:  workspace.Apply, members: 1,
		},
		"its VM leaves a group because it is to be changed": {
			change: (*objects).hasVM, state: stateOf(1, "ovirt_vm="+vmID),
			facts: func(s *machineScope) { built(s); s.desired.leftGroup = true }, want: workspace.Apply,
		},
		"its VM is in no group, and there is no state": {
			facts: func(s *machineScope) { built(s); s.desired.leftGroup = true }, want: workspace.Apply,
		},
		"it waits, and whatever its groups are is not counted": {
			change: (*objects).hasVM, state: stateOf(1, "ovirt_vm="+vmID),
			facts: func(s *machineScope) { s.desired.digest, s.desired.leftGroup = "old", true }, want: workspace.Wait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, tt.change, ovirtsim.VM{Name: "other", ID: vmID})
			if tt.state != nil {
				b.store(tt.state, "old")
			}

			scope := b.connected()
			_, err := b.r.reconcileState(t.Context(), scope)
			check.Error(t, err, "")
			tt.facts(scope)
			members := drifts(t, workspace.DriftedMember)
			_, err = b.r.reconcileRun(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "the action", scope.action.Kind, tt.want)
			check.Equal(t, "members that were taken out", drifts(t, workspace.DriftedMember)-members, tt.members)

			_, blocked := b.stored().Annotations[clusterctlv1.BlockMoveAnnotation]
			check.Equal(t, "it must not be moved", blocked, tt.want == workspace.Apply)

			if tt.want == workspace.Apply {
				check.Equal(t, "that a VM may exist is written before",
					b.stored().Annotations[infrav1.CreateRequestedAnnotation], "m")
				b.eventually("a run", b.ran)

				return
			}

			check.Equal(t, "a run", b.ran(), false)
		})
	}
}

// TestARunThatCannotBeRecordedDoesNotBegin makes the API server refuse the annotation that must precede a run.
func TestARunThatCannotBeRecordedDoesNotBegin(t *testing.T) {
	b := withEngine(t, nil)
	b.refuse("patch", &infrav1.OLVMMachine{})
	scope := b.connected()
	scope.desired.built, scope.desired.digest = &desired.Built{}, "new"
	_, err := b.r.reconcileRun(t.Context(), scope)
	check.Error(t, err, "failed to block moves of")
	check.Equal(t, "a run", b.ran(), false)
}

func TestProviderIDToVM(t *testing.T) {
	for id, want := range map[string]engine.ID{
		"": "", providerID: vmID, vmID: "", "aws:///zone/i-1": "", "olvm://": "",
	} {
		check.Equal(t, id, parseProviderID(id), want)
	}
}
