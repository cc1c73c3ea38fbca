package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// plane is a management cluster with a kube-apiserver and without controllers.
type plane struct {
	*site
	api        *testsite.APIServer
	kubeconfig string
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	testenv.SkipInShort(t, "starts a kube-apiserver")
	testenv.EmptyState(t)
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	api, err := testsite.StartAPIServer(t.Context(), testenv.Toolchain(t))
	t.Cleanup(api.Stop)
	check.Error(t, err, "")

	p := &plane{site: &site{t: t}, api: api, kubeconfig: filepath.Join(t.TempDir(), "management.kubeconfig")}
	check.Error(t, os.WriteFile(p.kubeconfig, api.Env.KubeConfig, 0o600), "")

	return p
}

// cluster creates a Cluster with a Machine in a namespace.
func (p *plane) cluster(namespace, name string) {
	p.t.Helper()
	ctx := p.t.Context()
	_ = p.api.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	infra := clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "OLVMCluster", Name: name,
	}
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"stage": name}},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: infra},
	}
	check.Error(p.t, p.api.Client.Create(ctx, cluster), "")

	infra.Kind = "OLVMMachine"
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-0", Labels: map[string]string{
			clusterv1.ClusterNameLabel: name,
		}},
		Spec: clusterv1.MachineSpec{
			ClusterName: name, InfrastructureRef: infra, Version: "v1.36.1",
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("none")},
		},
	}
	check.Error(p.t, p.api.Client.Create(ctx, machine), "")
}

// lease writes the Lease of a manager. The Lease was renewed some time ago.
func (p *plane) lease(ago time.Duration) {
	p.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: version.LeaseName}}
	_ = p.api.Client.Delete(p.t.Context(), lease.DeepCopy())
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("manager-0"), LeaseDurationSeconds: ptr.To[int32](15),
		RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-ago))),
	}
	check.Error(p.t, p.api.Client.Create(p.t.Context(), lease), "")
}

// with runs olvmctl with the management cluster.
func (p *plane) with(args ...string) (code int, out, problems string) {
	p.t.Helper()
	return p.run("", append(args, "--kubeconfig", p.kubeconfig)...)
}

// TestClustersAndMachinesAreListedAsKubectlDoes ends with a broken management cluster: it removes the kinds.
func TestClustersAndMachinesAreListedAsKubectlDoes(t *testing.T) {
	p := newPlane(t)
	p.cluster("a", "prod")
	p.cluster("b", "test")
	p.lease(0)

	t.Run("get", p.testGet)
	t.Run("watch", p.testWatch)
	t.Run("manager", p.testManager)
	t.Run("names", p.testNames)
	t.Run("completion", p.testCompletion)
	t.Run("not installed", p.testNotInstalled)
}

func (p *plane) testGet(t *testing.T) {
	p.t = t

	for args, want := range map[string]string{
		"get clusters -n a":                    "NAME   PHASE   AVAILABLE",
		"get cluster -A":                       "NAMESPACE   NAME",
		"get cl prod -n a -o wide":             "ENDPOINT   PROBLEM",
		"get clusters -A -l stage=test":        "b           test",
		"get clusters -A -o name":              "cluster.cluster.x-k8s.io/prod\ncluster.cluster.x-k8s.io/test\n",
		"get machines -n a":                    "prod-0   prod",
		"get ma -n b -o wide":                  "ADDRESSES   HOST",
		"get machine prod-0 -n a -o name":      "machine.cluster.x-k8s.io/prod-0\n",
		"get machines -A --no-headers":         "a     prod-0",
		"get cluster/prod -n a":                "prod",
		"describe cluster prod -n a":           "Cluster/prod",
		"describe cl/prod -n a -o yaml":        "kind: Cluster",
		"get clusters -n a --show-labels":      "stage=prod",
		"get clusters -n none -o json":         "[]\n",
		"get machines -l stage=none -n a":      "",
		"inventory -n a -o yaml":               "[]\n",
		"get clusters -n a --context envtest":  "",
		"get clusters -n a prod prod -o json":  "[\n",
		"get machines -A -o yaml -l !stage":    "namespace: b",
		"get machines -o json -n a prod-0":     "{\n",
		"get clusters.cluster.x-k8s.io -n a":   "prod",
		"get machine/prod-0 -n a --no-headers": "prod-0",
	} {
		words := strings.Fields(args)
		if strings.Contains(args, "--context") {
			config, err := clientcmd.LoadFromFile(p.kubeconfig)
			check.Error(t, err, "")
			words[len(words)-1] = config.CurrentContext
		}

		code, out, problems := p.with(words...)
		check.Equal(t, args+": exit code, after "+problems, code, 0)
		check.Contains(t, args, out, want)
		check.Lacks(t, args+": a warning", problems, "WARNING")
	}

	_, out, _ := p.with("get", "cluster", "prod", "-n", "a", "-o", "json")

	var got map[string]any
	check.Error(t, json.Unmarshal([]byte(out), &got), "")

	for _, key := range []string{"available", "updating", "controlPlane"} {
		if _, there := got[key]; !there {
			t.Errorf("the JSON of a cluster lacks %s: %s", key, out)
		}
	}
}

