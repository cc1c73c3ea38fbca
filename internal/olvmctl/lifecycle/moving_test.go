package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// ends are two management clusters: API servers with the kinds, without controllers. The tests share them.
var ends struct {
	sync.Once
	servers [2]*testsite.APIServer
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()

	for _, server := range ends.servers {
		server.Stop()
	}

	os.Exit(code)
}

// startEnds starts both management clusters once.
func startEnds(t *testing.T) [2]*testsite.APIServer {
	t.Helper()
	ends.Do(func() {
		tools := testenv.Toolchain(t)
		inventory, err := manifest.Read(clusterctlconfig.ClusterctlAPIManifest)
		check.Error(t, err, "")

		for i := range ends.servers {
			if ends.servers[i], ends.err = testsite.StartAPIServer(context.Background(), tools); ends.err != nil {
				return
			}

			if ends.err = localplane.Apply(t.Context(), ends.servers[i].Client, inventory...); ends.err != nil {
				return
			}
		}
	})
	check.Error(t, ends.err, "")

	return ends.servers
}

// gate counts write requests, and ends the command at a chosen request.
type gate struct {
	writes atomic.Int32
	// at is the number of this request. The command ends before or after it. 0 means never.
	at    int32
	after bool
	// kill blocks all later requests, as if the process had been killed. Otherwise the command may clean up.
	kill bool
	// halt serves the write once end has returned, as for a process that is stopped with a request under way.
	halt bool
	end  context.CancelFunc
	shut atomic.Bool
}

func (g *gate) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.shut.Load() {
			panic(http.ErrAbortHandler)
		}

		renewal := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/") // renewals depend on time
		if r.Method == http.MethodGet || r.Method == http.MethodHead || renewal || g.writes.Add(1) != g.at {
			next.ServeHTTP(w, r)
			return
		}

		if g.after {
			next.ServeHTTP(w, r)
		}

		g.shut.Store(g.kill)
		g.end()

		if g.halt {
			next.ServeHTTP(w, r)
			return
		}

		if !g.after {
			panic(http.ErrAbortHandler)
		}
	})
}

// moving is a namespace to move between both ends.
type moving struct {
	t         *testing.T
	servers   [2]*testsite.APIServer
	namespace string
}

// movingNumber makes namespaces unique.
var movingNumber atomic.Int32

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{t, startEnds(t), fmt.Sprintf("moving-%d", movingNumber.Add(1))}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // has the locks of moves
	m.populate(0, "prod")

	return m
}

// populate creates a cluster with machines, in the state left by Cluster API.
func (m *moving) populate(end int, name string) {
	m.t.Helper()
	c, ctx := m.servers[end].Client, m.t.Context()
	_ = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}})

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: name}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: clusterctl.InfrastructureGroup, Kind: clusterctl.OLVM.ClusterKind, Name: name,
	}
	check.Error(m.t, c.Create(ctx, cluster), "")

	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cluster.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized",
		LastTransitionTime: metav1.Now(),
	}}
	check.Error(m.t, c.Status().Update(ctx, cluster), "")

	owned := func(of string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: m.namespace, Name: of, Labels: map[string]string{clusterv1.ClusterNameLabel: name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: cluster.UID,
			}},
		}
	}

	for _, of := range []string{name + "-a", name + "-b"} {
		machine := &clusterv1.Machine{ObjectMeta: owned(of)}
		machine.Finalizers = []string{clusterv1.MachineFinalizer}
		machine.Spec.ClusterName = name
		machine.Spec.Bootstrap.DataSecretName = ptr.To(of)
		machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: clusterctl.InfrastructureGroup, Kind: clusterctl.OLVM.MachineKind, Name: of,
		}
		check.Error(m.t, c.Create(ctx, machine), "")
		machine.Status.NodeRef.Name = of
		check.Error(m.t, c.Status().Update(ctx, machine), "")
	}

	check.Error(m.t, c.Create(ctx, &corev1.Secret{ObjectMeta: owned(name + "-kubeconfig")}), "")
}

// open connects to one end through a gate.
func (m *moving) open(end int, g *gate) *management {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "kubeconfig")
	content := testsite.NewKubeconfig(m.t, m.servers[end].Config, g.wrap)
	check.Error(m.t, os.WriteFile(path, content, 0o600), "")

	options := mgmtcluster.Options{Kubeconfig: path, Namespace: m.namespace}
	out, err := newManagement(options, mgmtcluster.DriverExisting)
	check.Error(m.t, err, "")
	check.Error(m.t, out.connect(m.t.Context()), "")

	return out
}

// move moves from one end to the other, until the gate ends it.
func (m *moving) move(g *gate, from, to int) (string, error) {
	m.t.Helper()
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	g.end = cancel
	o := &Common{Display: progress.NewDisplay(&said), Timeout: time.Minute}
	err := o.moveClusters(ctx, m.open(from, g), m.open(to, g))

	return said.String(), err
}

