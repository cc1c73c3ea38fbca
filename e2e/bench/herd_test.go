package bench

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// fleetEngine is an engine that counts its requests.
type fleetEngine struct {
	sim *ovirtsim.Server
	// ids are the IDs of the components of machines, by kind and name.
	ids         map[string]string
	calls, sent atomic.Int64
	// kibs are the KiB of answers by request. They show where traffic comes from.
	mu   sync.Mutex
	kibs map[string]float64
}

// gate counts the requests and the bytes of their answers.
func (e *fleetEngine) gate(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counting := &countingWriter{ResponseWriter: w}
		engine.ServeHTTP(counting, r)
		e.calls.Add(1)
		e.sent.Add(counting.count)

		e.mu.Lock()
		defer e.mu.Unlock()
		search, _, _ := strings.Cut(r.URL.Query().Get("search"), "=")
		e.kibs[r.Method+" "+r.URL.Path+" "+search] += float64(counting.count) / 1024
	})
}

type countingWriter struct {
	http.ResponseWriter
	count int64
}

func (w *countingWriter) Write(content []byte) (int, error) {
	w.count += int64(len(content))

	return w.ResponseWriter.Write(content)
}

// forget forgets the counted requests.
func (e *fleetEngine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.kibs)
}

// log logs the requests with the largest answers.
func (e *fleetEngine) log(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()

	names := slices.SortedFunc(maps.Keys(e.kibs), func(a, b string) int { return cmp.Compare(e.kibs[b], e.kibs[a]) })
	for _, name := range names[:min(len(names), 5)] {
		t.Logf("%8.0f KiB for %s", e.kibs[name], name)
	}
}

// specimen is the machine from which all others are copied.
type specimen struct {
	*stage
	cluster   *infrav1.OLVMCluster
	machine   *clusterv1.Machine
	olvm      *infrav1.OLVMMachine
	bootstrap *corev1.Secret
	state     *corev1.Secret
	// document is the machine's state. files are the applied configuration.
	document []byte
	files    render.Files
	// ids are in the form of those of a fleetEngine.
	ids map[string]string
}

// specimenName occurs nowhere else in the copied texts.
const specimenName = "specimen-machine"

// makeSpecimen lets a manager create a machine with its node.
func makeSpecimen(t *testing.T, s *stage) *specimen {
	t.Helper()
	out := &specimen{stage: s, olvm: s.site.CreateMachine(specimenName, bySubnet)}
	s.site.ExpectProvisioned(out.olvm)
	s.quiet(t)

	out.machine = &clusterv1.Machine{ObjectMeta: s.site.NewMeta(specimenName)}
	get(t, out.machine)

	out.machine.Status.NodeRef.Name = specimenName
	for _, name := range []string{"Available", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "NodeReady",
		"Ready", "UpToDate", "Deleting", "Paused"} {
		out.machine.Status.Conditions = append(out.machine.Status.Conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionTrue, Reason: "AsClusterAPIHasIt", LastTransitionTime: metav1.Now(),
		})
	}

	s.site.UpdateStatus(out.machine)
	s.site.ExpectCondition(out.olvm, infrav1.UserDataRemovedCondition, "True/"+infrav1.UserDataRemovedReason)
	time.Sleep(time.Second) // until the status is written
	get(t, out.olvm)
	get(t, out.machine)
	out.cluster = &infrav1.OLVMCluster{ObjectMeta: s.site.NewMeta("demo")}
	get(t, out.cluster)

	out.bootstrap = &corev1.Secret{ObjectMeta: s.site.NewMeta(specimenName + "-bootstrap")}
	get(t, out.bootstrap)
	out.state = &corev1.Secret{ObjectMeta: s.site.NewMeta(tfstate.SecretName(out.olvm))}
	get(t, out.state)
	out.document = unpack(t, out.state.Data["tfstate"])

	folder := filepath.Join(s.manager.WorkDir(), s.site.Namespace, specimenName+"-"+string(out.olvm.UID))
	out.files = readFiles(t, folder)
	if got, want := out.files.Digest(), out.state.Annotations[tfstate.DigestAnnotation]; got != want {
		t.Fatalf("the configuration in %s has the digest %s, and %s was applied", folder, got, want)
	}

	out.ids = idsOf(t, s.site)

	return out
}

