package planinput_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAFieldThatAKindDoesNotHaveIsNamedWithItsLine(t *testing.T) {
	for name, test := range map[string]struct {
		from, to, want string
		older          []string
	}{
		"of a MachineDeployment in v1beta1": {"replicas: 2", "replcas: 2",
			"spec.replcas: unknown field; did you mean replicas?", fixture.WorkersInV1Beta1},
		"of v1beta2 alone": {"  replicas: 2", "  deletion: {order: Oldest}\n  replicas: 2",
			"spec.deletion: unknown field", fixture.WorkersInV1Beta1},
		"of v1beta2's references": {"apiVersion: bootstrap.cluster.x-k8s.io/v1beta1",
			"apiGroup: bootstrap.cluster.x-k8s.io", "spec.template.spec.bootstrap.configRef.apiGroup",
			fixture.WorkersInV1Beta1},
		"of a control plane in v1beta1": {"certSANs:", "certSANS:",
			"spec.kubeadmConfigSpec.clusterConfiguration.apiServer.certSANS: unknown field; did you mean " +
				"certSANs?",
			fixture.ControlPlaneInV1Beta1},
		"of v1beta1 alone": {"  replicas: 2", "  strategy: {type: OnDelete}\n  replicas: 2",
			"spec.strategy: unknown field", nil},
		"of a MachineDeployment": {
			"replicas: 2",
			"replcas: 2",
			"spec.replcas: unknown field; did you mean replicas?",
			nil,
		},
		"of a template": {"memory: 16GB", "memroy: 16GB",
			"spec.template.spec.virtualMachine.memroy: unknown field; did you mean memory?", nil},
		"of a control plane": {
			"kubeadmConfigSpec:",
			"kubeadmConfigSpce:",
			"spec.kubeadmConfigSpce: unknown field",
			nil,
		},
		"of a Cluster": {
			"clusterNetwork:",
			"clusterNetwrok:",
			"spec.clusterNetwrok: unknown field",
			nil,
		},
		"of an OLVMCluster": {"olvmDatacenterName:", "olvmDataCenterName:", "did you mean olvmDatacenterName?", nil},
		"in another case":   {"serverURL:", "serverUrl:", "did you mean serverURL?", nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := fixture.SampleManifests(t, append(slices.Clone(test.older), test.from, test.to)...)
			_, err := planinput.Load([]string{"-"}, strings.NewReader(text))
			check.Error(t, err, test.want)

			before, _, _ := strings.Cut(text, test.to)
			check.Contains(t, "the line", err.Error(),
				fmt.Sprintf("standard input: line %d: ", strings.Count(before, "\n")+1))
		})
	}
}

// TestTheSampleInV1Beta1HasNothingWrong has the fields of the older version.
func TestTheSampleInV1Beta1HasNothingWrong(t *testing.T) {
	text := fixture.SampleManifests(t, slices.Concat(fixture.ControlPlaneInV1Beta1, fixture.WorkersInV1Beta1)...)
	m, err := planinput.Load([]string{"-"}, strings.NewReader(strings.ReplaceAll(text,
		"ENGINE_URL", fixture.EngineURL)))
	check.Error(t, err, "")
	check.Error(t, m.CheckServed(t.Context(), nil), "")

	for _, kind := range []string{"KubeadmConfig", "MachineHealthCheck", "MachinePool"} {
		group := "cluster.x-k8s.io"
		if kind == "KubeadmConfig" {
			group = "bootstrap.cluster.x-k8s.io"
		}

		for _, version := range []string{"v1beta1", "v1beta2"} {
			_, err := planinput.Load([]string{"-"}, strings.NewReader(
				"apiVersion: "+group+"/"+version+"\nkind: "+kind+"\nmetadata: {name: a}\nspec: {clustreName: a}\n"))
			check.Error(t, err, "line 4: "+kind+" default/a: spec.clustreName: unknown field")
		}
	}
}

func TestWhatTheAPIServerWouldRefuseIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		live     bool
		want     string
	}{
		"nothing": {"replicas: 2", "replicas: 3", false, ""},
		"an even control plane": {"kind: KubeadmControlPlane\nmetadata:\n  name: demo-control-plane\n  namespace: default\nspec:\n  replicas: 1",
			"kind: KubeadmControlPlane\nmetadata:\n  name: demo-control-plane\n  namespace: default\nspec:\n  replicas: 2", false,
			"spec.replicas: 2 is even, but etcd requires an odd number of machines; use 1 or 3"},
		"two disks of one name": {"memory: 16GB", "memory: 16GB\n        dataDisks: [{name: a, size: 1GB}, {name: a, size: 2GB}]",
			false, "spec.template.spec.virtualMachine.dataDisks[1]: Duplicate value"},
		"a value of another type": {"memory: 16GB", "memory: [16GB]", false, "spec.template.spec.virtualMachine.memory"},
		"a changed endpoint":      {"host: 127.20.30.5", "host: 127.20.30.6", true, "controlPlaneEndpoint.host is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.ReplaceAll(fixture.SampleManifests(t, test.from, test.to), "ENGINE_URL", fixture.EngineURL)

			m, err := planinput.Load([]string{"-"}, strings.NewReader(text))
			if err == nil && test.live {
				check.Error(t, m.AddLive(t.Context(), fixture.NewManagement(t), ""), "")
			}

			if err == nil {
				err = m.CheckServed(t.Context(), nil)
			}

			check.Error(t, err, test.want)
		})
	}
}

