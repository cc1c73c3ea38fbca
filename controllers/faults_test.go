package controllers

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// repack edits the state in a Secret.
func repack(t *testing.T, secret *corev1.Secret, change func(state map[string]any)) {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	if err != nil {
		t.Fatal(err)
	}

	raw, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}

	state := map[string]any{}
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}

	change(state)
	if raw, err = json.Marshal(state); err != nil {
		t.Fatal(err)
	}

	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(raw)
	_ = writer.Close()
	secret.Data["tfstate"] = packed.Bytes()
}

// TestAStateThatCannotBeUsedIsNamedAndKept damages the state of a running machine. Nothing may change the VM or the
// state. The condition names the remedy, and the remedy works.
func TestAStateThatCannotBeUsedIsNamedAndKept(t *testing.T) {
	skipProved(t, "TestAStateThatCannotBeUsedIsNamedAndKept of controllers/machine")

	for name, test := range map[string]struct {
		spoil   func(*testing.T, *corev1.Secret)
		message string
	}{
		"not gzip":  {func(_ *testing.T, s *corev1.Secret) { s.Data["tfstate"] = []byte("garbage") }, "not gzip"},
		"truncated": {func(_ *testing.T, s *corev1.Secret) { s.Data["tfstate"] = s.Data["tfstate"][:40] }, "truncated"},
		"not a state": {func(t *testing.T, s *corev1.Secret) {
			repack(t, s, func(state map[string]any) { delete(state, "lineage") })
		}, "no lineage"},
		"of a later format": {func(t *testing.T, s *corev1.Secret) {
			repack(t, s, func(state map[string]any) { state["version"] = 5 })
		}, "version 5"},
		"rolled back": {func(t *testing.T, s *corev1.Secret) {
			repack(t, s, func(state map[string]any) { state["serial"], state["resources"] = 1, []any{} })
		}, "somebody restored an older state"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			m := s.CreateMachine("one", nil)
			s.ExpectProvisioned(m)
			id, before := s.Sim.ListVMs()[0].ID, s.CountChanges()
			secret := &corev1.Secret{ObjectMeta: s.NewMeta(s.ListStates()[0].Name)}
			change(s, secret, func(secret *corev1.Secret) { test.spoil(t, secret) })
			spoiled := bytes.Clone(secret.Data["tfstate"])
			touch(t, m)
			message := s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.StateInvalidReason)
			if !strings.Contains(message, test.message) || !strings.Contains(message, "delete it") {
				t.Errorf("message: %s", message)
			}

			// would need a run
			change(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Description = "another" })

			s.Eventually("a pass has seen the change", func() error {
				if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
					return err
				}

				applied := conditions.Get(m, infrav1.InfrastructureAppliedCondition)
				if applied.ObservedGeneration != m.Generation {
					return fmt.Errorf("it has seen %d of %d", applied.ObservedGeneration, m.Generation)
				}

				return nil
			})
			s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.StateInvalidReason)
			if vms := s.Sim.ListVMs(); len(vms) != 1 || vms[0].ID != id || s.CountChanges() != before {
				t.Errorf("the engine has %+v after %d changes", vms, s.CountChanges()-before)
			}

			err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(secret), secret)
			if err != nil || !bytes.Equal(secret.Data["tfstate"], spoiled) {
				t.Errorf("the state was overwritten (%v)", err)
			}

			// The remedy of the message.
			change(s, secret, func(secret *corev1.Secret) { controllerutil.RemoveFinalizer(secret, tfstate.Finalizer) })
			s.Delete(secret)
			touch(t, m)
			s.ExpectProvisioned(m)
			if vms := s.Sim.ListVMs(); len(vms) != 1 || vms[0].ID != id {
				t.Errorf("the engine has %+v", vms)
			}

			s.Delete(m)
			s.ExpectGone(m)
			s.ExpectEmptyEngine()
		})
	}
}

