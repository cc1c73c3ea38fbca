package reliability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// plane is a management plane. It consists of an API server with our manager, and the namespace of a site.
type plane struct {
	*bench
	api *testsite.APIServer
	// door is the gate between clusterctl and the API server.
	door *gate
	// kubeconfig is the path of a file that grants all rights through this gate.
	kubeconfig string
}

func newPlane(t *testing.T, b *bench, api *testsite.APIServer) *plane {
	t.Helper()
	p := &plane{bench: b, api: api, door: &gate{name: writeCall}}
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(p.kubeconfig, testsite.NewKubeconfig(t, api.Config, p.door.wrap), 0o600); err != nil {
		t.Fatal(err)
	}

	return p
}

var second struct {
	sync.Once
	api     *testsite.APIServer
	program *testsite.Program
	err     error
}

// planes returns two management planes that use one engine. The site is in the first plane.
func planes(t *testing.T) (here, there *plane) {
	t.Helper()

	return planesOf(t, withoutGroups, func() []string { return nil })
}

// planesOf is like planes, but changes the site and adds arguments for the managers.
func planesOf(t *testing.T, change func(*infrav1.OLVMCluster), args func() []string) (here, there *plane) {
	t.Helper()
	second.Do(func() {
		second.api, second.err = testsite.StartAPIServer(context.Background(), suite.Tools)
		if second.err == nil {
			second.program, second.err = suite.Program.ForServer(context.Background(), suite.Tools, second.api)
		}
	})
	if second.err != nil {
		t.Fatal(second.err)
	}

	b := newBench(t, change, args()...)
	other := &bench{engine: b.engine, site: b.site.ForSubtest(t)}
	other.site.Client = second.api.Client
	front := &gate{name: writeCall}
	other.manager = &manager{
		api:     front,
		Manager: second.program.NewManager(t, front.wrap, append(args(), "--namespace="+b.site.Namespace)...),
	}
	other.site.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.site.Namespace}})
	t.Cleanup(other.site.RemoveObjects)
	provider(t, second.api, b.site.Namespace)
	if err := other.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return newPlane(t, b, suite.API), newPlane(t, other, second.api)
}

// play writes the status of Cluster API's objects in place of Cluster API, because a move drops it.
func (p *plane) play(s *testsite.Site, names ...string) {
	s.T.Helper()
	status := func(object client.Object, set func()) {
		s.Eventually("a status is written", func() error {
			if err := p.api.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}

			set()

			return p.api.Client.Status().Update(context.Background(), object)
		})
	}
	cluster := &clusterv1.Cluster{ObjectMeta: s.NewMeta("demo")}
	status(cluster, func() {
		cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		conditions.Set(cluster, metav1.Condition{
			Type:   clusterv1.ClusterControlPlaneInitializedCondition,
			Status: metav1.ConditionTrue,
			Reason: "Played",
		})
	})

	for _, name := range names {
		m := &clusterv1.Machine{ObjectMeta: s.NewMeta(name)}
		status(m, func() { m.Status.NodeRef.Name = name })
	}
}

// clusterctl starts a move of the namespace from one plane to another. The returned channel receives the error of the
// move when it ends.
func (p *plane) clusterctl(t *testing.T, to *plane) (*exec.Cmd, <-chan error) {
	t.Helper()
	command, err := localplane.MoveCommand(
		context.Background(), suite.Tools, p.kubeconfig, to.kubeconfig, p.site.Namespace, t.TempDir(),
	)
	if err != nil {
		t.Fatal(err)
	}

	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() {
		err := command.Wait()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, output.String())
		}

		ended <- err
	}()
	t.Cleanup(func() { _ = command.Process.Kill() })

	return command, ended
}

