package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// errRefused is the answer of a user who disagrees.
var errRefused = errors.New("it stays as it is")

// deletionIn returns a Delete of prod just before its question, and the text of the question.
func deletionIn(t *testing.T, m *moving) (d *deletion, asked *string) {
	t.Helper()
	emptyHome(t)
	in := m.open(0, &gate{})
	asked = new(string)
	o := DeleteOptions{Name: "prod", Confirm: func(question, word string) error {
		check.Equal(t, "the word to type", word, "prod")
		*asked = question

		return errRefused
	}}
	o.Management, o.Driver = in.options, mgmtcluster.DriverExisting
	o.Display = progress.NewDisplay(&bytes.Buffer{})
	d, err := newDeletion(o)
	check.Error(t, err, "")
	check.Error(t, d.findCluster(t.Context()), "")

	return d, asked
}

// ours labels the namespace as Create does, and creates the credentials.
func (m *moving) ours() {
	m.t.Helper()
	labels := map[string]string{managedBy: managedByValue}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}}
	c := m.servers[0].Client
	check.Error(m.t, c.Get(m.t.Context(), client.ObjectKeyFromObject(namespace), namespace), "")
	before := namespace.DeepCopy()
	namespace.Labels = labels
	check.Error(m.t, c.Patch(m.t.Context(), namespace, client.MergeFrom(before)), "")
	check.Error(m.t, c.Create(m.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod-ovirt-credentials", Labels: labels},
	}), "")
}

// inventory creates a user's inventory with the credentials of the cluster.
func (m *moving) inventory() {
	m.t.Helper()
	check.Error(m.t, localplane.Apply(m.t.Context(), m.servers[0].Client, &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OLVMInventory",
			"metadata": map[string]any{"namespace": m.namespace, "name": "lab"},
			"spec": map[string]any{
				"olvmDatacenterName": "Default",
				"olvmOvirtAPIServer": map[string]any{
					"serverURL":         "https://engine.example.com/ovirt-engine",
					"credentialsSecret": map[string]any{"name": "prod-ovirt-credentials"},
				},
				"virtualMachines": map[string]any{"tag": "k8s-pool"},
			},
		},
	}), "")
}

// TestTheQuestionBeforeADeletion checks the text shown to the user.
func TestTheQuestionBeforeADeletion(t *testing.T) {
	m := newMoving(t)
	m.ours()
	d, asked := deletionIn(t, m)
	check.Error(t, d.confirmDeletion(t.Context()), errRefused.Error())
	check.Equal(t, "the question", *asked, "Delete cluster prod in namespace "+m.namespace+" of "+
		d.management.Server()+" (context a of "+d.management.Kubeconfig+")? This permanently deletes:\n  2 "+
		"machines with 0 VMs and 0 disks: prod-a, prod-b\n  Secret "+m.namespace+"/prod-ovirt-credentials\n"+
		"  namespace "+m.namespace+"\nType the name of the cluster to confirm: ")
}

// TestANamespaceWithAnInventoryStays has an inventory in the namespace. Its VMs would go with the namespace, and it
// needs the credentials of the cluster.
func TestANamespaceWithAnInventoryStays(t *testing.T) {
	m := newMoving(t)
	m.ours()
	m.inventory()
	d, asked := deletionIn(t, m)
	check.Error(t, d.confirmDeletion(t.Context()), errRefused.Error())
	check.Contains(t, "the question", *asked, "(kept: namespace "+m.namespace+", which contains OLVMInventory lab")
	check.Equal(t, "Secrets that go", len(d.kept), 0)

	found, err := d.findEmptyNamespace(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "whether the namespace goes", found != nil, false)
}

func TestANamespaceWithSomethingOfAUserStays(t *testing.T) {
	for name, object := range map[string]client.Object{
		"a ConfigMap": &corev1.ConfigMap{},
		"a Secret":    &corev1.Secret{},
		"a claim": &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			m.ours()
			object.SetNamespace(m.namespace)
			object.SetName("theirs")
			check.Error(t, m.servers[0].Client.Create(t.Context(), object), "")

			d, _ := deletionIn(t, m)
			check.Error(t, d.findKept(t.Context()), "")
			_, stays, err := d.findNamespaceToDelete(t.Context())
			check.Error(t, err, "")
			check.Length(t, "what stays", stays, 1)
			check.Contains(t, "what stays", stays[0], "theirs")
		})
	}
}

