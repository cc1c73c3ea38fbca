package lifecycle

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestGenerationsOfATemplate(t *testing.T) {
	of := func(image string) map[string]any { return map[string]any{"vmTemplateName": image} }
	named := func(name, image string) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{
			"kind": "OLVMMachineTemplate", "apiVersion": "infrastructure.cluster.x-k8s.io/v1",
			"spec": map[string]any{"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": of(image),
			}},
		}}
		out.SetName(name)

		return out
	}
	first := named("prod-control-plane", "a")
	second, err := newSuccessor(first, of("b"))
	if err != nil || !regexp.MustCompile(`^prod-control-plane-[0-9a-f]{8}$`).MatchString(second.GetName()) {
		t.Fatalf("%+v, %v", second, err)
	}

	labels, _, _ := unstructured.NestedStringMap(second.Object, "spec", "template", "metadata", "labels")
	check.Equal(t, "labels of machines", labels, map[string]string{"a": "b"})

	third, err := newSuccessor(second, of("c"))
	check.Error(t, err, "")
	check.Equal(t, "length of the name", len(third.GetName()), len(second.GetName()))
	if third.GetName() == second.GetName() {
		t.Errorf("the third and the second have the name %s", third.GetName())
	}

	there := []unstructured.Unstructured{*first, *second, *third, *named("prod-md-0", "d")}
	for image, want := range map[string]string{
		"a": first.GetName(), "b": second.GetName(), "c": third.GetName(), "d": "", "e": "",
	} {
		if got := sameGeneration(there, third.GetName(), of(image)); got != want {
			t.Errorf("machines of %s have the template %q, want %q", image, got, want)
		}
	}
}