// objects returns the objects of the namespace at one end, each as kind and name. It also returns the number of active
// Clusters.
func (m *moving) objects(end int) (names []string, active int) {
	m.t.Helper()
	c, ctx, in := m.servers[end].Client, m.t.Context(), client.InNamespace(m.namespace)
	var clusters clusterv1.ClusterList
	var machines clusterv1.MachineList
	var secrets corev1.SecretList
	check.Error(m.t, c.List(ctx, &clusters, in), "")
	check.Error(m.t, c.List(ctx, &machines, in), "")
	check.Error(m.t, c.List(ctx, &secrets, in), "")

	for i := range clusters.Items {
		names = append(names, "Cluster/"+clusters.Items[i].Name)
		if !ptr.Deref(clusters.Items[i].Spec.Paused, false) {
			active++
		}
	}

	for i := range machines.Items {
		names = append(names, "Machine/"+machines.Items[i].Name)
	}

	for i := range secrets.Items {
		names = append(names, "Secret/"+secrets.Items[i].Name)
	}

	return names, active
}

// expectMoved expects one manager for all objects, nothing at the other end, and no lock.
func (m *moving) expectMoved(to int) {
	m.t.Helper()

	for end := range m.servers {
		check.Equal(m.t, "the holder of a lock", m.leaseHolder(end), "")
	}

	left, _ := m.objects(1 - to)
	check.Equal(m.t, "objects that are left at the source", len(left), 0)

	there, active := m.objects(to)
	check.Equal(m.t, "objects at the target", fmt.Sprint(there),
		"[Cluster/prod Machine/prod-a Machine/prod-b Secret/prod-kubeconfig]")
	check.Equal(m.t, "Clusters that go on", active, 1)

	var cluster clusterv1.Cluster
	key := client.ObjectKey{Namespace: m.namespace, Name: "prod"}
	check.Error(m.t, m.servers[to].Client.Get(m.t.Context(), key, &cluster), "")
	check.Equal(m.t, "the sign of a move", cluster.Annotations[movingAnnotation], "")
}

// sampleOfMoves has one write of each kind for the fast tier: the lock, the mark, the pause, a copy, a deletion, the
// end, the release of the lock.
var sampleOfMoves = []string{
	"write 2, after it true, killed true",
	"write 3, after it true, killed true",
	"write 4, after it true, killed false",
	"write 8, after it true, killed true",
	"write 14, after it false, killed true",
	"write 19, after it false, killed false",
	"write 26, after it false, killed true",
}

// TestAMoveThatIsInterruptedGoesOn interrupts a move before and after each of its writes, by Ctrl-C and by killing it,
// and runs it again. Afterwards one management cluster has all objects, and the other one none.
func TestAMoveThatIsInterruptedGoesOn(t *testing.T) {
	m := newMoving(t)
	count := &gate{}
	_, err := m.move(count, 0, 1)
	check.Error(t, err, "")
	m.expectMoved(1)

	writes := count.writes.Load()
	t.Logf("a move writes %d times", writes)

	for at := int32(1); at <= writes; at++ {
		for _, g := range []*gate{
			{at: at}, {at: at, after: true}, {at: at, kill: true}, {at: at, after: true, kill: true},
		} {
			name := fmt.Sprintf("write %d, after it %t, killed %t", at, g.after, g.kill)
			if testing.Short() && !slices.Contains(sampleOfMoves, name) {
				continue
			}

			t.Run(name, func(t *testing.T) {
				m := newMoving(t)
				_, err := m.move(g, 0, 1)
				m.expectOneManager()
				said, again := m.move(&gate{}, 0, 1)
				if again != nil && err == nil { // the first move had ended
					check.Error(t, again, "no Cluster to move found in namespace")
				} else {
					check.Error(t, again, "")
				}

				t.Logf("first: %v; then: %s", err, said)
				m.expectMoved(1)
			})
		}
	}
}

// TestAMoveBesideAnotherClusterLosesNothing moves into a namespace with a cluster of its own. The move ends between two
// of its copies. The target may have more objects than the source, but this must not count as a complete copy.
func TestAMoveBesideAnotherClusterLosesNothing(t *testing.T) {
	for at := int32(5); at <= 10; at++ {
		if testing.Short() && at != 7 {
			continue
		}

		t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) {
			m := newMoving(t)
			m.populate(1, "other")
			_, err := m.move(&gate{at: at, kill: true}, 0, 1)
			check.Set(t, "the error", err != nil)

			said, err := m.move(&gate{}, 0, 1)
			check.Error(t, err, "")
			t.Log(said)

			left, _ := m.objects(0)
			check.Equal(t, "objects that are left at the source", fmt.Sprint(left), "[]")
			there, active := m.objects(1)
			check.Equal(t, "objects at the target", fmt.Sprint(there), "[Cluster/other Cluster/prod Machine/other-a "+
				"Machine/other-b Machine/prod-a Machine/prod-b Secret/other-kubeconfig Secret/prod-kubeconfig]")
			check.Equal(t, "Clusters that go on", active, 2)
		})
	}
}

