package controllers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

func TestAMachineFromCreationToDeletion(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.Eventually("the whole status is written", func() error { // conditions are written first
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		dc := s.OLVM.Status.OLVMDatacenter
		if !ptr.Deref(s.OLVM.Status.Initialization.Provisioned,
			false) || dc == nil || dc.DataCenterName != "Default" || dc.Release == nil || dc.Release.Version == "" {
			return fmt.Errorf("status %+v", s.OLVM.Status)
		}

		return nil
	})
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	vms := s.Sim.ListVMs()
	check.Length(t, "vms", vms, 1)
	check.Equal(t, "m.Spec.ProviderID", m.Spec.ProviderID, "olvm://"+vms[0].ID)
	check.Equal(t, "vms[0].Name", vms[0].Name, "one")

	o := m.Status.OLVM
	if o == nil {
		t.Fatal("o is nil")
	}

	check.Equal(t, "o.IPAddress", o.IPAddress, "10.0.0.10")
	check.Equal(t, "o.VMTemplateName", o.VMTemplateName, "ol9-k8s")
	check.Set(t, "o.VNICID", o.VNICID)

	check.Equal(t, "o.VirtualMachine.Status", o.VirtualMachine.Status, "up")
	check.Equal(t, "o.VirtualMachine.CreationStatus", o.VirtualMachine.CreationStatus, "Created")

	states := s.ListStates()
	check.Length(t, "states", states, 1)
	check.Equal(t, `states[0].Labels["tfstateSecretSuffix"]`, states[0].Labels["tfstateSecretSuffix"], "one")
	check.Length(t, "states[0].OwnerReferences", states[0].OwnerReferences, 1)
	check.Equal(
		t, "slices.Contains(states[0].Finalizers, tfstate.Finalizer)",
		slices.Contains(states[0].Finalizers, tfstate.Finalizer), true,
	)

	if m.Status.Terraform == nil {
		t.Fatal("m.Status.Terraform is nil")
	}

	check.Equal(t, "m.Status.Terraform.Runs", m.Status.Terraform.Runs, 1)
	check.Equal(t, "m.Status.Terraform.LastRun.Added", m.Status.Terraform.LastRun.Added, 4)
	check.Length(t, "m.Status.Terraform.LastRun.Changes", m.Status.Terraform.LastRun.Changes, 4)
	check.Equal(
		t, "the VM is among the changes", slices.Contains(m.Status.Terraform.LastRun.Changes, "create ovirt_vm.this"),
		true,
	)

	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectEmptyEngine()
	if states := s.ListStates(); len(states) != 0 {
		t.Errorf("left of the state: %+v", states)
	}

	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	if left, err := filepath.Glob(filepath.Join(suite.workDir, s.Namespace, "*")); err != nil || len(left) != 0 {
		t.Errorf("left on disk: %v, %v", left, err)
	}
}

func TestTheClusterWaitsForItsMachines(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.Delete(s.OLVM)
	message := s.ExpectCondition(s.OLVM, infrav1.DeletingCondition, "True/"+infrav1.WaitingForMachinesDeletionReason)
	if !strings.Contains(message, "one") {
		t.Errorf("the message does not name the machine: %s", message)
	}

	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)
}

func TestSteadyStateCostsNoTerraformAndFewRequests(t *testing.T) {
	skipProved(t, "TestASteadyMachineCostsNothing of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	before, runs := s.CountChanges(), m.Status.Terraform.Runs
	for i := range 3 {
		change(s, m, func(m *infrav1.OLVMMachine) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, "touched", strings.Repeat("x", i+1))
		})
		s.ExpectProvisioned(m)
	}

	if s.CountChanges() != before || m.Status.Terraform.Runs != runs {
		t.Errorf(
			"%d changing requests and %d runs, before %d and %d", s.CountChanges(), m.Status.Terraform.Runs, before,
			runs,
		)
	}
}

func TestWrongPassword(t *testing.T) {
	s := newSite(t, func(secret *corev1.Secret, _ *corev1.ConfigMap, _ *infrav1.OLVMCluster) {
		secret.StringData["password"] = "wrong"
	})
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.AuthenticationFailedReason)
	check.Contains(t, "message", message, "credentialsSecret")
	check.Contains(t, "message", message, "admin@internal")
	check.Lacks(t, "message", message, "wrong")

	m := s.CreateMachine("one", nil)
	s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForEngineReason)

	// Every change of the object starts a pass. None may try the password again, or the account would be locked.
	for i := range 5 {
		change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", strings.Repeat("x", i+1))
		})
	}

	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.AuthenticationFailedReason)
	logins := 0

	for _, r := range s.Sim.ListRequests() {
		if strings.HasPrefix(r.Path, "/sso") {
			logins++
		}
	}

	if logins != 1 {
		t.Errorf("%d logins with a wrong password", logins)
	}

	secret := &corev1.Secret{ObjectMeta: s.NewMeta("creds")}
	change(s, secret, func(secret *corev1.Secret) { secret.Data["password"] = []byte(s.Sim.Password()) })
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.ExpectProvisioned(m)
}