func (p *plane) testWatch(t *testing.T) {
	p.t = t
	ctx, cancel := context.WithCancel(t.Context())
	out := &watched{}
	command := newCommand(streams{in: strings.NewReader(""), out: out, err: &bytes.Buffer{}})
	command.SetArgs([]string{"get", "clusters", "-n", "a", "-w", "--kubeconfig", p.kubeconfig})

	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()

	wait.Until(t, "the list", func() bool { return strings.Contains(out.String(), "prod") })
	p.cluster("a", "later")
	wait.Until(t, "the new cluster", func() bool { return strings.Contains(out.String(), "later") })
	cancel()
	check.Error(t, wait.Receive(t, "the watch ends", ended), "")
	check.Equal(t, "headers", strings.Count(out.String(), "PHASE"), 1)
}

// watched is an output that a test can read while a command writes to it.
type watched struct {
	sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(text []byte) (int, error) {
	w.Lock()
	defer w.Unlock()

	return w.text.Write(text)
}

func (w *watched) String() string {
	w.Lock()
	defer w.Unlock()

	return w.text.String()
}

func (p *plane) testManager(t *testing.T) {
	p.t = t

	for _, args := range [][]string{
		{"get", "clusters", "-A"}, {"get", "machines", "-n", "a"}, {"describe", "prod", "-n", "a"},
	} {
		p.lease(12 * time.Minute)
		code, _, problems := p.with(args...)
		check.Equal(t, "exit code", code, 0)
		check.Contains(t, args[0], problems, "no manager of this provider is running: Lease default/"+version.LeaseName)
		check.Contains(t, args[0], problems, "(12m ago)")
		check.Contains(t, args[0], problems, "kubectl -n default describe pods -l control-plane=")

		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: version.LeaseName}}
		check.Error(t, p.api.Client.Delete(t.Context(), lease), "")
		_, _, problems = p.with(args...)
		check.Contains(t, args[0]+" without a Lease", problems, "no manager of this provider has run yet")
	}

	p.lease(0)
}

func (p *plane) testNames(t *testing.T) {
	p.t = t

	for args, want := range map[string]string{
		"describe prod -n b":           "Cluster prod not found in namespace b, but a/prod exists; use -n a",
		"describe none":                "existing Clusters: a/later, a/prod, b/test; specify the namespace with -n",
		"get cluster prod -n b":        "but a/prod exists; use -n a",
		"scale prod --workers 1":       "but a/prod exists; use -n a",
		"get machine test-0 -n a":      "Machine test-0 not found in namespace a, but b/test-0 exists",
		"logs test-0 -n a":             "but b/test-0 exists; use -n b",
		"get kubeconfig prod -n b":     "but a/prod exists; use -n a",
		"support-bundle prod -n b":     "but a/prod exists; use -n a",
		"get kubeconfig prod -n a":     "olvmctl describe prod -n a",
		"get clusters --context other": "no such context in " + p.kubeconfig + "; existing contexts: envtest",
		"get clusters prod -A":         "use -n instead of -A",
		"get clusters -l =":            "--selector",
	} {
		code, _, problems := p.with(strings.Fields(args)...)
		check.Equal(t, args+": exit code", code, 1)
		check.Contains(t, args, problems, want)
	}
}

