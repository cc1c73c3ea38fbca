package preview

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	// aClass has an inline patch for the workers' template.
	aClass = `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class, namespace: default}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMClusterTemplate, name: infra}}
  workers: {machineDeployments: [{class: default-worker, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2,
    kind: KubeadmConfigTemplate, name: workers}}}, {class: rke2, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1,
    kind: RKE2ConfigTemplate, name: rke2}}}]}
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
	aTemplateOfOthers = `
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: RKE2ConfigTemplate
metadata: {name: rke2, namespace: default}
spec: {template: {spec: {agentConfig: {kind: cluster-cidr}}}}
`
	anInfraTemplate = `
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMClusterTemplate
metadata: {name: infra, namespace: default}
spec: {template: {spec: {olvmDatacenterName: Default, olvmOvirtAPIServer: {serverURL: "ENGINE", credentialsSecret: {name: engine}}}}}
`
)

// unreadable is a management cluster where the user may not read a kind, or lacking a version.
type unreadable struct {
	client.Client
	kind string
}

func (u unreadable) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	switch asked := object.GetObjectKind().GroupVersionKind(); u.kind {
	case asked.Kind:
		return apierrors.NewForbidden(schema.GroupResource{Resource: u.kind}, key.Name, nil)
	case asked.Version:
		return &meta.NoKindMatchError{GroupKind: asked.GroupKind(), SearchedVersions: []string{asked.Version}}
	}

	return u.Client.Get(ctx, key, object, options...)
}

// TestAPullRequestHidesNothingBehindAClusterClass changes the topology controller's inputs of a running cluster. The
// pull request has no Cluster.
func TestAPullRequestHidesNothingBehindAClusterClass(t *testing.T) {
	all := strings.ReplaceAll(aClass+aWorkersTemplate+aTemplateOfOthers+anInfraTemplate, "ENGINE", fixture.EngineURL)
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
		"a template alone, of a class that one may not read": {manifests: strings.NewReplacer(aClass, "", aTemplateOfOthers, "", anInfraTemplate, "").
			Replace(with(`value: "2"`, `value: "4"`)), unreadable: "ClusterClass", want: "KubeadmConfigTemplate default/workers"},
		"a template of another provider": {manifests: with("cluster-cidr", "other-cidr"),
			want: "RKE2ConfigTemplate default/rke2: spec.template.spec.agentConfig.kind changes"},
		"a class that nothing is made of": {manifests: with("name: class,", "name: another,", "default: 16GB", "default: 8GB")},
		"a template that no class has":    {manifests: with("name: workers, namespace", "name: others, namespace", `value: "2"`, `value: "4"`)},
		"another class of the cluster": {manifests: all + "---\n" + strings.Replace(fixture.SampleManifests(t), "spec:\n  clusterNetwork:",
			"spec:\n  topology: {classRef: {name: other}, version: v1.36.1, variables: [{name: memory, value: 1GB}]}\n  clusterNetwork:", 1),
			want: "Cluster default/demo: spec.topology: cannot plan"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			change(t, live, []string{"Cluster"}, func(o *unstructured.Unstructured) {
				check.Error(
					t, unstructured.SetNestedField(o.Object, "class", "spec", "topology", "classRef", "name"), "",
				)
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

// unlisted is a management cluster whose user may list Clusters only in some namespaces.
type unlisted struct {
	client.Client
	namespaces []string
}

func (u unlisted) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)

	if list.GetObjectKind().GroupVersionKind().Kind == "Cluster" && !slices.Contains(u.namespaces, asked.Namespace) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "", nil)
	}

	return u.Client.List(ctx, list, options...)
}

// TestAPullRequestHidesNothingBehindAClassOfClustersThatOneMayNotList changes a class in a namespace other than the
// manifests' namespace.
func TestAPullRequestHidesNothingBehindAClassOfClustersThatOneMayNotList(t *testing.T) {
	class := strings.Replace(aClass, "namespace: default", "namespace: classes", 1)
	template := strings.Replace(aWorkersTemplate, "namespace: default", "namespace: classes", 1)

	for name, test := range map[string]struct {
		listed    []string
		cluster   string // namespace of the Cluster of the class; empty for none
		manifests string
		want      string
	}{
		"nothing changes":            {[]string{"default", "classes"}, "classes", class + template, ""},
		"a Cluster beside the class": {[]string{"default", "classes"}, "classes", strings.Replace(class, "16GB", "8GB", 1), "Cluster classes/other uses it"},
		"its template":               {[]string{"default", "classes"}, "classes", strings.Replace(template, `"2"`, `"4"`, 1), "Cluster classes/other uses it"},
		"a Cluster elsewhere": {[]string{"default", "classes"}, "hidden", strings.Replace(class, "16GB", "8GB", 1),
			"a Cluster may use it"},
		"its template elsewhere": {[]string{"default", "classes"}, "hidden", strings.Replace(template, `"2"`, `"4"`, 1), "a Cluster may use it"},
		"nothing may be listed": {[]string{"default"}, "classes", strings.Replace(class, "16GB", "8GB", 1),
			"a Cluster may use it"},
		"a template of no class": {[]string{"default", "classes"}, "", strings.Replace(strings.Replace(template, `"2"`, `"4"`, 1),
			"name: workers,", "name: unused,", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			texts := []string{class, template, strings.Replace(template, "name: workers,", "name: unused,", 1)}

			if test.cluster != "" {
				texts = append(
					texts,
					"\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: other, namespace: "+
						test.cluster+"}\nspec: {topology: {classRef: {name: class, namespace: classes}}}\n",
				)
			}

			for _, text := range texts {
				object := &unstructured.Unstructured{}
				check.Error(t, yaml.Unmarshal([]byte(strings.TrimPrefix(text, "\n---\n")), &object.Object), "")
				check.Error(t, live.Create(t.Context(), object), "")
			}

			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)+test.manifests))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), unlisted{live, test.listed}, ""), "")

			_, _, err = m.Expand()
			check.Error(t, err, test.want)
		})
	}
}

// TestADefaultOfClusterAPIIsNoChangeOfATemplate has the default strategy of a control plane, in both versions.
func TestADefaultOfClusterAPIIsNoChangeOfATemplate(t *testing.T) {
	for version, path := range map[string]string{"v1beta1": "rolloutStrategy", "v1beta2": "rollout.strategy"} {
		fields := append([]string{"spec", "template", "spec"}, strings.Split(path, ".")...)
		template := func(surge int64) *unstructured.Unstructured {
			out := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "controlplane.cluster.x-k8s.io/" + version, "kind": "KubeadmControlPlaneTemplate",
				"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}},
			}}
			if surge >= 0 {
				check.Error(t, unstructured.SetNestedField(out.Object, map[string]any{
					"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": surge},
				}, fields...), "")
			}

			return out
		}
		change := func(surge int64) string {
			return changeOfPart(planinput.ClassPart{Written: template(-1), Live: template(surge)})
		}
		check.Equal(t, version+": the default", change(1), "")
		check.Contains(t, version+": another", change(0), "maxSurge changes")
	}
}

// TestAFragmentOfAPolicyIsNotTakenForAClass has a policy that owns a field of a class. A tool that records no manifest
// owns the field removed by a pull request.
func TestAFragmentOfAPolicyIsNotTakenForAClass(t *testing.T) {
	for name, version := range map[string]string{"this version": "cluster.x-k8s.io/v1beta2", "another version": "cluster.x-k8s.io/v1beta1"} {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{}
			check.Error(t, yaml.Unmarshal([]byte(aClass), &live.Object), "")

			written := live.DeepCopy()
			unstructured.RemoveNestedField(written.Object, "spec", "workers")
			check.Error(t, unstructured.SetNestedSlice(live.Object, []any{
				map[string]any{
					"manager":    "policy",
					"operation":  "Apply",
					"apiVersion": version,
					"fieldsType": "FieldsV1",
					"fieldsV1":   map[string]any{"f:spec": map[string]any{"f:variables": map[string]any{}}},
				},
				map[string]any{
					"manager":    "helm",
					"operation":  "Update",
					"apiVersion": version,
					"fieldsType": "FieldsV1",
					"fieldsV1":   map[string]any{"f:spec": map[string]any{"f:workers": map[string]any{}}},
				},
			}, "metadata", "managedFields"), "")

			check.Equal(t, "without a change", changeOfPart(planinput.ClassPart{Written: live, Live: live}), "")
			check.Contains(t, "change", changeOfPart(planinput.ClassPart{Written: written, Live: live}), "spec.workers")
		})
	}
}
