package guest

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// condition returns the Ready condition of an existing node.
func (s *site) condition(name string) corev1.NodeCondition {
	s.t.Helper()
	var n corev1.Node
	if err := s.client().Get(s.t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
		s.t.Fatal(err)
	}

	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}

	return corev1.NodeCondition{}
}

func (s *site) ready(vmID string) string {
	n, ok := s.guests.Node(vmID)
	if !ok {
		return "no node"
	}

	return n.Ready
}

// newCluster returns a site with one control plane node, and a token with which more nodes can join.
func newCluster(t *testing.T, endpoint string) (s *site, leader *powered, token string) {
	t.Helper()
	s = newSite(t, endpoint)
	leader = s.mustStart(machine("cp-1", "127.40.0.10", s.initData("v1.36.1")))

	return s, leader, s.token()
}

func TestANodeIsLostWithItsVMAndComesBack(t *testing.T) {
	s, _, token := newCluster(t, "127.41.0.5:6443")
	worker := machine("worker-1", "127.40.0.12", s.joinData(token, s.ca.publicKeyHash(), false))
	vm := s.mustStart(worker)
	vm.halt()
	if c := s.condition("worker-1"); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" {
		t.Errorf("after a crash: %+v", c)
	}

	if _, ok := s.guests.Node(worker.ID); !ok {
		t.Error("a halted VM is no node any more")
	}

	err := s.guests.SetNodeReady(worker.ID, "True", "x")
	if err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("the kubelet of a halted VM reports: %v", err)
	}

	// The VM comes back without its user data, after Cluster API deleted its Node.
	err = s.client().Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})
	if err != nil {
		t.Fatal(err)
	}

	worker.UserData, worker.HostName, worker.NICs = "", "", nil
	vm = s.mustStart(worker)
	if c := s.condition("worker-1"); c.Status != corev1.ConditionTrue {
		t.Errorf("after a restart: %+v", c)
	}

	// The engine may report the halt late, when the VM already runs again.
	s.guests.HandleHalt(worker.ID)
	if got := s.ready(worker.ID); got != "True" {
		t.Errorf("after old news: %s", got)
	}

	// The engine may not report the halt at all.
	vm.off()
	<-vm.done
	if got := s.ready(worker.ID); got != "Unknown" {
		t.Errorf("after the power is gone: %s", got)
	}
}

func TestARestartedNodeReportsItsNewAddress(t *testing.T) {
	s, _, token := newCluster(t, "127.41.1.5:6443")
	worker := machine("worker-1", "", s.joinData(token, s.ca.publicKeyHash(), false))
	worker.NICs, worker.Interfaces[0].DHCP = nil, "127.40.0.60/24"
	s.mustStart(worker).halt()
	worker.Interfaces[0].DHCP = "127.40.0.61/24"
	s.mustStart(worker)
	var n corev1.Node
	if err := s.client().Get(t.Context(), client.ObjectKey{Name: "worker-1"}, &n); err != nil {
		t.Fatal(err)
	}

	if len(n.Status.Addresses) != 2 || n.Status.Addresses[0].Address != "127.40.0.61" {
		t.Errorf("addresses: %v", n.Status.Addresses)
	}
}

func TestANodeReportsTheAddressesThatItsKubeletIsTold(t *testing.T) {
	for i, test := range []struct {
		told string
		want []string
	}{
		{"", []string{"127.40.0.10"}},
		{"fd00::10,127.40.0.10", []string{"fd00::10", "127.40.0.10"}},
		{"fd00::10", []string{"fd00::10"}},
		{"127.40.0.11", nil},
	} {
		t.Run(test.told, func(t *testing.T) {
			expectNodeAddresses(t, fmt.Sprintf("127.41.2.%d:6443", 5+i), test.told, test.want)
		})
	}
}

