package reliability

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

const (
	// haltManager halts only the manager, like kill -STOP. haltAll also halts the manager's child processes, as in a
	// suspended host.
	haltManager fault = "halt the manager"
	haltAll     fault = "halt the manager and what it runs"
)

// losingSoon are the flags of managers with a short lease, because each case waits until a manager notices that it has
// lost its lease.
var losingSoon = append(slices.Clone(electing),
	"--leader-elect-lease-duration=15s",
	"--leader-elect-renew-deadline=12s")

// halt is one case. The leader of a bench halts at a call, its successor does the work, and then the leader resumes.
type halt struct {
	bench *bench
	point point

	stopped   []int // processes, the manager first
	reached   chan struct{}
	goOn      chan struct{}
	sprung    <-chan struct{} // closes after the call
	successor *manager        // valid after started is closed
	started   chan struct{}
	compared  bool
	// forget ends the supervision of the managers.
	forget func()
}

// haltAt sets a trap in the bench that halts the leader at the call of a case. The end of the test resumes all halted
// processes.
func (b *bench) haltAt(t *testing.T, p point) *halt {
	t.Helper()
	h := &halt{bench: b, point: p, reached: make(chan struct{}), goOn: make(chan struct{}), started: make(chan struct{})}
	hit := &trap{at: p.at, after: p.after, act: func() bool {
		h.stop()
		b.freeLease(t)
		close(h.reached)
		<-h.goOn

		return false
	}}

	for _, g := range b.gates() {
		g.set(nil)
	}

	b.gates()[p.gate].set(hit)
	h.sprung = hit.sprung

	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)

		if !b.keep(t, b.manager, ended, h.reached) {
			return
		}

		h.successor = b.another(t)
		if err := h.successor.Start(context.Background()); err != nil {
			t.Error(err)
		}

		close(h.started)
		b.keep(t, h.successor, ended, nil)
	}()
	h.forget = sync.OnceFunc(func() {
		close(ended)
		<-watched
	})
	t.Cleanup(func() {
		h.forget()
		h.release()
	})

	return h
}

// keep starts a manager again after it exits by itself, like a kubelet. On a busy host, a leader may lose its lease
// before the test halts it. It reports whether the manager was halted before the case ended.
func (b *bench) keep(t *testing.T, m *manager, ended, halted <-chan struct{}) bool {
	t.Helper()

	for {
		var gone <-chan struct{}
		if m.Process != nil {
			gone = m.Process.Done()
		}

		select {
		case <-ended:
			return false
		case <-halted:
			return true
		case <-time.After(time.Second): // meanwhile, the life may have started the manager
		case <-gone:
			if isClosed(ended) || isClosed(halted) {
				continue
			}

			if err := m.Start(context.Background()); err != nil && !isClosed(halted) {
				t.Logf("a manager that has lost its lease does not start again: %v", err)
			}
		}
	}
}

// stop halts the leader.
func (h *halt) stop() {
	h.stopped = append(h.stopped, h.bench.Process.PID())
	_ = syscall.Kill(h.stopped[0], syscall.SIGSTOP)

	if h.point.fault == haltManager {
		return
	}

	for _, pid := range h.bench.Process.ListChildren() {
		h.stopped = append(h.stopped, pid)
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
}

// release lets the call continue, and then resumes the leader. The call was already in progress, and no leader can
// revoke it.
func (h *halt) release() {
	select {
	case <-h.goOn:
		return
	default:
		close(h.goOn)
	}

	select {
	case <-h.sprung:
	case <-time.After(10 * time.Second):
	}

	for _, pid := range h.stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// freeLease ends the lease of the halted leader, so that no process waits for it. The leader's own clock does not show
// this, so only the fence can.
func (b *bench) freeLease(t *testing.T) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: "capolvm-system", Name: fmt.Sprintf(
		"controller-leader-election-capolvm-%.4x", sha256.Sum256(fmt.Appendf(nil, "%q %q", "", b.site.Namespace)))}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the leader may be renewing its lease
		if err := suite.API.Client.Get(context.Background(), key, lease); err != nil {
			return err
		}

		lease.Spec.HolderIdentity = ptr.To("")

		return suite.API.Client.Update(context.Background(), lease)
	})
	if err != nil {
		t.Error(err)
	}
}

