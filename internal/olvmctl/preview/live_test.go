package preview

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// sample is the demo cluster.
func sample(t *testing.T, changes ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(testenv.Toolchain(t).Root(), "config", "samples", "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	text := string(content)
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the sample has no %q", changes[i])
		}

		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}

	return text
}

// management is a management cluster that runs the sample: a control plane machine and two workers.
func management(t *testing.T) client.Client {
	t.Helper()
	m, err := Load([]string{"-"}, strings.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}

	var objects []client.Object
	add := func(kind, apiVersion, name string, labels map[string]any, annotations map[string]any, spec map[string]any) {
		metadata := map[string]any{"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
		if kind == "Machine" && strings.Contains(name, "control-plane") {
			metadata["ownerReferences"] = []any{
				map[string]any{
					"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
					"kind":       "KubeadmControlPlane",
					"name":       "demo-control-plane",
					"uid":        "u",
					"controller": true,
				},
			}
		}

		objects = append(objects, &unstructured.Unstructured{
			Object: map[string]any{"kind": kind, "apiVersion": apiVersion, "metadata": metadata, "spec": spec},
		})
	}

	for _, list := range [][]*unstructured.Unstructured{m.clusters, m.owners} {
		for _, object := range list {
			objects = append(objects, object)
		}
	}

	for key, from := range m.templates {
		add("OLVMMachineTemplate", "infrastructure.cluster.x-k8s.io/v1", key.Name, nil, nil, asMap(from.Spec))
	}

	for key, from := range m.olvmClusters {
		add("OLVMCluster", "infrastructure.cluster.x-k8s.io/v1", key.Name, nil, nil, asMap(from.Spec))
	}

	for name, template := range map[string]string{
		"demo-control-plane-x": "demo-control-plane",
		"demo-md-0-a":          "demo-md-0",
		"demo-md-0-b":          "demo-md-0",
	} {
		labels := map[string]any{"cluster.x-k8s.io/cluster-name": "demo"}
		if template == "demo-md-0" {
			labels["cluster.x-k8s.io/deployment-name"] = "demo-md-0"
		}

		var spec map[string]any

		for key, from := range m.templates {
			if key.Name == template {
				spec = asMap(from.Spec.Template.Spec)
			}
		}

		add("OLVMMachine", "infrastructure.cluster.x-k8s.io/v1", name, labels, map[string]any{
			"cluster.x-k8s.io/cloned-from-name": template,
		}, spec)
		add("Machine", "cluster.x-k8s.io/v1beta2", name, labels, nil, map[string]any{
			"clusterName": "demo",
			"version":     "v1.36.1",
			"infrastructureRef": map[string]any{
				"apiGroup": "infrastructure.cluster.x-k8s.io",
				"kind":     "OLVMMachine",
				"name":     name,
			},
		})
	}

	return managementOf(t, objects...)
}

// managementOf is a management cluster that has these objects.
func managementOf(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	for _, kind := range liveKinds {
		list := kind
		list.Kind += "List"
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	}

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// expand compares manifests with the management cluster.
func expand(t *testing.T, manifests string) (replaced, replaces []string, owners []planreport.OwnerChange, err error) {
	t.Helper()
	var paths []string
	if manifests != "" {
		paths = []string{"-"}
	}

	m, err := Load(paths, strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}

	if err := m.AddLive(t.Context(), management(t), ""); err != nil {
		return nil, nil, nil, err
	}

	machines, owners, err := m.Expand()
	for _, machine := range machines {
		if machine.Replaced != "" {
			replaced = append(replaced, machine.Name+": "+machine.Replaced)
		}

		if machine.Replaces != "" {
			replaces = append(replaces, machine.Name+" for "+machine.Replaces)
		}
	}

	slices.Sort(replaced)

	return replaced, replaces, owners, err
}

func TestWhatRunsIsNotRolledOut(t *testing.T) {
	for name, manifests := range map[string]string{"the manifests that made it": sample(t), "no manifests": ""} {
		replaced, _, owners, err := expand(t, manifests)
		check.Error(t, err, "")
		check.Length(t, name+": replaced", replaced, 0)
		check.Length(t, name+": owners", owners, 0)
	}
}

func TestARolloutIsShownAsOne(t *testing.T) {
	before, md, _ := strings.Cut(sample(t), "kind: MachineDeployment\n") // it and what follows
	template := ""

	for _, document := range strings.Split(sample(t), "---\n") {
		if strings.Contains(document, "\nkind: OLVMMachineTemplate\n") &&
			strings.Contains(document, "name: demo-md-0\n") {
			template = strings.NewReplacer("demo-md-0", "demo-md-1", "16GB", "32GB").Replace(document)
		}
	}

	for name, test := range map[string]struct {
		manifests string
		replaced  int
		want      string
	}{
		"another version of workers": {before + "kind: MachineDeployment\n" +
			strings.Replace(md, "version: v1.36.1", "version: v1.36.2", 1), 2,
			"rolls out 2 of 2 machines (version v1.36.1 becomes v1.36.2)"},
		"another template of workers": {before + "kind: MachineDeployment\n" +
			strings.Replace(md, "kind: OLVMMachineTemplate\n        name: demo-md-0",
				"kind: OLVMMachineTemplate\n        name: demo-md-1", 1) + "\n---\n" + template, 2,
			"rolls out 2 of 2 machines (template demo-md-0 becomes demo-md-1)"},
		"more workers": {before + "kind: MachineDeployment\n" + strings.Replace(md, "replicas: 2", "replicas: 3", 1),
			0, "scales from 2 to 3 machines"},
		"fewer workers": {before + "kind: MachineDeployment\n" + strings.Replace(md, "replicas: 2", "replicas: 1", 1),
			0, "scales from 2 to 1 machine"},
		"another configuration of the control plane": {sample(t, "certSANs: [localhost, 127.0.0.1]",
			"certSANs: [localhost, 127.0.0.2]"), 1,
			"rolls out 1 of 1 machines (spec.kubeadmConfigSpec.clusterConfiguration.apiServer.certSANs[1] changes)"},
	} {
		replaced, replaces, owners, err := expand(t, test.manifests)
		check.Error(t, err, "")
		check.Length(t, name+": replaced", replaced, test.replaced)
		check.Length(t, name+": replaces", replaces, test.replaced)
		check.Length(t, name+": owners", owners, 1)
		check.Contains(t, name+": owners[0].String()", owners[0].String(), test.want)
	}
}

func TestATemplateThatIsChangedInPlaceIsRefused(t *testing.T) {
	_, _, _, err := expand(t, sample(t, "memory: 16GB", "memory: 32GB"))
	if err == nil ||
		!strings.Contains(
			err.Error(),
			"OLVMMachineTemplate default/demo-md-0: spec.template.spec.virtualMachine.memory is another one",
		) || !strings.Contains(err.Error(), "give it a new name") {
		t.Error(err)
	}
}

func TestOfflineSaysWhatMachinesWouldBe(t *testing.T) {
	m, err := Load([]string{"-"}, strings.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}

	machines, err := m.Machines()
	if err != nil {
		t.Fatal(err)
	}

	results := Offline(m, machines)
	check.Length(t, "results", results, 3)
	check.Equal(t, "results[0].Changed()", results[0].Changed(), false)
	check.Contains(t, "results[0].Text", results[0].Text, "of memory and")
	check.Length(t, "results[1].Addresses", results[1].Addresses, 1)
}
