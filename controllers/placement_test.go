package controllers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// controlPlane creates a control plane machine, in a failure domain if one is named.
func (s *site) controlPlane(name, domain string, spoil func(*infrav1.OLVMMachineSpec)) *infrav1.OLVMMachine {
	s.T.Helper()
	s.Label = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	s.Domain = domain
	defer func() { s.Label, s.Domain = nil, "" }()

	return s.CreateMachine(name, spoil)
}

// group returns the simulator's affinity group with this name, or nil.
func (s *site) group(name string) *ovirtsim.AffinityGroupInfo {
	for _, dc := range s.Sim.DescribeSite().DataCenters {
		for _, cluster := range dc.Clusters {
			for _, g := range cluster.AffinityGroups {
				// the suffix comes from the cluster's UUID
				if own, ok := strings.CutPrefix(g.Name, s.Namespace+"_demo_"+name+"_"); ok && len(own) == 8 {
					return &g
				}
			}
		}
	}

	return nil
}

// expectGroup waits until the group has these members and this enforcement, in the engine and in the status of the
// OLVMCluster.
func (s *site) expectGroup(name string, hard bool, members ...string) {
	s.T.Helper()
	s.Eventually("affinity group "+name, func() error {
		g := s.group(name)
		if g == nil {
			return fmt.Errorf("the engine has none")
		}

		slices.Sort(g.VMs)
		if g.Enforcing != hard || g.Positive || !slices.Equal(g.VMs, members) {
			return fmt.Errorf("the engine has %+v", *g)
		}

		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		for _, told := range s.OLVM.Status.AffinityGroups {
			if told.Name == name && ptr.Deref(told.Enforced, !hard) != hard {
				return fmt.Errorf("the status has %+v", told)
			}
		}

		return nil
	})
}

// look starts a pass for the OLVMCluster at once.
func (s *site) look() {
	s.T.Helper()
	s.looks++
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", strings.Repeat("x", s.looks))
	})
}

// expectLooking waits for a condition of the OLVMCluster. It starts one pass after another, because the controller
// caches the list of hosts for some seconds.
func (s *site) expectLooking(conditionType, want string) {
	s.T.Helper()
	s.Eventually(conditionType, func() error {
		s.look()
		if c := conditions.Get(s.OLVM, conditionType); c == nil || string(c.Status)+"/"+c.Reason != want {
			return fmt.Errorf("is %+v, want %s", c, want)
		}

		return nil
	})
}

func (s *site) hostsOf(machines ...string) map[string]string {
	out := map[string]string{}

	for _, vm := range s.Sim.ListVMs() {
		if slices.Contains(machines, vm.Name) {
			out[vm.Name] = vm.Host
		}
	}

	return out
}

func distinct(hosts map[string]string) int {
	seen := map[string]bool{}
	for _, host := range hosts {
		seen[host] = true
	}

	return len(seen)
}

func (s *site) three() []*infrav1.OLVMMachine {
	s.T.Helper()

	var machines []*infrav1.OLVMMachine
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		machines = append(machines, s.controlPlane(name, "", nil))
	}

	return machines
}

// boots returns the number of boots by VM ID.
func (s *site) boots() map[string]int {
	out := map[string]int{}
	for _, vm := range s.Sim.ListVMs() {
		out[vm.ID] = vm.Boots
	}

	return out
}

func TestThreeControlPlanesOnThreeHostsAreKeptApart(t *testing.T) {
	s := newSite(t, nil)

	machines := s.three()
	for _, m := range machines {
		s.ExpectProvisioned(m)
	}

	s.expectGroup("control-plane", true, "cp-1", "cp-2", "cp-3")
	if hosts := s.hostsOf("cp-1", "cp-2", "cp-3"); distinct(hosts) != 3 {
		t.Errorf("the hosts are %v", hosts)
	}

	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	before, boots := s.OLVM.Status.AffinityGroups, s.boots()

	// A fourth machine, as during a rollout, ends the enforcement of the group. The deletion of an old machine enforces
	// it again.
	fourth := s.controlPlane("cp-4", "", nil)
	s.ExpectProvisioned(fourth)
	message := s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "False/"+infrav1.InsufficientHostsReason)
	if !strings.Contains(message, "4 machines") || !strings.Contains(message, "3 hosts") {
		t.Errorf("the message lacks the counts: %s", message)
	}

	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.Delete(fourth)
	s.ExpectGone(fourth)
	s.expectGroup("control-plane", true, "cp-1", "cp-2", "cp-3")

	for id, count := range s.boots() {
		if boots[id] != count {
			t.Errorf("VM %s booted %d times, before %d", id, count, boots[id])
		}
	}

	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	if before[0].ID != s.OLVM.Status.AffinityGroups[0].ID {
		t.Errorf("the group was made anew: it was %+v and is %+v", before, s.OLVM.Status.AffinityGroups)
	}

	for _, m := range machines {
		s.Delete(m)
	}

	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	s.ExpectEmptyEngine()
	if states := s.ListAllStates(); len(states) != 0 {
		t.Errorf("left of the state: %d Secrets", len(states))
	}
}

