package release

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

const deploymentName = "Deployment capolvm-controller-manager"

func newChart(t *testing.T) *management {
	t.Helper()
	m := &management{t: t, tools: testenv.Toolchain(t), dir: t.TempDir()}
	m.release("v0.1.0")

	return m
}

func valuesOf(t *testing.T, text string) map[string]any {
	t.Helper()

	var values map[string]any

	check.Error(t, yaml.Unmarshal([]byte(text), &values), "")

	return values
}

// typed converts an object to its type. It fails for fields that the object's kind does not have.
func typed[T any](t *testing.T, object *unstructured.Unstructured) T {
	t.Helper()

	var out T
	if object == nil {
		t.Fatal("it is not rendered")
	}

	check.Error(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &out, true), "")

	return out
}

// TestValuesOfTheChartReachThePod sets all values of the Deployment.
func TestValuesOfTheChartReachThePod(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	digest := "sha256:" + strings.Repeat("a", 64)
	objects := m.render("v0.1.0", valuesOf(t, `
image: {repository: registry.example.com/capolvm, tag: v1, digest: "`+digest+`", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
replicas: 3
resources: {requests: {memory: 2Gi}}
extraArgs: ["--v=4", "--watch-filter=a"]
env: [{name: SSL_CERT_DIR, value: /certs}]
proxy: {httpsProxy: "http://proxy.example.com:3128", noProxy: "10.0.0.0/8,.svc"}
podAnnotations: {example.com/a: "b: c"}
podLabels: {team: infra}
serviceAccount: {annotations: {example.com/role: manager}}
nodeSelector: {room: a}
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}
tolerations: []
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
priorityClassName: system-cluster-critical
podDisruptionBudget: {enabled: true, maxUnavailable: 2}
`))

	deployment := typed[appsv1.Deployment](t, objects[deploymentName])
	template := deployment.Spec.Template
	pod, container := template.Spec, template.Spec.Containers[0]
	check.Equal(t, "image", container.Image, "registry.example.com/capolvm:v1@"+digest)
	check.Equal(t, "pull policy", container.ImagePullPolicy, corev1.PullAlways)
	check.Equal(t, "pull secrets", pod.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "pull"}})
	check.Equal(t, "replicas", *deployment.Spec.Replicas, 3)
	check.Equal(t, "memory", container.Resources.Requests.Memory().String(), "2Gi")
	check.Equal(t, "limits", len(container.Resources.Limits), 1)
	check.Equal(t, "the last flags", container.Args[len(container.Args)-2:], []string{"--v=4", "--watch-filter=a"})
	check.Equal(t, "environment", slices.Collect(namesOf(container.Env)),
		[]string{
			"GOMEMLIMIT", "HTTPS_PROXY=http://proxy.example.com:3128", "NO_PROXY=10.0.0.0/8,.svc",
			"SSL_CERT_DIR=/certs",
		})
	check.Equal(t, "annotations", template.Annotations, map[string]string{"example.com/a": "b: c"})
	check.Equal(t, "label", template.Labels["team"], "infra")
	check.Equal(t, "what the Deployment selects", template.Labels["control-plane"], "capolvm-controller-manager")
	check.Equal(t, "nodes", pod.NodeSelector, map[string]string{"room": "a"})
	check.Equal(t, "spread", len(pod.TopologySpreadConstraints), 1)
	check.Equal(t, "apart", len(pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution), 1)
	check.Equal(t, "tolerations", len(pod.Tolerations), 0)
	check.Equal(t, "priority", pod.PriorityClassName, "system-cluster-critical")

	account := typed[corev1.ServiceAccount](t, objects["ServiceAccount capolvm-manager"])
	check.Equal(t, "annotations of the account", account.Annotations, map[string]string{"example.com/role": "manager"})
	budget := typed[policyv1.PodDisruptionBudget](t, objects["PodDisruptionBudget capolvm-controller-manager"])
	check.Equal(t, "unavailable", budget.Spec.MaxUnavailable.IntValue(), 2)
	check.Equal(t, "of the manager", budget.Spec.Selector,
		&metav1.LabelSelector{MatchLabels: deployment.Spec.Selector.MatchLabels})
}

// TestEachShardOfTheChartHasADeployment renders two shards. Neither of them selects the Pods of the other.
func TestEachShardOfTheChartHasADeployment(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	objects := m.render("v0.1.0", valuesOf(t, `{shards: [a, b], watchNamespace: team, replicas: 2}`))
	check.Equal(t, "a Deployment without a shard", objects[deploymentName] == nil, true)

	for _, name := range []string{"a", "b"} {
		deployment := typed[appsv1.Deployment](t, objects[deploymentName+"-"+name])
		template := deployment.Spec.Template
		check.Equal(t, "flags", template.Spec.Containers[0].Args[:2],
			[]string{"--namespace=team", "--watch-filter=" + name})
		check.Equal(t, "replicas", *deployment.Spec.Replicas, 2)
		check.Equal(t, "selector", deployment.Spec.Selector.MatchLabels, map[string]string{
			"control-plane": "capolvm-controller-manager", "cluster.x-k8s.io/watch-filter": name,
		})
		check.Equal(t, "labels", template.Labels, deployment.Spec.Selector.MatchLabels)
	}

	check.Equal(t, "other objects", len(objects), len(m.render("v0.1.0", valuesOf(t, `{watchNamespace: team}`)))+1)
}