// atRest is called in a life when an object is settled, so that there is nothing to do until the life continues. A
// leader that was halted before resumes at this point, and must change nothing.
func (h *halt) atRest(s *testsite.Site) {
	s.T.Helper()

	select {
	case <-h.reached:
	default:
		return
	}

	if h.compared {
		return
	}

	h.compared = true
	<-h.started
	leader := h.bench.manager
	writes := h.waitUntilQuiet(s)
	engineBefore, apiBefore := h.snapshot(s)

	h.release()
	ends(s.T, leader)

	if h.bench.tidies != nil && h.bench.tidies(h.point) {
		s.Eventually("the successor has removed what came late", func() error {
			if now, _ := h.snapshot(s); now != engineBefore {
				return fmt.Errorf("the engine has%s", differences(engineBefore, now))
			}

			return nil
		})
	}

	engineAfter, apiAfter := h.snapshot(s)

	same := true

	for what, pair := range map[string][2]string{
		"the engine": {engineBefore, engineAfter}, "the objects": {apiBefore, apiAfter},
	} {
		if pair[0] != pair[1] {
			same = false
			s.T.Errorf("the leader that went on has changed %s:%s", what, differences(pair[0], pair[1]))
		}
	}

	if !same {
		s.T.Logf("calls after the successor was done: engine %v, leader %v, successor %v",
			h.bench.engine.seen()[writes[0]:], leader.api.seen(), h.successor.api.seen()[writes[1]:])
	}

	h.bench.manager = h.successor
}

// waitUntilQuiet waits until the successor is idle and writes nothing. It returns the number of calls to the engine,
// and the number of the successor's own calls.
func (h *halt) waitUntilQuiet(s *testsite.Site) [2]int {
	s.T.Helper()
	const quiet = 2 * time.Second
	count := func() [2]int { return [2]int{len(h.bench.engine.seen()), len(h.successor.api.seen())} }
	last, since := count(), time.Now()
	wait.Until(s.T, "the successor is done", func() bool {
		if now := count(); now != last || h.successor.jobs(s.T) != 0 {
			last, since = now, time.Now()
		}

		return time.Since(since) >= quiet
	})

	return last
}

// snapshot returns the contents of the engine, and those of the API server in the namespace of a site, as lines of
// JSON.
func (h *halt) snapshot(s *testsite.Site) (inEngine, inAPI string) {
	s.T.Helper()
	state := s.Sim.DescribeSite()
	state.Time, state.Requests, state.Events = time.Time{}, nil, nil
	state.Summary.Sessions, state.Summary.Logins = 0, 0
	tags, err := s.NewSession().ListTags(context.Background())
	check.Error(s.T, err, "")
	text, err := json.MarshalIndent([]any{state, tags}, "", " ")
	check.Error(s.T, err, "")

	var objects []string

	for _, list := range []client.ObjectList{
		&infrav1.OLVMClusterList{}, &infrav1.OLVMMachineList{}, &infrav1alpha1.OLVMInventoryList{},
		&infrav1alpha1.OLVMInventoryVMList{}, &infrav1alpha1.OLVMSupportServicesList{}, &clusterv1.MachineList{},
		&infrav1.OLVMMachineTemplateList{},
		&ipamv1.IPAddressClaimList{}, &ipamv1.IPAddressList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
	} {
		check.Error(s.T, s.Client.List(context.Background(), list, client.InNamespace(s.Namespace)), "")
		content, err := json.MarshalIndent(list, "", " ")
		check.Error(s.T, err, "")
		objects = append(objects, withoutListVersion(s.T, content))
	}

	return string(text), strings.Join(objects, "\n")
}

// withoutListVersion removes the version of a list, because each write of any object increases it. It also removes the
// record of the engine's last event, with everything that mentions it, because the successor renews this record from
// time to time.
func withoutListVersion(t *testing.T, content []byte) string {
	t.Helper()

	list := struct {
		Items []map[string]any `json:"items"`
	}{}
	check.Error(t, json.Unmarshal(content, &list), "")

	for _, item := range list.Items {
		record := []string{"status", "olvmDatacenter", "lastEvent"}
		if _, found, _ := unstructured.NestedMap(item, record...); found {
			unstructured.RemoveNestedField(item, record...)
			unstructured.RemoveNestedField(item, "metadata", "resourceVersion")
			unstructured.RemoveNestedField(item, "metadata", "managedFields")
		}
	}

	out, err := json.MarshalIndent(list.Items, "", " ")
	check.Error(t, err, "")

	return string(out)
}

// differences returns the lines that only one of two texts contains.
func differences(a, b string) string {
	was, is := strings.Split(a, "\n"), strings.Split(b, "\n")

	var out strings.Builder

	for _, line := range was {
		if !slices.Contains(is, line) {
			fmt.Fprintf(&out, "\n- %s", line)
		}
	}

	for _, line := range is {
		if !slices.Contains(was, line) {
			fmt.Fprintf(&out, "\n+ %s", line)
		}
	}

	return out.String()
}