func (p *plane) testCompletion(t *testing.T) {
	p.t = t

	for args, want := range map[string]string{
		"describe|":                        "prod\n",
		"describe|cluster|":                "prod\n",
		"get|machines|":                    "prod-0\n",
		"get|clusters|prod|":               "later\n",
		"get|clusters|-n|":                 "b\n",
		"describe|--namespace|":            "a\n",
		"get|clusters|--output|":           "wide\n",
		"plan|-o|":                         "markdown\n",
		"start|--driver|":                  "process\n",
		"describe|--context|":              "Completion ended with directive: ShellCompDirectiveNoFileComp",
		"support-bundle|":                  "prod\n",
		"upgrade|cl|":                      "prod\n",
		"logs|machine|":                    "prod-0\n",
		"render|manifests|-o|":             "yaml\n",
		"inventory|-n|":                    "kube-system\n",
		"version|-o|":                      "json\n",
		"move|--context|":                  "ShellCompDirectiveNoFileComp",
		"template|cluster.yaml|--context|": "ShellCompDirectiveNoFileComp",
	} {
		t.Setenv(clientcmd.RecommendedConfigPathEnvVar, p.kubeconfig)
		words := append([]string{"__complete"}, strings.Split(args, "|")...)

		last := len(words) - 1
		if takesNames := !strings.HasPrefix(words[last-1], "-"); takesNames { // the name of a namespace
			words = append(words[:last], "-n", "a", "")
		}

		code, out, problems := p.run("", words...)
		check.Equal(t, args+": exit code", code, 0)
		check.Contains(t, args, out+problems, want)
	}
}

// testNotInstalled removes this provider's kinds, and then those of Cluster API.
func (p *plane) testNotInstalled(t *testing.T) {
	p.t = t
	everything := []string{
		"get clusters", "get machines", "describe prod -n a", "get kubeconfig prod -n a", "inventory",
		"scale prod --workers 1",
		"upgrade prod --kubernetes-version v1.36.2 -y", "logs prod-0", "support-bundle prod -y",
		"ui", "plan", "render --out " + t.TempDir(),
	}

	p.removeKinds("infrastructure.cluster.x-k8s.io")
	p.fail(everything, "Cluster API is installed in https://",
		"but the provider olvm is not; to install it, run olvmctl start -f FILE")

	p.removeKinds("cluster.x-k8s.io")
	p.fail(everything, "is not installed in https://", "(context ", "to install it, run olvmctl start -f FILE")
	p.fail([]string{"delete prod -y"}, "is not installed in https://")

	p.api.Stop()
	p.fail(everything[:2], "cannot reach https://", "check that it is running")
}

// fail expects commands to fail. One line of the output must contain all texts.
func (p *plane) fail(commands []string, wants ...string) {
	p.t.Helper()

	for _, args := range commands {
		code, _, problems := p.with(strings.Fields(args)...)
		check.Equal(p.t, args+": exit code", code, 1)

		for _, want := range wants {
			check.Contains(p.t, args, problems, want)
		}

		check.Equal(p.t, args+": lines of "+problems, strings.Count(problems, "\n"), 0)
	}
}

func (p *plane) removeKinds(group string) {
	p.t.Helper()
	check.Error(p.t, apiextensionsv1.AddToScheme(p.api.Scheme), "")
	c, err := client.New(p.api.Config, client.Options{Scheme: p.api.Scheme})
	check.Error(p.t, err, "")

	var crds apiextensionsv1.CustomResourceDefinitionList
	check.Error(p.t, c.List(p.t.Context(), &crds), "")

	for i := range crds.Items {
		if crds.Items[i].Spec.Group == group {
			check.Error(p.t, c.Delete(p.t.Context(), &crds.Items[i]), "")
		}
	}

	raw, err := client.New(p.api.Config, client.Options{})
	check.Error(p.t, err, "")
	wait.Until(p.t, "the kinds have gone", func() bool {
		_, err := raw.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: "OLVMCluster"})
		left := &apiextensionsv1.CustomResourceDefinitionList{}

		return c.List(p.t.Context(), left) == nil && err != nil && none(left, group)
	})
	time.Sleep(2 * time.Second) // discovery needs time
}

func none(crds *apiextensionsv1.CustomResourceDefinitionList, group string) bool {
	for i := range crds.Items {
		if crds.Items[i].Spec.Group == group {
			return false
		}
	}

	return true
}