func namesOf(variables []corev1.EnvVar) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, variable := range variables {
			text := variable.Name
			if variable.ValueFrom == nil {
				text += "=" + variable.Value
			}

			if !yield(text) {
				return
			}
		}
	}
}

// TestWithoutAMemoryRequestThereIsNoMemoryLimitForGo removes the memory request in each possible way.
func TestWithoutAMemoryRequestThereIsNoMemoryLimitForGo(t *testing.T) {
	t.Parallel()
	m := newChart(t)

	for text, want := range map[string]int{
		`{}`:                                    1,
		`resources: {requests: {memory: null}}`: 0,
		`resources: {requests: null, limits: null}`: 0,
		`resources: null`:                            0,
		`resources: {limits: {memory: 3Gi}}`:         1, // Helm keeps the default memory request
		`resources: {requests: {cpu: 1, memory: ~}}`: 0,
	} {
		deployment := typed[appsv1.Deployment](t, m.render("v0.1.0", valuesOf(t, text))[deploymentName])
		check.Equal(t, text+": variables", len(deployment.Spec.Template.Spec.Containers[0].Env), want)
	}
}

// TestTheChartForOneNamespaceIsTheKustomizationForOne compares the chart for one namespace with config/namespaced.
func TestTheChartForOneNamespaceIsTheKustomizationForOne(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	kubectl, err := m.tools.Path("plane", "kubectl")
	check.Error(t, err, "")
	built, err := exec.CommandContext(t.Context(), kubectl, "kustomize",
		filepath.Join(m.tools.Root(), "config", "namespaced")).Output()
	check.Error(t, err, "")

	want := byName(t, built)
	got := m.render("v0.1.0", valuesOf(t, `{watchNamespace: clusters}`))
	delete(want, "Namespace capolvm-system")

	for name := range want {
		if strings.HasPrefix(name, "CustomResourceDefinition ") {
			continue // TestTheHelmChartIsTheKustomization compares them
		}

		if name == deploymentName { // it has another image
			image := got[name].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			image["containers"].([]any)[0].(map[string]any)["image"] = "ghcr.io/capolvm/cluster-api-provider-olvm:dev"
		}

		// Outside of config/default, the objects of roles.yaml have no label.
		check.Equal(t, name, got[name], want[name])
	}

	check.Equal(t, "objects", len(got), len(want))
}

// TestTheNetworkPolicyOfTheChartHasASwitchAndPorts renders the policy with other ports, without any, and disabled.
func TestTheNetworkPolicyOfTheChartHasASwitchAndPorts(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	const name = "NetworkPolicy capolvm-controller-manager"

	policy := typed[networkingv1.NetworkPolicy](t,
		m.render("v0.1.0", valuesOf(t, `networkPolicy: {apiServerPorts: [6443, 16443]}`))[name])
	check.Equal(t, "rules", len(policy.Spec.Egress), 3)
	check.Equal(t, "ports", len(policy.Spec.Egress[1].Ports), 2)
	check.Equal(t, "the second port", policy.Spec.Egress[1].Ports[1].Port.IntValue(), 16443)
	check.Equal(t, "destinations", len(policy.Spec.Egress[1].To), 0)

	policy = typed[networkingv1.NetworkPolicy](t,
		m.render("v0.1.0", valuesOf(t, `networkPolicy: {apiServerPorts: []}`))[name])
	check.Equal(t, "rules without ports", len(policy.Spec.Egress), 2)

	objects := m.render("v0.1.0", valuesOf(t, `networkPolicy: {enabled: false}`))
	check.Equal(t, "a policy", objects[name] == nil, true)
}

// TestMonitoringOfTheChartIsTheKustomizationOfMonitoring compares it with config/monitoring.
func TestMonitoringOfTheChartIsTheKustomizationOfMonitoring(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	kubectl, err := m.tools.Path("plane", "kubectl")
	check.Error(t, err, "")
	built, err := exec.CommandContext(t.Context(), kubectl, "kustomize",
		filepath.Join(m.tools.Root(), "config", "monitoring")).Output()
	check.Error(t, err, "")

	want := byName(t, built)
	without := m.render("v0.1.0", nil)
	got := m.render("v0.1.0", valuesOf(t, `
monitoring:
  podMonitor: {enabled: true, labels: {release: prometheus}}
  rules: {enabled: true}
  dashboard: {enabled: true}
`))
	check.Equal(t, "objects", len(got), len(without)+len(want))
	check.Equal(t, "labels", got["PodMonitor capolvm"].GetLabels(), map[string]string{"release": "prometheus"})
	got["PodMonitor capolvm"].SetLabels(nil)

	for name := range want {
		check.Equal(t, name, got[name], want[name])
	}
}