// TestWhatCannotBeListedKeepsTheNamespaceAndNotTheCluster has an unavailable API in the management cluster. It also has
// a user who may not list the objects of administrators.
func TestWhatCannotBeListedKeepsTheNamespaceAndNotTheCluster(t *testing.T) {
	for name, test := range map[string]struct {
		path, want string
		status     int
	}{
		"an API is down": {"/persistentvolumeclaims", "objects that cannot be listed: ",
			http.StatusInternalServerError},
		"it is forbidden":  {"/persistentvolumeclaims", "objects that this user may not list", http.StatusForbidden},
		"so are all users": {"/olvmclusteridentities", "objects that this user may not list", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			m.ours()
			d, asked := deletionIn(t, m)
			path := filepath.Join(t.TempDir(), "kubeconfig")
			content := testsite.NewKubeconfig(t, m.servers[0].Config, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, test.path) {
						http.Error(w, "not now", test.status)
						return
					}

					next.ServeHTTP(w, r)
				})
			})
			check.Error(t, os.WriteFile(path, content, 0o600), "")

			var err error
			d.management.Cluster, err = mgmtcluster.Connect(mgmtcluster.Options{
				Kubeconfig: path, Namespace: m.namespace,
			})
			check.Error(t, err, "")
			check.Error(t, d.confirmDeletion(t.Context()), errRefused.Error())
			check.Contains(t, "the question", *asked, ", which contains "+test.want)
			check.Contains(t, "the question", *asked, "Delete cluster prod")
		})
	}
}

// TestAClusterThatMovesOutOfItselfIsKnownAgain has a cluster without a recorded identity, as after kubectl apply.
func TestAClusterThatMovesOutOfItselfIsKnownAgain(t *testing.T) {
	m := newMoving(t)
	d, _ := deletionIn(t, m)
	d.to = m.open(1, &gate{})
	d.Timeout = time.Minute
	check.Error(t, d.moveAway(t.Context()), "")

	again := &deletion{DeleteOptions: d.DeleteOptions, management: m.open(0, &gate{}), to: m.open(1, &gate{})}
	again.missing = &mgmtcluster.NotFoundError{Name: "prod", Namespace: m.namespace}
	check.Error(t, again.findMoved(t.Context()), "")
	check.Set(t, "the cluster", again.exists())
}

// TestAClusterBehindATunnelIsKnownToManageItself connects by another URL than the cluster's endpoint.
func TestAClusterBehindATunnelIsKnownToManageItself(t *testing.T) {
	m := newMoving(t)
	in := m.open(0, &gate{})
	id, err := in.FetchIdentity(t.Context())
	check.Error(t, err, "")
	check.Error(t, in.RecordIdentity(t.Context(), "prod", id), "")

	d, _ := deletionIn(t, m)
	check.Error(t, d.checkOwn(t.Context()), "specify another management cluster with --to-kubeconfig")
}

// TestAClusterWhoseIdentityIsUnknownIsNotDeleted has a Cluster with an unknown API server.
func TestAClusterWhoseIdentityIsUnknownIsNotDeleted(t *testing.T) {
	d, _ := deletionIn(t, newMoving(t))
	check.Error(t, d.checkOwn(t.Context()), "would lose its controllers before its machines")
}

// TestASecondStartInAnotherManagementClusterIsRefused has a running cluster unknown to the management cluster.
func TestASecondStartInAnotherManagementClusterIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*creation)
		want   string
	}{
		"the cluster answers": {func(c *creation) { c.answers = true }, "is already running"},
		"it is the cluster itself": {func(c *creation) {
			c.File = clusterNamed("prod", "127.0.0.1", 1)
		}, "is already running"},
		"nothing is known of it": {func(*creation) {}, ""},
		"it may have a local manager": {func(c *creation) {
			c.answers = true
			localThatStopped(t)
		}, "olvmctl local start"},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			path := t.TempDir() + "/management"
			testenv.WriteKubeconfig(t, path, "https://127.0.0.1:1")
			in, err := newManagement(mgmtcluster.Options{Kubeconfig: path}, mgmtcluster.DriverExisting)
			check.Error(t, err, "")
			check.Error(t, in.connect(t.Context()), "")
			c := &creation{management: in}
			c.File = clusterNamed("prod", "127.0.0.2", 1)
			test.change(c)
			check.Error(t, c.checkUnmanaged(), test.want)
		})
	}
}