// server rejects dry runs with an error.
type server struct {
	client.Client
	err   error
	asked int
	// crds are the CRDs by name. Without the right to read them, the user gets errors.
	crds map[string]string
}

func (s *server) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if object.GetObjectKind().GroupVersionKind().Kind != "CustomResourceDefinition" {
		return s.Client.Get(ctx, key, object, options...)
	}

	crd, found := s.crds[key.Name]
	if !found {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name, nil)
	}

	return yaml.Unmarshal([]byte(crd), &object.(*unstructured.Unstructured).Object)
}

func (s *server) Apply(_ context.Context, _ runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	s.asked++

	var all client.ApplyOptions
	for _, option := range options {
		option.ApplyToApply(&all)
	}

	if len(all.DryRun) != 1 {
		panic("it would be written")
	}

	return s.err
}

func TestTheAPIServerIsAskedInADryRun(t *testing.T) {
	resource := schema.GroupResource{Resource: "machinedeployments"}

	for name, test := range map[string]struct {
		err           error
		problem, line string
		onlyOnce      bool
	}{
		"it has nothing against it": {nil, "", "Validated by the API server of the management cluster", false},
		"it refuses":                {apierrors.NewBadRequest("spec.x is wrong"), "standard input: line ", "", false},
		"one may not write": {apierrors.NewForbidden(resource, "a", nil), "",
			"Validated with the CRDs of this release; a dry run by the API server requires permission", true},
		"the namespace is still to come": {apierrors.NewNotFound(resource, "a"), "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.ReplaceAll(fixture.SampleManifests(t), "ENGINE_URL", fixture.EngineURL)
			m, err := planinput.Load([]string{"-"}, strings.NewReader(text))
			check.Error(t, err, "")

			asked := &server{Client: fixture.NewManagement(t), err: test.err}
			err = m.CheckServed(t.Context(), asked)
			check.Error(t, err, test.problem)
			check.Contains(t, "the line", m.CheckedBy, test.line)
			check.Equal(t, "asked once", asked.asked == 1, test.onlyOnce)
		})
	}
}

// TestTheCRDsOfTheManagementClusterCheckManifests has a user who may not write. The kinds of Cluster API have
// validation rules, too. If the management cluster has other CRDs for a kind, those of this release do not apply.
func TestTheCRDsOfTheManagementClusterCheckManifests(t *testing.T) {
	crd := func(group, version, kind, properties, rules string) string {
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: " + group +
			", names: {kind: " + kind + "}, versions: [{name: " + version + ", schema: {openAPIV3Schema: {type: object, properties: " +
			"{apiVersion: {type: string}, kind: {type: string}, metadata: {type: object}, spec: {type: object, properties: " +
			properties + ", x-kubernetes-validations: [" + rules + "]}}}}}]}}"
	}
	deployment := func(rules string) map[string]string {
		return map[string]string{
			"machinedeployments.cluster.x-k8s.io": crd(
				"cluster.x-k8s.io",
				"v1beta2",
				"MachineDeployment",
				"{clusterName: {type: string}, replicas: {type: integer}, template: {type: object, x-kubernetes-preserve-unknown-fields: true}, "+
					"selector: {type: object, x-kubernetes-preserve-unknown-fields: true}}",
				rules,
			),
		}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machinedeployments"}, "a", nil)

	for name, test := range map[string]struct {
		crds          map[string]string
		from, to      string
		problem, line string
	}{
		"nothing is against it": {deployment(""), "", "", "",
			"Validated with the CRDs of the management cluster; a dry run"},
		"a rule of Cluster API's kind": {deployment(`{rule: "self.replicas < 2", message: too many}`), "", "",
			"standard input: line 133: MachineDeployment default/demo-md-0: spec: Invalid value: too many", ""},
		"a field that is not served": {deployment(""), "  replicas: 2\n", "  replicas: 2\n  machineNaming: {template: a}\n",
			"spec.machineNaming: unknown field in the management cluster", ""},
		"another type":          {deployment(""), "  replicas: 2\n", "  replicas: two\n", "spec.replicas", ""},
		"an even control plane": {deployment(""), "spec:\n  replicas: 1\n", "spec:\n  replicas: 2\n", "spec.replicas: 2 is even", ""},
		"one may not read them": {nil, "", "", "", "Validated with the CRDs of this release; a dry run by the API " +
			"server requires permission to write the manifests, and the CRDs of the management cluster require " +
			"permission to read CRDs"},
		"a kind of ours, which is not read": {deployment(""), "memory: 16GB", "memory: 16GB\n        dataDisks: [{name: a, size: 1GB}, {name: a, size: 2GB}]",
			"dataDisks[1]: Duplicate value", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(
				strings.ReplaceAll(fixture.SampleManifests(t), "ENGINE_URL", fixture.EngineURL), test.from, test.to, 1,
			)
			m, err := planinput.Load([]string{"-"}, strings.NewReader(text))
			check.Error(t, err, "")

			err = m.CheckServed(t.Context(), &server{Client: fixture.NewManagement(t), err: forbidden, crds: test.crds})
			check.Error(t, err, test.problem)
			check.Contains(t, "the line", m.CheckedBy, test.line)
		})
	}
}
