package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

var (
	chaosFor  = flag.Duration("chaos", 4*time.Minute, "how long TestChaos makes trouble")
	chaosSeed = flag.Uint64("seed", 0, "seed of TestChaos; 0 takes one from the clock")
)

// versions are the Kubernetes versions of the engine's images.
var versions = []string{"v1.36.1", "v1.36.2"}

// inventory returns the simulator's own inventory, with an image for each version.
func inventory() *ovirtsim.Inventory {
	out := ovirtsim.DefaultInventory()

	dc := &out.DataCenters[0]
	for _, version := range versions {
		image := dc.Templates[0]
		image.Name, image.Kubernetes = "ol9-k8s-"+version, version
		dc.Templates = append(dc.Templates, image)
	}

	for i, label := range []string{"rack-a", "rack-b", "rack-c"} {
		dc.Clusters[0].Hosts[i].AffinityLabels = []string{label}
	}

	dc.Networks = append(dc.Networks, ovirtsim.Network{
		Name:         "leased",
		VNICProfiles: []string{"leased"},
		DHCP:         &ovirtsim.DHCP{First: "127.20.80.10", Last: "127.20.80.99", Bits: 24, Gateway: "127.20.80.1"},
	})

	return &out
}

// control calls the simulator's control API. The call must succeed.
func control(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := suite.plane.CallControl(context.Background(), method, path, in, out); err != nil {
		t.Fatal(err)
	}
}

// trouble is a disturbance at a given time.
type trouble struct {
	at   time.Duration
	what string
	do   func(t *testing.T)
}

// wanted is a cluster with the machines that it should have in the end.
type wanted struct {
	*workload
	controlPlanes, workers int32
	version                int // index in the variable versions
	upgrades               int
}

// scheduled chooses the disturbances of a run at random. The same seed results in the same disturbances.
func scheduled(random *rand.Rand, clusters []*wanted, during time.Duration) []trouble {
	var out []trouble

	for at := time.Duration(0); ; {
		at += time.Duration(1000+random.IntN(5000)) * time.Millisecond
		if at >= during {
			return out
		}

		w := clusters[random.IntN(len(clusters))]
		next := trouble{at: at}

		switch dice := random.IntN(100); {
		case dice < 40:
			fault := randomFault(random)
			text, _ := json.Marshal(fault)
			next.what = "inject " + string(text)
			next.do = func(t *testing.T) { control(t, "POST", "/faults", fault, nil) }
		case dice < 55:
			next.what, next.do = "kill Terraform and the provider", func(*testing.T) { suite.plane.Manager.KillChildren() }
		case dice < 65:
			next.what, next.do = "kill the manager", func(t *testing.T) {
				suite.plane.Manager.Kill()
				startManager(t)
			}
		case dice < 70:
			next.what, next.do = "restart the manager", func(t *testing.T) {
				suite.plane.Manager.Stop(time.Minute)
				startManager(t)
			}
		case dice < 85:
			n := int32(random.IntN(5)) //nolint:gosec // small
			w.workers = n
			next.what = fmt.Sprintf("scale the workers of %s to %d", w.name, n)
			next.do = func(*testing.T) {
				w.write(func(_ *controlplanev1.KubeadmControlPlane, md *clusterv1.MachineDeployment) {
					md.Spec.Replicas = &n
				})
			}
		case dice < 90:
			w.controlPlanes = 4 - w.controlPlanes // alternates between 1 and 3
			n := w.controlPlanes
			next.what = fmt.Sprintf("scale the control plane of %s to %d", w.name, n)
			next.do = func(*testing.T) {
				w.write(func(kcp *controlplanev1.KubeadmControlPlane, _ *clusterv1.MachineDeployment) {
					kcp.Spec.Replicas = &n
				})
			}
		case dice < 95 && w.upgrades < len(versions)-1:
			w.upgrades++
			w.version++
			version := versions[w.version]
			next.what, next.do = fmt.Sprintf("upgrade %s to %s", w.name, version), func(*testing.T) {
				w.write(func(kcp *controlplanev1.KubeadmControlPlane, md *clusterv1.MachineDeployment) {
					kcp.Spec.Version, md.Spec.Template.Spec.Version = version, version
				})
			}
		default:
			next.what, next.do = "delete a worker of "+w.name, func(*testing.T) { w.deleteAWorker() }
		}

		out = append(out, next)
	}
}