// TestAMoveIntoItselfGoesOnFromItsSourceAlone runs Create again with another management cluster.
func TestAMoveIntoItselfGoesOnFromItsSourceAlone(t *testing.T) {
	m := newMoving(t)
	in := m.open(0, &gate{})
	id, err := in.FetchIdentity(t.Context())
	check.Error(t, err, "")

	for sign, want := range map[string]bool{signOf(id, "b"): true, signOf("a", id): false, "": false} {
		paused := true
		cluster := &clusterv1.Cluster{}
		cluster.Spec.Paused = &paused
		cluster.Annotations = map[string]string{movingAnnotation: sign}
		got, err := isCopyFrom(t.Context(), cluster, in)
		check.Error(t, err, "")
		check.Equal(t, sign, got, want)
	}
}

// TestAClusterThatWasMadeAgainMeanwhileIsNotDeleted deletes and recreates the cluster in another terminal while the
// question is open.
func TestAClusterThatWasMadeAgainMeanwhileIsNotDeleted(t *testing.T) {
	m := newMoving(t)
	d, _ := deletionIn(t, m)
	c := m.servers[0].Client
	asked := d.cluster.DeepCopy()
	check.Error(t, c.Delete(t.Context(), d.cluster), "")

	again := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod"}}
	again.Spec = asked.Spec
	check.Error(t, c.Create(t.Context(), again), "")

	for i, step := range d.deleteSteps() {
		if step.name == "Deleting prod" {
			d.cluster, d.Timeout = asked, time.Millisecond
			check.Error(t, d.deleteSteps()[i].run(t.Context()), "somebody else has deleted and created Cluster")
		}
	}

	check.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(again), again), "")
	check.Equal(t, "whether the new one goes", again.DeletionTimestamp != nil, false)
}

// TestCredentialsThatAnotherClusterHasBegunToUseStay deletes a cluster. Meanwhile another terminal starts a cluster
// with the same Secret.
func TestCredentialsThatAnotherClusterHasBegunToUseStay(t *testing.T) {
	m := newMoving(t)
	m.ours()
	d, _ := deletionIn(t, m)
	check.Error(t, d.findKept(t.Context()), "")
	check.Length(t, "Secrets that go", d.kept, 1)

	m.inventory()
	check.Error(t, m.servers[0].Client.Delete(t.Context(), d.cluster), "")
	check.Error(t, d.removeLeftovers(t.Context()), "")
	key := client.ObjectKey{Namespace: m.namespace, Name: "prod-ovirt-credentials"}
	check.Error(t, m.servers[0].Client.Get(t.Context(), key, &corev1.Secret{}), "")
}

// TestTwoCommandsThatAddEnginesToASecretLoseNone has another terminal add the URL of its engine to the Secret. It does
// so between the read and the write of the first command.
func TestTwoCommandsThatAddEnginesToASecretLoseNone(t *testing.T) {
	m := newMoving(t)
	m.ours()
	key := client.ObjectKey{Namespace: m.namespace, Name: "prod-ovirt-credentials"}
	add := sync.OnceFunc(func() {
		patch := client.RawPatch(types.MergePatchType,
			[]byte(`{"stringData":{"allowedServerURLs":"https://b/ovirt-engine"}}`))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		check.Error(t, m.servers[0].Client.Patch(t.Context(), secret, patch), "")
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := testsite.NewKubeconfig(t, m.servers[0].Config, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch {
				add()
			}

			next.ServeHTTP(w, r)
		})
	})
	check.Error(t, os.WriteFile(path, content, 0o600), "")
	in, err := newManagement(mgmtcluster.Options{Kubeconfig: path, Namespace: m.namespace}, mgmtcluster.DriverExisting)
	check.Error(t, err, "")
	check.Error(t, in.connect(t.Context()), "")

	c := &creation{management: in}
	c.File = clusterNamed("prod", "127.0.0.1", 1)
	c.File.Providers.OLVM.OvirtAPIServer.ServerURL = "https://a/ovirt-engine"
	o := &OLVM{}
	o.Engine.Username, o.Engine.Password = "admin@internal", "secret"
	check.Error(t, o.writeLogin(t.Context(), c, key, nil), "")

	secret := &corev1.Secret{}
	check.Error(t, in.Get(t.Context(), key, secret), "")
	check.Equal(t, "the engines", strings.Fields(string(secret.Data["allowedServerURLs"])), []string{
		"https://b/ovirt-engine", "https://a/ovirt-engine",
	})
}