func TestMissingCredentials(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = "later"
	})
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.CredentialsNotFoundReason)
	if !strings.Contains(message, `"later"`) {
		t.Errorf("message: %s", message)
	}

	s.Create(&corev1.Secret{
		ObjectMeta: s.NewMeta("later"),
		StringData: map[string]string{
			"ovirt_username": s.Sim.Username(),
			"ovirt_password": s.Sim.Password(),
			"ovirt_url":      s.Sim.URL() + "/api",
		},
	})
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
}

func TestUnknownCA(t *testing.T) {
	other, err := ovirtsim.New(ovirtsim.Options{})
	if err != nil {
		t.Fatal(err)
	}

	other.Close()
	s := newSite(t, func(_ *corev1.Secret, ca *corev1.ConfigMap, _ *infrav1.OLVMCluster) {
		ca.Data["ca.crt"] = string(other.CA())
	})
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.UntrustedCertificateReason)
	if !strings.Contains(message, "caConfigMap") {
		t.Errorf("message: %s", message)
	}

	change(s, &corev1.ConfigMap{
		ObjectMeta: s.NewMeta("ca"),
	}, func(ca *corev1.ConfigMap) { ca.Data["ca.crt"] = string(s.Sim.CA()) })
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
}

func TestUnknownDataCenter(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.OLVMDatacenterName = "Defult"
	})
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.DataCenterNotFoundReason)
	if !strings.Contains(message, "it has Default") {
		t.Errorf("the message does not name what there is: %s", message)
	}

	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.OLVMDatacenterName = "Default" })
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
}

// TestAPortalBeforeTheEngineIsNoWrongPassword makes a proxy or a portal answer instead of the engine, to logins and to
// API requests. The condition must not ask a user to correct the Secret.
func TestAPortalBeforeTheEngineIsNoWrongPassword(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")

	for number, fault := range []ovirtsim.Fault{
		{Path: "^/sso/", Status: http.StatusUnauthorized},
		{
			Path: "^/sso/", Status: http.StatusForbidden, MediaType: "application/json",
			Body: `{"error":"access_denied"}`,
		},
		{Path: "^/api", Status: http.StatusUnauthorized, MediaType: "text/html", Body: "<html>Sign in</html>"},
	} {
		check.Error(t, s.Sim.Inject(fault), "")
		s.Sim.ExpireSessions()
		change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", strings.Repeat("x", number+1))
		})

		message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineUnreachableReason)
		check.Contains(t, "message", message, "a server in front of the engine")
		check.Lacks(t, "message", message, "password")
		s.expectEvent("demo", infrav1.EngineUnreachableReason, "a server in front of the engine")

		s.Sim.ClearFaults()
		s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	}
}

func TestEngineDown(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	running := s.CreateMachine("one", nil)
	s.ExpectProvisioned(running)
	if err := s.Sim.Inject(ovirtsim.Fault{Path: ".*", Status: 503}); err != nil {
		t.Fatal(err)
	}

	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", "x") })
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineUnreachableReason)
	if !strings.Contains(message, "serverURL") {
		t.Errorf("message: %s", message)
	}

	m := s.CreateMachine("two", nil)
	s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForEngineReason)

	// An unreachable engine does not make a running machine unready.
	s.ExpectCondition(running, infrav1.ReadyCondition, "True/Ready")

	// Passes of machines send no requests to the engine. The tests of the cluster controller cover the frequency of its
	// requests.
	for _, machine := range []*infrav1.OLVMMachine{running, m} {
		before := s.requestsBelow("/api/vms")
		letPass(t, machine)
		check.Equal(t, "requests of "+machine.Name+" to an engine that is down", s.requestsBelow("/api/vms")-before, 0)
	}

	s.Sim.ClearFaults()
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.ExpectProvisioned(m)
}

// requestsBelow counts the requests to the engine with this path prefix.
func (s *site) requestsBelow(path string) int {
	n := 0

	for _, r := range s.Sim.ListRequests() {
		if strings.HasPrefix(r.Path, path) {
			n++
		}
	}

	return n
}

