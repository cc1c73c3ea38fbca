package schema

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// ofRKE2 reads the CRDs in the Go module of Cluster API Provider RKE2.
func ofRKE2(t *testing.T) CRDs {
	t.Helper()
	const module = "github.com/rancher/cluster-api-provider-rke2"

	source, err := testenv.Toolchain(t).ModuleSource(t.Context(), "rke2", module)
	check.Error(t, err, "")

	files, err := filepath.Glob(filepath.Join(source, "*", "config", "crd", "bases", "*.yaml"))
	check.Error(t, err, "")
	check.Length(t, "CRDs of "+source, files, 4)

	out := CRDs{}

	for _, file := range files {
		content, err := os.ReadFile(file)
		check.Error(t, err, "")

		var crd apiextensionsv1.CustomResourceDefinition
		check.Error(t, k8syaml.Unmarshal(content, &crd), "")
		check.Error(t, out.Add(&crd), "")
	}

	return out
}

// problemsOfRKE2 returns the problems in RKE2's objects of its flavor, for a version of Kubernetes, and their number.
func problemsOfRKE2(t *testing.T, crds CRDs, version string) (problems []string, objects int) {
	t.Helper()
	template, err := fs.ReadFile(templates.Files, "cluster-template-rke2.yaml")
	check.Error(t, err, "")

	content, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		switch {
		case name == "KUBERNETES_VERSION":
			return version, nil
		case strings.HasSuffix(name, "_COUNT"):
			return "3", nil
		case name == "RKE2_CNI":
			return "", nil // the default
		}

		return "a", nil
	})
	check.Error(t, err, "")

	all, err := manifest.Read(content)
	check.Error(t, err, "")

	for _, object := range all {
		if !strings.HasPrefix(object.GetKind(), "RKE2") {
			continue
		}

		objects++

		found, err := FindViolations(t.Context(), crds, object, nil, nil)
		check.Error(t, err, "")

		for _, problem := range found {
			problems = append(problems, object.GetKind()+": "+problem.String())
		}
	}

	return problems, objects
}

// TestTheFlavorOfRKE2FitsTheCRDsOfItsProvider compares the flavor with the released provider. No test runs its
// managers.
func TestTheFlavorOfRKE2FitsTheCRDsOfItsProvider(t *testing.T) {
	testenv.SkipInShort(t, "downloads the Go module of Cluster API Provider RKE2")

	crds := ofRKE2(t)
	problems, objects := problemsOfRKE2(t, crds, "v1.34.1+rke2r1")
	check.Length(t, "problems: "+strings.Join(problems, "; "), problems, 0)
	check.Equal(t, "objects", objects, 2)

	problems, _ = problemsOfRKE2(t, crds, "v1.34.1")
	check.Equal(t, "a version that is not RKE2's is refused", slices.ContainsFunc(problems, func(problem string) bool {
		return strings.Contains(problem, "RKE2ControlPlane") && strings.Contains(problem, "version")
	}), true)
}