// idsOf returns the IDs of the components of machines, because these differ between engines.
func idsOf(t *testing.T, site *testsite.Site) map[string]string {
	t.Helper()
	session := site.NewSession()
	center, err := session.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	clusters, err := session.ListClusters(t.Context(), center)
	if err != nil {
		t.Fatal(err)
	}

	templates, err := session.ListTemplates(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	profiles, err := session.ListNetworkProfiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	out := map[string]string{}
	for i := range clusters {
		out["cluster "+clusters[i].Name] = clusters[i].ID.String()
	}

	for i := range templates {
		out["template "+templates[i].Name] = templates[i].ID.String()
	}

	for network, list := range profiles {
		for i := range list {
			out["network of "+list[i].Name] = network.String()
			out["profile "+list[i].Name] = list[i].ID.String()
		}
	}

	return out
}

func get(t *testing.T, object client.Object) {
	t.Helper()
	if err := suite.API.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// readFiles reads a working directory.
func readFiles(t *testing.T, folder string) render.Files {
	t.Helper()
	out := render.Files{}

	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}

		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}

		out[filepath.ToSlash(name)], err = os.ReadFile(path)

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return out
}

func unpack(t *testing.T, packed []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}

	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}

	return content
}

func pack(content []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}

	if err := writer.Close(); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// vmID returns the specimen's VM ID.
func (s *specimen) vmID() string { return strings.TrimPrefix(s.olvm.Spec.ProviderID, "olvm://") }

// address returns the specimen's address.
func (s *specimen) address(t *testing.T) string {
	t.Helper()

	for _, a := range s.olvm.Status.Addresses {
		if strings.HasPrefix(a.Address, "10.16.") {
			return a.Address
		}
	}

	t.Fatalf("the machine has no address of its subnet: %+v", s.olvm.Status.Addresses)

	return ""
}

// herd is the set of all copies: clusters in separate namespaces, with machines.
type herd struct {
	specimen *specimen
	client   client.Client
	engines  []*fleetEngine
	clusters []*herdCluster
	address  string
}

type herdCluster struct {
	namespace string
	cluster   *clusterv1.Cluster
	engine    int
	machines  []*herdMachine
}

type herdMachine struct {
	name, address, vmID string
	olvm                *infrav1.OLVMMachine
}

// newHerd creates those objects whose UIDs the engines must know.
func newHerd(t *testing.T, s *specimen, machines, clusters, engines int) *herd {
	t.Helper()
	config := rest.CopyConfig(suite.API.Config)
	config.QPS = -1
	fast, err := client.New(config, client.Options{Scheme: suite.API.Scheme})
	if err != nil {
		t.Fatal(err)
	}

	h := &herd{specimen: s, client: fast, address: s.address(t)}
	for range engines {
		h.engines = append(h.engines, &fleetEngine{kibs: map[string]float64{}})
	}

	for i := range clusters {
		c := &herdCluster{namespace: fmt.Sprintf("herd-%d", i), engine: i % engines}
		for j := range machines / clusters {
			c.machines = append(c.machines, &herdMachine{
				name:    fmt.Sprintf("worker-%d-%d", i, j),
				address: fmt.Sprintf("10.16.%d.%d", 1+j/250, 1+j%250),
				vmID:    uuid.NewString(),
			})
		}

		h.clusters = append(h.clusters, c)
	}

	h.each(t, h.writeCluster)
	h.each(t, h.writeMachines)

	return h
}

// each calls a function for all clusters, for a few of them in parallel.
func (h *herd) each(t *testing.T, do func(context.Context, *herdCluster) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)

	for _, c := range h.clusters {
		group.Go(func() error { return do(ctx, c) })
	}

	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// create creates an object. If status is not nil, it then writes the status that this function sets.
