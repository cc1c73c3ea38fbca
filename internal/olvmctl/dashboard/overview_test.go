package dashboard

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// small returns a cluster with one running control plane machine.
func small(namespace, name string, created metav1.Time) []client.Object {
	meta := func(of string, labels map[string]string) metav1.ObjectMeta {
		out := named(of, labels)
		out.Namespace, out.CreationTimestamp = namespace, created
		out.Labels[clusterv1.ClusterNameLabel] = name

		return out
	}

	cluster := &clusterv1.Cluster{ObjectMeta: meta(name, nil)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "OLVMCluster", Name: name}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: name + "-cp",
	}
	cluster.Status.Phase = "Provisioned"
	cluster.Status.Conditions = []metav1.Condition{
		condition("Available", metav1.ConditionTrue, "Available", ""),
		condition("ControlPlaneInitialized", metav1.ConditionTrue, "Initialized", ""),
	}

	infra := &infrav1.OLVMCluster{ObjectMeta: meta(name, nil)}
	infra.Spec.OLVMOvirtAPIServer.ServerURL = "https://engine.example.com/ovirt-engine"
	infra.Status.Conditions = isReady

	plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: meta(name+"-cp", nil)}
	plane.Spec.Replicas, plane.Spec.Version = ptr.To[int32](1), "v1.36.1"
	plane.Status.Version = "v1.36.1" //nolint:staticcheck // the only one of Cluster API before 1.14
	plane.Status.Replicas, plane.Status.ReadyReplicas = ptr.To[int32](1), ptr.To[int32](1)
	plane.Status.UpToDateReplicas = ptr.To[int32](1)
	plane.Status.Conditions = []metav1.Condition{condition("Available", metav1.ConditionTrue, "Available", "")}

	vm := vmWith("id-"+name, "up", isReady)
	ofPlane := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	out := machineOf(name+"-cp-0", "Running", ofPlane, vm)

	for _, object := range out {
		of := meta(name+"-cp-0", ofPlane)
		of.OwnerReferences = object.GetOwnerReferences()

		switch o := object.(type) {
		case *clusterv1.Machine:
			o.ObjectMeta, o.Spec.ClusterName, o.Status.NodeRef.Name = of, name, name+"-cp-0"
			o.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "KubeadmControlPlane", Name: name + "-cp", UID: "2", Controller: ptr.To(true),
			}}
		case *infrav1.OLVMMachine:
			o.ObjectMeta = of
			o.Spec.VMTemplateName = "ol9-k8s"
			o.Spec.VirtualMachine.Memory = "16GB"
			o.Spec.VirtualMachine.CPU.Topology = infrav1.CPUTopology{Sockets: 1, Cores: 4}
			o.Spec.VirtualMachine.RootDisk = &infrav1.RootDisk{Size: "100GB"}
			o.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "etcd", Size: "20GB", StorageDomainName: "fast"}}
		}
	}

	return append([]client.Object{cluster, infra, plane}, out...)
}

// find returns the object of a type and a name.
func find[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()

	for _, object := range objects {
		if of, ok := object.(T); ok && of.GetName() == name {
			return of
		}
	}

	t.Fatalf("there is no %s", name)

	return *new(T)
}

// setVM marks the VM of a machine and of its OLVMMachine as not running, for the given reason.
func setVM(t *testing.T, objects []client.Object, name, reason string) {
	t.Helper()
	down := waiting(infrav1.VirtualMachineRunningCondition, reason,
		"VM id-x no longer exists in the engine, and the controller does not recreate it")
	find[*clusterv1.Machine](t, objects, name).Status.Conditions = down
	find[*infrav1.OLVMMachine](t, objects, name).Status.Conditions = down
}

