package specs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// These constants are the Kubernetes versions of the engine's images.
const (
	kubernetesVersion = "v1.36.1"
	olderKubernetes   = "v1.35.4"
	// vmTemplate is the template with the version of the machine.
	vmTemplate = "ol9-k8s-${KUBERNETES_VERSION}"
)

const (
	credentialsSecret = "ovirt-credentials" //nolint:gosec // a name
	caConfigMap       = "ovirt-ca"
)

// shared is the description of the plane that the first process passes to the others.
type shared struct {
	// Dir contains all written files. Artifacts is the folder for the specs.
	Dir, Artifacts   string
	Kubeconfig       string
	ClusterctlConfig string
	Engine           ovirtsim.Connection
	EngineCA         []byte
}

var (
	// plane is set only in the first process.
	plane *simplane.Plane
	// suite is set in all processes.
	suite      shared
	management framework.ClusterProxy
	e2eConfig  *clusterctl.E2EConfig
)

func TestSpecs(t *testing.T) {
	testenv.SkipInShort(t, "runs the specs of Cluster API (make test-specs)")
	ctrl.SetLogger(logr.Discard())
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "specs of Cluster API")
}

var _ = ginkgo.SynchronizedBeforeSuite(func(ctx context.Context) []byte {
	suite = start(ctx)
	content, err := json.Marshal(suite)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())

	return content
}, func(content []byte) {
	gomega.Expect(json.Unmarshal(content, &suite)).To(gomega.Succeed())

	// For each cluster, the framework leaves a kubeconfig in this folder.
	temporary := filepath.Join(suite.Dir, "tmp")
	gomega.Expect(os.MkdirAll(temporary, 0o700)).To(gomega.Succeed())
	gomega.Expect(os.Setenv("TMPDIR", temporary)).To(gomega.Succeed())
	management = framework.NewClusterProxy("management", suite.Kubeconfig, scheme())
	e2eConfig = config()
})

var _ = ginkgo.SynchronizedAfterSuite(func() {}, func(ctx context.Context) {
	if plane == nil {
		return
	}

	// No process may be left, even if a check below fails.
	defer plane.Stop()
	gomega.Expect(plane.Failed()).To(gomega.Succeed())
	expectNothingLeft(ctx)
})

// Only the evidence of failures is kept.
var _ = ginkgo.ReportAfterSuite("folder", func(report ginkgo.Report) {
	if report.SuiteSucceeded && suite.Dir != "" {
		gomega.Expect(os.RemoveAll(suite.Dir)).To(gomega.Succeed())
	}
})

// start runs a management plane, and configures clusterctl for it.
func start(ctx context.Context) shared {
	tools, err := toolchain.New()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	dir := filepath.Join(toolchain.CacheDir(), "e2e-specs", time.Now().Format("20060102-150405"))
	out := shared{Dir: dir, Artifacts: filepath.Join(dir, "artifacts")}
	bin := filepath.Join(dir, "bin")
	gomega.Expect(tools.BuildProject(ctx, bin, "manager", "ovirtsim")).To(gomega.Succeed())
	inventory := inventory()
	plane, err = simplane.Start(ctx, simplane.Options{
		Options: localplane.Options{
			Tools: tools, Dir: dir, BinDir: bin,
			// Two specs look for taints on Nodes.
			FeatureGates: []string{"MachineTaintPropagation"},
			Progress:     func(format string, args ...any) { fmt.Printf("specs: "+format+"\n", args...) },
		},
		SimSpeed: 5, Inventory: &inventory,
	})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	fmt.Printf("specs: the logs of all processes are in %s\n", dir)
	out.Kubeconfig, out.Engine, out.EngineCA = plane.Kubeconfig, plane.Engine, plane.EngineCA
	out.ClusterctlConfig = writeRepository(tools.Root(), filepath.Join(dir, "repository"))
	recordProviders(ctx, out)

	return out
}