func (h *herd) create(ctx context.Context, object client.Object, status func()) error {
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	object.SetGeneration(0)
	if err := h.client.Create(ctx, object); err != nil {
		return err
	}

	if status == nil {
		return nil
	}

	status()

	return h.client.Status().Update(ctx, object)
}

func (h *herd) writeCluster(ctx context.Context, c *herdCluster) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if err := h.client.Create(ctx, namespace); err != nil {
		return err
	}

	c.cluster = h.specimen.site.Cluster.DeepCopy()
	c.cluster.Namespace = c.namespace

	return h.create(ctx, c.cluster, func() {
		c.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	})
}

// writeMachines writes the objects of the machines to the API server, except their states.
func (h *herd) writeMachines(ctx context.Context, c *herdCluster) error {
	for _, m := range c.machines {
		secret := h.specimen.bootstrap.DeepCopy()
		secret.Namespace, secret.Name = c.namespace, m.name+"-bootstrap"
		if err := h.create(ctx, secret, nil); err != nil {
			return err
		}

		owner := h.specimen.machine.DeepCopy()
		status := owner.Status
		status.NodeRef.Name = m.name
		owner.Namespace, owner.Name = c.namespace, m.name
		owner.OwnerReferences[0].UID = c.cluster.UID
		owner.Spec.Bootstrap.DataSecretName = ptr.To(secret.Name)
		owner.Spec.InfrastructureRef.Name = m.name
		if err := h.create(ctx, owner, func() { owner.Status = status }); err != nil {
			return err
		}

		if err := h.writeOLVMMachine(ctx, c, m, owner); err != nil {
			return err
		}
	}

	return nil
}

// copied returns the specimen's OLVMMachine as that of a copy, with everything known about the copy so far.
func (h *herd) copied(c *herdCluster, m *herdMachine) (*infrav1.OLVMMachine, error) {
	text, err := yaml.Marshal(h.specimen.olvm)
	if err != nil {
		return nil, err
	}

	out := &infrav1.OLVMMachine{}
	err = yaml.Unmarshal(h.replacer(c, m).bytes(text), out)

	return out, err
}

func (h *herd) writeOLVMMachine(
	ctx context.Context, c *herdCluster, m *herdMachine, owner *clusterv1.Machine,
) error {
	object, err := h.copied(c, m)
	if err != nil {
		return err
	}

	object.OwnerReferences[0].UID = owner.UID
	err = h.create(ctx, object, nil)
	m.olvm = object

	return err
}

// writeStatus writes the status that the manager would write, including the observed generation.
func (h *herd) writeStatus(ctx context.Context, c *herdCluster, m *herdMachine) error {
	like, err := h.copied(c, m)
	if err != nil {
		return err
	}

	m.olvm.Status = like.Status
	for i := range m.olvm.Status.Conditions {
		m.olvm.Status.Conditions[i].ObservedGeneration = m.olvm.Generation
	}

	return h.client.Status().Update(ctx, m.olvm)
}

type replacer struct{ *strings.Replacer }

func (r replacer) bytes(text []byte) []byte { return []byte(r.Replace(string(text))) }

// replacer returns a replacer that turns texts about the specimen into texts about a copy.
func (h *herd) replacer(c *herdCluster, m *herdMachine) replacer {
	s := h.specimen
	pairs := []string{
		specimenName, m.name,
		s.vmID(), m.vmID,
		s.site.Namespace, c.namespace,
		h.address, m.address,
	}
	if m.olvm != nil {
		pairs = append(pairs, string(s.olvm.UID), string(m.olvm.UID))
	}

	if e := h.engines[c.engine]; e.sim != nil {
		pairs = append(pairs, s.site.Sim.URL(), e.sim.URL())

		for name, id := range s.ids {
			pairs = append(pairs, id, e.ids[name])
		}
	}

	return replacer{strings.NewReplacer(pairs...)}
}