func TestClustersInTroubleAreOnTopAndAllCountsAgree(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"a-fine", "b-paused", "c-new", "d-broken", "e-updating", "f-failed"} {
		objects = append(objects, small("prod", name, noon)...)
	}

	find[*clusterv1.Cluster](t, objects, "b-paused").Spec.Paused = ptr.To(true)
	fresh := find[*clusterv1.Cluster](t, objects, "c-new")
	fresh.Status.Phase, fresh.Status.Conditions = "Provisioning", nil
	setVM(t, objects, "d-broken-cp-0", infrav1.VirtualMachineNotFoundReason) // the cluster is available nevertheless
	find[*controlplanev1.KubeadmControlPlane](t, objects, "e-updating-cp").Spec.Version = "v1.36.2"

	find[*clusterv1.Cluster](t, objects, "f-failed").Status.Phase = "Failed"

	state := watched(t, objects).buildState(t.Context())

	var rows []string
	for _, c := range state.Clusters {
		rows = append(rows, fmt.Sprintf("%s %s %s %s", c.Name, c.Kind, c.State, c.ControlPlane))
	}

	check.Equal(t, "clusters", rows, []string{
		"d-broken bad In trouble 0/1", "f-failed bad In trouble 1/1", "c-new busy Provisioning 1/1", "e-updating busy Updating 1/1",
		"b-paused off Paused 1/1", "a-fine ok Available 1/1",
	})
	check.Equal(t, "state.Counts", state.Counts, Count{Total: 6, Bad: 2, Busy: 2, Off: 1, OK: 1})
	check.Equal(t, "state.Machines", state.Machines, Count{Total: 6, Bad: 1, OK: 5})
	check.Length(t, "state.Troubles", state.Troubles, 2)
	check.Equal(t, "trouble", state.Troubles[0].About, Ref{"Machine", "prod", "d-broken-cp-0"})
	check.Equal(t, "kind of its machine", state.Clusters[0].Kinds["Machine/d-broken-cp-0"], kindBad)
	check.Equal(t, "VM of its machine", state.Clusters[0].Tree.Children[1].Children[0].Machine.VMStatus, "gone")
}

// unwatched returns errors for kinds without a watch, as the cache does.
type unwatched struct{ client.Reader }

func (u unwatched) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	for _, kind := range watchedKinds {
		if kindOf(kind.object) == kindOf(object) {
			return u.Reader.Get(ctx, key, object, options...)
		}
	}

	return fmt.Errorf("%T is not cached", object)
}

func TestAllThatThePageReadsIsWatched(t *testing.T) {
	w := watched(t, small("prod", "shop", noon))
	w.reader = unwatched{w.reader}
	state := w.buildState(t.Context())
	check.Length(t, "state.Problems", state.Problems, 0)
	check.Length(t, "state.Clusters", state.Clusters, 1)
}

func TestADeadAPIServerIsSaidAndNobodyElseIsBlamed(t *testing.T) {
	w := watched(t, small("prod", "shop", noon))
	w.manager = "no manager is alive"
	w.engines = newEngines(w)
	w.engines.known["https://engine"] = Engine{URL: "https://engine", Error: "TLS handshake timeout"}

	before := w.buildState(t.Context())
	check.Equal(t, "away", before.Away, "")
	check.Length(t, "troubles", before.Troubles, 2)

	w.recordServerAnswer(t.Context(), errors.New("connection refused"))
	w.recordServerAnswer(t.Context(), errors.New("no route to host"))

	state := w.buildState(t.Context())
	check.Equal(t, "away", state.Away, "no route to host")
	check.Equal(t, "is it said since when", state.AwaySince.IsZero(), false)
	check.Length(t, "troubles of others", state.Troubles, 0)
	check.Length(t, "watches", state.Watches, len(watchedKinds))

	for _, watch := range state.Watches {
		check.Equal(t, watch.Kind, watch.State, watchLost)
	}

	w.recordServerAnswer(t.Context(), nil)
	check.Equal(t, "away", w.buildState(t.Context()).Away, "")
}

func TestAServerThatRefusesIsThere(t *testing.T) {
	w := watched(t, nil)
	w.recordServerAnswer(t.Context(), apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "", nil))
	check.Equal(t, "away", w.isAway(), false)

	w.recordServerAnswer(t.Context(), apierrors.NewInternalError(errors.New("etcd is away")))
	check.Equal(t, "away", w.isAway(), true)
}