func TestCredentialsAreRotatedWithoutARestart(t *testing.T) {
	s := newSite(t, nil)
	first := s.CreateMachine("first", nil)
	s.ExpectProvisioned(first)
	logins := func() int { return s.Sim.Summarize().Logins }
	before := logins()

	// Change the engine first: every session ends, and the old password is rejected.
	if err := s.Sim.SetPassword(s.Sim.Username(), "rotated-password"); err != nil {
		t.Fatal(err)
	}

	if err := s.Sim.Inject(ovirtsim.Fault{Path: "^/api", Action: "expire-token", Count: 1}); err != nil {
		t.Fatal(err)
	}

	s.look()
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.AuthenticationFailedReason)
	s.ExpectCondition(first, infrav1.ReadyCondition, "True/Ready")
	second := s.CreateMachine("second", nil)
	s.ExpectCondition(second, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForEngineReason)
	change(s, &corev1.Secret{
		ObjectMeta: s.NewMeta("creds"),
	}, func(secret *corev1.Secret) { secret.Data["password"] = []byte("rotated-password") })
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	s.ExpectProvisioned(second)

	for _, m := range []*infrav1.OLVMMachine{first, second} {
		s.Delete(m)
		s.ExpectGone(m)
	}

	if got := logins() - before; got > 3 {
		t.Errorf("%d logins, some with the old password: the account may be locked", got)
	}
}

// TestTheWayToTheEngineOutlivesTheMachines deletes everything at once, as the deletion of a namespace does.
func TestTheWayToTheEngineOutlivesTheMachines(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	secret, ca := &corev1.Secret{ObjectMeta: s.NewMeta("creds")}, &corev1.ConfigMap{ObjectMeta: s.NewMeta("ca")}
	for _, o := range []client.Object{secret, ca} {
		s.Eventually(fmt.Sprintf("%T is held", o), func() error {
			if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}

			if !controllerutil.ContainsFinalizer(o, infrav1.AccessFinalizer) {
				return fmt.Errorf("finalizers %v", o.GetFinalizers())
			}

			return nil
		})
		s.Delete(o)
	}

	s.Delete(s.OLVM)
	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)
	s.ExpectGone(secret)
	s.ExpectGone(ca)
	s.ExpectEmptyEngine()
}

func TestCredentialsThatNobodyNamesAnyMoreAreLetGo(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	old := &corev1.Secret{ObjectMeta: s.NewMeta("creds")}
	s.Create(&corev1.Secret{
		ObjectMeta: s.NewMeta("newer"),
		StringData: map[string]string{
			"username":          s.Sim.Username(),
			"password":          s.Sim.Password(),
			"allowedServerURLs": s.Sim.URL(),
		},
	})
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = "newer" })
	s.Delete(old)
	s.ExpectGone(old)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
}

// TestDeletionWithoutTheCluster deletes a machine after someone removed its Cluster and Machine by force.
func TestDeletionWithoutTheCluster(t *testing.T) {
	skipProved(t, "TestDeletionWithoutTheCluster of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.Delete(s.Cluster)
	s.ExpectGone(s.Cluster)
	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectEmptyEngine()
}

func TestDeletionWithoutTheOLVMClusterSaysWhatHoldsIt(t *testing.T) {
	skipProved(t, "TestDeletionWithoutTheOLVMCluster of controllers/machine")

	s := newSite(t, nil)

	// Use separate addresses: without a known engine, addresses count as in use on every engine.
	apart := func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{
			Subnet:      "10.77.0.0/24",
			IPAddresses: []string{"10.77.0.10-10.77.0.19"},
		}
	}
	m := s.CreateMachine("one", apart)
	s.ExpectProvisioned(m)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.AffinityGroups = []infrav1.AffinityGroup{} })
	s.Delete(s.OLVM)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { controllerutil.RemoveFinalizer(c, infrav1.ClusterFinalizer) })
	s.ExpectGone(s.OLVM)
	s.Delete(m)
	message := s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.DeletionBlockedReason)
	check.Contains(t, "message", message, "OLVMCluster")
	check.Contains(t, "message", message, infrav1.MachineFinalizer)
	check.Contains(t, "message", message, s.Sim.ListVMs()[0].ID)

	// A machine without a VM does not wait.
	fresh := s.CreateMachine("fresh", apart)
	s.ExpectCondition(
		fresh, infrav1.AddressesAllocatedCondition, "False/"+infrav1.WaitingForClusterInfrastructureReason,
	)
	s.Delete(fresh)
	s.ExpectGone(fresh)

	// Once the OLVMCluster exists again, it provides the connection to the engine.
	again := &infrav1.OLVMCluster{ObjectMeta: s.NewMeta("demo"), Spec: s.OLVM.Spec}
	again.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: s.Cluster.APIVersion, Kind: "Cluster", Name: s.Cluster.Name, UID: s.Cluster.UID},
	}
	again.OwnerReferences[0].APIVersion = "cluster.x-k8s.io/v1beta2"
	s.Create(again)
	s.ExpectGone(m)
	s.ExpectEmptyEngine()
}