// expectOneManager expects that at most one management cluster works on the cluster.
func (m *moving) expectOneManager() {
	m.t.Helper()
	_, one := m.objects(0)
	_, other := m.objects(1)
	if one+other > 1 {
		m.t.Errorf("%d management clusters go on with the cluster", one+other)
	}
}

// TestNothingIsDoneToAHalfMovedCluster runs other commands at both ends of a move killed between its copies.
func TestNothingIsDoneToAHalfMovedCluster(t *testing.T) {
	m := newMoving(t)
	_, err := m.move(&gate{at: 7, kill: true}, 0, 1)
	check.Set(t, "the error", err != nil)

	for end := range 2 {
		in := m.open(end, &gate{})
		cluster, err := in.GetCluster(t.Context(), "prod")
		check.Error(t, err, "")

		for name, run := range map[string]func() error{
			"delete": func() error { return (&deletion{management: in, cluster: cluster}).checkSettled() },
			"delete in a local management cluster": func() error {
				local := *in
				local.isLocal = true

				return (&deletion{management: &local, cluster: cluster}).checkOwn(t.Context())
			},
			"upgrade": func() error {
				return Upgrade(t.Context(), UpgradeOptions{
					Common: Common{Management: in.options}, Name: "prod", Version: "v1.34.0",
				})
			},
			"scale": func() error {
				one := int32(1)
				o := ScaleOptions{Management: in.options, Name: "prod", ControlPlane: &one}

				return Scale(t.Context(), o, func(string) {})
			},
			"start": func() error {
				c := &creation{management: in}
				c.Management.Namespace, c.File = m.namespace, clusterNamed("prod", "127.0.0.2", 1)
				_, err := c.isIn(t.Context(), in)

				return err
			},
		} {
			t.Run(fmt.Sprintf("%s, end %d", name, end), func(t *testing.T) {
				check.Error(t, run(), "a move of Cluster prod was interrupted: from ")
			})
		}
	}
}

func TestAMoveThatWasInterruptedGoesToItsOwnEndAlone(t *testing.T) {
	m := newMoving(t)
	_, err := m.move(&gate{at: 6, kill: true}, 0, 1)
	check.Set(t, "the error", err != nil)

	// The mark names a move to another management cluster.
	var cluster clusterv1.Cluster
	key := client.ObjectKey{Namespace: m.namespace, Name: "prod"}
	check.Error(t, m.servers[0].Client.Get(t.Context(), key, &cluster), "")
	before := cluster.DeepCopy()
	cluster.Annotations[movingAnnotation] = "from a to b"
	check.Error(t, m.servers[0].Client.Patch(t.Context(), &cluster, client.MergeFrom(before)), "")
	_ = m.servers[1].Client.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.namespace, Name: "prod",
	}})

	_, err = m.move(&gate{}, 0, 1)
	check.Error(t, err, "to another management cluster was interrupted: from a to b")
}

func TestAClusterThatAUserHasPausedIsNotMoved(t *testing.T) {
	m := newMoving(t)
	var cluster clusterv1.Cluster
	key := client.ObjectKey{Namespace: m.namespace, Name: "prod"}
	check.Error(t, m.servers[0].Client.Get(t.Context(), key, &cluster), "")
	cluster.Spec.Paused = ptr.To(true)
	check.Error(t, m.servers[0].Client.Update(t.Context(), &cluster), "")

	_, err := m.move(&gate{}, 0, 1)
	check.Error(t, err, "no move of olvmctl has paused Cluster prod")
	there, _ := m.objects(1)
	check.Equal(t, "objects at the target", len(there), 0)
}

// TestAMoveWritesOverNothing has another cluster of the same name at the target.
func TestAMoveWritesOverNothing(t *testing.T) {
	m := newMoving(t)
	m.populate(1, "prod")
	g := &gate{}
	_, err := m.move(g, 0, 1)
	check.Error(t, err, "already contains objects of the same names")
	check.Error(t, err, "Cluster/prod, Machine/prod-a")
	check.Equal(t, "writes besides two of each lock", g.writes.Load()-4, 0)

	for end := range 2 {
		there, active := m.objects(end)
		check.Equal(t, "objects", len(there), 4)
		check.Equal(t, "Clusters that go on", active, 1)
	}
}

// TestOneObjectOfTheSameNameIsInTheWay has a user's Secret without an owner.
func TestOneObjectOfTheSameNameIsInTheWay(t *testing.T) {
	m := newMoving(t)
	c := m.servers[1].Client
	check.Error(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}}), "")
	check.Error(t, c.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod-kubeconfig"},
	}), "")
	_, err := m.move(&gate{}, 0, 1)
	check.Error(t, err, "Secret/prod-kubeconfig")
}