// onlyHost removes all hosts of a data center except that of the specimen, because a machine's status contains the
// host's name.
func (h *herd) onlyHost(center *ovirtsim.DataCenter) {
	for i := range center.Clusters {
		center.Clusters[i].Hosts = slices.DeleteFunc(center.Clusters[i].Hosts, func(host ovirtsim.Host) bool {
			return host.Name != h.specimen.olvm.Status.OLVM.VirtualMachine.HostName
		})
	}
}

// startEngines starts the engines with the VMs of the machines, and with the given number of foreign VMs on the first
// engine.
func (h *herd) startEngines(t *testing.T, others int) {
	t.Helper()

	for i, e := range h.engines {
		inventory := spacious()
		center := &inventory.DataCenters[0]
		h.onlyHost(center)
		vm := func(name, id, comment string) {
			center.VMs = append(center.VMs, ovirtsim.VM{
				Name: name, ID: id, Comment: comment, Up: true, Cluster: "Default", Template: "ol9-k8s", Memory: 4 << 30,
			})
		}

		for _, c := range h.clusters {
			if c.engine != i {
				continue
			}

			for _, m := range c.machines {
				owner := ownermark.Owner{Namespace: c.namespace, Name: m.name, UID: string(m.olvm.UID)}
				vm(m.name, m.vmID, owner.Comment())
			}
		}

		for j := range others {
			vm(fmt.Sprintf("other-%d", j), "", "")
		}

		others = 0
		var err error
		if e.sim, err = ovirtsim.New(ovirtsim.Options{Inventory: inventory, Gate: e.gate}); err != nil {
			t.Fatal(err)
		}

		t.Cleanup(e.sim.Close)
		site := *h.specimen.site
		site.Sim = e.sim
		e.ids = idsOf(t, &site)
	}
}

// connect writes the objects that the manager still needs: states, and OLVMClusters with the connections to the
// engines.
func (h *herd) connect(ctx context.Context, c *herdCluster) error {
	for _, m := range c.machines {
		if err := h.writeState(ctx, c, m); err != nil {
			return err
		}

		if err := h.writeStatus(ctx, c, m); err != nil {
			return err
		}
	}

	sim := h.engines[c.engine].sim
	meta := metav1.ObjectMeta{Namespace: c.namespace, Labels: maps.Clone(c.cluster.Labels)}
	named := func(name string) metav1.ObjectMeta {
		out := *meta.DeepCopy()
		out.Name = name

		return out
	}

	olvm := h.specimen.cluster.DeepCopy()
	olvm.Namespace = c.namespace
	olvm.Spec.OLVMOvirtAPIServer.ServerURL = sim.URL()
	olvm.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: c.cluster.Name, UID: c.cluster.UID,
	}}

	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: named("creds"), StringData: map[string]string{
			"username":                   sim.Username(),
			"password":                   sim.Password(),
			infrav1.AllowedServerURLsKey: sim.URL(),
		}},
		&corev1.ConfigMap{ObjectMeta: named("ca"), Data: map[string]string{"ca.crt": string(sim.CA())}},
	} {
		if err := h.client.Create(ctx, object); err != nil {
			return err
		}
	}

	return h.create(ctx, olvm, func() { olvm.Status = h.specimen.cluster.Status })
}

func (h *herd) writeState(ctx context.Context, c *herdCluster, m *herdMachine) error {
	replace := h.replacer(c, m)

	files := render.Files{}
	for name, content := range h.specimen.files {
		files[name] = replace.bytes(content)
	}

	packed, err := pack(replace.bytes(h.specimen.document))
	if err != nil {
		return err
	}

	state := h.specimen.state.DeepCopy()
	state.Namespace, state.Name = c.namespace, tfstate.SecretName(m.olvm)
	state.Labels["tfstateSecretSuffix"] = m.name
	state.Annotations[tfstate.DigestAnnotation] = files.Digest()
	state.OwnerReferences[0].Name, state.OwnerReferences[0].UID = m.name, m.olvm.UID
	state.Data = map[string][]byte{"tfstate": packed}

	return h.create(ctx, state, nil)
}