// haltPoints returns the cases for the calls in a life without faults. The leader halts while a modifying call is in
// progress, or after the call's effect but before its answer. A call that only one of two lives contains depends on
// timing, and results in no case.
func haltPoints(b, again *bench) []point {
	var out []point

	for name, g := range b.gates() {
		common := again.gates()[name].seen()

		for _, c := range g.seen() {
			if !slices.Contains(common, c) || strings.HasPrefix(c.name, "GET ") || strings.Contains(c.name, "/sso/") ||
				name == "api" && c.nth > 3 {
				continue
			}

			out = append(out, point{name, c, false, haltAll}, point{name, c, true, haltAll})
			if g.probed[c] { // Terraform runs at this call
				out = append(out, point{name, c, false, haltManager})
			}
		}
	}

	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.String(), b.String()) })

	return out
}

// dryLife returns a bench after a life without faults.
func dryLife(t *testing.T, newOne func(*testing.T) *bench) *bench {
	t.Helper()
	b := newOne(t)
	probe := func() bool { return b.Process != nil && len(b.ListExecutors()) > 0 }
	b.engine.probe, b.api.probe = probe, probe
	b.engine.set(nil)
	b.api.set(nil)
	check.Error(t, b.Start(t.Context()), "")

	ended, kept := make(chan struct{}), make(chan bool)
	go func() { kept <- b.keep(t, b.manager, ended, nil) }()
	b.live(t, "dry")
	close(ended)
	<-kept
	b.Process.Kill()

	return b
}

// haltMatrix plays lives, and halts the leader at each of their calls. After the successor has done its work, the
// leader resumes. In short mode, it plays only the chosen cases, and no life to find others.
func haltMatrix(t *testing.T, newOne func(*testing.T) *bench, chosen ...point) {
	t.Helper()
	t.Parallel()

	cases := chosen
	if !testing.Short() {
		cases = haltPoints(dryLife(t, newOne), dryLife(t, newOne))
	}

	for _, p := range cases {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()

			for ; p.at.nth > 0; p.at.nth-- { // the number of writes depends on timing
				b := newOne(t)
				h := b.haltAt(t, p)
				defer h.forget() // ends before the managers are killed
				b.rests = h.atRest
				if err := b.Start(t.Context()); err != nil && !isClosed(h.reached) {
					t.Fatal(err)
				}

				b.live(t, fmt.Sprintf("m-%d", p.at.nth))

				if isClosed(h.reached) || t.Failed() {
					h.atRest(b.site.ForSubtest(t))
					return
				}

				h.forget()
				b.Process.Kill()
			}

			t.Errorf("no life has had %s", p.at.name)
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ownedLife is the life of a machine and its cluster. The machine is created, edited and deleted, and then the cluster
// is deleted.
func (b *bench) ownedLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	s.Label = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	m := s.CreateMachine(name, full)
	b.expectReady(s, m)
	b.expectOne(s, m)
	b.rest(s)

	b.change(s, m, edit)
	s.Eventually("the machine is as it is asked for", func() error {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		has, err := b.hardwareOf(s)
		if c := conditions.Get(m, infrav1.UpToDateCondition); c == nil || c.Status != "True" ||
			c.ObservedGeneration != m.Generation || has != after {
			err = errors.Join(err, fmt.Errorf("it has %+v, condition %+v", has, c))
		}

		return err
	})
	b.rest(s)

	s.Delete(m)
	s.ExpectGone(m)
	b.rest(s)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	b.rest(s)
	b.expectNone(s)
}

// claimedLife is the life of a machine whose VM comes from a pool, and the life of this pool.
func (b *bench) claimedLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	lab := poolvm.NewInventory(s.OLVM, "lab")
	s.Create(lab)
	b.expectFreePool(t)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	b.rest(s)

	m := s.CreateMachine(name, pooled)
	b.expectReady(s, m)
	b.rest(s)
	s.Delete(m)
	s.ExpectGone(m)
	b.expectFreePool(t)
	b.rest(s)
	s.Delete(lab)
	s.ExpectGone(lab)
	b.rest(s)
}

// suppliedLife is the life of a pool that creates its VM, and creates it again after a machine has used it.
func (b *bench) suppliedLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	lab := b.provisioned(t, name)
	b.expectProvisioned(s, lab)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	b.rest(s)

	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		pooled(spec)
		spec.FromInventory.InventoryName = lab.Name
	})
	b.expectReady(s, m)
	b.rest(s)

	s.Delete(m)
	s.ExpectGone(m)
	s.Eventually("another VM is made", func() error {
		if vms := s.Sim.ListVMs(); len(vms) != 1 || m.Spec.ProviderID == "olvm://"+vms[0].ID {
			return fmt.Errorf("the engine has %+v", vms)
		}

		return nil
	})
	b.expectProvisioned(s, lab)
	b.rest(s)

	s.Delete(lab)
	s.ExpectGone(lab)
	b.rest(s)
	b.expectNone(s)
}