// TestAMoveToItselfIsRefused names one cluster by two URLs. clusterctl would delete the objects just copied.
func TestAMoveToItselfIsRefused(t *testing.T) {
	m := newMoving(t)
	g := &gate{}
	_, err := m.move(g, 0, 0)
	check.Error(t, err, "are the same cluster")
	check.Equal(t, "writes", g.writes.Load(), 0)
}

func TestAMoveOfNothingIsAnError(t *testing.T) {
	m := newMoving(t)
	m.namespace += "-empty"
	_, err := m.move(&gate{}, 0, 1)
	check.Error(t, err, "no Cluster to move found in namespace")
}

// TestNothingIsInstalledForAMoveThatIsRefused has a target without Cluster API. clusterctl would write a Provider
// first.
func TestNothingIsInstalledForAMoveThatIsRefused(t *testing.T) {
	m := newMoving(t)

	for name, test := range map[string]struct {
		to              int
		namespace, want string
	}{
		"to itself by another URL": {to: 0, namespace: m.namespace, want: "are the same cluster"},
		"of nothing": {to: 1, namespace: m.namespace + "-empty", want: "no Cluster to move found in " +
			"namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			from, target := &gate{}, &gate{}
			o := MoveOptions{Common: Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}}
			o.Management = m.open(0, from).options
			o.Management.Namespace = test.namespace
			o.To = m.open(test.to, target).options
			// Every installation of a provider would read this file.
			o.Providers.Config = filepath.Join(t.TempDir(), "there is no such file")

			check.Error(t, Move(t.Context(), o), test.want)
			check.Equal(t, "writes", from.writes.Load()+target.writes.Load(), 0)
		})
	}
}

// TestAStartBehindATunnelKnowsItsCluster has a user's kubeconfig with another server than the cluster file.
func TestAStartBehindATunnelKnowsItsCluster(t *testing.T) {
	for name, test := range map[string]struct {
		recorded func(id string) string
		to       int
		problem  string
	}{
		"the identity is the recorded one": {recorded: func(id string) string { return id }, to: 1},
		"it is another cluster":            {recorded: func(string) string { return "another" }, to: 1, problem: "another cluster"},
		"nothing is recorded":              {recorded: func(string) string { return "" }, to: 1, problem: "another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			in, tunnel := m.open(0, &gate{}), m.open(test.to, &gate{})
			id, err := tunnel.FetchIdentity(t.Context())
			check.Error(t, err, "")

			if recorded := test.recorded(string(id)); recorded != "" {
				check.Error(t, in.RecordIdentity(t.Context(), "prod", types.UID(recorded)), "")
			}

			content, err := os.ReadFile(tunnel.options.Kubeconfig)
			check.Error(t, err, "")
			path := filepath.Join(t.TempDir(), "kubeconfig.prod")
			check.Error(t, os.WriteFile(path, content, 0o600), "")

			c := &creation{management: in, workload: &management{options: mgmtcluster.Options{
				Kubeconfig: path, Namespace: m.namespace,
			}}}
			c.Management.Namespace = m.namespace
			c.File, c.KubeconfigOut = clusterNamed("prod", "127.0.0.2", 1), path
			managesItself, unsure, err := c.detectSelfManaged(t.Context())
			check.Error(t, err, "")
			check.Error(t, unsure, "")
			check.Equal(t, "whether it manages itself", managesItself, false)
			check.Set(t, "what is to be compared", c.elsewhere != nil)
			check.Error(t, c.checkElsewhere(t.Context()), test.problem)
		})
	}
}

// TestTwoMovesAtATimeLoseNothing starts the same move, or one back, in a second terminal. The first one is copying, or
// deleting the copied objects.
func TestTwoMovesAtATimeLoseNothing(t *testing.T) {
	for _, at := range []int32{6, 9, 14} {
		for name, test := range map[string]struct {
			from    int
			problem string
		}{
			"the same":     {0, "another olvmctl is moving namespace moving-"},
			"the way back": {1, "to another management cluster was interrupted"},
		} {
			t.Run(fmt.Sprintf("%s, at write %d", name, at), func(t *testing.T) {
				m := newMoving(t)
				var second error

				g := &gate{at: at, after: true, end: func() { _, second = m.move(&gate{}, test.from, 1-test.from) }}
				o := &Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}
				check.Error(t, o.moveClusters(t.Context(), m.open(0, g), m.open(1, g)), "")
				check.Error(t, second, test.problem)
				m.expectMoved(1)
			})
		}
	}
}

