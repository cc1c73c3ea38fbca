package reliability

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// TestASupportServiceMovesWithItsCluster moves a cluster with a load balancer to another management plane, with
// clusterctl. The load balancer's VM knows only the old manager. Therefore, this VM is replaced, but nothing else.
func TestASupportServiceMovesWithItsCluster(t *testing.T) {
	testenv.SkipInShort(t, "moves a cluster between two management planes")
	t.Parallel()
	here, there := planesOf(t, func(c *infrav1.OLVMCluster) {
		withoutGroups(c)
	}, func() []string {
		ports, err := localplane.FreePorts(1)
		check.Error(t, err, "")
		at := fmt.Sprintf("127.0.0.1:%d", ports[0])

		return []string{"--bootstrap-url=https://" + at, "--bootstrap-listen=" + at, "--leader-elect-namespace=default"}
	})
	s := here.site.ForSubtest(t)
	createBalancer(s)
	m := s.CreateMachine("one", nil)
	here.settle(here.site, m)
	first := here.balancer(t)

	here.move(t, there)
	there.play(there.site, m.Name)
	there.site.Eventually("the VM is replaced", func() error {
		for _, vm := range there.site.Sim.ListVMs() {
			if vm.Name == "demo-lb-apps-0" && vm.ID != first {
				return nil
			}
		}

		return fmt.Errorf("the engine has %+v", there.site.Sim.ListVMs())
	})
	check.Equal(t, "another VM", there.balancer(t) == first, false)
	there.expectReady(there.site, m)
	check.Length(t, "VMs", there.site.Sim.ListVMs(), 2)

	left := &infrav1.OLVMMachineList{}
	check.Error(t, here.api.Client.List(t.Context(), left, client.InNamespace(here.site.Namespace)), "")
	check.Length(t, "OLVMMachines that are left behind", left.Items, 0)
	services := &infrav1alpha1.OLVMSupportServicesList{}
	check.Error(t, here.api.Client.List(t.Context(), services, client.InNamespace(here.site.Namespace)), "")
	check.Length(t, "OLVMSupportServices that are left behind", services.Items, 0)

	there.site.Delete(m)
	there.site.ExpectGone(m)
	infra := &infrav1.OLVMCluster{ObjectMeta: there.site.NewMeta("demo")}
	there.site.Delete(infra)
	there.site.ExpectGone(infra)
	there.expectNone(there.site)
}

// createBalancer creates a load balancer with one VM.
func createBalancer(s *testsite.Site) *infrav1alpha1.OLVMSupportServices {
	s.T.Helper()
	createBalancerTemplate(s, "lb")
	balancer := infrav1alpha1.SupportLoadBalancer{Name: "apps", Role: infrav1.WorkerRole, Ports: []string{"443"}}
	balancer.MachineTemplateName = "lb"
	services := &infrav1alpha1.OLVMSupportServices{
		ObjectMeta: s.NewMeta("demo"),
		Spec: infrav1alpha1.OLVMSupportServicesSpec{
			ClusterName: "demo", LoadBalancers: []infrav1alpha1.SupportLoadBalancer{balancer},
		},
	}
	s.Create(services)

	return services
}

// createBalancerTemplate creates a template for the VM of a load balancer.
func createBalancerTemplate(s *testsite.Site, name string) {
	s.T.Helper()
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: s.NewMeta(name)}
	template.Spec.Template.Spec = s.MachineSpec()
	template.Spec.Template.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.30"}
	s.Create(template)
}

// expectServing waits until support services match their spec.
func expectServing(s *testsite.Site, services *infrav1alpha1.OLVMSupportServices) {
	s.T.Helper()
	s.Eventually("the load balancer serves", func() error {
		err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(services), services)
		ready := conditions.Get(services, infrav1.ReadyCondition)

		if err == nil && (ready == nil || ready.Status != "True" || ready.ObservedGeneration != services.Generation) {
			err = fmt.Errorf("it does not: %+v", ready)
		}

		return err
	})
}

// front is the address at which the VMs of a bench reach the managers. It forwards to the newest manager.
type front struct {
	listener net.Listener
	mu       sync.Mutex
	to       string
	open     []net.Conn
}

// newFront listens until the test ends.
func newFront(t *testing.T) *front {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Error(t, err, "")

	f := &front{listener: listener}
	t.Cleanup(func() {
		_ = listener.Close()
		f.leadTo("")
	})

	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}

			go f.carry(from)
		}
	}()

	return f
}

// leadTo forwards new connections to an address, and closes all open connections.
func (f *front) leadTo(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	for _, conn := range f.open {
		_ = conn.Close()
	}

	f.to, f.open = address, nil
}

// carry forwards data between a connection and the manager.
func (f *front) carry(from net.Conn) {
	defer from.Close()

	f.mu.Lock()
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", f.to)
	if err == nil {
		f.open = append(f.open, from, to)
	}

	f.mu.Unlock()

	if err != nil {
		return
	}

	defer to.Close()

	go func() {
		defer from.Close()
		_, _ = io.Copy(from, to)
	}()
	_, _ = io.Copy(to, from)
}

// balancer waits until the load balancer serves, and returns the ID of its VM.
func (p *plane) balancer(t *testing.T) string {
	t.Helper()
	s := p.site.ForSubtest(t)
	expectServing(s, &infrav1alpha1.OLVMSupportServices{ObjectMeta: s.NewMeta("demo")})

	return balancerVM(s)
}

// balancerVM returns the ID of the VM of the load balancer.
func balancerVM(s *testsite.Site) string {
	s.T.Helper()

	machine := &infrav1.OLVMMachine{ObjectMeta: s.NewMeta("demo-lb-apps-0")}
	check.Error(s.T, s.Client.Get(context.Background(), client.ObjectKeyFromObject(machine), machine), "")

	for _, vm := range s.Sim.ListVMs() {
		if machine.Spec.ProviderID == "olvm://"+vm.ID {
			return vm.ID
		}
	}

	s.T.Fatalf("VM %s is not in the engine", machine.Spec.ProviderID)

	return ""
}