// supportLife is the life of support services: they are created, reconfigured, replaced and deleted.
func (b *bench) supportLife(t *testing.T, _ string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	services := createBalancer(s)
	expectServing(s, services)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	b.rest(s)

	testsite.UpdateObject(s, services, func(services *infrav1alpha1.OLVMSupportServices) {
		services.Spec.LoadBalancers[0].Ports = []string{"443", "80"}
	})
	expectServing(s, services)
	b.rest(s)

	vm := balancerVM(s)
	createBalancerTemplate(s, "lb-2")
	testsite.UpdateObject(s, services, func(services *infrav1alpha1.OLVMSupportServices) {
		services.Spec.LoadBalancers[0].MachineTemplateName = "lb-2"
	})
	s.Eventually("the VM is replaced", func() error {
		if now := s.Sim.ListVMs(); len(now) != 1 || now[0].ID == vm {
			return fmt.Errorf("the engine has %+v", now)
		}

		return nil
	})
	expectServing(s, services)
	check.Equal(t, "it is replaced once", balancerVM(s) == vm, false)
	b.rest(s)

	s.Delete(services)
	s.ExpectGone(services)
	b.rest(s)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	b.expectNone(s)
}

// haltBench returns a bench that is not started yet. It has the objects that edit requests, and a group for control
// plane machines.
func haltBench(live func(*bench) func(*testing.T, string)) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		t.Helper()
		b := newColdBenchIn(t, editInventory(), func(c *infrav1.OLVMCluster) {
			editedGroups(c)
			c.Spec.AffinityGroups = append(c.Spec.AffinityGroups, infrav1.AffinityGroup{
				Name: "control-plane", Role: infrav1.ControlPlaneRole,
			})
		}, losingSoon...)
		b.live = live(b)

		return b
	}
}

// TestALeaderThatWasHaltedChangesNothing halts the leader at each write to an engine or to the API server, during the
// life of a cluster and its machine.
func TestALeaderThatWasHaltedChangesNothing(t *testing.T) {
	haltMatrix(t, haltBench(func(b *bench) func(*testing.T, string) { return b.ownedLife }),
		point{"engine", call{"POST /disks", 2}, false, haltAll},
		point{"engine", call{"DELETE /vms/ID", 1}, true, haltManager},
		point{"api", call{"PUT secrets", 1}, false, haltAll},
	)
}

// TestALeaderThatWasHaltedChangesNothingOfAPool does the same with a machine that claims a VM from a pool.
func TestALeaderThatWasHaltedChangesNothingOfAPool(t *testing.T) {
	haltMatrix(t, func(t *testing.T) *bench {
		t.Helper()
		b := haltBench(func(b *bench) func(*testing.T, string) { return b.claimedLife })(t)

		for i := range 2 {
			poolvm.CreateVM(t, b.site.NewSession(), poolvm.Tag, fmt.Sprintf("vm-%d", i), ownAddress)
		}

		// This is the VM that was created to give its disk to a rebuilt VM. The request that creates it cannot be
		// revoked.
		b.tidies = func(p point) bool { return p.gate == "engine" && p.at.name == "POST /vms" && !p.after }

		return b
	},
		point{"api", call{"PATCH olvminventoryvms", 2}, false, haltAll},
	)
}

// TestALeaderThatWasHaltedChangesNothingOfASuppliedPool does the same with a pool that creates its VM.
func TestALeaderThatWasHaltedChangesNothingOfASuppliedPool(t *testing.T) {
	haltMatrix(t, haltBench(func(b *bench) func(*testing.T, string) { return b.suppliedLife }),
		point{"api", call{"DELETE olvminventoryvms", 1}, false, haltAll},
	)
}

// TestALeaderThatWasHaltedChangesNothingOfSupportServices does the same with the load balancer of a cluster.
func TestALeaderThatWasHaltedChangesNothingOfSupportServices(t *testing.T) {
	haltMatrix(t, func(t *testing.T) *bench {
		t.Helper()
		at := newFront(t)
		args := append([]string{"--bootstrap-url=https://" + at.listener.Addr().String()}, losingSoon...)
		b := newColdBench(t, withoutGroups, args...)
		b.own = func(t *testing.T) []string {
			t.Helper()
			ports, err := localplane.FreePorts(1)
			check.Error(t, err, "")

			listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
			at.leadTo(listen)

			return []string{"--bootstrap-listen=" + listen}
		}
		b.manager = b.another(t)
		b.live = b.supportLife

		return b
	},
		point{"api", call{"POST olvmmachines", 1}, false, haltAll},
	)
}