// TestAManagementClusterIsNotTakenForItsCluster has an earlier start that was interrupted before it wrote the
// kubeconfig. The only context in kubectl's file is that of the management cluster, which has the Cluster.
func TestAManagementClusterIsNotTakenForItsCluster(t *testing.T) {
	for name, test := range map[string]struct {
		recorded func(own string) string
		itself   bool
	}{
		"it has made another cluster":   {func(string) string { return "another" }, false},
		"it is the cluster by a tunnel": {func(own string) string { return own }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			in := m.open(0, &gate{})
			id, err := in.FetchIdentity(t.Context())
			check.Error(t, err, "")
			check.Error(t, in.RecordIdentity(t.Context(), "prod", types.UID(test.recorded(string(id)))), "")

			path := in.options.Kubeconfig
			c := &creation{management: in, workload: &management{options: mgmtcluster.Options{
				Kubeconfig: path, Namespace: m.namespace,
			}}}
			c.Management.Namespace = m.namespace
			c.File, c.KubeconfigOut = clusterNamed("prod", "127.0.0.1", 6443), path
			itself, unsure, err := c.detectSelfManaged(t.Context())
			check.Error(t, err, "")
			check.Error(t, unsure, "")
			check.Equal(t, "whether it manages itself", itself, test.itself)
		})
	}
}

// TestTheKubeconfigIsWrittenBesideThatOfTheManagementCluster names the same file with --kubeconfig and
// --kubeconfig-out.
func TestTheKubeconfigIsWrittenBesideThatOfTheManagementCluster(t *testing.T) {
	m := newMoving(t)
	in := m.open(0, &gate{})
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: m.namespace, Name: "prod-kubeconfig"}
	check.Error(t, in.Get(t.Context(), key, secret), "")
	secret.Data = map[string][]byte{"value": merged(t, "prod", "https://127.0.0.1:6443", "ca", "first")}
	check.Error(t, in.Update(t.Context(), secret), "")

	c := &creation{management: in, workload: &management{options: in.options}}
	c.Management.Namespace = m.namespace
	c.File, c.KubeconfigOut = clusterNamed("prod", "127.0.0.1", 6443), in.options.Kubeconfig
	check.Error(t, c.writeKubeconfig(t.Context()), "")
	check.Equal(t, "the context of the cluster", c.workload.options.Context, "prod-admin@prod")
}

// TestAStartGoesOnWithoutATemplateThatWasNotAppliedYet has a start interrupted between an owner of machines and its
// template.
func TestAStartGoesOnWithoutATemplateThatWasNotAppliedYet(t *testing.T) {
	owner := func(template string) *unstructured.Unstructured {
		out := deployment(1)
		out.SetNamespace("ocne")
		check.Error(t, unstructured.SetNestedField(out.Object, template, templateNameField(out)...), "")
		check.Error(t, unstructured.SetNestedField(out.Object, "OLVMMachineTemplate", "spec", "template", "spec",
			"infrastructureRef", "kind"), "")

		return out
	}

	for applied, problem := range map[string]string{
		"prod-md-0": "", "another": "failed to get its OLVMMachineTemplate",
	} {
		t.Run(applied, func(t *testing.T) {
			template := &unstructured.Unstructured{Object: map[string]any{}}
			template.SetGroupVersionKind(infrav1.GroupVersion.WithKind("OLVMMachineTemplate"))
			template.SetNamespace("ocne")
			template.SetName("prod-md-0")

			known := clusterWith(t)
			live := fake.NewClientBuilder().WithScheme(known.Scheme()).
				WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(known.Scheme())).
				WithObjects(owner(applied), &clusterv1.Cluster{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "prod"},
				}).Build()
			c := &creation{management: &management{Cluster: &mgmtcluster.Cluster{Client: live, Namespace: "ocne"}}}
			c.File = clusterNamed("prod", "127.0.0.1", 1)
			c.objects = []*unstructured.Unstructured{template, owner("prod-md-0")}
			check.Error(t, c.followTemplates(t.Context()), problem)
		})
	}
}

// deployment creates a group of workers.
func (m *moving) deployment(replicas int32) *clusterv1.MachineDeployment {
	m.t.Helper()
	out := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.namespace, Name: "prod-md-0", Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"},
	}}
	out.Spec.ClusterName, out.Spec.Replicas = "prod", &replicas
	out.Spec.Selector.MatchLabels = map[string]string{"pool": "md-0"}
	out.Spec.Template.Labels = map[string]string{"pool": "md-0"}
	out.Spec.Template.Spec.ClusterName = "prod"
	out.Spec.Template.Spec.Bootstrap.DataSecretName = ptr.To("none")
	out.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: clusterctl.InfrastructureGroup, Kind: "OLVMMachineTemplate", Name: "prod-md-0",
	}
	check.Error(m.t, m.servers[0].Client.Create(m.t.Context(), out), "")

	return out
}

