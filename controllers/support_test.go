package controllers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// supported returns a site with these load balancers, from a template "lb" with its own addresses.
func supported(t *testing.T, balancers ...infrav1alpha1.SupportLoadBalancer) *site {
	t.Helper()

	for i := range balancers {
		balancers[i].MachineTemplateName = "lb"
	}

	s := newSite(t, nil)
	s.support(infrav1alpha1.OLVMSupportServicesSpec{LoadBalancers: balancers})

	return s
}

// support creates the support services of the cluster, and the template "lb".
func (s *site) support(spec infrav1alpha1.OLVMSupportServicesSpec) {
	s.T.Helper()
	spec.ClusterName = "demo"
	s.Create(&infrav1alpha1.OLVMSupportServices{ObjectMeta: s.NewMeta("demo"), Spec: spec})
	s.balancerTemplate("lb")
}

// services returns the cluster's OLVMSupportServices by name.
func (s *site) services() *infrav1alpha1.OLVMSupportServices {
	return &infrav1alpha1.OLVMSupportServices{ObjectMeta: s.NewMeta("demo")}
}

// balancerTemplate creates a template for VMs of load balancers.
func (s *site) balancerTemplate(name string) {
	s.T.Helper()
	s.template(name, func(m *infrav1.OLVMMachineTemplate) {
		m.Spec.Template.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.30-10.0.0.31"}
	})
}

// supportMachine returns the OLVMMachine of a service's VM by name.
func (s *site) supportMachine(name string) *infrav1.OLVMMachine {
	return &infrav1.OLVMMachine{ObjectMeta: s.NewMeta(name)}
}

// addressOf returns the address of a service's VM. The VMs of a service are created at once, so each may get any
// address of the template.
func (s *site) addressOf(name string) string {
	s.T.Helper()
	m := s.supportMachine(name)
	if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
		s.T.Fatal(err)
	}

	if len(m.Status.Addresses) == 0 {
		s.T.Fatalf("%s has no address", name)
	}

	return m.Status.Addresses[0].Address
}

// service waits until a service is ready, and returns its status.
func (s *site) service(name string) infrav1alpha1.SupportServiceStatus {
	s.T.Helper()
	var out infrav1alpha1.SupportServiceStatus
	of := s.services()
	s.Eventually("service "+name+" is ready", func() error {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(of), of); err != nil {
			return err
		}

		at := slices.IndexFunc(of.Status.Services, func(one infrav1alpha1.SupportServiceStatus) bool {
			return one.Name == name
		})
		if at < 0 {
			return fmt.Errorf("there are %+v", of.Status.Services)
		}

		out = of.Status.Services[at]
		if len(out.Conditions) != 1 || out.Conditions[0].Status != metav1.ConditionTrue {
			return fmt.Errorf("it has %+v", out.Conditions)
		}

		return nil
	})

	return out
}

// expectServiceFailure waits until a service fails with this text in its message.
func (s *site) expectServiceFailure(want string) {
	s.T.Helper()
	s.Eventually(want, func() error {
		message := s.ExpectCondition(s.services(), infrav1.ReadyCondition, "False/InfraServiceFailure")
		if !strings.Contains(message, want) {
			return errors.New(message)
		}

		return nil
	})
}

// configured returns a file of a VM's configuration.
func (s *site) configured(machine, file string) (string, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: s.Namespace, Name: support.SecretName(machine)}
	if err := s.Client.Get(context.Background(), key, &secret); err != nil {
		return "", err
	}

	archive := tar.NewReader(bytes.NewReader(secret.Data["configuration"]))

	for {
		header, err := archive.Next()
		if err != nil {
			return "", fmt.Errorf("%s of %s: %w", file, machine, err)
		}

		if header.Name == file {
			content, err := io.ReadAll(archive)
			return string(content), err
		}
	}
}

// expectConfigured waits until a file of a VM's configuration contains these texts. It must not contain texts with a
// leading !.
func (s *site) expectConfigured(machine, file string, texts ...string) {
	s.T.Helper()
	s.Eventually(file+" of "+machine, func() error {
		content, err := s.configured(machine, file)
		if err != nil {
			return err
		}

		for _, text := range texts {
			unwanted, no := strings.CutPrefix(text, "!")
			if no && strings.Contains(content, unwanted) || !no && !strings.Contains(content, text) {
				return fmt.Errorf("want %s in\n%s", text, content)
			}
		}

		return nil
	})
}