func TestMachinesWithBadInputHealWhenTheyAreCorrected(t *testing.T) {
	skipProved(t, "TestMachinesWithBadInputHealWhenTheyAreCorrected of controllers/machine")

	network := func(s *infrav1.OLVMMachineSpec) *infrav1.IPv4Network { return s.VirtualMachine.Network.IPv4 }

	tests := map[string]struct {
		spoil, correct    func(*infrav1.OLVMMachineSpec)
		condition, reason string
		message           []string
	}{
		"unknown template": {
			func(s *infrav1.OLVMMachineSpec) {
				s.VMTemplateName = "ol9-k9s"
			},
			func(s *infrav1.OLVMMachineSpec) { s.VMTemplateName = "ol9-k8s" },
			infrav1.InfrastructureAppliedCondition,
			infrav1.VMTemplateNotFoundReason,
			[]string{"spec.vmTemplateName", `"ol9-k9s"`, "ol9-k8s", "correct the name"},
		},
		"unknown cluster": {
			func(s *infrav1.OLVMMachineSpec) {
				s.OLVMOvirtClusterName = "prod"
			},
			func(s *infrav1.OLVMMachineSpec) { s.OLVMOvirtClusterName = "Default" },
			infrav1.InfrastructureAppliedCondition,
			infrav1.OvirtClusterNotFoundReason,
			[]string{"spec.olvmOvirtClusterName", `"prod"`, "it has Default"},
		},
		"unknown network": {
			func(s *infrav1.OLVMMachineSpec) {
				s.OLVMNetwork.NetworkName = "vlan"
			},
			func(s *infrav1.OLVMMachineSpec) { s.OLVMNetwork.NetworkName = "kvm-vlan" },
			infrav1.InfrastructureAppliedCondition,
			infrav1.NetworkNotFoundReason,
			[]string{"spec.olvmNetwork.networkName", `"vlan"`, "kvm-vlan"},
		},
		"unknown vNIC profile": {
			func(s *infrav1.OLVMMachineSpec) {
				s.OLVMNetwork.VNICProfileName = "ovirtmgmt"
			},
			func(s *infrav1.OLVMMachineSpec) { s.OLVMNetwork.VNICProfileName = "kvm-vlan" },
			infrav1.InfrastructureAppliedCondition,
			infrav1.VNICProfileNotFoundReason,
			[]string{"spec.olvmNetwork.vnicProfileName", `"ovirtmgmt"`, "it has kvm-vlan"},
		},
		"endpoint inside the pool": {
			func(s *infrav1.OLVMMachineSpec) { network(s).IPAddresses = []string{"10.0.0.1-10.0.0.9"} },
			func(s *infrav1.OLVMMachineSpec) { network(s).IPAddresses = []string{"10.0.0.6-10.0.0.9"} },
			infrav1.AddressesAllocatedCondition,
			infrav1.EndpointInAddressRangeReason,
			[]string{"ipv4.ipAddresses", "10.0.0.5", "remove it from the ranges"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			m := s.CreateMachine("one", test.spoil)

			message := s.ExpectCondition(m, test.condition, "False/"+test.reason)
			for _, want := range test.message {
				if !strings.Contains(message, want) {
					t.Errorf("the message lacks %q: %s", want, message)
				}
			}

			if s.Sim.Summarize().VMs != 0 {
				t.Error("a VM was made from bad input")
			}

			change(s, m, func(m *infrav1.OLVMMachine) { test.correct(&m.Spec) })
			s.ExpectProvisioned(m)
		})
	}
}

func TestAddressPoolExhausted(t *testing.T) {
	skipProved(t, "TestAnAddressPoolThatIsExhausted of controllers/machine")

	s := newSite(t, nil)
	one := func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10"}
	}
	first := s.CreateMachine("first", one)
	s.ExpectProvisioned(first)
	second := s.CreateMachine("second", one)
	message := s.ExpectCondition(
		second, infrav1.AddressesAllocatedCondition, "False/"+infrav1.AddressRangeExhaustedReason,
	)
	if !strings.Contains(message, "add addresses, delete machines") {
		t.Errorf("message: %s", message)
	}

	change(s, second, func(m *infrav1.OLVMMachine) {
		m.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10", "10.0.0.11"}
	})
	s.ExpectProvisioned(second)
	if second.Status.OLVM.IPAddress != "10.0.0.11" {
		t.Errorf("the second machine got %s", second.Status.OLVM.IPAddress)
	}
}