func TestTwoHostsCarryThreeControlPlanesUntilThereIsAThird(t *testing.T) {
	skipProved(t, "TestHowHardAGroupIs of internal/placement")
	s := newSite(t, nil)
	if err := s.Sim.FailHost("host-3"); err != nil {
		t.Fatal(err)
	}

	for _, m := range s.three() {
		s.ExpectProvisioned(m)
	}

	message := s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "False/"+infrav1.InsufficientHostsReason)
	if !strings.Contains(message, "3 machines") || !strings.Contains(message, "2 hosts") {
		t.Errorf("the message lacks the counts: %s", message)
	}

	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.expectGroup("control-plane", false, "cp-1", "cp-2", "cp-3")
	if hosts := s.hostsOf("cp-1", "cp-2", "cp-3"); distinct(hosts) != 2 {
		t.Errorf("the hosts are %v", hosts)
	}

	boots := s.boots()
	if err := s.Sim.RecoverHost("host-3"); err != nil {
		t.Fatal(err)
	}

	s.expectLooking(infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	s.expectGroup("control-plane", true, "cp-1", "cp-2", "cp-3")

	for id, count := range s.boots() {
		if boots[id] != count {
			t.Errorf("VM %s booted %d times, before %d", id, count, boots[id])
		}
	}

	if len(boots) != 3 {
		t.Errorf("there were %d VMs", len(boots))
	}
}

func TestAGroupThatIsAlwaysEnforcedCreatesNothingThatCannotRun(t *testing.T) {
	skipProved(t, "TestCheckGroups of controllers/machine")
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.AffinityGroups = []infrav1.AffinityGroup{
			{Name: "masters", Role: infrav1.ControlPlaneRole, Enforcing: infrav1.AffinityAlways},
		}
	})
	if err := s.Sim.FailHost("host-3"); err != nil {
		t.Fatal(err)
	}

	first, second := s.controlPlane("cp-1", "", nil), s.controlPlane("cp-2", "", nil)
	s.ExpectProvisioned(first)
	s.ExpectProvisioned(second)
	third := s.controlPlane("cp-3", "", nil)
	message := s.ExpectCondition(
		third, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.EnforcementImpossibleReason,
	)
	check.Contains(t, "message", message, "3 machines")
	check.Contains(t, "message", message, "2 hosts")
	check.Contains(t, "message", message, "Add hosts")

	if message := s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition,
		"False/"+infrav1.EnforcementImpossibleReason); !strings.Contains(message, "cp-3") {
		t.Errorf("the message does not name the machine: %s", message)
	}

	if vms := s.Sim.ListVMs(); len(vms) != 2 {
		t.Errorf("the engine has %d VMs", len(vms))
	}

	if err := s.Sim.RecoverHost("host-3"); err != nil {
		t.Fatal(err)
	}

	s.ExpectProvisioned(third)
	if hosts := s.hostsOf("cp-1", "cp-2", "cp-3"); distinct(hosts) != 3 {
		t.Errorf("the hosts are %v", hosts)
	}
}

func TestAGroupThatWasDeletedIsMadeAgainWithItsMembers(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.expectGroup("workers", true, "one")
	boots := s.boots()
	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	status := s.OLVM.Status.AffinityGroups
	if len(status) != 1 || status[0].Name != "workers" {
		t.Fatalf("status.affinityGroups: %+v", status)
	}

	err := s.NewSession().DeleteAffinityGroup(
		t.Context(), engine.ID(status[0].OLVMOvirtClusterID), engine.ID(status[0].ID),
	)
	if err != nil {
		t.Fatal(err)
	}

	s.look()
	s.expectGroup("workers", true, "one")
	s.ExpectProvisioned(m)

	// If someone removes a VM from its group, the manager adds it again.
	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	status = s.OLVM.Status.AffinityGroups
	group := status[0]
	err = s.NewSession().RemoveFromAffinityGroup(t.Context(), engine.ID(group.OLVMOvirtClusterID), engine.ID(group.ID),
		engine.ID(strings.TrimPrefix(m.Spec.ProviderID, "olvm://")))
	if err != nil {
		t.Fatal(err)
	}

	s.look()
	s.expectGroup("workers", true, "one")
	s.ExpectProvisioned(m)
	if now := s.boots(); len(now) != 1 || fmt.Sprint(now) != fmt.Sprint(boots) {
		t.Errorf("the VMs were %v and are %v", boots, now)
	}
}

