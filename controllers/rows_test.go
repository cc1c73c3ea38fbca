package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// This file tests some rows of docs/develop/acceptance.md exactly as they are written. Cheaper tests of their parts run
// with each change.

// TestEightMachinesFillThreeRangesAndTheNinthWaits (row 2) uses a block, an address and a range. Eight machines get
// eight addresses. The ninth machine gets the address of a deleted machine.
func TestEightMachinesFillThreeRangesAndTheNinthWaits(t *testing.T) {
	skipProved(t, "TestAnAddressPoolThatIsExhausted of controllers/machine")

	s := newSite(t, nil)
	ranges := func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.160/30", "10.0.0.196", "10.0.0.200-10.0.0.202"}
	}

	var machines []*infrav1.OLVMMachine
	for i := range 8 {
		machines = append(machines, s.CreateMachine(fmt.Sprintf("m%d", i), ranges))
	}

	var got []string

	for _, m := range machines {
		s.ExpectProvisioned(m)
		got = append(got, m.Status.OLVM.IPAddress)
	}

	slices.Sort(got)
	check.Equal(t, "addresses", got, []string{
		"10.0.0.160", "10.0.0.161", "10.0.0.162", "10.0.0.163", "10.0.0.196", "10.0.0.200", "10.0.0.201", "10.0.0.202",
	})

	ninth := s.CreateMachine("m8", ranges)
	s.ExpectCondition(ninth, infrav1.AddressesAllocatedCondition, "False/"+infrav1.AddressRangeExhaustedReason)
	s.Delete(machines[3])
	s.ExpectGone(machines[3])
	s.ExpectProvisioned(ninth)
	check.Equal(t, "the address of the ninth", ninth.Status.OLVM.IPAddress, machines[3].Status.OLVM.IPAddress)
}

// TestAVMThatHangsInItsShutdownIsRemovedAndNamesakesStay (row 30) deletes a machine while its guest ignores the
// shutdown that a user has requested. VMs with similar names belong to others, and must stay.
func TestAVMThatHangsInItsShutdownIsRemovedAndNamesakesStay(t *testing.T) {
	testenv.SkipInShort(t, "repeats TestAForeignVMOfOurNameIsNotTouched with a guest that hangs")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	foreign := []string{"on", "one-0", "one1"}
	for _, name := range foreign {
		poolvm.CreateVM(t, s.NewSession(), "foreign", name, "")
	}

	check.Error(t, s.Sim.Inject(ovirtsim.Fault{Guest: "ignores-shutdown", VM: "^one$"}), "")
	check.Error(t, s.NewSession().ShutdownVM(t.Context(), s.vmOf("one"), false), "")

	hung, err := s.NewSession().FetchVM(t.Context(), s.vmOf("one"))
	check.Error(t, err, "")
	check.Equal(t, "the status of the VM", hung.Status, engine.VMPoweringDown)

	s.Delete(m)
	s.ExpectGone(m)

	var left []string
	for _, vm := range s.Sim.ListVMs() {
		left = append(left, vm.Name)
	}

	slices.Sort(left)
	check.Equal(t, "VMs", left, foreign)
}

// TestTheHostLabelOfAClaimedVMFollowsItsMigration (row 43) moves all VMs off the host of a claimed VM.
func TestTheHostLabelOfAClaimedVMFollowsItsMigration(t *testing.T) {
	skipProved(t, "TestAnInventoryListsItsVMsWithTheirHosts of internal/inventory")
	t.Parallel()

	const label = "example.com/host"

	p := newPool(t, "vm-a")
	s := &site{Site: p.Site}
	change(s, p.inventory, func(i *infrav1alpha1.OLVMInventory) {
		i.Spec.LabelRules = []infrav1alpha1.InventoryLabel{{Key: label, From: infrav1alpha1.LabelFromHost}}
	})
	p.ExpectProvisioned(p.machine("m-0", nil))

	host := func() string {
		at := slices.IndexFunc(p.Sim.ListVMs(), func(vm ovirtsim.VMInfo) bool { return vm.Name == "vm-a" })
		return p.Sim.ListVMs()[at].Host
	}
	labeled := func() error {
		vm := &infrav1alpha1.OLVMInventoryVM{}
		err := p.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: "vm-a"}, vm)
		if now := host(); err == nil && (now == "" || vm.Labels[label] != now) {
			wake(p)
			err = fmt.Errorf("the VM runs on %q, and its label says %q", now, vm.Labels[label])
		}

		return err
	}

	p.Eventually("the label names the host", labeled)

	before := host()
	check.Error(t, p.Sim.MaintainHost(before), "")
	p.Eventually("the VM migrates", func() error {
		if host() == before {
			return errors.New("it is on " + before)
		}

		return nil
	})
	p.Eventually("the label names the new host", labeled)
}

// runsOfTerraform returns the number of Terraform processes with a working directory below a folder.
func runsOfTerraform(below string) int32 {
	var count int32

	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, process := range processes {
		command, _ := os.ReadFile(process)
		folder, _ := os.Readlink(filepath.Join(filepath.Dir(process), "cwd"))
		program := filepath.Base(strings.SplitN(string(command), "\x00", 2)[0])

		if (program == "terraform" || program == "tofu") && strings.HasPrefix(folder, below) {
			count++
		}
	}

	return count
}