// TestAChangeThatWouldReplaceALiveMachineIsRefused removes a data disk. Applying this change would delete the disk with
// its data. In contrast, the engine resizes a VM in place.
func TestAChangeThatWouldReplaceALiveMachineIsRefused(t *testing.T) {
	s := newSite(t, nil)
	disks := []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) { spec.VirtualMachine.DataDisks = disks })
	s.ExpectProvisioned(m)
	before := s.Sim.ListVMs()[0]
	change(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.DataDisks = nil })
	message := s.ExpectCondition(m, infrav1.UpToDateCondition, "False/"+infrav1.ReplaceRefusedReason)
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/"+infrav1.ReadyCondition) // the node stays healthy
	if !strings.Contains(message, "ovirt_disk") {
		t.Errorf("the message does not name the disk: %s", message)
	}

	if vms := s.Sim.ListVMs(); len(vms) != 1 || vms[0].ID != before.ID || vms[0].Status != "up" {
		t.Errorf("the engine has %+v", vms)
	}

	change(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.DataDisks = disks })
	s.ExpectProvisioned(m)
}

func TestAVMThatVanishedIsReportedAndNeverMadeAgain(t *testing.T) {
	skipProved(t, "TestAVMThatVanishedIsReportedAndNeverMadeAgain of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	session, id := s.NewSession(), s.Sim.ListVMs()[0].ID
	if err := session.StopVM(t.Context(), engine.ID(id), true); err != nil {
		t.Fatal(err)
	}

	s.Eventually("the VM is deleted", func() error { return session.DeleteVM(t.Context(), engine.ID(id)) })
	change(s, m, func(m *infrav1.OLVMMachine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, "touched", "x") })
	message := s.ExpectCondition(
		m, infrav1.VirtualMachineRunningCondition, "False/"+infrav1.VirtualMachineNotFoundReason,
	)
	if !strings.Contains(message, id) || s.Sim.Summarize().VMs != 0 {
		t.Errorf("message %q, the engine has %+v", message, s.Sim.ListVMs())
	}

	// Cluster API copies this condition to the Machine, and a MachineHealthCheck can act on it.
	if message := s.ExpectCondition(
		m, infrav1.ReadyCondition, "False/"+infrav1.VirtualMachineNotFoundReason,
	); !strings.Contains(
		message,
		infrav1.VirtualMachineRunningCondition,
	) {
		t.Errorf("message: %s", message)
	}

	if m.Status.Initialization.Provisioned == nil || !*m.Status.Initialization.Provisioned {
		t.Error("provisioned went back to false")
	}

	s.Delete(m)
	s.ExpectGone(m)
	if states := s.ListStates(); len(states) != 0 {
		t.Errorf("left of the state: %d Secrets", len(states))
	}
}

func TestAForeignVMOfOurNameIsNotTouched(t *testing.T) {
	s := newSite(t, nil)
	session := s.NewSession()
	dc, err := session.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	group, err := session.FindCluster(t.Context(), dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := session.FindTemplate(t.Context(), dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	comment := "the payroll database"
	foreign, err := session.CreateVM(t.Context(), &engine.VM{
		Name:     "one",
		Comment:  &comment,
		Cluster:  engine.NewRef(group.ID),
		Template: engine.NewRef(template.ID),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}

	m := s.CreateMachine("one", nil)
	message := s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.VMNameConflictReason)
	if !strings.Contains(message, comment) || !strings.Contains(message, foreign.ID.String()) {
		t.Errorf("message: %s", message)
	}

	s.Delete(m)
	s.ExpectGone(m)
	if vms := s.Sim.ListVMs(); len(vms) != 1 || vms[0].ID != foreign.ID.String() {
		t.Errorf("the engine has %+v", vms)
	}
}

func TestALostStateIsRebuiltFromTheVM(t *testing.T) {
	for name, ask := range map[string]func(*infrav1.OLVMMachineSpec){
		"of a plain machine": nil,
		"of a machine with every option": func(spec *infrav1.OLVMMachineSpec) {
			spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{
					OLVMNetwork: infrav1.OLVMNetwork{
						NetworkName:     "ovirtmgmt",
						VNICProfileName: "ovirtmgmt",
						VNICName:        "a-storage",
						MACAddress:      "56:6f:1a:aa:00:09",
					},
					Guest: &infrav1.AdditionalGuestNetwork{
						Interface: "enp2s0",
						Addressing: infrav1.Addressing{
							IPv6:       &infrav1.IPv6Network{IPAddresses: []string{"fd00::9"}},
							DNSServers: []string{"fd00::53"},
						},
					},
				},
			}
			vm := &spec.VirtualMachine
			vm.CPU.AutoPinningPolicy, vm.Placement.HostNames = "resize_and_pin", []string{"host-1"}
			vm.GuaranteedMemory = "2GB"
			vm.HugePages = 2048
			vm.Description = "a machine"
			vm.Tags = []string{"prod"}
			vm.GraphicsConsoles = "Remove"
			vm.RootDisk, vm.DataDisks = &infrav1.RootDisk{Size: "25GB"}, []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiteIn(t, richInventory(), nil)
			m := s.CreateMachine("one", ask)
			s.ExpectProvisioned(m)
			s.loseState(m)
		})
	}
}

