package specs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// providerVersion is the version of our provider in the repository and in the management cluster.
const providerVersion = "v0.1.0"

// These constants are flavors that only specs use.
const (
	flavorTopology      = "topology"
	flavorMDRemediation = "md-remediation"
	flavorTaints        = "taints"
	flavorRollout       = "rollout"
	flavorAdoption      = "adoption"
)

// healthCheck watches the Node condition that the spec sets.
const healthCheck = `---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata:
  name: ${CLUSTER_NAME}-mhc-0
  namespace: ${NAMESPACE}
spec:
  clusterName: ${CLUSTER_NAME}
  selector:
    matchLabels:
      cluster.x-k8s.io/deployment-name: ${CLUSTER_NAME}-md-0
  checks:
    unhealthyNodeConditions:
    - {type: e2e.remediation.condition, status: "False", timeoutSeconds: 5}
`

// taints are the initial taints that the specs expect.
const taints = `taints:
- {key: pre-existing-always-taint, value: always-value, effect: PreferNoSchedule, propagation: Always}
- {key: pre-existing-on-initialization-taint, value: on-initialization-value, effect: PreferNoSchedule, propagation: OnInitialization}
`

// metadata is the metadata of templates. The spec verifies that it is copied to their objects.
const metadata = `metadata:
  labels: {specs.example.com/label: from-the-template}
  annotations: {specs.example.com/annotation: from-the-template}
`

// nodeMetadata is the metadata of a class. Because of its domain, it is also copied to the Nodes.
const nodeMetadata = `metadata:
  labels: {node.cluster.x-k8s.io/specs: from-the-class}
  annotations: {node.cluster.x-k8s.io/specs: from-the-class}
`

// TestWriteRepository renders the templates of the specs, but runs no spec. The specs take too long for each change,
// but this test still finds an incompatible change of a template. It runs before TestSpecs, because TestSpecs takes
// over gomega and the folder for temporary files.
func TestWriteRepository(t *testing.T) {
	gomega.RegisterTestingT(t)
	tools, err := toolchain.New()
	if err != nil {
		t.Fatal(err)
	}

	writeRepository(tools.Root(), t.TempDir())
}

// writeRepository creates a repository for clusterctl with our templates, and returns the path of clusterctl's
// configuration. The specs read only templates from it. Therefore, it contains neither components nor other providers.
func writeRepository(root, dir string) string {
	templates := filepath.Join(root, "config", "templates")
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(templates, name))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		return string(content)
	}
	plain := read("cluster-template.yaml")
	topology := read("cluster-template-topology.yaml")
	class := read("clusterclass-olvm.yaml")
	files := map[string]string{
		"cluster-template.yaml":         plain,
		"clusterclass-olvm.yaml":        class,
		flavorFile(flavorTopology):      topology,
		flavorFile(flavorMDRemediation): plain + healthCheck,
		flavorFile(flavorTaints): edit(plain,
			after{"  machineTemplate:\n    spec:\n", taints, 6},
			after{"          name: '${CLUSTER_NAME}-md-0'\n      clusterName: '${CLUSTER_NAME}'\n", taints, 6}),
		flavorFile(flavorRollout): edit(strings.Replace(topology, "name: olvm\n", "name: olvm-rollout\n", 1),
			after{"    controlPlane:\n", taints, 6},
			after{"        name: md-0\n", taints, 8}),
		// The spec abandons an OLVMCluster without deleting it. Otherwise, the OLVMCluster's affinity groups would stay
		// in the engine.
		flavorFile(flavorAdoption): strings.Replace(topology, "name: olvm\n", "name: olvm-adoption\n", 1),
		"clusterclass-olvm-adoption.yaml": edit(strings.Replace(class, "  name: olvm\n", "  name: olvm-adoption\n", 1),
			after{"      olvmDatacenterName: patched\n", "affinityGroups: []", 6}),
		"clusterclass-olvm-rollout.yaml": edit(
			strings.Replace(class, "  name: olvm\n", "  name: olvm-rollout\n", 1),
			after{"  controlPlane:\n", nodeMetadata, 4},
			after{"    - class: default-worker\n", nodeMetadata, 6},
			after{"  name: olvm-cluster\nspec:\n  template:\n", metadata, 4},
			after{
				"kind: OLVMMachineTemplate\nmetadata:\n  name: olvm-control-plane\nspec:\n  template:\n",
				metadata,
				4,
			},
			after{
				"kind: OLVMMachineTemplate\nmetadata:\n  name: olvm-default-worker\nspec:\n  template:\n",
				metadata,
				4,
			},
		),
	}
	folder := filepath.Join(dir, "infrastructure-olvm", providerVersion)
	gomega.Expect(os.MkdirAll(folder, 0o700)).To(gomega.Succeed())

	for name, content := range files {
		gomega.Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(gomega.Succeed())
	}

	content, err := yaml.Marshal(map[string]any{
		"providers": []map[string]string{{
			"name": "olvm", "type": string(clusterctlv1.InfrastructureProviderType),
			"url": filepath.Join(dir, "infrastructure-olvm", providerVersion, "components.yaml"),
		}},
		// The user's overrides must have no effect.
		"overridesFolder": filepath.Join(dir, "overrides"),
	})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	path := filepath.Join(dir, "clusterctl.yaml")
	gomega.Expect(os.WriteFile(path, content, 0o600)).To(gomega.Succeed())

	return path
}