func expectNodeAddresses(t *testing.T, endpoint, told string, want []string) {
	s := newSite(t, endpoint)
	data := s.initData("v1.36.1")
	if told != "" {
		var ips []netip.Addr
		for _, text := range strings.Split(told, ",") {
			ips = append(ips, netip.MustParseAddr(text))
		}

		merged, err := bootstrap.Merge([]byte(data), bootstrap.CloudConfig, bootstrap.Guest{NodeIPs: ips})
		if err != nil {
			t.Fatal(err)
		}

		data = string(merged)
	}

	m := machine("cp-1", "127.40.0.10", data)
	m.NICs[0] = v6(m.NICs[0], "fd00::10", "64", "")
	vm := s.start(m)
	report := <-vm.reported
	check.Equal(t, "the name that is reported", report.FQDN, m.HostName)
	reported := report.Interfaces
	check.Length(t, "reported", reported, 1)
	check.Equal(t, "reported[0].MAC", reported[0].MAC, m.Interfaces[0].MAC)
	check.Length(t, "reported[0].Addresses", reported[0].Addresses, 2)

	if err := vm.up(); want == nil {
		if err == nil || !strings.Contains(err.Error(),
			`kubelet: failed to validate nodeIP: node IP: "127.40.0.11" not found`) {
			t.Errorf("an address of somebody else: %v", err)
		}

		return
	} else if err != nil {
		t.Fatal(err)
	}

	var n corev1.Node
	if err := s.client().Get(t.Context(), client.ObjectKey{Name: "cp-1"}, &n); err != nil {
		t.Fatal(err)
	}

	var got []string

	for _, address := range n.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			got = append(got, address.Address)
		}
	}

	if !slices.Equal(got, want) {
		t.Errorf("addresses: %q, want %q", got, want)
	}
}

func TestAVMThatIsRestartedWhileItJoinsStartsOver(t *testing.T) {
	s, _, token := newCluster(t, "127.41.3.5:6443")
	data := strings.ReplaceAll(s.joinData(token, s.ca.publicKeyHash(), false), "abcdef.", "later0.")
	worker := machine("worker-1", "127.40.0.12", data)
	vm := s.start(worker)
	<-vm.reported // the guest waits for its token
	vm.halt()
	if got := s.ready(worker.ID); got != "no node" {
		t.Errorf("a VM that never joined: %s", got)
	}

	again := s.start(worker)
	<-again.reported
	err := s.client().Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-later0"},
		Data:       map[string][]byte{"token-secret": []byte("0123456789abcdef")},
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := again.up(); err != nil {
		t.Fatal(err)
	}
}

func TestAVMThatIsRemovedWhileItJoinsNeverBecomesANode(t *testing.T) {
	s, _, token := newCluster(t, "127.41.4.5:6443")
	worker := machine(
		"worker-1",
		"127.40.0.12",
		strings.ReplaceAll(s.joinData(token, s.ca.publicKeyHash(), false), "abcdef.", "later0."),
	)
	vm := s.start(worker)
	<-vm.reported
	s.guests.HandleRemoval(worker.ID) // even while its power is on
	if err := <-vm.done; err != nil {
		t.Errorf("a removed VM fails: %v", err)
	}

	if got := s.ready(worker.ID); got != "no node" {
		t.Errorf("a removed VM: %s", got)
	}

	s.guests.HandleRemoval("nobody")
	s.guests.HandleHalt("nobody")
}