// TestAPairOfLoadBalancersMakesTheEndpoint (row 51) covers a pair of load balancers that serve the control plane
// endpoint. The cluster is provisioned once one of them serves. The load balancers follow changes of the machines, and
// no Machine owns their VMs.
func TestAPairOfLoadBalancersMakesTheEndpoint(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{
		Name: "api", Role: infrav1.ControlPlaneRole, Replicas: 2, VirtualIP: "10.0.0.5",
	})
	status := s.service("lb-api")
	check.Equal(t, "address", status.Address, "10.0.0.5")
	check.Equal(t, "machines", status.Machines, []string{"demo-lb-api-0", "demo-lb-api-1"})
	check.Equal(t, "machines that serve", status.ReadyMachines, 2)
	s.ExpectCondition(s.services(), infrav1.ReadyCondition, "True/Ready")
	s.ExpectCondition(s.services(), infrav1.DeletingCondition, "False/NotDeleting")
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	check.Equal(t, "provisioned", ptr.Deref(s.OLVM.Status.Initialization.Provisioned, false), true)
	s.expectGroup("lb-api", true, "demo-lb-api-0", "demo-lb-api-1")

	first, second := s.addressOf("demo-lb-api-0"), s.addressOf("demo-lb-api-1")
	check.Equal(
		t, "addresses", slices.Sorted(slices.Values([]string{first, second})), []string{"10.0.0.30", "10.0.0.31"},
	)
	s.expectConfigured("demo-lb-api-0", "keepalived.conf", "unicast_src_ip "+first+"\n", "        "+second+"\n",
		"10.0.0.5/32 dev enp1s0")
	s.expectConfigured("demo-lb-api-1", "keepalived.conf", "unicast_src_ip "+second+"\n", "        "+first+"\n")

	m := s.controlPlane("cp-1", "", nil)
	worker := s.CreateMachine("worker", nil)
	s.ExpectProvisioned(m)
	s.ExpectProvisioned(worker)

	server := fmt.Sprintf("server cp-1 %s:6443\n", m.Status.Addresses[0].Address)
	for _, name := range status.Machines {
		s.expectConfigured(
			name, "haproxy.cfg", server, "!server worker", "bind 0.0.0.0:6443\n", "!bind ::", "check-ssl",
		)
	}

	s.Delete(m)
	s.ExpectGone(m)
	s.expectConfigured("demo-lb-api-0", "haproxy.cfg", "!server cp-1")
	s.service("lb-api")

	s.Delete(worker)
	s.ExpectGone(worker)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	s.ExpectGone(s.services())
	s.ExpectEmptyEngine()
}

// TestALoadBalancerSpreadsPortsOverWorkers (row 52) spreads a range of ports over workers.
func TestALoadBalancerSpreadsPortsOverWorkers(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{
		Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"30002-30011", "443"},
	})
	m := s.CreateMachine("worker", nil)
	s.ExpectProvisioned(m)
	status := s.service("lb-apps")
	check.Equal(t, "address", status.Address, "10.0.0.30")
	address := m.Status.Addresses[0].Address
	s.expectConfigured("demo-lb-apps-0", "haproxy.cfg",
		"listen port-30002\n", "server worker "+address+":30002\n", "server worker "+address+":30011\n",
		"server worker "+address+":443\n", "!30012", "!check-ssl")

	vm, err := s.NewSession().FetchFullVM(t.Context(), s.vmOf("demo-lb-apps-0"))
	check.Error(t, err, "")
	check.Contains(t, "user data", vm.Initialization.CustomScript, "/etc/capolvm/service/fetch.sh")
	check.Contains(t, "comment", vm.CommentText(), "capolvm owner="+s.Namespace+"/demo-lb-apps-0 ")
}

// TestSupportServicesThatCannotBe verifies that problems are reported before anything is created.
func TestSupportServicesThatCannotBe(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{
		Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}, VirtualIP: "10.0.0.5",
	})

	for _, test := range []struct {
		change func(*infrav1alpha1.SupportLoadBalancer)
		want   string
	}{
		{func(*infrav1alpha1.SupportLoadBalancer) {},
			"virtualIP: 10.0.0.5 is the control plane endpoint; set the role to ControlPlane"},
		{func(b *infrav1alpha1.SupportLoadBalancer) { b.VirtualIP, b.MachineTemplateName = "", "none" },
			"machineTemplateName: there is no OLVMMachineTemplate \"none\""},
	} {
		change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) { test.change(&of.Spec.LoadBalancers[0]) })
		s.expectServiceFailure(test.want)
	}

	s.ExpectEmptyEngine()
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
		of.Spec.LoadBalancers[0].MachineTemplateName = "lb"
	})
	s.service("lb-apps")
}