func TestAServerThatHangsIsNoticed(t *testing.T) {
	w := watched(t, nil)
	objects, _ := w.reader.(client.WithWatch)
	w.In = &mgmtcluster.Cluster{Client: interceptor.NewClient(objects, interceptor.Funcs{
		List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			<-ctx.Done()
			return ctx.Err()
		},
	})}

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go w.followServer(ctx)
		time.Sleep(serverLimit + time.Second)
		synctest.Wait()

		why, _ := w.explainAway()
		check.Equal(t, "why", why, "no response within 5s")
		cancel()
		synctest.Wait()
	})
}

func TestEachWatchHasItsState(t *testing.T) {
	w := watched(t, nil)
	w.unseen["KubeadmControlPlanes"] = "you may not list them"
	w.lost["events"] = &loss{noon.Time, noon.Time, errors.New("gone")}

	got := map[string]string{}
	for _, watch := range w.listWatches() {
		got[watch.Kind] = strings.TrimSpace(watch.State + " " + watch.Why)
	}

	check.Equal(t, "watch of Machines", got["Machines"], "live")
	check.Equal(t, "watch of KubeadmControlPlanes", got["KubeadmControlPlanes"], "not watched you may not list them")
	check.Equal(t, "watch of events", got["events"], "lost gone")
}

func TestAnEngineIsNotBlamedForCredentialsThatCannotBeRead(t *testing.T) {
	w := watched(t, small("prod", "shop", noon))
	objects, _ := w.reader.(client.WithWatch)
	w.In = &mgmtcluster.Cluster{Client: interceptor.NewClient(objects, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption,
		) error {
			if _, isSecret := object.(*corev1.Secret); isSecret {
				return errors.New("TLS handshake timeout")
			}

			return c.Get(ctx, key, object, o...)
		},
	})}
	cluster := find[*infrav1.OLVMCluster](t, small("prod", "shop", noon), "shop")
	cluster.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = "credentials"

	answer := newEngines(w).askEngine(t.Context(), "https://engine", []*infrav1.OLVMCluster{cluster})
	check.Equal(t, "answer.Error", answer.Error, "")
	check.Contains(t, "answer.Unasked", answer.Unasked, "TLS handshake timeout")
}

func TestDetailsOfAMachineHaveItsVMAndItsLastPlan(t *testing.T) {
	w := watched(t, small("prod", "shop", noon))
	details := w.findDetails(t.Context(), Ref{"Machine", "prod", "shop-cp-0"})

	facts := map[string]string{}
	for _, fact := range details.Facts {
		facts[fact.Name] = fact.Value
	}

	for name, want := range map[string]string{
		"Cluster":     "shop",
		"Node":        "shop-cp-0",
		"Provider ID": "olvm://id-shop",
		"VM":          "shop-cp-0 id-shop",
		"Size":        "4 CPUs (sockets 1, cores 4, threads 1), 16GB of memory",
		"Disks":       "root 100GB, etcd 20GB on fast",
		"VM template": "ol9-k8s",
	} {
		check.Equal(t, name, facts[name], want)
	}

	check.Length(t, "changes of the last plan", details.LastRun.Changes, 3)
	check.Length(t, "details.Objects", details.Objects, 2)
	check.Contains(t, "YAML", details.Objects[0].YAML, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\n")
	check.Contains(t, "YAML", details.Objects[1].YAML, "kind: OLVMMachine\n")
	check.Contains(t, "YAML", details.Objects[1].YAML, "memory: 16GB")
}

func TestTheYAMLHasNoSecrets(t *testing.T) {
	objects := small("prod", "shop", noon)
	plane := find[*controlplanev1.KubeadmControlPlane](t, objects, "shop-cp")
	plane.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "hunter2"}
	plane.Spec.KubeadmConfigSpec.Users = []bootstrapv1.User{{Name: "admin", Passwd: "hunter2"}}
	plane.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/token", Content: "hunter2"}}

	yaml := watched(t, objects).findDetails(t.Context(), Ref{"KubeadmControlPlane", "prod", "shop-cp"}).Objects[0].YAML
	check.Contains(t, "YAML", yaml, "path: /etc/token")
	check.Lacks(t, "YAML", yaml, "hunter2")
}

// changing returns the commands suggested for an object, without the read-only ones.
func changing(t *testing.T, w *watcher, of Ref) (out []string) {
	t.Helper()

	for _, command := range w.findDetails(t.Context(), of).Commands {
		if !strings.Contains(command.Line, " get ") && !strings.Contains(command.Line, " logs ") {
			out = append(out, command.Line)
		}
	}

	return out
}

