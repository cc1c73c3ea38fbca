package preview

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnItemThatOthersHaveAddedToAListIsNotRemoved has arguments of the kubelets. Their list has keys: name and value.
func TestAnItemThatOthersHaveAddedToAListIsNotRemoved(t *testing.T) {
	const (
		path  = "spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs"
		v2    = `k:{"name":"v","value":"2"}`
		pods  = `k:{"name":"max-pods","value":"200"}`
		noted = path + `[name="max-pods",value="200"] is not in its manifest`
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
		// applied are the items of the manifest's author, and added those of somebody else.
		applied, added []string
		lastApplied    bool
		want, note     string
		// removed reports whether max-pods goes.
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

			m := Of(&planinput.Input{})
			got := m.changeForAll(owner, live)
			check.Equal(t, "whether something changes", got != "", test.want != "")
			check.Contains(t, "what changes", got, test.want)
			check.Contains(t, "the notes", strings.Join(m.notes, "\n"), test.note)
			check.Length(t, "notes", m.notes, min(len(test.note), 1))

			c := &comparison{}
			c.kubeadmConfig(owner, live)
			check.Equal(t, "the removed item is a difference",
				strings.Contains(strings.Join(c.out, "\n"), "- kubeletExtraArg max-pods"), test.removed)
		})
	}
}