// loseState deletes the state of a machine. The state must be rebuilt without touching the VM, and must support
// deletion.
func (s *site) loseState(m *infrav1.OLVMMachine) {
	t := s.T
	t.Helper()
	id, before := s.Sim.ListVMs()[0].ID, s.CountChanges()
	secret := s.ListStates()[0]
	controllerutil.RemoveFinalizer(&secret, tfstate.Finalizer)
	if err := suite.client.Update(context.Background(), &secret); err != nil {
		t.Fatal(err)
	}

	s.Delete(&secret)
	s.Eventually("the old state is gone", func() error {
		return client.IgnoreNotFound(func() error {
			if states := s.ListStates(); len(states) > 0 && states[0].UID == secret.UID {
				return os.ErrExist
			}

			return nil
		}())
	})
	change(s, m, func(m *infrav1.OLVMMachine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, "touched", "x") })
	s.Eventually("the state is rebuilt", func() error {
		if states := s.ListStates(); len(states) == 1 && states[0].Annotations[tfstate.DigestAnnotation] != "" {
			return nil
		}

		return os.ErrNotExist
	})
	if vms := s.Sim.ListVMs(); len(vms) != 1 || vms[0].ID != id || vms[0].Status != "up" {
		t.Errorf("the engine has %+v", vms)
	}

	for _, r := range s.Sim.ListRequests() {
		if r.Method != "GET" && strings.HasPrefix(r.Path, "/api") {
			if before--; before < 0 {
				t.Errorf("the engine got %s %s", r.Method, r.Path)
			}
		}
	}

	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectEmptyEngine()
}

func TestDeletionGoesBeforeACreationThatHasNotEnded(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	if err := s.Sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/nics$", Action: "hold"}); err != nil {
		t.Fatal(err)
	}

	m := s.CreateMachine("one", nil)
	wait.Until(
		t, "the VM is there, and its network interface is being made", func() bool { return s.Sim.CountHits() > 0 },
	)
	s.Delete(m)
	letPass(t, m)
	s.Sim.ClearFaults()
	s.ExpectGone(m)
	s.ExpectEmptyEngine()
}

func TestDeletionWhileTheEngineMakesTheVMLeavesNone(t *testing.T) {
	s := newSite(t, nil)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	if err := s.Sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/vms$", Action: "hold"}); err != nil {
		t.Fatal(err)
	}

	m := s.CreateMachine("one", nil)
	wait.Until(t, "the engine works on the VM", func() bool { return s.Sim.CountHits() > 0 })
	s.Delete(m)

	for range 2 { // the machine must stay: two passes must not remove it
		letPass(t, m)
	}

	s.Sim.ClearFaults()
	s.ExpectGone(m)

	for _, r := range s.Sim.ListRequests() {
		if r.Method == "POST" && strings.HasSuffix(r.Path, "/vms") && r.Status == 0 {
			t.Error("the machine went before the engine had answered")
		}
	}

	s.ExpectEmptyEngine()
}

func TestAPausedMachineIsLeftAlone(t *testing.T) {
	skipProved(t, "TestAPausedMachine of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	change(s, m, func(m *infrav1.OLVMMachine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, "cluster.x-k8s.io/paused", "")
	})
	s.ExpectCondition(m, "Paused", "True/Paused")
	before := s.CountChanges()
	s.Delete(m)
	letPass(t, m)
	s.ExpectCondition(m, "Paused", "True/Paused")
	check.Equal(t, "it is being deleted", conditions.IsTrue(m, infrav1.DeletingCondition), false)
	check.Equal(t, "changes in the engine", s.CountChanges(), before)

	change(s, m, func(m *infrav1.OLVMMachine) { delete(m.Annotations, "cluster.x-k8s.io/paused") })
	s.ExpectGone(m)
}