// TestVMsOfSupportServicesAreReplaced verifies that a VM deleted in the engine is recreated. After a change of the
// template, all VMs are replaced, one at a time.
func TestVMsOfSupportServicesAreReplaced(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{
		Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}, Replicas: 2, VirtualIP: "10.0.0.6",
	})
	s.service("lb-apps")
	lost := s.vmOf("demo-lb-apps-0")
	check.Error(t, s.NewSession().StopVM(t.Context(), lost, false), "")
	s.Eventually("the VM is deleted", func() error { return s.NewSession().DeleteVM(context.Background(), lost) })
	s.Eventually("another VM", func() error {
		s.look()
		if now := s.vmOf("demo-lb-apps-0"); now == "" || now == lost {
			return fmt.Errorf("it is %q", now)
		}

		return nil
	})
	s.service("lb-apps")

	// The controller does not delete a VM that it cannot create again.
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
		of.Spec.LoadBalancers[0].MachineTemplateName = "othre"
	})
	s.expectServiceFailure(`there is no OLVMMachineTemplate "othre"`)
	check.Length(t, "VMs", s.Sim.ListVMs(), 2)

	s.balancerTemplate("other")
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
		of.Spec.LoadBalancers[0].MachineTemplateName = "other"
	})
	s.Eventually("both are of the other template", func() error {
		for _, name := range []string{"demo-lb-apps-0", "demo-lb-apps-1"} {
			m := s.supportMachine(name)
			if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
				return err
			}

			if from := m.Annotations["cluster.x-k8s.io/cloned-from-name"]; from != "other" {
				return fmt.Errorf("%s is of %s", name, from)
			}
		}

		return nil
	})
	s.service("lb-apps")
	check.Length(t, "VMs", s.Sim.ListVMs(), 2)
}

// TestAServiceIsDeletedWhenTheEngineIsBack (row 56) deletes a cluster with a support service. The deletion reports the
// unreachable engine, and continues once the engine answers again.
func TestAServiceIsDeletedWhenTheEngineIsBack(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}})
	s.service("lb-apps")
	check.Error(t, s.Sim.Inject(ovirtsim.Fault{Path: ".*", Status: 503}), "")
	s.Delete(s.OLVM)
	message := s.ExpectCondition(s.OLVM, infrav1.DeletingCondition, "True/UnableToDecommission")
	check.Contains(t, "what it waits for", message, "demo-lb-apps-0")
	s.Sim.ClearFaults()
	s.look()
	s.ExpectGone(s.OLVM)
	s.ExpectEmptyEngine()
}

// TestSupportServicesOfNoClusterSayWhy covers an object without a Cluster, and one with a Cluster of another provider.
func TestSupportServicesOfNoClusterSayWhy(t *testing.T) {
	s := newSite(t, nil)
	lone := &infrav1alpha1.OLVMSupportServices{ObjectMeta: s.NewMeta("lone")}
	lone.Spec.ClusterName = "lone"
	s.Create(lone)
	message := s.ExpectCondition(lone, infrav1.ReadyCondition, "False/NoCluster")
	check.Contains(t, "the remedy", message, `spec.clusterName: there is no Cluster "lone" in namespace `+s.Namespace)

	cluster := &clusterv1.Cluster{ObjectMeta: s.NewMeta("lone")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "OCICluster", Name: "lone",
	}
	s.Create(cluster)
	s.ExpectCondition(lone, infrav1.ReadyCondition, "False/ClusterOfOtherProvider")
	s.Delete(lone)
	s.ExpectGone(lone)
}

// TestAClusterHasOneOLVMSupportServices verifies that the API server rejects a second object with another name, and a
// change of the Cluster.
func TestAClusterHasOneOLVMSupportServices(t *testing.T) {
	s := newSite(t, nil)
	const rule = "metadata.name must be that of the Cluster"
	of := &infrav1alpha1.OLVMSupportServices{ObjectMeta: s.NewMeta("second")}
	of.Spec.ClusterName = "demo"
	check.Error(t, s.Client.Create(t.Context(), of), rule)
	of = s.services()
	of.Spec.ClusterName = "demo"
	s.Create(of)
	of.Spec.ClusterName = "other"
	check.Error(t, s.Client.Update(t.Context(), of), "clusterName is immutable")
}