// countRuns counts the Terraform processes until the test ends. The result is the largest number at one time so far.
func countRuns(t *testing.T) *atomic.Int32 {
	t.Helper()
	most := &atomic.Int32{}

	go func() {
		for t.Context().Err() == nil {
			most.Store(max(most.Load(), runsOfTerraform(suite.workDir)))
			time.Sleep(50 * time.Millisecond)
		}
	}()

	return most
}

// addCluster creates a Cluster with its OLVMCluster and four machines. The clusters of a site share a range.
func (s *site) addCluster(name, endpoint string) []*infrav1.OLVMMachine {
	s.T.Helper()
	meta := func(object string) metav1.ObjectMeta {
		m := s.NewMeta(object)
		m.Labels[clusterv1.ClusterNameLabel] = name

		return m
	}
	owned := func(object client.Object, kind, owner string, by client.Object) {
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: owner, UID: by.GetUID(),
			Controller: ptr.To(kind == "Machine"),
		}})
	}

	cluster := &clusterv1.Cluster{ObjectMeta: meta(name), Spec: *s.Cluster.Spec.DeepCopy()}
	cluster.Spec.InfrastructureRef.Name, cluster.Spec.ControlPlaneRef.Name = name, name
	s.Create(cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	s.UpdateStatus(cluster)

	olvm := &infrav1.OLVMCluster{ObjectMeta: meta(name), Spec: *s.OLVM.Spec.DeepCopy()}
	olvm.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: endpoint, Port: 6443}
	owned(olvm, "Cluster", name, cluster)
	s.Create(olvm)

	var out []*infrav1.OLVMMachine

	for i := range 4 {
		one := fmt.Sprintf("%s-%d", name, i)
		s.Create(&corev1.Secret{ObjectMeta: meta(one + "-bootstrap"), Data: map[string][]byte{
			"format": []byte("cloud-config"), "value": []byte("#cloud-config\nwrite_files: []\n"),
		}})

		machine := &clusterv1.Machine{ObjectMeta: meta(one), Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: "v1.36.1",
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(one + "-bootstrap")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMMachine", Name: one,
			},
		}}
		owned(machine, "Cluster", name, cluster)
		s.Create(machine)

		m := &infrav1.OLVMMachine{ObjectMeta: meta(one), Spec: s.MachineSpec()}
		m.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10-10.0.0.60"}
		owned(m, "Machine", one, machine)
		s.Create(m)
		out = append(out, m)
	}

	return out
}

// countReady reads the machines, and returns the number of ready ones.
func (s *site) countReady(machines []*infrav1.OLVMMachine) (int, error) {
	ready := 0

	for _, m := range machines {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return 0, err
		}

		if conditions.IsTrue(m, infrav1.ReadyCondition) {
			ready++
		}
	}

	return ready, nil
}

// TestTenClustersAtASlowEngineShareItsRunsAndAddresses (row 32) creates 10 clusters of 4 machines at once. Their engine
// takes half a second for each request. The manager of the suite runs at most 4 Terraform processes.
func TestTenClustersAtASlowEngineShareItsRunsAndAddresses(t *testing.T) {
	testenv.SkipInShort(t, "makes forty machines at an engine that answers slowly")

	s := newSite(t, nil)
	check.Error(t, s.Sim.Inject(ovirtsim.Fault{Path: "^/api", DelayMillis: 500}), "")

	most := countRuns(t)

	var machines []*infrav1.OLVMMachine
	for i := range 10 {
		machines = append(machines, s.addCluster(fmt.Sprintf("c%d", i), fmt.Sprintf("10.0.0.%d", 100+i))...)
	}

	for ready := 0; ready < len(machines); { // each machine has a time limit of its own
		s.Eventually("another machine is ready", func() error {
			now, err := s.countReady(machines)
			if err != nil || now <= ready {
				return errors.Join(err, fmt.Errorf("%d machines are ready", now))
			}

			ready = now

			return nil
		})
	}

	addresses, names := map[string]string{}, map[string]bool{}

	for _, m := range machines {
		ip := m.Status.OLVM.IPAddress
		if other := addresses[ip]; other != "" || ip == "" {
			t.Errorf("%s and %s have the address %q", m.Name, other, ip)
		}

		addresses[ip] = m.Name
	}

	for _, vm := range s.Sim.ListVMs() {
		names[vm.Name] = true
	}

	check.Equal(t, "VMs", len(s.Sim.ListVMs()), len(machines))
	check.Equal(t, "names of VMs", len(names), len(machines))

	if n := most.Load(); n < 2 || n > 4 {
		t.Errorf("%d processes of Terraform ran at once, want 2 to 4", n)
	}
}

// TestAHostedControlPlaneGivesTheEndpoint covers a control plane in pods, as with Kamaji and k0smotron. The OLVMCluster
// gets its endpoint from the Cluster.
func TestAHostedControlPlaneGivesTheEndpoint(t *testing.T) {
	testenv.SkipInShort(t, "makes a machine for an endpoint that comes late")

	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{}
		c.Spec.ControlPlaneServices = nil
	})
	change(s, s.Cluster, func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 6443}
	})
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	check.Equal(t, "the endpoint", s.OLVM.Spec.ControlPlaneEndpoint, infrav1.APIEndpoint{Host: "192.0.2.7", Port: 6443})
	s.ExpectProvisioned(s.CreateMachine("worker", nil))
}
