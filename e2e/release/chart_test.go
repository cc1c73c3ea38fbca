package release

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// keptWithRelease is the annotation that the chart adds to CRDs.
const keptWithRelease = "helm.sh/resource-policy"

// TestTheHelmChartIsTheKustomization renders the chart with its default values, and compares it with clusterctl's
// components.
func TestTheHelmChartIsTheKustomization(t *testing.T) {
	t.Parallel()
	m := &management{t: t, tools: testenv.Toolchain(t), dir: t.TempDir()}
	m.release("v0.1.0")

	want := m.components("v0.1.0")
	delete(want, "Namespace capolvm-system")

	got := m.render("v0.1.0", nil)
	crds := 0

	for _, object := range got {
		annotations := object.GetAnnotations()
		if annotations[keptWithRelease] == "keep" {
			crds++
			delete(annotations, keptWithRelease)
			object.SetAnnotations(annotations)
		}
	}

	check.Equal(t, "kinds that stay when the release is removed", crds, 10)
	check.Equal(t, "objects", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))

	for name := range want {
		check.Equal(t, name, got[name], want[name])
	}
}

// components returns the objects that clusterctl installs.
func (m *management) components(version string) map[string]*unstructured.Unstructured {
	m.t.Helper()
	content, err := os.ReadFile(filepath.Join(m.dir, "repository", "infrastructure-olvm", version,
		"infrastructure-components.yaml"))
	check.Error(m.t, err, "")

	return byName(m.t, m.fillComponents(content, nil))
}

// fillComponents lets clusterctl fill in the variables of components.
func (m *management) fillComponents(content []byte, values valuesOfVariables) []byte {
	m.t.Helper()
	filled, err := yamlprocessor.NewSimpleProcessor().Process(content, values.Get)
	check.Error(m.t, err, "")

	return filled
}

// TestVariablesOfTheComponentsAreFlagsOfTheManager sets each variable to a text with special characters of YAML.
func TestVariablesOfTheComponentsAreFlagsOfTheManager(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	content, err := os.ReadFile(filepath.Join(m.dir, "repository", "infrastructure-olvm", "v0.1.0",
		"infrastructure-components.yaml"))
	check.Error(t, err, "")

	values := valuesOfVariables{}
	want := []string{}

	for flag, variable := range map[string]string{
		"diagnostics-address": "CAPOLVM_DIAGNOSTICS_ADDRESS", "insecure-diagnostics": "CAPOLVM_INSECURE_DIAGNOSTICS",
		"tls-min-version": "CAPOLVM_TLS_MIN_VERSION", "confinement": "CAPOLVM_CONFINEMENT",
		"feature-gates": "CAPOLVM_FEATURE_GATES",
	} {
		values[variable] = "a: b #" + variable
		want = append(want, "--"+flag+"="+values[variable])
	}

	variables, err := yamlprocessor.NewSimpleProcessor().GetVariables(content)
	check.Error(t, err, "")
	check.Equal(t, "variables", variables, slices.Sorted(maps.Keys(values)))

	deployment := typed[appsv1.Deployment](t, byName(t, m.fillComponents(content, values))[deploymentName])
	args := deployment.Spec.Template.Spec.Containers[0].Args

	for _, arg := range want {
		check.Equal(t, arg, slices.Contains(args, arg), true)
	}
}

// loadChart loads the chart of a release.
func (m *management) loadChart(version string) *chart.Chart {
	m.t.Helper()
	made, err := loader.LoadFile(filepath.Join(m.dir, "repository", "infrastructure-olvm", version,
		"cluster-api-provider-olvm-"+strings.TrimPrefix(version, "v")+".tgz"))
	check.Error(m.t, err, "")

	return made
}

// render validates values against the chart's schema, and returns the objects that Helm renders from the values.
func (m *management) render(version string, values map[string]any) map[string]*unstructured.Unstructured {
	m.t.Helper()
	made := m.loadChart(version)
	options := common.ReleaseOptions{Name: "olvm", Namespace: "capolvm-system"}
	all, err := util.ToRenderValues(made, values, options, nil)
	check.Error(m.t, err, "")
	rendered, err := engine.Render(made, all)
	check.Error(m.t, err, "")

	manifests := ""

	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			manifests += text + "\n---\n"
		}
	}

	return byName(m.t, []byte(manifests))
}

// byName returns the objects of manifests, by kind and name.
func byName(t *testing.T, manifests []byte) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Read(manifests)
	check.Error(t, err, "")

	out := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		out[object.GetKind()+" "+object.GetName()] = object
	}

	return out
}

// TestHelmInstallsAndUpgrades lets Helm install the chart into a namespace with another name, and then change a value.
func TestHelmInstallsAndUpgrades(t *testing.T) {
	m := newManagement(t)
	m.release("v0.1.0")

	archive := filepath.Join(m.dir, "repository", "infrastructure-olvm", "v0.1.0",
		"cluster-api-provider-olvm-0.1.0.tgz")
	install := func(values string) {
		t.Helper()
		list := m.write("add-ons.yaml", fmt.Sprintf("- name: olvm\n  chart: %s\n  namespace: providers\n  values: %s\n",
			archive, values))
		addOns, err := addon.Sources{CNI: "none", List: list}.Load(t.Context(), nil)
		check.Error(t, err, "")

		to := addon.Target{Client: m.client, Kubeconfig: m.kubeconfig}
		check.Error(t, addOns[0].Install(t.Context(), to, wait.Limit, progress.NewDisplay(io.Discard)), "")
	}

	install(`{replicas: 2, extraArgs: ["--v=4"], image: {repository: registry.example.com/capolvm}, ` +
		`nodeSelector: {room: a}, imagePullSecrets: [{name: pull}], priorityClassName: high}`)

	var deployment appsv1.Deployment
	key := client.ObjectKey{Namespace: "providers", Name: "capolvm-controller-manager"}
	check.Error(t, m.client.Get(t.Context(), key, &deployment), "")
	pod := deployment.Spec.Template.Spec
	check.Equal(t, "replicas", *deployment.Spec.Replicas, 2)
	check.Equal(t, "image", pod.Containers[0].Image, "registry.example.com/capolvm:v0.1.0")
	check.Equal(t, "the last flag", pod.Containers[0].Args[len(pod.Containers[0].Args)-1], "--v=4")
	check.Equal(t, "nodes", pod.NodeSelector, map[string]string{"room": "a"})
	check.Equal(t, "pull secret", pod.ImagePullSecrets[0].Name, "pull")
	check.Equal(t, "priority", pod.PriorityClassName, "high")
	check.Equal(t, "tolerations", len(pod.Tolerations), 1)

	var binding rbacv1.ClusterRoleBinding
	check.Error(t, m.client.Get(t.Context(), client.ObjectKey{Name: "capolvm-manager"}, &binding), "")
	check.Equal(t, "whose rights", binding.Subjects[0].Namespace, "providers")

	install(`{replicas: 1}`)
	check.Error(t, m.client.Get(t.Context(), key, &deployment), "")
	check.Equal(t, "replicas after an upgrade", *deployment.Spec.Replicas, 1)

	var crd apiextensionsv1.CustomResourceDefinition
	crdKey := client.ObjectKey{Name: "olvmmachines.infrastructure.cluster.x-k8s.io"}
	check.Error(t, m.client.Get(t.Context(), crdKey, &crd), "")
	check.Equal(t, "with the release", crd.Annotations[keptWithRelease], "keep")
	check.Equal(t, "contract", crd.Labels["cluster.x-k8s.io/v1beta2"], "v1")

	t.Run("objects of the last release still validate", m.expectOldObjectsToValidate)
}