// TestAScaleThatAnotherTerminalHasOvertakenIsRefused scales from 3 to 2. While the question is open, another terminal
// scales to 5. The change would delete 3 machines, but the user has agreed to 1.
func TestAScaleThatAnotherTerminalHasOvertakenIsRefused(t *testing.T) {
	for name, other := range map[string]int32{"nobody has": 3, "another terminal has": 5} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			owner := m.deployment(3)
			o := ScaleOptions{Name: "prod", Workers: ptr.To[int32](2), Management: m.open(0, &gate{}).options}
			o.Agree = func(alarms []string, _ string) error {
				check.Contains(t, "the question", fmt.Sprint(alarms),
					"from 3 to 2 machines: permanently deletes 1 machine,")
				before := owner.DeepCopy()
				owner.Spec.Replicas = &other

				return m.servers[0].Client.Patch(t.Context(), owner, client.MergeFrom(before))
			}

			err := Scale(t.Context(), o, func(string) {})
			want := other
			if other == 3 {
				check.Error(t, err, "")
				want = 2
			} else {
				check.Error(t, err, "the number of machines of prod-md-0 has changed meanwhile")
			}

			check.Error(t, m.servers[0].Client.Get(t.Context(), client.ObjectKeyFromObject(owner), owner), "")
			check.Equal(t, "machines", *owner.Spec.Replicas, want)
		})
	}
}

// TestAScaleOfATopologyChangesItsOwnGroupAlone scales the other group of workers in another terminal at the same time.
func TestAScaleOfATopologyChangesItsOwnGroupAlone(t *testing.T) {
	m := newMoving(t)
	c, key := m.servers[0].Client, client.ObjectKey{Namespace: m.namespace, Name: "classy"}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "olvm", "v1.36.1"

	for _, name := range []string{"a", "b"} {
		cluster.Spec.Topology.Workers.MachineDeployments = append(cluster.Spec.Topology.Workers.MachineDeployments,
			clusterv1.MachineDeploymentTopology{Name: name, Class: "worker", Replicas: ptr.To[int32](3)})
	}

	check.Error(t, c.Create(t.Context(), cluster), "")

	o := ScaleOptions{
		Name:       key.Name,
		Workers:    ptr.To[int32](2),
		Deployment: "a",
		Management: m.open(0, &gate{}).options,
	}
	o.Agree = func([]string, string) error {
		cluster.Spec.Topology.Workers.MachineDeployments[1].Replicas = ptr.To[int32](9)
		return c.Update(t.Context(), cluster)
	}
	check.Error(t, Scale(t.Context(), o, func(string) {}), "")
	check.Error(t, c.Get(t.Context(), key, cluster), "")

	var got []int32
	for _, one := range cluster.Spec.Topology.Workers.MachineDeployments {
		got = append(got, *one.Replicas)
	}

	check.Equal(t, "machines of both groups", got, []int32{2, 9})
}

// TestAScaleOfTheControlPlaneOfATopology has topologies without a control plane, and with a control plane without a
// number.
func TestAScaleOfTheControlPlaneOfATopology(t *testing.T) {
	for name, test := range map[string]struct {
		block clusterv1.ControlPlaneTopology
		other *int32
	}{
		"without the block":            {},
		"with the block":               {block: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)}},
		"with a block without number":  {block: clusterv1.ControlPlaneTopology{Metadata: clusterv1.ObjectMeta{Labels: map[string]string{"a": "b"}}}},
		"without the block, overtaken": {other: ptr.To[int32](5)},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			c, key := m.servers[0].Client, client.ObjectKey{Namespace: m.namespace, Name: "classy"}
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "olvm", "v1.36.1"
			cluster.Spec.Topology.ControlPlane = test.block
			check.Error(t, c.Create(t.Context(), cluster), "")

			overtake := func() {
				if test.other != nil {
					cluster.Spec.Topology.ControlPlane.Replicas = test.other
					check.Error(t, c.Update(t.Context(), cluster), "")
				}
			}
			o := ScaleOptions{Name: key.Name, ControlPlane: ptr.To[int32](3), Management: m.overtaken(overtake)}
			err := Scale(t.Context(), o, func(string) {})
			want := int32(3)

			if test.other != nil {
				want = *test.other
				check.Error(t, err, "the number of machines of classy has changed meanwhile")
			} else {
				check.Error(t, err, "")
			}

			check.Error(t, c.Get(t.Context(), key, cluster), "")
			check.Equal(t, "machines", ptr.Deref(cluster.Spec.Topology.ControlPlane.Replicas, 0), want)
			check.Equal(t, "labels", cluster.Spec.Topology.ControlPlane.Metadata.Labels, test.block.Metadata.Labels)
		})
	}
}

// overtaken returns a management cluster. Just before this management cluster receives the first patch, it calls write,
// as another command would.
func (m *moving) overtaken(write func()) mgmtcluster.Options {
	m.t.Helper()
	var once sync.Once
	path := filepath.Join(m.t.TempDir(), "kubeconfig")
	content := testsite.NewKubeconfig(m.t, m.servers[0].Config, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch {
				once.Do(write)
			}

			next.ServeHTTP(w, r)
		})
	})
	check.Error(m.t, os.WriteFile(path, content, 0o600), "")

	return mgmtcluster.Options{Kubeconfig: path, Namespace: m.namespace}
}

