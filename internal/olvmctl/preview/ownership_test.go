package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnItemThatOthersHaveAddedToAListIsNotRemoved has a list of kubelet arguments. The list is keyed by name and
// value.
func TestAnItemThatOthersHaveAddedToAListIsNotRemoved(t *testing.T) {
	const (
		path  = "spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs"
		v2    = `k:{"name":"v","value":"2"}`
		pods  = `k:{"name":"max-pods","value":"200"}`
		noted = path + `[name="max-pods",value="200"] is not in the manifest`
	)

	fields := func(items ...string) string {
		tree := `".":{}`

		for _, item := range items {
			key, _ := json.Marshal(item)
			tree += "," + string(key) + `:{".":{},"f:name":{},"f:value":{}}`
		}

		return `{"f:spec":{"f:machineTemplate":{"f:spec":{"f:infrastructureRef":{"f:name":{}}}},"f:kubeadmConfigSpec":{` +
			`"f:joinConfiguration":{"f:nodeRegistration":{"f:kubeletExtraArgs":{` + tree + `}}}}}}`
	}
	list := func(pairs ...string) []any {
		var out []any

		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			out = append(out, map[string]any{"name": name, "value": value})
		}

		return out
	}

	for name, test := range map[string]struct {
		asked, there []any
		// applied are the items set by the manifest. added are the items set by somebody else.
		applied, added []string
		lastApplied    bool
		want, note     string
		// removed reports whether the plan removes max-pods.
		removed bool
	}{
		"nothing":                    {asked: list("v=2"), there: list("v=2"), applied: []string{v2}},
		"a policy adds one":          {asked: list("v=2"), there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods}, note: noted},
		"a policy adds one in front": {asked: list("v=2"), there: list("max-pods=200", "v=2"), applied: []string{v2}, added: []string{pods}, note: noted},
		"the manifest loses its own": {asked: list("v=2"), there: list("v=2", "max-pods=200"), applied: []string{v2, pods},
			want: path + `[name="max-pods",value="200"]`, removed: true},
		"the manifest loses its last one": {there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods},
			want: path + `[name="v",value="2"]`, note: noted},
		"the manifest adds one": {asked: list("v=2", "a=b"), there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods},
			want: path + `[name="a",value="b"]`, note: noted},
		"another value": {asked: list("v=4"), there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods},
			want: path + `[name="v",value="4"]`, note: noted},
		"another order": {asked: list("max-pods=200", "v=2"), there: list("v=2", "max-pods=200"), applied: []string{v2, pods}, want: path},
		"twice":         {asked: list("v=2", "v=2"), there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods}, want: path, removed: true},
		"a value that looks like two": {asked: list(`v=2",value="3`), there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods},
			want: path + `[name="v",value="2\",value=\"3"]`, note: noted},
		"kubectl replaces the whole list": {asked: list("v=2"), there: list("v=2", "max-pods=200"), applied: []string{v2}, added: []string{pods},
			lastApplied: true, want: path, removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
				"metadata": map[string]any{"name": "demo", "namespace": "default"},
				"spec":     map[string]any{"kubeadmConfigSpec": map[string]any{"verbosity": int64(5)}},
			}}
			owner := live.DeepCopy()
			at := strings.Split(path, ".")
			check.Error(t, unstructured.SetNestedSlice(live.Object, test.there, at...), "")

			if test.asked != nil {
				check.Error(t, unstructured.SetNestedSlice(owner.Object, test.asked, at...), "")
			}

			var managers []any

			for manager, items := range map[string][]string{"gitops": test.applied, "policy": test.added} {
				var tree map[string]any
				check.Error(t, json.Unmarshal([]byte(fields(items...)), &tree), "")

				if manager == "policy" {
					unstructured.RemoveNestedField(tree, "f:spec", "f:machineTemplate")
				}

				managers = append(managers, map[string]any{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1",
					"fieldsV1": tree, "apiVersion": live.GetAPIVersion()})
			}

			check.Error(t, unstructured.SetNestedSlice(live.Object, managers, "metadata", "managedFields"), "")

			if test.lastApplied {
				live.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{` +
					`"machineTemplate":{"spec":{"infrastructureRef":{"name":"a"}}},"kubeadmConfigSpec":{"joinConfiguration":` +
					`{"nodeRegistration":{"kubeletExtraArgs":[{"name":"v","value":"2"}]}}}}}`})
			}

			m := NewManifests(&planinput.Input{})
			got := m.changeForAll(owner, live)
			check.Equal(t, "whether something changes", got != "", test.want != "")
			check.Contains(t, "what changes", got, test.want)
			check.Contains(t, "the notes", strings.Join(m.notes, "\n"), test.note)
			check.Length(t, "notes", m.notes, min(len(test.note), 1))

			c := &comparison{}
			c.compareKubeadm(owner, live, m.ownershipOf(live))
			check.Equal(t, "the removed item is a difference",
				strings.Contains(strings.Join(c.out, "\n"), "- kubeletExtraArg max-pods"), test.removed)
		})
	}
}

// managedBy is a management cluster with managedFields in control planes. The fake API server has none.
type managedBy struct {
	client.Client
	entries []metav1.ManagedFieldsEntry
}

func (m managedBy) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := m.Client.List(ctx, list, options...); err != nil {
		return err
	}

	objects, _ := list.(*unstructured.UnstructuredList)
	for i := range objects.Items {
		if objects.Items[i].GetKind() == "KubeadmControlPlane" {
			objects.Items[i].SetManagedFields(m.entries)
		}
	}

	return nil
}

// TestAFieldOfAManifestInAnotherAPIVersionIsRemovedWithIt has two managers: the manifest's author, who applied it in
// v1beta1, and another with a whole manifest in v1beta2. The plan is for a manifest in v1beta2.
func TestAFieldOfAManifestInAnotherAPIVersionIsRemovedWithIt(t *testing.T) {
	const (
		v1beta1, v1beta2 = "controlplane.cluster.x-k8s.io/v1beta1", "controlplane.cluster.x-k8s.io/v1beta2"
		path             = "spec.kubeadmConfigSpec."
		whole            = `{"f:spec":{"f:machineTemplate":{"f:infrastructureRef":{"f:name":{}}},"f:kubeadmConfigSpec":{%s}}}`
		fragment         = `{"f:spec":{"f:kubeadmConfigSpec":{%s}}}`
		verbosity, users = `"f:verbosity":{}`, `"f:users":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}`
		timeout          = `"f:clusterConfiguration":{"f:apiServer":{"f:timeoutForControlPlane":{}}}`
	)

	for name, test := range map[string]struct {
		// older is the entry in v1beta1, and its fields. newer are those of the entry in v1beta2.
		older, fields, newer string
		lost                 []string
		unread               bool
		want, note           string
	}{
		"nothing is lost":                     {older: whole, fields: verbosity, newer: verbosity},
		"a field of the older manifest":       {older: whole, fields: verbosity, newer: users, lost: []string{"verbosity"}, want: path + "verbosity"},
		"a field of the newer manifest":       {older: whole, fields: users, newer: verbosity, lost: []string{"verbosity"}, want: path + "verbosity"},
		"a list of the older manifest":        {older: whole, fields: users, newer: verbosity, lost: []string{"users"}, want: path + "users"},
		"a field with another name":           {older: whole, fields: timeout, newer: users, lost: []string{"initConfiguration"}, want: path + "initConfiguration"},
		"a field of nobody":                   {older: whole, fields: users, newer: users, lost: []string{"verbosity"}, note: path + "verbosity is not in the manifest"},
		"a field of a policy":                 {older: fragment, fields: verbosity, newer: users, lost: []string{"verbosity"}, note: path + "verbosity is not in the manifest"},
		"a version that is not read":          {older: whole, fields: users, newer: users, lost: []string{"verbosity"}, unread: true, want: path + "verbosity"},
		"a policy's version that is not read": {older: fragment, fields: verbosity, newer: users, lost: []string{"verbosity"}, unread: true, note: path + "verbosity"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)

			change(t, live, []string{"KubeadmControlPlane"}, func(o *unstructured.Unstructured) {
				config, _, _ := unstructured.NestedMap(o.Object, "spec", "kubeadmConfigSpec")
				config["verbosity"], config["users"] = int64(5), []any{map[string]any{"name": "a"}}
				check.Error(t, unstructured.SetNestedField(config, int64(300), "initConfiguration", "timeouts",
					"controlPlaneComponentHealthCheckSeconds"), "")
				check.Error(t, unstructured.SetNestedMap(o.Object, config, "spec", "kubeadmConfigSpec"), "")
			})

			var entries []metav1.ManagedFieldsEntry

			for version, text := range map[string]string{v1beta1: fmt.Sprintf(test.older, test.fields), v1beta2: fmt.Sprintf(whole, test.newer)} {
				entries = append(entries, metav1.ManagedFieldsEntry{Manager: version, Operation: metav1.ManagedFieldsOperationApply,
					APIVersion: version, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text)})
			}

			written := &unstructured.Unstructured{}
			written.SetAPIVersion(v1beta2)
			written.SetKind("KubeadmControlPlane")
			check.Error(t, live.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-control-plane"}, written), "")
			written.SetManagedFields(nil)

			for _, field := range test.lost {
				unstructured.RemoveNestedField(written.Object, "spec", "kubeadmConfigSpec", field)
			}

			input, err := planinput.LoadObjects([]*unstructured.Unstructured{written})
			check.Error(t, err, "")

			served := converting{Client: live}
			if !test.unread {
				served.toV1Beta1 = func(o *unstructured.Unstructured) {
					config := []string{"spec", "kubeadmConfigSpec"}
					unstructured.RemoveNestedField(o.Object, append(config, "initConfiguration", "timeouts")...)
					check.Error(t, unstructured.SetNestedField(o.Object, "5m", append(config, "clusterConfiguration", "apiServer",
						"timeoutForControlPlane")...), "")
				}
			}

			check.Error(t, input.AddLive(t.Context(), managedBy{served, entries}, ""), "")

			m := NewManifests(input)
			got := m.changeForAll(written, m.LiveAsWritten(written))
			check.Equal(t, "whether something changes", got != "", test.want != "")
			check.Contains(t, "what changes", got, test.want)
			check.Length(t, "notes", m.notes, min(len(test.note), 1))
			check.Contains(t, "the notes", strings.Join(m.notes, "\n"), test.note)
		})
	}
}
