package oci

import (
	"testing"

	"github.com/oracle/oci-go-sdk/v65/core"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestArchitectures(t *testing.T) {
	t.Parallel()

	for shape, want := range map[string]string{
		"VM.Standard.A1.Flex": ARM, "BM.Standard.A1.160": ARM, "VM.Standard.A2.Flex": ARM,
		"VM.Standard.E4.Flex": AMD64, "VM.Standard3.Flex": AMD64,
	} {
		check.Equal(t, shape, ArchitectureOf(shape), want)
	}
}

func TestWhichImagesAreWanted(t *testing.T) {
	t.Parallel()
	w := Wanted{Architecture: ARM, Kubernetes: "1.33.5"}

	for name, test := range map[string]struct {
		architecture, kubernetes string
		want                     bool
	}{
		"the same":             {ARM, "1.33.5", true},
		"with a v":             {ARM, "v1.33.5", true},
		"any patch":            {ARM, "1.33", true},
		"another patch":        {ARM, "1.33.4", false},
		"another minor":        {ARM, "1.32", false},
		"another architecture": {AMD64, "1.33.5", false},
		"without tags":         {"", "", false},
	} {
		image := &core.Image{FreeformTags: map[string]string{
			architectureTag: test.architecture, kubernetesTag: test.kubernetes,
		}}
		check.Equal(t, name, w.matchesImage(image), test.want)
	}
}

func TestVersionsOfTheControllerManager(t *testing.T) {
	t.Parallel()

	for kubernetes, want := range map[string]string{
		"v1.29.3": "v1.30.0", "v1.30.1": "v1.30.0", "v1.31.0": "v1.30.0", "v1.33.5": "v1.33.1", "v1.36.1": "v1.34.0",
	} {
		check.Equal(t, kubernetes, managerVersion(kubernetes), want)
	}

	objects, err := ControllerManager{Kubernetes: "v1.34.1", VCN: "vcn", Subnets: []string{"a", "b"}}.Manifests()
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		if object.GetKind() == "DaemonSet" {
			list, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			check.Equal(t, "image", list[0].(map[string]any)["image"], any("ghcr.io/oracle/cloud-provider-oci:v1.34.0"))
		}
	}
}