// TestAScaleOfADefaultThatAnotherTerminalHasOvertakenIsRefused has an owner without a number, so the patch cannot
// compare numbers.
func TestAScaleOfADefaultThatAnotherTerminalHasOvertakenIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*clusterv1.MachineDeployment)
		problem string
	}{
		"another number": {func(o *clusterv1.MachineDeployment) { o.Spec.Replicas = ptr.To[int32](5) },
			"the number of machines of prod-md-0 has changed meanwhile"},
		"another label": {func(o *clusterv1.MachineDeployment) { o.Labels["a"] = "b" }, "failed to scale prod-md-0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			owner := m.deployment(3)
			c := m.servers[0].Client
			owner.Spec.Replicas = nil
			check.Error(t, c.Update(t.Context(), owner), "")

			o := ScaleOptions{Name: "prod", Workers: ptr.To[int32](2), Management: m.overtaken(func() {
				test.change(owner)
				check.Error(t, c.Update(t.Context(), owner), "")
			})}
			want := owner.DeepCopy()
			test.change(want)
			err := Scale(t.Context(), o, func(string) {})
			check.Error(t, err, test.problem)
			check.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(owner), owner), "")
			check.Equal(t, "the number", owner.Spec.Replicas, want.Spec.Replicas)

			if want.Spec.Replicas == nil {
				check.Lacks(t, "the error", err.Error(), "has changed meanwhile")
			}
		})
	}
}

// TestAMoveWithoutACacheIsLocked has no cache folder. Other users can write to the folder for temporary files.
func TestAMoveWithoutACacheIsLocked(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		says    string
	}{
		"it is made":  {prepare: func(*testing.T, string) {}},
		"it is there": {prepare: func(t *testing.T, dir string) { check.Error(t, os.Mkdir(dir, 0o700), "") }},
		"others may write to it": {func(t *testing.T, dir string) {
			check.Error(t, os.Mkdir(dir, 0o700), "")
			check.Error(t, os.Chmod(dir, 0o777), "")
		}, "is not locked"},
		"a link is in its place": {func(t *testing.T, dir string) { check.Error(t, os.Symlink(t.TempDir(), dir), "") }, "is not locked"},
		"locks cannot be made": {func(t *testing.T, dir string) {
			check.Error(t, os.MkdirAll(filepath.Join(dir, "moves", "one_prod"), 0o700), "")
		}, "is not locked"},
	} {
		t.Run(name, func(t *testing.T) {
			at := newMoving(t).open(0, &gate{})
			at.Namespace = "prod"
			temporary := t.TempDir()
			t.Setenv("HOME", "")
			t.Setenv("XDG_CACHE_HOME", "")
			t.Setenv("TMPDIR", temporary)
			test.prepare(t, filepath.Join(temporary, fmt.Sprintf("capolvm-%d", os.Getuid())))

			var said bytes.Buffer
			m := &move{
				Common: &Common{Display: progress.NewDisplay(&said)},
				from:   at,
				to:     at,
				fromID: "one",
				toID:   "two",
			}
			release, err := m.lockNamespace()
			check.Error(t, err, "")
			check.Contains(t, "what it says", said.String(), test.says)

			if test.says == "" {
				check.Equal(t, "what it says", said.String(), "")
				_, err := m.lockNamespace()
				check.Error(t, err, "another olvmctl is moving namespace prod")
			}

			release()
			release, err = m.lockNamespace()
			check.Error(t, err, "")
			release()
		})
	}
}

// TestTheRestOfAMoveIsKnownWithoutItsSign has the Cluster of the source after clusterctl was killed during its
// deletions. clusterctl has removed all other annotations, so no command may change the Cluster.
func TestTheRestOfAMoveIsKnownWithoutItsSign(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "prod"}}
	cluster.Spec.Paused = ptr.To(true)
	cluster.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	check.Error(t, checkSettled(cluster), "a move of Cluster prod was interrupted after it had copied all objects")
}

// TestAMoveThatWasKilledBeforeItsSignsWentGoesOn has a move that was killed after clusterctl had resumed the copy. The
// copy has its sign, and the Leases are left.
func TestAMoveThatWasKilledBeforeItsSignsWentGoesOn(t *testing.T) {
	m := newMoving(t)
	_, err := m.move(&gate{}, 0, 1)
	check.Error(t, err, "")
	m.expectMoved(1)

	interrupted := &move{
		Common: &Common{Display: progress.NewDisplay(&bytes.Buffer{})}, from: m.open(0, &gate{}), to: m.open(1, &gate{}),
	}
	interrupted.fromID, err = interrupted.from.FetchIdentity(t.Context())
	check.Error(t, err, "")
	interrupted.toID, err = interrupted.to.FetchIdentity(t.Context())
	check.Error(t, err, "")
	clusters, err := listNamespaceClusters(t.Context(), interrupted.to.Cluster, m.namespace)
	check.Error(t, err, "")
	check.Error(t, signClusters(t.Context(), interrupted.to.Cluster, clusters, interrupted.markerText()), "")

	_, err = m.move(&gate{}, 0, 1)
	check.Error(t, err, "")
	m.expectMoved(1)
}