func TestTheOnlyControlPlaneMachineIsNeverAdvisedToBeDeleted(t *testing.T) {
	for _, reason := range []string{infrav1.VirtualMachineNotFoundReason, infrav1.VirtualMachineNotRunningReason} {
		objects := small("prod", "shop", noon)
		setVM(t, objects, "shop-cp-0", reason)
		of := Ref{"Machine", "prod", "shop-cp-0"}
		check.Length(t, "commands for the only machine", changing(t, watched(t, objects), of), 0)

		for _, name := range []string{"shop-cp-1", "shop-cp-2"} { // etcd now has a quorum without it
			other := find[*clusterv1.Machine](t, small("prod", "shop", noon), "shop-cp-0")
			other.Name, other.UID = name, ""
			objects = append(objects, other)
		}

		check.Equal(t, "commands with a quorum", changing(t, watched(t, objects), of),
			[]string{"kubectl delete machine.cluster.x-k8s.io shop-cp-0 -n prod"})
	}
}

func TestCommandsSayWhichManagementCluster(t *testing.T) {
	objects := small("prod", "shop", noon)
	plain := watched(t, objects)
	plain.Access.Flags = []string{"--kubeconfig", "/home/me/it's mine", "--context", "$(reboot) `id` ; \"x\"\n*"}

	of := Ref{"Cluster", "prod", "shop"}
	lines := plain.findDetails(t.Context(), of).Commands
	at := slices.IndexFunc(lines, func(c Command) bool { return strings.HasPrefix(c.Line, "olvmctl get kubeconfig") })
	if at < 0 {
		t.Fatalf("no command gets the kubeconfig: %v", lines)
	}

	// A shell must parse the line to exactly these words.
	said, err := exec.CommandContext(t.Context(), "sh", "-c", "olvmctl() { printf '<%s>' \"$@\"; }; "+lines[at].Line).Output()
	check.Error(t, err, "")
	check.Equal(t, "words", string(said), "<get><kubeconfig><shop><-n><prod><--kubeconfig></home/me/it's mine><--context>"+
		"<$(reboot) `id` ; \"x\"\n*>")
}

func TestAnUnknownWatchBlamesNoOtherKind(t *testing.T) {
	w := watched(t, small("prod", "shop", noon))
	w.watchFailed(t.Context(), "*v1.Mystery", errors.New("it is not served"))

	state := w.buildState(t.Context())
	check.Contains(t, "problems", strings.Join(state.Problems, "\n"), "*v1.Mystery has ended: it is not served")

	for _, one := range state.Watches {
		check.Equal(t, one.Kind, one.State, "live")
	}
}

func TestAPausedClusterCanGoOn(t *testing.T) {
	objects := small("prod", "shop", noon)
	find[*clusterv1.Cluster](t, objects, "shop").Spec.Paused = ptr.To(true)
	check.Contains(t, "command", strings.Join(changing(t, watched(t, objects), Ref{"Cluster", "prod", "shop"}), "\n"),
		`kubectl patch cluster.cluster.x-k8s.io shop --type merge -p '{"spec":{"paused":false}}' -n prod`)
}

func TestADetailOfWhatIsNotShownIsEmpty(t *testing.T) {
	w := watched(t, []client.Object{&eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "e"}}})
	check.Equal(t, "found", w.findDetails(t.Context(), Ref{"OLVMSupportServices", "prod", "x"}).Found, false)
}

// TestAForbiddenWatchStaysLostForWhoMayList has a user with the right to list Machines, but not to watch them. The
// watch is retried after up to a minute.
func TestAForbiddenWatchStaysLostForWhoMayList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watched(t, nil)
		objects, _ := w.reader.(client.WithWatch)
		w.In = &mgmtcluster.Cluster{Client: objects}
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("you may not watch"))

		for range 3 {
			w.watchFailed(t.Context(), "*v1beta2.Machine", forbidden)
			time.Sleep(time.Minute)
			check.Equal(t, "watches that are lost", w.watchError() != nil, true)
		}

		time.Sleep(time.Minute)
		check.Error(t, w.watchError(), "")
	})
}
