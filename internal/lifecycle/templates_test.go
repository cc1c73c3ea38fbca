package lifecycle

import (
	"regexp"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestGenerationsOfATemplate(t *testing.T) {
	of := func(image string) infrav1.OLVMMachineTemplateSpec {
		var spec infrav1.OLVMMachineTemplateSpec
		spec.Template.Spec.VMTemplateName = image
		return spec
	}
	first := infrav1.OLVMMachineTemplate{Spec: of("a")}
	first.Name = "prod-control-plane"
	second, err := successor(&first, of("b"))
	if err != nil || !regexp.MustCompile(`^prod-control-plane-[0-9a-f]{8}$`).MatchString(second.Name) {
		t.Fatalf("%+v, %v", second, err)
	}

	third, err := successor(second, of("c"))
	check.Error(t, err, "")
	check.Equal(t, "len(third.Name)", len(third.Name), len(second.Name))
	if third.Name == second.Name {
		t.Errorf("the third and the second have the name %s", third.Name)
	}

	other := infrav1.OLVMMachineTemplate{Spec: of("d")}
	other.Name = "prod-md-0"

	there := []infrav1.OLVMMachineTemplate{first, *second, *third, other}
	for image, want := range map[string]string{"a": first.Name, "b": second.Name, "c": third.Name, "d": "", "e": ""} {
		if got := sameGeneration(there, third.Name, of(image)); got != want {
			t.Errorf("machines of %s have the template %q, want %q", image, got, want)
		}
	}
}