// TestADeletionEndsAMoveIntoTheCluster has a start whose move of the cluster into itself was killed. A deletion can move
// it back, whether all was copied or not.
func TestADeletionEndsAMoveIntoTheCluster(t *testing.T) {
	for _, at := range []int32{10, 19} {
		t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) {
			m := newMoving(t)
			_, err := m.move(&gate{at: at, kill: true}, 0, 1)
			check.Set(t, "the error", err != nil)

			o := Common{Display: progress.NewDisplay(&bytes.Buffer{}), Timeout: time.Minute}
			d := &deletion{
				DeleteOptions: DeleteOptions{Common: o, Name: "prod"},
				management:    m.open(1, &gate{}), to: m.open(0, &gate{}),
			}
			d.cluster, err = d.management.GetCluster(t.Context(), d.Name)
			check.Error(t, err, "")
			check.Error(t, d.endMoveIn(t.Context()), "")
			m.expectMoved(1)

			check.Error(t, d.endMoveIn(t.Context()), "") // it has ended
			check.Error(t, d.checkMovable(t.Context(), d.management, d.to), "")
		})
	}
}

// TestADeletionAsksBeforeItEndsAMove has an earlier deletion that was killed after moving the cluster out of itself.
func TestADeletionAsksBeforeItEndsAMove(t *testing.T) {
	m := newMoving(t)
	d, _ := deletionIn(t, m)
	d.to, d.Timeout = m.open(1, &gate{}), time.Minute
	check.Error(t, d.moveAway(t.Context()), "")

	copied, err := d.to.GetCluster(t.Context(), "prod")
	check.Error(t, err, "")
	from, err := d.management.FetchIdentity(t.Context())
	check.Error(t, err, "")
	to, err := d.to.FetchIdentity(t.Context())
	check.Error(t, err, "")

	copied.Spec.Paused = ptr.To(true)
	copied.Annotations[movingAnnotation] = signOf(from, to)
	check.Error(t, d.to.Update(t.Context(), copied), "")

	source, target := &gate{}, &gate{}
	again := &deletion{DeleteOptions: d.DeleteOptions, management: m.open(0, source), to: m.open(1, target)}
	again.missing = &mgmtcluster.NotFoundError{Name: "prod", Namespace: m.namespace}
	check.Error(t, again.findMoved(t.Context()), "")
	check.Equal(t, "writes before the question", source.writes.Load()+target.writes.Load(), 0)
	check.Error(t, again.checkOwn(t.Context()), "")
	check.Set(t, "the move that is to end", again.source != nil)
	check.Error(t, again.finishMoveAway(t.Context()), "")
	m.expectMoved(1)
}

// TestADeletionGoesOnWithoutTheKubeconfigThatItHasRemoved kills a deletion after it has removed the kubeconfig, and
// before it removes the Secret. A kubeconfig missing for another reason must not lead to another cluster of this name.
func TestADeletionGoesOnWithoutTheKubeconfigThatItHasRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		mistyped, lives, unnoted bool
		problem                  string
	}{
		"it was killed":                      {},
		"a path is mistyped":                 {mistyped: true, problem: "no such file"},
		"a path is mistyped for a live one":  {mistyped: true, lives: true, problem: "no such file"},
		"the other one has a live cluster":   {lives: true, problem: "no such file"},
		"no deletion has noted how to reach": {unnoted: true, problem: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			m := newMoving(t)
			m.ours()

			if !test.unnoted {
				m.noted()
			}

			if !test.lives {
				check.Error(t, m.servers[0].Client.Delete(t.Context(), &clusterv1.Cluster{
					ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod"},
				}), "")
			}

			path, err := KubeconfigPath("prod")
			check.Error(t, err, "")

			if test.mistyped {
				path = filepath.Join(t.TempDir(), "gone")
			}

			o := DeleteOptions{Name: "prod", To: m.open(0, &gate{}).options}
			o.Management = mgmtcluster.Options{Kubeconfig: path, Namespace: m.namespace}
			o.Driver, o.Display = mgmtcluster.DriverExisting, progress.NewDisplay(&bytes.Buffer{})
			d, err := newDeletion(o)
			check.Error(t, err, "")
			check.Error(t, d.findCluster(t.Context()), test.problem)

			if test.problem == "" {
				check.Length(t, "Secrets that go", d.kept, 1)
			}
		})
	}
}

// noted stores the connection to the cluster in its Secret, as a deletion does.
func (m *moving) noted() {
	m.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod-ovirt-credentials"}}
	patch := fmt.Appendf(
		nil,
		`{"metadata":{"annotations":{%q:"{\"server\":\"https://127.0.0.1:6443\"}"}}}`,
		reachedAnnotation,
	)
	check.Error(m.t, m.servers[0].Client.Patch(m.t.Context(), secret, client.RawPatch(types.MergePatchType, patch)), "")
}