// move moves everything to another plane, and waits until the move ends.
func (p *plane) move(t *testing.T, to *plane) {
	t.Helper()
	_, ended := p.clusterctl(t, to)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// expectUntouched fails if the engine got a request to create, start, stop or delete anything since its gate was set.
func (p *plane) expectUntouched(t *testing.T) {
	t.Helper()

	for _, c := range p.engine.seen() {
		if !strings.HasPrefix(c.name, "GET ") && !strings.Contains(c.name, "/sso/") && c.name != "PUT /vms/ID" &&
			c.name != "PUT /disks/ID" {
			t.Errorf("the engine got %s", c)
		}
	}
}

// expectMoved waits until the machine is in this plane without a change. It also verifies that nothing is left in the
// other plane.
func (p *plane) expectMoved(s *testsite.Site, from *plane, before *infrav1.OLVMMachine) {
	s.T.Helper()
	m := before.DeepCopy()
	p.play(s, before.Name)
	p.expectReady(s, m)
	p.expectOne(s, m)
	if m.UID == before.UID {
		s.T.Error("the object is the same one")
	}

	if m.Spec.ProviderID != before.Spec.ProviderID ||
		m.Annotations[infrav1.AddressesAnnotation] != before.Annotations[infrav1.AddressesAnnotation] {
		s.T.Errorf(
			"VM %s with addresses %s became %s with %s", before.Spec.ProviderID,
			before.Annotations[infrav1.AddressesAnnotation], m.Spec.ProviderID,
			m.Annotations[infrav1.AddressesAnnotation],
		)
	}

	ctx := context.Background()
	for _, kept := range []client.Object{&corev1.Secret{
		ObjectMeta: s.NewMeta("creds"),
	}, &corev1.ConfigMap{ObjectMeta: s.NewMeta("ca")}} {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(kept), kept); err != nil {
			s.T.Error(err)
		}
	}

	for _, list := range []client.ObjectList{
		&infrav1.OLVMMachineList{}, &infrav1.OLVMClusterList{}, &clusterv1.ClusterList{}, &clusterv1.MachineList{},
		&corev1.SecretList{}, &ipamv1.IPAddressClaimList{},
	} {
		if err := from.api.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			s.T.Fatal(err)
		}

		if n := meta.LenList(list); n != 0 {
			s.T.Errorf("%d objects of %T are left", n, list)
		}
	}

	s.Eventually("nothing is left on the disk", func() error {
		if left, err := filepath.Glob(filepath.Join(from.WorkDir(), s.Namespace, "*")); err != nil || len(left) != 0 {
			return fmt.Errorf("left are %v, %w", left, err)
		}

		return nil
	})
}

// settled creates a machine, and waits until clusterctl may move it and its engine is idle.
func (p *plane) settled(s *testsite.Site, name string) *infrav1.OLVMMachine {
	s.T.Helper()
	m := s.CreateMachine(name, full)
	p.settle(s, m)
	p.expectOne(s, m)

	return m
}

// settle waits until clusterctl may move a machine and its engine is idle.
func (p *plane) settle(s *testsite.Site, m *infrav1.OLVMMachine) {
	s.T.Helper()
	name := m.Name
	machine := &clusterv1.Machine{ObjectMeta: s.NewMeta(name)}
	data := &corev1.Secret{ObjectMeta: s.NewMeta(name + "-bootstrap")}
	if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(machine), machine); err != nil {
		s.T.Fatal(err)
	}

	testsite.UpdateObject(s, data, func(data *corev1.Secret) { // usually comes from the bootstrap provider's object
		data.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: machine.UID},
		}
	})
	p.play(s, name)
	p.expectReady(s, m)
	p.engine.set(nil)
}

// TestAClusterMovesThereAndBack moves a cluster to another management plane and back, with clusterctl.
func TestAClusterMovesThereAndBack(t *testing.T) {
	t.Parallel()
	here, there := planes(t)
	m := here.settled(here.site, "one")
	here.move(t, there)
	there.expectMoved(there.site, here, m)
	if err := there.site.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}

	there.move(t, here)
	here.expectMoved(here.site, there, m)
	here.letPass(t, here.api.Client, &infrav1.OLVMMachine{ObjectMeta: here.site.NewMeta(m.Name)})
	here.expectUntouched(t)
	here.end(here.site, m)
}