// TestForegroundDeletion deletes the owner with foreground propagation, as kubectl delete --cascade=foreground does.
func TestForegroundDeletion(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	policy := metav1.DeletePropagationForeground
	err := suite.client.Delete(context.Background(), m, &client.DeleteOptions{PropagationPolicy: &policy})
	if err != nil {
		t.Fatal(err)
	}

	// No garbage collector runs here. It would delete the machine's dependent, its state, and then remove its own
	// finalizer.
	for _, secret := range s.ListStates() {
		s.Delete(&secret)
	}

	s.Eventually("our finalizer is gone", func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if controllerutil.ContainsFinalizer(m, infrav1.MachineFinalizer) {
			return fmt.Errorf("finalizers %v", m.Finalizers)
		}

		return nil
	})
	s.ExpectEmptyEngine()
	if n := len(s.ListStates()); n != 0 {
		t.Errorf("%d states are left", n)
	}

	change(s, m, func(m *infrav1.OLVMMachine) { m.Finalizers = nil })
	s.ExpectGone(m)
}

// TestADestroyThatFailsSaysWhy covers a VM whose deletion fails for a while.
func TestADestroyThatFailsSaysWhy(t *testing.T) {
	skipProved(t, "TestADestroyThatFailsSaysWhy of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	err := s.Sim.Inject(ovirtsim.Fault{
		Method: "DELETE",
		Path:   "^/api/vms/[^/]*$",
		Status: 409,
		Reason: "Operation Failed",
		Detail: "[Cannot remove VM. It is being exported.]",
	})
	if err != nil {
		t.Fatal(err)
	}

	s.Delete(m)
	message := s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.DeletionFailedReason)
	if !strings.Contains(message, "It is being exported") ||
		!strings.Contains(message, "the controller retries after a pause") {
		t.Errorf("message: %s", message)
	}

	s.Sim.ClearFaults()
	s.ExpectGone(m)
}

// TestAUserWithoutAnAdministratorRole uses a user who sees only some VMs. Hidden VMs must not count as deleted.
func TestAUserWithoutAnAdministratorRole(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.Users = append(inventory.Users, ovirtsim.User{Name: "capolvm@internal", Password: "capolvm-password"})
	s := newSiteIn(t, inventory, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	credentials := func(username, password string) {
		change(s, &corev1.Secret{ObjectMeta: s.NewMeta("creds")}, func(secret *corev1.Secret) {
			secret.Data["username"], secret.Data["password"] = []byte(username), []byte(password)
		})
	}

	credentials("capolvm@internal", "capolvm-password")
	s.look()
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.NotAnAdministratorReason)
	if !strings.Contains(message, "administrator role") {
		t.Errorf("the cluster says %s", message)
	}

	s.Delete(m)
	message = s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.WaitingForEngineReason)
	if !strings.Contains(message, "administrator role") {
		t.Errorf("the machine says %s", message)
	}

	if s.Sim.Summarize().VMs != 1 {
		t.Errorf("the engine has %+v", s.Sim.Summarize())
	}

	credentials(s.Sim.Username(), s.Sim.Password())
	s.ExpectGone(m)
	s.ExpectEmptyEngine()
}
