package api_test

import (
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// readCRDs reads the CRDs of the provider.
func readCRDs(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	check.Error(t, err, "")
	check.Equal(t, "there are CRDs", len(files) >= 7, true)

	out := make([]apiextensionsv1.CustomResourceDefinition, len(files))

	for i, file := range files {
		content, err := os.ReadFile(file)
		check.Error(t, err, "")
		check.Error(t, yaml.UnmarshalStrict(content, &out[i]), "")
	}

	return out
}