func flavorFile(flavor string) string { return "cluster-template-" + flavor + ".yaml" }

// after is an indented text that is inserted after the only occurrence of an anchor.
type after struct {
	anchor, text string
	indent       int
}

func edit(template string, additions ...after) string {
	for _, a := range additions {
		gomega.Expect(strings.Count(template, a.anchor)).
			To(gomega.Equal(1), "a template has changed: look for %q", a.anchor)
		margin := strings.Repeat(" ", a.indent)
		text := margin + strings.ReplaceAll(strings.TrimSuffix(a.text, "\n"), "\n", "\n"+margin) + "\n"
		template = strings.Replace(template, a.anchor, a.anchor+text, 1)
	}

	return template
}

// clusterctlConfig writes the configuration for a spec, whose clusters are in 127.20.<subnet>.0/24. It returns the path
// of the configuration.
func clusterctlConfig(subnet int) string {
	address := func(host string) string { return fmt.Sprintf("127.20.%d.%s", subnet, host) }
	path := filepath.Join(filepath.Dir(suite.ClusterctlConfig), fmt.Sprintf("clusterctl-%d.yaml", subnet))
	gomega.Expect(clusterctl.CopyAndAmendClusterctlConfig(context.Background(),
		clusterctl.CopyAndAmendClusterctlConfigInput{
			ClusterctlConfigPath: suite.ClusterctlConfig, OutputPath: path,
			Variables: map[string]string{
				"OLVM_SERVER_URL":         suite.Engine.URL,
				"OLVM_CREDENTIALS_SECRET": credentialsSecret,
				"OLVM_CA_CONFIGMAP":       caConfigMap,
				"OLVM_VM_TEMPLATE":        vmTemplate, "OLVM_NETWORK": "kvm-vlan", "OLVM_VNIC_PROFILE": "kvm-vlan",
				"OLVM_CONTROL_PLANE_MEMORY": "4GB", "OLVM_WORKER_MEMORY": "4GB",
				"CONTROL_PLANE_ENDPOINT_HOST": address("5"), "OLVM_SUBNET": address("0/24"),
				"OLVM_GATEWAY":                 address("1"),
				"OLVM_DNS_SERVER":              address("1"),
				"OLVM_CONTROL_PLANE_ADDRESSES": address("10") + "-" + address("19"),
				"OLVM_WORKER_ADDRESSES":        address("100") + "-" + address("119"),
			},
		})).
		To(gomega.Succeed())

	return path
}

// recordProviders writes the records that clusterctl init would write into the management cluster. They are
// clusterctl's inventory, which determines the provider of templates, and the labels that identify a cluster's objects.
func recordProviders(ctx context.Context, s shared) {
	configuration, err := clusterctlconfig.New(ctx, s.ClusterctlConfig)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	inventory := clusterctlcluster.New(clusterctlcluster.Kubeconfig{
		Path: s.Kubeconfig,
	}, configuration).ProviderInventory()
	gomega.Expect(inventory.EnsureCustomResourceDefinitions(ctx)).To(gomega.Succeed())
	gomega.Expect(inventory.Create(ctx, clusterctlv1.Provider{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterctlv1.GroupVersion.String(), Kind: "Provider"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "capolvm-system",
			Name:      "infrastructure-olvm",
			Labels:    map[string]string{clusterctlv1.ClusterctlLabel: ""},
		},
		ProviderName: "olvm", Type: string(clusterctlv1.InfrastructureProviderType), Version: providerVersion,
	})).To(gomega.Succeed())

	c, err := client.New(plane.Config, client.Options{Scheme: scheme()})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var crds apiextensionsv1.CustomResourceDefinitionList
	gomega.Expect(c.List(ctx, &crds)).To(gomega.Succeed())

	for i := range crds.Items {
		crd := &crds.Items[i]
		provider, ok := map[string]string{
			"cluster.x-k8s.io":                "cluster-api",
			"addons.cluster.x-k8s.io":         "cluster-api",
			"ipam.cluster.x-k8s.io":           "cluster-api",
			"runtime.cluster.x-k8s.io":        "cluster-api",
			"bootstrap.cluster.x-k8s.io":      "bootstrap-kubeadm",
			"controlplane.cluster.x-k8s.io":   "control-plane-kubeadm",
			"infrastructure.cluster.x-k8s.io": "infrastructure-olvm",
		}[crd.Spec.Group]
		if !ok {
			continue
		}

		before := crd.DeepCopy()
		crd.Labels[clusterctlv1.ClusterctlLabel], crd.Labels["cluster.x-k8s.io/provider"] = "", provider
		gomega.Expect(c.Patch(ctx, crd, client.MergeFrom(before))).To(gomega.Succeed())
	}
}
