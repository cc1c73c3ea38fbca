package docs

import (
	"regexp"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheTableOfTestedVersionsIsCurrent compares each version in docs/operate/upgrade.md with its source in the tests.
func TestTheTableOfTestedVersionsIsCurrent(t *testing.T) {
	t.Parallel()

	table := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| v?([0-9]+\.[0-9]+\.[0-9]+) \|`).FindAllStringSubmatch(
		read(t, "operate/upgrade.md"), -1) {
		table[row[1]] = row[2]
	}

	sources := map[string]struct{ file, pattern string }{
		"engine":                         {"../internal/ovirtsim/api/engine.go", `defaultVersion = "(.*)"`},
		"Kubernetes, management cluster": {"../hack/tools/plane/go.mod", `k8s.io/kubernetes v([0-9.]+)`},
		"Kubernetes, nodes":              {"../hack/tools/node/go.mod", `k8s.io/kubernetes v([0-9.]+)`},
		"etcd":                           {"../hack/tools/plane/go.mod", `go.etcd.io/etcd/server/v3 v([0-9.]+)`},
		"Cluster API":                    {"../go.mod", `sigs.k8s.io/cluster-api v([0-9.]+)`},
		"OpenTofu":                       {"../hack/tools/tofu/go.mod", `github.com/opentofu/opentofu v([0-9.]+)`},
		"Terraform":                      {"../internal/toolchain/toolchain.go", `terraformVersion = "(.*)"`},
	}
	check.Equal(t, "rows", len(table), len(sources))

	for name, source := range sources {
		found := regexp.MustCompile(source.pattern).FindStringSubmatch(read(t, source.file))
		if found == nil {
			t.Fatalf("%s has no %s", source.file, source.pattern)
		}

		check.Equal(t, name, table[name], found[1])
	}
}