// randomFault returns a fault that affects a few requests.
func randomFault(random *rand.Rand) ovirtsim.Fault {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	method, path, _ := strings.Cut(pick(
		" ^/api", "GET ^/api", "POST ^/api", "GET ^/api/vms$", "POST /vms$", "POST /nics$", "GET /nics",
		"GET /diskattachments", "POST /start$", "POST /stop$", "GET ^/api/vms/", "DELETE ^/api/vms/",
		"PUT ^/api/vms/", "POST /affinitygroups", "POST ^/sso",
	), " ")

	fault := ovirtsim.Fault{Method: method, Path: path, Nth: 1 + random.IntN(3), Count: 1 + random.IntN(4)}
	switch random.IntN(7) {
	case 0:
		fault.Status = 503
	case 1:
		fault.Status = 409
		fault.Reason = "Operation Failed"
		fault.Detail = "[Cannot do that. Related operation is currently in progress. Please try again later.]"
	case 2:
		fault.Action = "cut-before"
	case 3:
		fault.Action = "cut-after"
	case 4:
		fault.Action = "malformed"
	case 5:
		fault.Action, fault.Path = "expire-token", "^/api"
	default:
		fault.DelayMillis, fault.Count = 500+random.IntN(3000), 10
	}

	return fault
}

func startManager(t *testing.T) {
	if err := suite.plane.StartManager(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// deleteAWorker deletes the oldest worker Machine, if there is one.
func (w *workload) deleteAWorker() {
	w.t.Helper()
	ctx := context.Background()
	var machines clusterv1.MachineList
	if err := w.plane.Client.List(ctx, &machines, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}

	var oldest *clusterv1.Machine

	for i := range machines.Items {
		m := &machines.Items[i]
		_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		if controlPlane || !m.DeletionTimestamp.IsZero() {
			continue
		}

		if oldest == nil || m.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = m
		}
	}

	if oldest != nil {
		if err := w.plane.Client.Delete(ctx, oldest); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
	}
}

// TestChaos disturbs clusters for a limited time while they scale and upgrade. Then it verifies that each cluster
// fulfils its last request, and that the engine contains exactly the VMs of the clusters. Only the seed determines the
// disturbances.
func TestChaos(t *testing.T) {
	testenv.SkipInShort(t, "makes trouble for minutes")

	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000 //nolint:gosec // positive
	}

	t.Logf("to replay: make test-chaos CHAOS=%s SEED=%d", *chaosFor, seed)
	var clusters []*wanted

	for i, name := range []string{"chaos-a", "chaos-b"} {
		w := newChangedWorkload(t, name, 60+i, func(objects []*unstructured.Unstructured) error {
			for _, o := range objects {
				if o.GetKind() != "OLVMMachineTemplate" {
					continue
				}

				spec := []string{"spec", "template", "spec"}
				err := errors.Join(
					unstructured.SetNestedField(
						o.Object,
						"ol9-k8s-${KUBERNETES_VERSION}",
						append(spec, "vmTemplateName")...),
					unstructured.SetNestedField(o.Object, "2GB", append(spec, "virtualMachine", "memory")...),
				)
				if err != nil {
					return err
				}
			}

			return nil
		})
		clusters = append(clusters, &wanted{workload: w, controlPlanes: 1, workers: 2})
	}

	plan := scheduled(rand.New(rand.NewPCG(seed, 0)), clusters, *chaosFor) //nolint:gosec // repeatable

	begin := time.Now()
	for _, next := range plan {
		if wait := next.at - time.Since(begin); wait > 0 {
			time.Sleep(wait)
		}

		t.Logf("%5.1f s (drawn for %.1f s): %s", time.Since(begin).Seconds(), next.at.Seconds(), next.what)
		next.do(t)
	}

	var faults []ovirtsim.Fault
	control(t, "GET", "/faults", nil, &faults)

	hits := 0
	for _, fault := range faults {
		hits += fault.Hits
	}

	if hits == 0 {
		t.Errorf("none of %d faults hit anything", len(faults))
	}

	control(t, "DELETE", "/faults", nil, nil)
	t.Logf("%5.1f s: the trouble is over; %d faults hit %d requests", time.Since(begin).Seconds(), len(faults), hits)

	for _, w := range clusters {
		w.expectConverged()
	}

	t.Logf("%5.1f s: all clusters are as they should be", time.Since(begin).Seconds())
	expectExactly(t, clusters)

	for _, w := range clusters {
		w.delete()
	}

	var left ovirtsim.Summary
	control(t, "GET", "/summary", nil, &left)
	if left.VMs+left.NICs+left.Disks+left.AffinityGroups != 0 {
		t.Errorf("left in the engine: %+v", left)
	}
}