// TestTheSchemaRefusesValuesThatAreWrong sets common mistakes of users.
func TestTheSchemaRefusesValuesThatAreWrong(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	made := m.loadChart("v0.1.0")

	for text, want := range map[string]string{
		`{replica: 2}`:                                            "replica",
		`{replicas: two}`:                                         "replicas",
		`{image: {digest: "sha256:abc"}}`:                         "digest",
		`{image: {pullPolicy: Sometimes}}`:                        "pullPolicy",
		`{image: {name: x}}`:                                      "name",
		`{extraArgs: [v=4]}`:                                      "extraArgs",
		`{extraArgs: --v=4}`:                                      "extraArgs",
		`{env: {A: b}}`:                                           "env",
		`{env: [{name: A, value: 1}]}`:                            "env",
		`{watchNamespace: [a, b]}`:                                "watchNamespace",
		`{watchNamespace: "a,b"}`:                                 "watchNamespace",
		`{shards: a}`:                                             "shards",
		`{shards: [a, a]}`:                                        "shards",
		`{shards: [A]}`:                                           "shards",
		`{podLabels: {control-plane: x}}`:                         "podLabels",
		`{podAnnotations: {a: true}}`:                             "podAnnotations",
		`{proxy: {http_proxy: x}}`:                                "http_proxy",
		`{networkPolicy: {enabled: "no"}}`:                        "networkPolicy",
		`{networkPolicy: {apiServerPorts: [0]}}`:                  "apiServerPorts",
		`{monitoring: {enabled: true}}`:                           "monitoring",
		`{podDisruptionBudget: {enabled: true, minAvailable: 1}}`: "minAvailable",
	} {
		_, err := util.ToRenderValues(made, valuesOf(t, text), common.ReleaseOptions{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestEachValueIsInTheSchemaAndInTheREADME checks each value.
func TestEachValueIsInTheSchemaAndInTheREADME(t *testing.T) {
	t.Parallel()
	m := newChart(t)
	made := m.loadChart("v0.1.0")

	var schema struct{ Properties map[string]any }
	check.Error(t, json.Unmarshal(made.Schema, &schema), "")

	readme := ""

	for _, file := range made.Files {
		if file.Name == "README.md" {
			readme = string(file.Data)
		}
	}

	for name, value := range made.Values {
		check.Equal(t, name+" is in the schema", schema.Properties[name] != nil, true)
		fields, isMapping := value.(map[string]any)
		// Users define the fields of these.
		users := []string{"resources", "affinity", "nodeSelector", "podLabels", "podAnnotations"}

		if !isMapping || slices.Contains(users, name) {
			check.Contains(t, "README.md", readme, "`"+name+"`")
			continue
		}

		for field := range fields {
			check.Equal(t, name+"."+field+" is in README.md",
				regexp.MustCompile("`"+name+`\.`+field+"[`.]").MatchString(readme), true)
		}
	}
}

// TestAReleaseWithADigestNamesTheImageByIt checks components and chart.
func TestAReleaseWithADigestNamesTheImageByIt(t *testing.T) {
	t.Parallel()
	m := &management{t: t, tools: testenv.Toolchain(t), dir: t.TempDir()}
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	m.release("v0.1.0", "-image-digest", digest)

	image := "ghcr.io/capolvm/cluster-api-provider-olvm:v0.1.0@" + digest
	deployment := typed[appsv1.Deployment](t, m.render("v0.1.0", nil)[deploymentName])
	check.Equal(t, "the chart's image", deployment.Spec.Template.Spec.Containers[0].Image, image)

	own := "sha256:" + strings.Repeat("b", 64)

	for text, want := range map[string]string{
		`image: {repository: mirror.example.com/capolvm}`: "mirror.example.com/capolvm:v0.1.0@" + digest,
		`image: {repository: r.example.com/own, tag: v1}`: "r.example.com/own:v1",
		`image: {tag: v1, digest: "` + own + `"}`:         "ghcr.io/capolvm/cluster-api-provider-olvm:v1@" + own,
		`image: {digest: "` + own + `"}`:                  "ghcr.io/capolvm/cluster-api-provider-olvm:v0.1.0@" + own,
	} {
		deployment := typed[appsv1.Deployment](t, m.render("v0.1.0", valuesOf(t, text))[deploymentName])
		check.Equal(t, text, deployment.Spec.Template.Spec.Containers[0].Image, want)
	}

	deployment = typed[appsv1.Deployment](t, m.components("v0.1.0")[deploymentName])
	check.Equal(t, "the components' image", deployment.Spec.Template.Spec.Containers[0].Image, image)
}