// TestTheRestOfAMoveIsNotTakenForThatOfADeletion has a management cluster with the credentials of a cluster, and without
// its Cluster. A move that was interrupted there has the cluster at its other end.
func TestTheRestOfAMoveIsNotTakenForThatOfADeletion(t *testing.T) {
	for name, test := range map[string]struct {
		locked, noted bool
		problem       string
	}{
		"a move was interrupted":               {locked: true, problem: "run the same command again"},
		"a deletion was interrupted":           {noted: true},
		"a deletion was, with a lock that was": {locked: true, noted: true},
		"kubectl has deleted the Cluster":      {},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			m.ours()
			d, _ := deletionIn(t, m)
			check.Error(t, m.servers[0].Client.Delete(t.Context(), &clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod"},
			}), "")

			if test.noted {
				m.noted()
			}

			if test.locked {
				killed := newMoveLease(d.management.Cluster, m.namespace, "")
				check.Error(t, killed.acquireOrWatch(t.Context()), "")
				t.Cleanup(func() { killed.release(t.Context()) })
			}

			again := &deletion{DeleteOptions: d.DeleteOptions, management: m.open(0, &gate{})}
			check.Error(t, again.findCluster(t.Context()), "")
			check.Error(t, again.missing, test.problem)
			check.Equal(t, "Secrets that go", len(again.kept) > 0, test.problem == "")
		})
	}
}

// TestADeletionGoesOnFromAClusterThatIsGone has a cluster that managed itself. An earlier deletion has moved it out of
// itself and deleted it, and was interrupted before it removed the rest.
func TestADeletionGoesOnFromAClusterThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		silent, other, local bool
	}{
		"the other one is local":    {silent: true, local: true},
		"it answers":                {},
		"it answers no more":        {silent: true},
		"the rest is of another":    {other: true},
		"another, and it is silent": {silent: true, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			m := newMoving(t)
			m.ours()
			check.Error(t, m.servers[0].Client.Delete(t.Context(), &clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod"},
			}), "")

			own := m.open(1, &gate{}).options
			if test.silent {
				own.Kubeconfig = filepath.Join(t.TempDir(), "own")
				testenv.WriteKubeconfig(t, own.Kubeconfig, "https://127.0.0.1:2")
			}

			config, err := clientcmd.LoadFromFile(own.Kubeconfig)
			check.Error(t, err, "")

			noted := config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server
			if test.other {
				noted = "https://192.0.2.1:6443"
			}

			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "prod-ovirt-credentials"}}
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, reachedAnnotation, `{"server":"`+noted+`"}`)
			check.Error(t, m.servers[0].Client.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, patch)), "")

			o := DeleteOptions{Name: "prod", To: m.open(0, &gate{}).options}
			o.Management = mgmtcluster.Options{Kubeconfig: own.Kubeconfig, Namespace: m.namespace}
			o.Driver, o.Display = mgmtcluster.DriverExisting, progress.NewDisplay(&bytes.Buffer{})
			if test.local {
				localThatStopped(t)

				o.To = mgmtcluster.Options{}
			}

			d, err := newDeletion(o)
			check.Error(t, err, "")
			check.Equal(t, "the other one is local", d.to.isLocal, test.local)
			check.Error(t, d.findCluster(t.Context()), "")
			check.Set(t, "the cluster is missing", d.missing != nil)
			check.Equal(t, "it is looked for there", d.hasOtherEnd(), true)

			if test.local { // as after its start
				d.to = m.open(0, &gate{})
			}

			check.Error(t, d.findMoved(t.Context()), "")
			check.Equal(t, "still missing", d.missing != nil, test.other)
			check.Equal(t, "Secrets that go", len(d.kept), map[bool]int{false: 1}[test.other])
		})
	}
}
