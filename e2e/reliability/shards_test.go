package reliability

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// shard is a bench whose objects have a watch label, and whose manager handles only this label.
type shard struct {
	*bench
	label string
	args  []string
}

// newShard starts the manager of a shard. A standby has the same arguments.
func newShard(t *testing.T, label string, args ...string) *shard {
	t.Helper()
	s := &shard{
		label: label,
		bench: &bench{engine: &gate{name: engineCall}},
		args:  append([]string{"--watch-filter=" + label}, args...),
	}
	s.site = s.newSite(t, s.engine.wrap)
	s.manager = s.replica(t)

	return s
}

// newSite returns a site of the shard, with its own engine.
func (s *shard) newSite(t *testing.T, gate func(http.Handler) http.Handler) *testsite.Site {
	t.Helper()
	site := testsite.New(t, suite.API.Client, testsite.Options{
		Gate: gate,
		Change: func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			withoutGroups(c)
			c.Labels[clusterv1.WatchLabel] = s.label
		},
	})
	testsite.UpdateObject(site, site.Cluster, func(c *clusterv1.Cluster) { c.Labels[clusterv1.WatchLabel] = s.label })
	site.Label = map[string]string{clusterv1.WatchLabel: s.label}

	return site
}

// replica starts another manager for the shard.
func (s *shard) replica(t *testing.T) *manager {
	t.Helper()
	m := newManager(t, s.args...)
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return m
}

// machine creates a machine in the shard.
func (s *shard) machine(name string) *infrav1.OLVMMachine {
	return s.site.CreateMachine(name, nil)
}

// TestShardsAndStandbys runs two managers, each for the clusters with one label and each with a standby. Each manager
// must ignore clusters with the other label. A standby must replace a killed leader within the time of the lease. The
// managers must notice changed credentials, although Secrets have no label.
func TestShardsAndStandbys(t *testing.T) {
	testenv.SkipInShort(t, "runs four managers")
	t.Parallel()
	a, b := newShard(t, "shard-a", electing...), newShard(t, "shard-b", electing...)
	standby := a.replica(t)
	one, two := a.machine("one"), b.machine("two")
	a.expectReady(a.site, one)
	b.expectReady(b.site, two)

	b.Process.Kill()
	three, four := a.machine("three"), b.machine("four")
	a.expectReady(a.site, three)
	// Since then, the manager has seen many changes of its own machine. The same watch would also have shown it the
	// other machine.
	if err := b.site.Client.Get(t.Context(), client.ObjectKeyFromObject(four), four); err != nil {
		t.Fatal(err)
	}

	if len(four.Finalizers) != 0 || len(four.Status.Conditions) != 0 {
		t.Errorf("a machine of the other shard has finalizers %v and conditions %v", four.Finalizers,
			four.Status.Conditions)
	}

	b.manager = b.replica(t)
	b.expectReady(b.site, four)

	a.Process.Kill()
	five := a.machine("five")

	a.manager = standby
	wait.Until(t, "the standby leads", func() bool {
		return testsite.SumSeries(standby.ScrapeMetrics(t)["leader_election_master_status"]) > 0
	})

	a.expectReady(a.site, five)

	if err := a.site.Sim.SetPassword(a.site.Sim.Username(), "changed"); err != nil {
		t.Fatal(err)
	}

	if err := a.site.Sim.Inject(ovirtsim.Fault{Path: "^/api", Action: "expire-token", Count: 1}); err != nil {
		t.Fatal(err)
	}

	testsite.UpdateObject(a.site, &corev1.Secret{
		ObjectMeta: a.site.NewMeta("creds"),
	}, func(s *corev1.Secret) { s.Data["password"] = []byte("changed") })
	six := a.machine("six")
	a.expectReady(a.site, six)

	for _, m := range []*infrav1.OLVMMachine{one, three, five, six} {
		a.site.Delete(m)
	}

	for _, m := range []*infrav1.OLVMMachine{two, four} {
		b.site.Delete(m)
	}

	for _, m := range []*infrav1.OLVMMachine{one, three, five, six} {
		a.site.ExpectGone(m)
	}

	for _, m := range []*infrav1.OLVMMachine{two, four} {
		b.site.ExpectGone(m)
	}

	a.expectNone(a.site)
	b.expectNone(b.site)
}