func TestAWorkerWaitsForItsControlPlane(t *testing.T) {
	s, leader, token := newCluster(t, "127.41.5.5:6443")
	worker := machine("worker-1", "127.40.0.12", s.joinData(token, s.ca.publicKeyHash(), false))
	s.mustStart(worker).halt()
	leader.halt()
	vm := s.start(worker)
	<-vm.reported
	s.expectWaiting(worker.ID)

	s.mustStart(machine("cp-1", "127.40.0.10", ""))
	if err := vm.up(); err != nil {
		t.Fatal(err)
	}

	// The cluster ends with its last control plane node. Its worker waits forever. It does not take a new cluster at
	// the same address for the old cluster.
	s.guests.HandleRemoval("id-cp-1")
	vm.halt()
	vm = s.start(worker)
	<-vm.reported
	s.mustStart(machine("cp-9", "127.40.0.19", s.initData("v1.36.1")))
	s.expectWaiting(worker.ID)

	s.guests.HandleRemoval(worker.ID)
	if err := <-vm.done; err != nil {
		t.Error(err)
	}

	err := s.client().Get(t.Context(), client.ObjectKey{Name: "worker-1"}, &corev1.Node{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the node of another cluster: %v", err)
	}
}

// expectWaiting verifies that a running VM cannot become its former node again.
func (s *site) expectWaiting(vmID string) {
	s.t.Helper()
	s.guests.mu.Lock()
	b, m := s.guests.boots[vmID], s.guests.members[vmID]
	s.guests.mu.Unlock()

	if err := s.guests.tryRejoin(b, m, nil); !errors.Is(err, errNotYet) {
		s.t.Errorf("the VM came back: %v", err)
	}

	if got := s.ready(vmID); got != "Unknown" {
		s.t.Errorf("the node is %s", got)
	}
}

func TestEtcdHasALeaderAmongThoseThatRun(t *testing.T) {
	s, first, token := newCluster(t, "127.41.10.5:6443")
	leader := func() string {
		t.Helper()
		var pods corev1.PodList
		err := s.client().List(t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingLabels{
			"component": "etcd",
		})
		if err != nil {
			t.Fatal(err)
		}

		name, since := "", ""
		for _, pod := range pods.Items {
			if from := pod.Annotations["etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from"]; from > since {
				name, since = pod.Name, from
			}
		}

		return name
	}
	second := s.mustStart(machine("cp-2", "127.40.0.11", s.joinData(token, s.ca.publicKeyHash(), true)))
	if got := leader(); got != "etcd-cp-1" {
		t.Errorf("at first: %s", got)
	}

	first.halt()
	if got := leader(); got != "etcd-cp-2" {
		t.Errorf("without the first: %s", got)
	}

	first = s.mustStart(machine("cp-1", "127.40.0.10", ""))
	first.halt()
	second.halt() // no other member can lead
	s.mustStart(machine("cp-1", "127.40.0.10", ""))
	s.guests.HandleRemoval(second.id)
	if got := leader(); got != "etcd-cp-1" {
		t.Errorf("without the second: %s", got)
	}
}

func TestTheHealthOfANodeHoldsUntilItIsChangedOrTheVMRestarts(t *testing.T) {
	s, _, token := newCluster(t, "127.41.6.5:6443")
	worker := machine("worker-1", "127.40.0.12", s.joinData(token, s.ca.publicKeyHash(), false))

	vm := s.mustStart(worker)
	for _, set := range []struct{ status, reason string }{
		{"False", "KubeletNotReady"},
		{"False", "DiskFull"},
		{"Unknown", "NodeStatusUnknown"},
		{"True", "KubeletReady"},
		{"False", "KubeletNotReady"},
	} {
		if err := s.guests.SetNodeReady(worker.ID, set.status, set.reason); err != nil {
			t.Fatal(err)
		}

		if c := s.condition("worker-1"); string(c.Status) != set.status || c.Reason != set.reason {
			t.Errorf("want %v, got %+v", set, c)
		}
	}

	s.mustStart(machine("worker-2", "127.40.0.13", s.joinData(token, s.ca.publicKeyHash(), false))) // changes nothing
	if got := s.ready(worker.ID); got != "False" {
		t.Errorf("it did not hold: %s", got)
	}

	vm.halt()
	s.mustStart(worker)
	if got := s.ready(worker.ID); got != "True" {
		t.Errorf("after a restart: %s", got)
	}

	for status, want := range map[string]string{"": "is True, False or Unknown", "true": "is True, False or Unknown"} {
		if err := s.guests.SetNodeReady(worker.ID, status, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("status %q: %v", status, err)
		}
	}

	err := s.guests.SetNodeReady("nobody", "True", "x")
	if err == nil || !strings.Contains(err.Error(), "is not a node") {
		t.Errorf("a VM that is none: %v", err)
	}
}

func TestAVMWithoutKubeadmIsJustAVM(t *testing.T) {
	s := newSite(t, "127.41.7.5:6443")
	for name, m := range map[string]api.GuestVM{
		"no user data":          machine("a", "127.40.0.10", ""),
		"no kubeadm":            machine("b", "127.40.0.10", "#cloud-config\nruncmd: [reboot]\n"),
		"no user data, CoreOS":  {ID: "c", Ignition: true, Interfaces: devices(1, "10.0.0.50/24")},
		"bad user data and yet": machine("d", "127.40.0.10", "a: ["),
	} {
		vm := s.start(m)
		if report := <-vm.reported; len(report.Interfaces) != 1 {
			t.Errorf("%s: reported %+v", name, report)
		}

		vm.halt()
		if got := s.ready(m.ID); got != "no node" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAVMRunsOnce(t *testing.T) {
	s, first, _ := newCluster(t, "127.41.8.5:6443")
	second := s.start(machine("cp-1", "127.40.0.10", ""))
	if err := <-first.done; err != nil {
		t.Errorf("the first run: %v", err)
	}

	if err := second.up(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	guests, err := New(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}

	s := &site{t: t, guests: guests, endpoint: "127.41.9.5:6443", ca: newAuthority(t), etcd: newAuthority(t)}
	leader := s.mustStart(machine("cp-1", "127.40.0.10", s.initData("v1.36.1")))
	waiting := s.start(
		machine("worker-1", "127.40.0.12", s.joinData("aaaaaa.0123456789abcdef", s.ca.publicKeyHash(), false)),
	)
	<-waiting.reported
	guests.Close()
	guests.Close()

	for _, vm := range []*powered{leader, waiting} {
		if err := <-vm.done; err != nil {
			t.Errorf("a guest fails at the end: %v", err)
		}
	}

	guests.HandleHalt("id-cp-1")
	guests.HandleRemoval("id-cp-1")
	if err := s.start(machine("cp-2", "127.40.0.11", s.initData("v1.36.1"))).up(); err == nil {
		t.Error("a guest boots after the end")
	}

	wait.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// TestANodeJoinsWhileOthersChangeIt changes a node all the time, like a cloud controller. Each change makes the data
// read by other writers outdated.
func TestANodeJoinsWhileOthersChangeIt(t *testing.T) {
	s, leader, _ := newCluster(t, "127.40.0.21:6443")
	cluster, n := s.guests.members[leader.id].cluster, s.guests.members[leader.id].node
	changes, ended := make(chan struct{}), make(chan struct{})

	go func() {
		defer close(ended)

		for i := 0; ; i++ {
			select {
			case <-changes:
				return
			default:
			}

			var current corev1.Node
			_ = s.client().Get(t.Context(), client.ObjectKey{Name: n.name}, &current)
			changed := current.DeepCopy()
			changed.Annotations = map[string]string{"change": strconv.Itoa(i)}
			_ = s.client().Patch(t.Context(), changed, client.MergeFrom(&current))
			time.Sleep(100 * time.Microsecond)
		}
	}()

	for range 300 {
		check.Error(t, retryUntilSuccess(t.Context(), func() error { return cluster.addNode(t.Context(), n) }), "")
	}

	close(changes)
	<-ended
}

func TestAJoinThatMeetsAConflictIsTriedAgain(t *testing.T) {
	tries := 0
	err := retryUntilSuccess(t.Context(), func() error {
		if tries++; tries == 1 {
			return fmt.Errorf("failed to update node: %w", apierrors.NewConflict(schema.GroupResource{}, "n", nil))
		}

		return nil
	})
	check.Error(t, err, "")
	check.Equal(t, "tries", tries, 2)
}