// TestPortsAndAddressesOfLoadBalancersAreChecked covers the checks at admission.
func TestPortsAndAddressesOfLoadBalancersAreChecked(t *testing.T) {
	s := newSite(t, nil)

	for name, test := range map[string]struct {
		ports   []string
		address string
		want    string
	}{
		"good":             {[]string{"1", "65535", "30002-30011", "7-7"}, "10.0.0.7", ""},
		"IPv6":             {[]string{"1"}, "fd00::7", ""},
		"port 0":           {[]string{"0"}, "", "write a port from 1 to 65535"},
		"a high port":      {[]string{"443", "70000"}, "", "write a port from 1 to 65535"},
		"the end too high": {[]string{"30002-65536"}, "", "write a port from 1 to 65535"},
		"reversed":         {[]string{"30002-30001"}, "", "the range ends before it begins"},
		"a name":           {[]string{"443"}, "here", "write the IP address of one machine"},
		"a prefix":         {[]string{"443"}, "10.0.0.0/24", "write the IP address of one machine"},
		"a zone":           {[]string{"443"}, "fe80::1%eth0", "write the IP address of one machine"},
	} {
		t.Run(name, func(t *testing.T) {
			of := s.services()
			of.Spec.ClusterName = "demo"
			of.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{{
				Name: "apps", Role: infrav1.WorkerRole, Ports: test.ports, VirtualIP: test.address,
				SupportVM: infrav1alpha1.SupportVM{MachineTemplateName: "lb", FailureDomains: []string{"b", "a", "b"}},
			}}
			check.Error(t, s.Client.Create(t.Context(), of, client.DryRunAll), test.want)
		})
	}
}

// TestPausedSupportServicesChangeNothing pauses the object. VMs stay unchanged until the pause ends.
func TestPausedSupportServicesChangeNothing(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}})
	s.service("lb-apps")
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
		of.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		of.Spec.LoadBalancers = nil
	})
	s.ExpectCondition(s.services(), clusterv1.PausedCondition, "True/Paused")
	check.Equal(t, "the VM is there", s.vmOf("demo-lb-apps-0") != "", true)
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) { of.Annotations = nil })
	s.ExpectGone(s.supportMachine("demo-lb-apps-0"))
	s.ExpectCondition(s.services(), clusterv1.PausedCondition, "False/NotPaused")
}

// TestSupportServicesAreDeletedAlone deletes the services and their VMs, but keeps the cluster.
func TestSupportServicesAreDeletedAlone(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}})
	s.service("lb-apps")
	of := s.services()
	check.Error(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(of), of), "")
	check.Equal(t, "its owner", of.OwnerReferences[0].Kind+"/"+of.OwnerReferences[0].Name, "Cluster/demo")
	s.Delete(of)
	s.ExpectGone(of)
	s.ExpectEmptyEngine()
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
}

// TestSupportServicesOfADeletedClusterOutliveItsNodes deletes the services while their Cluster is in deletion, as the
// garbage collector does in a foreground deletion. The VMs stay until the nodes are deleted.
func TestSupportServicesOfADeletedClusterOutliveItsNodes(t *testing.T) {
	s := supported(t, infrav1alpha1.SupportLoadBalancer{Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}})
	m := s.CreateMachine("worker", nil)
	s.ExpectProvisioned(m)
	s.service("lb-apps")
	cluster := &clusterv1.Cluster{ObjectMeta: s.NewMeta("demo")}
	change(s, cluster, func(c *clusterv1.Cluster) { c.Finalizers = append(c.Finalizers, "test/held") })
	s.Delete(cluster)
	s.Delete(s.services())
	message := s.ExpectCondition(s.services(), infrav1.DeletingCondition, "True/WaitingForMachinesDeletion")
	check.Contains(t, "what it waits for", message, "its nodes are deleted first: worker")
	check.Equal(t, "the VM is there", s.vmOf("demo-lb-apps-0") != "", true)
	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectGone(s.services())
	s.ExpectEmptyEngine()
	change(s, cluster, func(c *clusterv1.Cluster) { c.Finalizers = nil })
}

// TestALoadBalancerDoesNotTakeTheAddressOfANode verifies that the conflict is reported before a VM is created, and that
// another address resolves it.
func TestALoadBalancerDoesNotTakeTheAddressOfANode(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("worker", nil)
	s.ExpectProvisioned(m)
	s.support(infrav1alpha1.OLVMSupportServicesSpec{LoadBalancers: []infrav1alpha1.SupportLoadBalancer{{
		Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}, VirtualIP: m.Status.Addresses[0].Address,
		SupportVM: infrav1alpha1.SupportVM{MachineTemplateName: "lb"},
	}}})
	message := s.ExpectCondition(s.services(), infrav1.ReadyCondition, "False/InfraServiceFailure")
	check.Contains(
		t, "whose", message,
		"spec.loadBalancers[0].virtualIP: "+m.Status.Addresses[0].Address+" belongs to OLVMMachine ",
	)
	check.Equal(t, "the VM is not made", s.vmOf("demo-lb-apps-0"), "")
	change(
		s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
			of.Spec.LoadBalancers[0].VirtualIP = "10.0.0.7"
		},
	)
	check.Equal(t, "address", s.service("lb-apps").Address, "10.0.0.7")
}

// vmOf returns the ID of the engine's VM with this name, or "".
func (s *site) vmOf(name string) engine.ID {
	for _, vm := range s.Sim.ListVMs() {
		if vm.Name == name {
			return engine.ID(vm.ID)
		}
	}

	return ""
}