// finish completes a move by hand after it was interrupted while it deleted objects. clusterctl cannot resume such a
// move, but at this point all objects are already in the other plane.
func (p *plane) finish(t *testing.T, to *plane) {
	t.Helper()
	resume(to.site)
	ctx := context.Background()
	mark := client.RawPatch(
		types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:""}}}`, clusterctlv1.DeleteForMoveAnnotation),
	)
	drop := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))

	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &ipamv1.IPAddressList{}, &ipamv1.IPAddressClaimList{},
		&infrav1.OLVMMachineList{}, &clusterv1.MachineList{}, &infrav1.OLVMClusterList{}, &clusterv1.ClusterList{},
	} {
		if err := p.api.Client.List(ctx, list, client.InNamespace(p.site.Namespace)); err != nil {
			t.Fatal(err)
		}

		err := meta.EachListItem(list, func(o runtime.Object) error {
			object, ok := o.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", o)
			}

			return client.IgnoreNotFound(
				errors.Join(
					p.api.Client.Patch(ctx, object, mark),
					p.api.Client.Delete(ctx, object),
					client.IgnoreNotFound(p.api.Client.Patch(ctx, object, drop)),
				),
			)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func resume(s *testsite.Site) {
	testsite.UpdateObject(s, &clusterv1.Cluster{
		ObjectMeta: s.NewMeta("demo"),
	}, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(false) })
}

// TestAMoveThatIsInterrupted kills clusterctl in the middle of a move. Until all objects are in the other plane, the
// remedy is to resume the Cluster in its old plane, and to start the move again. Later, the remedy is to complete the
// move by hand. Meanwhile, neither plane changes the engine, even if both Clusters are resumed.
func TestAMoveThatIsInterrupted(t *testing.T) {
	testenv.SkipInShort(t, "kills clusterctl at each call of a move")
	t.Parallel()

	for _, at := range []struct {
		call     call
		target   bool
		deleting bool
	}{
		{call{"PATCH clusters", 1}, false, false},
		{call{"POST olvmmachines", 1}, true, false},
		{call{"POST secrets", 2}, true, false},
		{call{"POST ipaddressclaims", 1}, true, false},
		{call{"DELETE secrets", 1}, false, true},
		{call{"DELETE olvmmachines", 1}, false, true},
		{call{"DELETE machines", 1}, false, true},
		{call{"DELETE clusters", 1}, false, true},
	} {
		t.Run(at.call.String(), func(t *testing.T) {
			t.Parallel()
			here, there := planes(t)
			m := here.settled(here.site, "one")
			door := here.door
			if at.target {
				door = there.door
			}

			var command *exec.Cmd
			started := make(chan struct{})
			trap := &trap{at: at.call, after: true, act: func() bool {
				<-started
				_ = command.Process.Kill()
				return true
			}}
			door.set(trap)
			command, ended := here.clusterctl(t, there)
			close(started)
			if err := <-ended; err == nil {
				t.Fatalf("the move had no %s", at.call)
			}

			<-trap.sprung
			letThosePass(t, m, here, there)
			here.expectUntouched(t)
			if at.call.name != "DELETE clusters" {
				resume(here.site)
				letThosePass(t, m, here, there) // the first plane continues with the objects that it still has
				here.expectUntouched(t)
			}

			if at.deleting {
				here.finish(t, there)
			} else {
				here.move(t, there)
			}

			there.expectMoved(there.site, here, m)
			here.expectUntouched(t)
			there.end(there.site, m)
		})
	}
}

// TestAMoveWaitsForARun starts a move while Terraform changes the machine's VM.
func TestAMoveWaitsForARun(t *testing.T) {
	testenv.SkipInShort(t, "repeats with clusterctl what TestApply of internal/workspace proves: a run blocks a move")
	t.Parallel()
	here, there := planes(t)
	m := here.settled(here.site, "one")
	goOn := make(chan struct{})
	changing := here.on("PUT /vms/ID", func() bool {
		<-goOn
		return false
	})
	testsite.UpdateObject(here.site, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Description = "second" })
	<-changing.at.reached(t, here.engine)

	const look = "GET olvmmachines/one"
	write := here.door.name
	here.door.name = func(r *http.Request) string {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/olvmmachines/one") {
			return look
		}

		return write(r)
	}
	_, ended := here.clusterctl(t, there)
	<-call{look, 2}.reached(t, here.door) // clusterctl checks whether it may move the machine, and must wait
	if len(ended) > 0 {
		t.Fatalf("the move did not wait: %v", <-ended)
	}

	var machines infrav1.OLVMMachineList
	err := there.site.Client.List(t.Context(), &machines, client.InNamespace(there.site.Namespace))
	if err != nil || len(machines.Items) != 0 {
		t.Errorf("%d machines were moved, %v", len(machines.Items), err)
	}

	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	state, err := (&tfstate.Store{Client: there.site.Client, Reader: there.site.Client}).Load(t.Context(), m)
	if err != nil || !strings.Contains(string(state.Bytes()), `"second"`) {
		t.Errorf("the state that was moved does not have the change, %v", err)
	}

	there.expectMoved(there.site, here, m)
	there.expectDescription(there.site, m, "second")
	here.expectUntouched(t)
}