// expectConverged waits until the cluster has the number of machines and the version that were requested last.
func (w *wanted) expectConverged() {
	w.t.Helper()
	w.eventually(
		fmt.Sprintf("%s has %d+%d machines of %s", w.name, w.controlPlanes, w.workers, versions[w.version]),
		func() error {
			var machines clusterv1.MachineList
			if err := w.plane.Client.List(
				context.Background(), &machines, client.InNamespace(w.namespace),
			); err != nil {
				return err
			}

			if n := int(w.controlPlanes + w.workers); len(machines.Items) != n {
				return fmt.Errorf("%d machines, want %d", len(machines.Items), n)
			}

			for _, m := range machines.Items {
				if m.Spec.Version != versions[w.version] || !m.DeletionTimestamp.IsZero() {
					return fmt.Errorf("Machine %s has version %s, deleted at %v", m.Name, m.Spec.Version,
						m.DeletionTimestamp) //nolint:staticcheck // a kind
				}
			}

			return nil
		},
	)
	w.expectMachines(int(w.controlPlanes), int(w.workers))
}

// expectExactly verifies that the engine, the states and the disk contain exactly the clusters' machines.
func expectExactly(t *testing.T, clusters []*wanted) {
	t.Helper()
	ctx := context.Background()

	vms := 0
	for _, w := range clusters {
		vms += len(w.vms())
		var machines infrav1.OLVMMachineList
		if err := suite.plane.Client.List(ctx, &machines, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}

		store := &tfstate.Store{Client: suite.plane.Client, Reader: suite.plane.Client}

		for i := range machines.Items {
			m := &machines.Items[i]
			state, err := store.Load(ctx, m)
			check.Error(t, err, "")
			check.Equal(t, `"olvm://"+state.ResourceID("ovirt_vm")`, "olvm://"+state.ResourceID("ovirt_vm"), m.Spec.ProviderID)
			check.Set(t, "state.AppliedDigest", state.AppliedDigest)
		}

		var secrets corev1.SecretList
		err := suite.plane.Client.List(ctx, &secrets, client.InNamespace(w.namespace), client.MatchingLabels{
			"tfstate": "true",
		})
		if err != nil {
			t.Fatal(err)
		}

		if len(secrets.Items) != len(machines.Items)+1 { // and one for the cluster's affinity groups
			t.Errorf("%s: %d states for %d machines", w.name, len(secrets.Items), len(machines.Items))
		}

		folders, err := filepath.Glob(filepath.Join(suite.plane.WorkDir, w.namespace, "*"))
		if err != nil {
			t.Fatal(err)
		}

		for _, folder := range folders {
			known := strings.HasPrefix(filepath.Base(folder), "olvmcluster.")
			for _, m := range machines.Items {
				known = known || filepath.Base(folder) == m.Name+"-"+string(m.UID)
			}

			if !known {
				t.Errorf("working directory %s belongs to no machine", folder)
			}
		}
	}

	var there ovirtsim.Summary
	control(t, "GET", "/summary", nil, &there)
	check.Equal(t, "there.VMs", there.VMs, vms)
	check.Equal(t, "there.NICs", there.NICs, vms)
	check.Equal(t, "there.Disks", there.Disks, vms)

	eventuallyQuiet(t)
}

// eventuallyQuiet waits until no Terraform runs.
func eventuallyQuiet(t *testing.T) {
	t.Helper()

	wait.For(t, "no Terraform runs", func() error {
		if children := suite.plane.Manager.ListChildren(); len(children) > 0 {
			return fmt.Errorf("processes %v run", children)
		}

		return nil
	})
}