// inventory returns the simulator's own inventory with an image for each version of Kubernetes, and hosts for many
// clusters.
func inventory() ovirtsim.Inventory {
	out := ovirtsim.DefaultInventory()
	dc := &out.DataCenters[0]

	image := dc.Templates[0]
	for _, version := range []string{kubernetesVersion, olderKubernetes} {
		image.Kubernetes, image.Name = version, strings.Replace(vmTemplate, "${KUBERNETES_VERSION}", version, 1)
		dc.Templates = append(dc.Templates, image)
	}

	for i := 4; i <= 8; i++ {
		dc.Clusters[0].Hosts = append(dc.Clusters[0].Hosts, ovirtsim.Host{Name: fmt.Sprintf("host-%d", i)})
	}

	return out
}

func scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	gomega.Expect(api.AddToScheme(scheme)).To(gomega.Succeed())

	return scheme
}

// limit is the time limit of each wait. It ends hanging specs, but not slow ones.
const limit = "15m"

// config returns the versions, and the timeouts and intervals for the waits of specs.
func config() *clusterctl.E2EConfig {
	return &clusterctl.E2EConfig{
		ManagementClusterName: "management",
		Variables: map[string]string{
			"KUBERNETES_VERSION":              kubernetesVersion,
			"KUBERNETES_VERSION_UPGRADE_FROM": olderKubernetes,
			"KUBERNETES_VERSION_UPGRADE_TO":   kubernetesVersion,
		},
		Intervals: map[string][]string{
			"default/wait-cluster":                         {limit, "1s"},
			"default/wait-control-plane":                   {limit, "1s"},
			"default/wait-worker-nodes":                    {limit, "1s"},
			"default/wait-delete-cluster":                  {limit, "1s"},
			"default/wait-machine-upgrade":                 {limit, "2s"},
			"default/wait-control-plane-upgrade":           {limit, "2s"},
			"default/wait-machine-deployment-upgrade":      {limit, "2s"},
			"default/wait-machine-remediation":             {limit, "1s"},
			"default/wait-nodes-ready":                     {limit, "1s"},
			"default/wait-resource-versions-become-stable": {limit, "5s"},
			"default/wait-resource-versions-remain-stable": {"1m", "5s"},
		},
	}
}

// credentials creates the objects to which the templates refer, in a namespace. The specs call it as a hook.
func credentials(proxy framework.ClusterProxy, namespace string) {
	ctx := context.Background()
	gomega.Expect(proxy.GetClient().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: credentialsSecret},
		StringData: map[string]string{
			"username":          suite.Engine.Username,
			"password":          suite.Engine.Password,
			"scope":             "ovirt-app-api",
			"allowedServerURLs": suite.Engine.URL,
		},
	})).To(gomega.Succeed())
	gomega.Expect(proxy.GetClient().Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: caConfigMap},
		Data:       map[string]string{"ca.crt": string(suite.EngineCA)},
	})).To(gomega.Succeed())
}

// expectNothingLeft verifies that nothing of deleted clusters is left.
func expectNothingLeft(ctx context.Context) {
	summary, err := summary(ctx)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(summary.VMs).To(gomega.BeZero(), "VMs in the engine")
	gomega.Expect(summary.Disks).To(gomega.BeZero(), "disks in the engine")
	gomega.Expect(summary.AffinityGroups).To(gomega.BeZero(), "affinity groups in the engine")
	var states corev1.SecretList
	gomega.Expect(plane.Client.List(ctx, &states, client.MatchingLabels{"tfstate": "true"})).To(gomega.Succeed())
	gomega.Expect(states.Items).To(gomega.BeEmpty(), "Terraform states")
	left, err := filepath.Glob(filepath.Join(plane.WorkDir, "[^.]*", "*")) // .init belongs to the executor
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(left).To(gomega.BeEmpty(), "working directories of Terraform")
}

// summary returns the numbers of the engine's objects.
func summary(ctx context.Context) (out ovirtsim.Summary, err error) {
	err = plane.CallControl(ctx, http.MethodGet, "/summary", nil, &out)
	return out, err
}
