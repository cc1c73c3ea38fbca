package preview

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	// aClass has an inline patch of the workers' template.
	aClass = `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class, namespace: default}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMClusterTemplate, name: infra}}
  workers: {machineDeployments: [{class: default-worker, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2,
    kind: KubeadmConfigTemplate, name: workers}}}]}
  variables: [{name: memory, required: true, schema: {openAPIV3Schema: {type: string, default: 16GB}}}]
  patches:
  - name: memory
    definitions:
    - selector: {apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMMachineTemplate, matchResources: {controlPlane: true}}
      jsonPatches: [{op: add, path: /spec/template/spec/virtualMachine/memory, valueFrom: {variable: memory}}]
`
	aWorkersTemplate = `
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: workers, namespace: default}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: v, value: "2"}]}}}}}
`
	anInfraTemplate = `
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMClusterTemplate
metadata: {name: infra, namespace: default}
spec: {template: {spec: {olvmDatacenterName: Default, olvmOvirtAPIServer: {serverURL: "ENGINE", credentialsSecret: {name: engine}}}}}
`
)

// unreadable is a management cluster where the user may not read a kind.
type unreadable struct {
	client.Client
	kind string
}

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if object.GetObjectKind().GroupVersionKind().Kind == u.kind {
		return apierrors.NewForbidden(schema.GroupResource{Resource: u.kind}, key.Name, nil)
	}

	return u.Client.Get(ctx, key, object, options...)
}

// TestAPullRequestHidesNothingBehindAClusterClass changes the topology controller's inputs of a running cluster. The
// pull request has no Cluster.
func TestAPullRequestHidesNothingBehindAClusterClass(t *testing.T) {
	all := strings.ReplaceAll(aClass+aWorkersTemplate+anInfraTemplate, "ENGINE", fixture.EngineURL)
	with := func(pairs ...string) string {
		changed := strings.NewReplacer(pairs...).Replace(all)
		check.Equal(t, "it differs", changed == all, false)

		return changed
	}
	thief := newThief(t)

	for name, test := range map[string]struct {
		manifests  string
		unreadable string
		want       string
	}{
		"nothing changes": {manifests: all},
		"a JSON patch for another machine": {manifests: with("controlPlane: true", "machineDeploymentClass: {names: [default-worker]}"),
			want: "ClusterClass default/class: spec.patches"},
		"a JSON patch of the engine": {manifests: with("  patches:\n", "  patches:\n  - name: engine\n    definitions: [{selector: {kind: "+
			"OLVMClusterTemplate, apiVersion: infrastructure.cluster.x-k8s.io/v1, matchResources: {infrastructureCluster: true}}, jsonPatches: "+
			"[{op: replace, path: /spec/template/spec/olvmOvirtAPIServer/serverURL, value: '"+thief.engine()+"'}]}]\n"),
			want: "ClusterClass default/class: spec.patches changes"},
		"an external patch": {manifests: with("  patches:\n", "  patches:\n  - {name: x, external: {generatePatchesExtension: thief}}\n"),
			want: "ClusterClass default/class: spec.patches changes"},
		"the default of a variable": {manifests: with("default: 16GB", "default: 8GB"), want: "default changes"},
		"a variable less":           {manifests: with("required: true, ", ""), want: "required changes"},
		"the template of workers": {manifests: with(`value: "2"`, `value: "4"`),
			want: "KubeadmConfigTemplate default/workers: spec.template"},
		"the template of clusters": {manifests: with(fixture.EngineURL, thief.engine()),
			want: "OLVMClusterTemplate default/infra: spec.template.spec.olvmOvirtAPIServer.serverURL changes"},
		"a class that one may not read": {manifests: all, unreadable: "ClusterClass", want: "you may not read it"},
		"a template alone, of a class that one may not read": {manifests: strings.NewReplacer(aClass, "", anInfraTemplate, "").
			Replace(with(`value: "2"`, `value: "4"`)), unreadable: "ClusterClass", want: "KubeadmConfigTemplate default/workers"},
		"a class that nothing is made of": {manifests: with("name: class,", "name: another,", "default: 16GB", "default: 8GB")},
		"a template that no class has":    {manifests: with("name: workers, namespace", "name: others, namespace", `value: "2"`, `value: "4"`)},
		"another class of the cluster": {manifests: all + "---\n" + strings.Replace(fixture.Sample(t), "spec:\n  clusterNetwork:",
			"spec:\n  topology: {classRef: {name: other}, version: v1.36.1, variables: [{name: memory, value: 1GB}]}\n  clusterNetwork:", 1),
			want: "topology of Cluster default/demo"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.Management(t)
			change(t, live, []string{"Cluster"}, func(o *unstructured.Unstructured) {
				check.Error(t, unstructured.SetNestedField(o.Object, "class", "spec", "topology", "classRef", "name"), "")
			})

			for _, text := range strings.Split(all, "\n---\n")[1:] {
				object := &unstructured.Unstructured{}
				check.Error(t, yaml.Unmarshal([]byte(text), &object.Object), "")
				check.Error(t, live.Create(t.Context(), object), "")
			}

			m, err := load([]string{"-"}, strings.NewReader(test.manifests))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), unreadable{live, test.unreadable}, ""), "")

			_, err = m.ReportOn(t.Context(), Request{Offline: true})
			check.Error(t, err, test.want)
			check.Length(t, "what the stranger's server got", thief.got, 0)
		})
	}
}