func TestGroupsCanBeTurnedOffAndTheDeletionNeedsNoEngineThen(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.AffinityGroups = []infrav1.AffinityGroup{}
		c.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = "later"
	})
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.CredentialsNotFoundReason)
	if s.OLVM.Spec.AffinityGroups == nil {
		t.Fatal("the empty list became an absent one")
	}

	s.Create(&corev1.Secret{
		ObjectMeta: s.NewMeta("later"),
		StringData: map[string]string{
			"username":          s.Sim.Username(),
			"password":          s.Sim.Password(),
			"allowedServerURLs": s.Sim.URL(),
		},
	})
	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.NoAffinityGroupsReason)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	if n := s.Sim.Summarize().AffinityGroups; n != 0 || s.OLVM.Status.Terraform != nil {
		t.Errorf("the engine has %d affinity groups, status.terraform %+v", n, s.OLVM.Status.Terraform)
	}

	// Without the list, the default applies again.
	err := suite.client.Patch(context.Background(), s.OLVM,
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"affinityGroups":null}}`)))
	if err != nil {
		t.Fatal(err)
	}

	s.expectGroup("workers", true, "one")
	s.Eventually("the machine joins, and nothing else happens to it", func() error {
		s.ExpectProvisioned(m)
		run := m.Status.Terraform.LastRun
		if run.Added != 1 || run.Changed+run.Destroyed != 0 || m.Status.Terraform.Runs != 2 {
			return fmt.Errorf("run %d was %+v", m.Status.Terraform.Runs, run)
		}

		return nil
	})

	// Disable the groups again: the machine leaves the group, and the group loses its rule. The group is deleted with
	// the cluster.
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.AffinityGroups = []infrav1.AffinityGroup{} })
	s.expectGroup("workers", false)
	s.ExpectProvisioned(m)
	s.Delete(m)
	s.ExpectGone(m)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	if n := s.Sim.Summarize().AffinityGroups; n != 0 {
		t.Errorf("%d affinity groups are left", n)
	}
}

// TestAClusterThatIsManagedElsewhereIsNotTouched creates and deletes a machine of an externally managed cluster. This
// also removes the machine's finalizer on the cluster.
func TestAClusterThatIsManagedElsewhereIsNotTouched(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform-of-the-network-team"}
	})
	s.OLVM.Status.Initialization.Provisioned = ptr.To(true)
	s.UpdateStatus(s.OLVM)
	before := s.OLVM.DeepCopy()
	m := s.CreateMachine("one", nil) // wakes the OLVMCluster, too, as a change of the Secret does
	s.ExpectProvisioned(m)
	change(s, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "creds"},
	}, func(c *corev1.Secret) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", "x") })
	s.Delete(m)
	s.ExpectGone(m)
	s.Eventually("the OLVMCluster is as it was", func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		if len(s.OLVM.Finalizers) > 0 {
			return fmt.Errorf("it has the finalizers %v", s.OLVM.Finalizers)
		}

		return nil
	})
	check.Equal(t, "spec", s.OLVM.Spec, before.Spec)
	check.Equal(t, "status", s.OLVM.Status, before.Status)
	check.Equal(t, "labels", s.OLVM.Labels, before.Labels)
	check.Equal(t, "annotations", s.OLVM.Annotations, before.Annotations)

	if left := s.Sim.Summarize(); left.AffinityGroups != 0 || left.VMs != 0 {
		t.Errorf("the engine has %+v", left)
	}
}

func TestAClusterWithoutMachinesIsDeletedWithoutCredentials(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = "never"
	})
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.CredentialsNotFoundReason)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
}

func TestMachinesLandInTheirFailureDomains(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].Clusters = append(inventory.DataCenters[0].Clusters, ovirtsim.Cluster{
		Name: "Other",
		Hosts: []ovirtsim.Host{
			{Name: "other-1", AffinityLabels: []string{"rack-b"}},
			{Name: "other-2", AffinityLabels: []string{"rack-b"}},
			{Name: "other-3"},
		},
	})
	inventory.DataCenters[0].Templates[0].Cluster = ""
	s := newSiteIn(t, inventory, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.FailureDomains = []infrav1.OLVMFailureDomain{
			{
				Name:                 "a",
				OLVMOvirtClusterName: "Default",
				StorageDomainName:    "olvm-data-2",
				Hosts:                infrav1.FailureDomainHosts{Names: []string{"host-2"}},
			},
			{Name: "b", OLVMOvirtClusterName: "Other", Hosts: infrav1.FailureDomainHosts{AffinityLabel: "rack-b"}},
			{Name: "c", OLVMOvirtClusterName: "Other", ControlPlane: ptr.To(false)},
			{Name: "gone", OLVMOvirtClusterName: "Nowhere"},
			{Name: "tape", StorageDomainName: "tape"},
		}
	})
	message := s.ExpectCondition(
		s.OLVM, infrav1.FailureDomainsAvailableCondition, "False/"+infrav1.FailureDomainInvalidReason,
	)
	check.Contains(t, "message", message, "spec.failureDomains[gone].olvmOvirtClusterName")
	check.Contains(t, "message", message, `"Nowhere"`)
	check.Contains(t, "message", message, "spec.failureDomains[tape].storageDomainName")

	s.Eventually("the domains are listed", func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		d := s.OLVM.Status.FailureDomains
		if len(d) != 3 || d[0].Name != "a" || !*d[0].ControlPlane || d[2].Name != "c" || *d[2].ControlPlane {
			return fmt.Errorf("status.failureDomains: %+v", d)
		}

		return nil
	})
	inA, inB := s.controlPlane("cp-a", "a", nil), s.controlPlane("cp-b", "b", nil)
	s.ExpectProvisioned(inA)
	s.ExpectProvisioned(inB)
	if inA.Status.FailureDomain != "a" || inB.Status.FailureDomain != "b" {
		t.Errorf("status.failureDomain: %q and %q", inA.Status.FailureDomain, inB.Status.FailureDomain)
	}

	hosts := s.hostsOf("cp-a", "cp-b")
	if hosts["cp-a"] != "host-2" || hosts["cp-b"] != "other-1" && hosts["cp-b"] != "other-2" {
		t.Errorf("the hosts are %v", hosts)
	}

	for _, vm := range s.Sim.ListVMs() {
		want := map[string]string{"cp-a": "olvm-data-2", "cp-b": "olvm-data"}[vm.Name]
		if len(vm.Disks) != 1 || vm.Disks[0].StorageDomain != want {
			t.Errorf("the disks of %s are %+v, want one on %s", vm.Name, vm.Disks, want)
		}
	}

	if n := s.Sim.Summarize().AffinityGroups; n != 2 {
		t.Errorf("%d affinity groups, want one of control planes in each cluster", n)
	}

	lost := s.controlPlane("cp-x", "x", nil)
	if message := s.ExpectCondition(lost, infrav1.InfrastructureAppliedCondition,
		"False/"+infrav1.FailureDomainNotFoundReason); !strings.Contains(message, "it has a, b, c, gone, tape") {
		t.Errorf("the message does not name the domains: %s", message)
	}

	// A second machine does not fit into a domain with one host, unless the group is not enforced.
	again := s.controlPlane("cp-a2", "a", nil)
	s.ExpectProvisioned(again)
	if hosts := s.hostsOf("cp-a2"); hosts["cp-a2"] != "host-2" {
		t.Errorf("the hosts are %v", hosts)
	}

	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.FailureDomains = c.Spec.FailureDomains[:3] })
	s.ExpectCondition(s.OLVM, infrav1.FailureDomainsAvailableCondition, "True/"+infrav1.FailureDomainsAvailableReason)
}

func TestAMachineRunsOnTheHostsThatItNames(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Placement.HostNames = []string{"host-3", "host-9"}
	})
	message := s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.HostNotFoundReason)
	if !strings.Contains(message, "has no host host-9; it has host-1, host-2, host-3") {
		t.Errorf("message: %s", message)
	}

	change(s, m, func(m *infrav1.OLVMMachine) {
		m.Spec.VirtualMachine.Placement.HostNames = []string{"host-3"}
	})
	s.ExpectProvisioned(m)
	if hosts := s.hostsOf("one"); hosts["one"] != "host-3" {
		t.Errorf("the hosts are %v", hosts)
	}
}

func TestALostStateOfGroupsIsRebuiltAndNothingIsLeft(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	id := s.OLVM.Status.AffinityGroups[0].ID
	lose := func() types.UID {
		for _, secret := range s.ListAllStates() {
			if strings.HasPrefix(secret.Labels["tfstateSecretSuffix"], "olvmcluster.") {
				s.Delete(&secret)
				err := suite.client.Patch(t.Context(), &secret,
					client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
				if err != nil {
					t.Fatal(err)
				}

				return secret.UID
			}
		}

		t.Fatal("the cluster has no state")

		return ""
	}
	lost := lose()
	s.look()
	s.Eventually("the state is rebuilt", func() error {
		for _, secret := range s.ListAllStates() {
			if strings.HasPrefix(secret.Labels["tfstateSecretSuffix"],
				"olvmcluster.") && secret.UID != lost && secret.Annotations[tfstate.DigestAnnotation] != "" {
				return nil
			}
		}

		return os.ErrNotExist
	})
	s.expectLooking(infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	s.Eventually("the group is in the status", func() error { // conditions are written first
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		now := s.OLVM.Status.AffinityGroups
		if len(now) != 1 || now[0].ID != id || s.Sim.Summarize().AffinityGroups != 1 {
			return fmt.Errorf("the group was %s, now there are %+v", id, now)
		}

		return nil
	})

	// Delete the state again, without a pass before the deletion. The owner mark is enough to find the group.
	s.Delete(m)
	s.ExpectGone(m)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.PausedAnnotation, "")
	})
	s.ExpectCondition(s.OLVM, "Paused", "True/Paused")
	lose()
	s.Delete(s.OLVM)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { delete(c.Annotations, clusterv1.PausedAnnotation) })
	s.ExpectGone(s.OLVM)
	if n := s.Sim.Summarize().AffinityGroups; n != 0 {
		t.Errorf("%d affinity groups are left", n)
	}
}

func TestAForeignGroupOfOurNameIsNotTouched(t *testing.T) {
	s := newSite(t, nil)
	session := s.NewSession()
	dc, err := session.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.FindCluster(t.Context(), dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	foreign, err := session.CreateAffinityGroup(t.Context(), cluster.ID, &engine.AffinityGroup{
		Name: placement.FormatGroupName(ownermark.Owner{
			Namespace: s.Namespace,
			Name:      "demo",
		}, placement.GroupKey{Name: "workers", ClusterID: cluster.ID}),
	})
	if err != nil {
		t.Fatal(err)
	}

	m := s.CreateMachine("one", nil)
	message := s.ExpectCondition(
		s.OLVM, infrav1.AffinitySatisfiedCondition, "False/"+infrav1.AffinityGroupConflictReason,
	)
	if !strings.Contains(message, foreign.ID.String()) || !strings.Contains(message, "rename or delete it") {
		t.Errorf("message: %s", message)
	}

	s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForAffinityGroupReason)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "False/"+infrav1.AffinityGroupConflictReason)
	s.Delete(m)
	s.ExpectGone(m)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	if n := s.Sim.Summarize().AffinityGroups; n != 1 {
		t.Errorf("%d affinity groups, want the foreign one", n)
	}
}

func TestADeletionDoesNotMissGroupsThatTheEngineHasLost(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.ExpectCondition(s.OLVM, infrav1.AffinitySatisfiedCondition, "True/"+infrav1.AffinitySatisfiedReason)
	group := s.OLVM.Status.AffinityGroups[0]
	s.Delete(s.OLVM)
	s.ExpectCondition(s.OLVM, infrav1.DeletingCondition, "True/"+infrav1.WaitingForMachinesDeletionReason)
	err := s.NewSession().DeleteAffinityGroup(t.Context(), engine.ID(group.OLVMOvirtClusterID), engine.ID(group.ID))
	if err != nil {
		t.Fatal(err)
	}

	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)
	if left := s.ListAllStates(); len(left) != 0 {
		t.Errorf("left of the state: %d Secrets", len(left))
	}
}

func TestADomainThatGetsHostsGivesThemToItsMachinesInPlace(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.FailureDomains = []infrav1.OLVMFailureDomain{
			{Name: "a", Hosts: infrav1.FailureDomainHosts{Names: []string{"host-2"}}},
		}
	})
	m := s.controlPlane("cp-1", "a", nil)
	s.ExpectProvisioned(m)
	boots := s.boots()
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.FailureDomains[0].Hosts.Names = []string{"host-1", "host-2"}
	})
	s.Eventually("the VM may run on both", func() error {
		s.ExpectProvisioned(m)
		if run := m.Status.Terraform.LastRun; run.Changed != 1 || run.Added+run.Destroyed != 0 {
			return fmt.Errorf("the last run was %+v", run)
		}

		return nil
	})
	if now := s.boots(); fmt.Sprint(now) != fmt.Sprint(boots) {
		t.Errorf("the VMs were %v and are %v", boots, now)
	}

	if err := s.Sim.MaintainHost("host-2"); err != nil { // pinned VMs would prevent the host from being emptied
		t.Errorf("the VM is still pinned: %v", err)
	}
}
